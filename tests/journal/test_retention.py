"""What has grown old or too much is forgotten, but nothing that a cursor has not passed."""

from pathlib import Path

import msgspec
import pytest

from couriermq.core.errors import CursorNotFound, OffsetGone
from couriermq.core.lanes import LANE_SIZE
from couriermq.core.shards import STEP
from couriermq.storage.base import StoredRecord
from couriermq.upkeep.timekeeper import Timekeeper
from tests.journal.shelf import HOUR, Shelf, files, fill

pytestmark = pytest.mark.every_engine


async def test_segments_that_have_grown_old_are_forgotten(shelf: Shelf, tmp_path: Path) -> None:
    before = await fill(shelf)
    await shelf.seal()
    shelf.rig.clock.advance(ms=HOUR // 2)
    await fill(shelf)
    await shelf.seal()
    shelf.rig.clock.advance(ms=HOUR // 2)
    await shelf.archive.tend()
    assert len(files(tmp_path)) == 1
    assert (await shelf.history.span()).oldest == len(before)
    with pytest.raises(OffsetGone) as gone:
        await shelf.history.read_events(start=len(before) - 1, limit=1)
    assert gone.value.oldest == len(before)


async def test_segments_beyond_the_size_are_forgotten_oldest_first(shelf: Shelf, tmp_path: Path) -> None:
    for _ in range(3):
        await fill(shelf)
        await shelf.seal()
    sealed = shelf.archive.segments
    small = Shelf(shelf.rig, shelf.place, total_bytes=sealed[1].size + sealed[2].size)
    await small.archive.tend()
    assert files(tmp_path) == [one.name for one in sealed[1:]]


async def test_a_cursor_holds_back_what_it_has_not_passed(shelf: Shelf, tmp_path: Path) -> None:
    before = await fill(shelf)
    await shelf.seal()
    await shelf.cursors.advance("lake", len(before) - 1)
    shelf.rig.clock.advance(ms=2 * HOUR)
    await shelf.archive.tend()
    assert await shelf.everything() == before
    await shelf.cursors.advance("lake", len(before))
    await shelf.archive.tend()
    assert files(tmp_path) == []


async def test_a_cursor_only_moves_forward_and_survives_a_restart(shelf: Shelf) -> None:
    assert (await shelf.cursors.advance("lake", 7)).offset == 7
    assert (await shelf.cursors.advance("lake", 3)).offset == 7
    await shelf.cursors.advance("report", 5)
    await shelf.restart()
    assert [(one.name, one.offset) for one in shelf.cursors.all()] == [("lake", 7), ("report", 5)]
    assert shelf.cursors.lowest() == 5
    await shelf.cursors.delete("report")
    with pytest.raises(CursorNotFound):
        await shelf.cursors.delete("report")
    await shelf.restart()
    assert shelf.cursors.lowest() == 7


async def test_a_cursor_has_a_place_in_each_lane(shelf: Shelf) -> None:
    await shelf.cursors.advance("lake", 7)
    await shelf.cursors.advance("lake", LANE_SIZE + 9)
    await shelf.cursors.advance("lake", STEP + 4)
    await shelf.cursors.advance("report", STEP + 3)
    await shelf.restart()
    lowest = [shelf.cursors.lowest(lane) for lane in (0, 1, 16, 32)]
    assert lowest == [7, LANE_SIZE + 9, STEP + 3, None]
    await shelf.cursors.delete("lake")
    await shelf.restart()
    assert [(one.name, one.offset) for one in shelf.cursors.all()] == [("report", STEP + 3)]


async def test_a_lane_that_a_reader_of_the_shard_has_not_come_to_is_held_from_its_beginning(shelf: Shelf) -> None:
    await shelf.cursors.advance("lake", 7)
    assert shelf.cursors.lowest(1) == LANE_SIZE
    assert shelf.cursors.lowest(16) is None  # of another shard


async def test_a_cursor_that_was_stored_for_a_shard_is_one_of_its_first_lane(shelf: Shelf) -> None:
    document = msgspec.msgpack.encode({"name": "lake", "offset": 3 * STEP + 4, "changed_at": 1})
    stored = StoredRecord(kind="cursor", tenant="3", id="lake", document=document)
    shelf.cursors.learn(stored, present=True)
    assert shelf.cursors.lowest(3 * 16) == 3 * STEP + 4
    shelf.cursors.learn(stored, present=False)
    assert shelf.cursors.all() == []


async def test_the_journals_own_limits_stop_at_a_cursor_too(shelf: Shelf) -> None:
    await fill(shelf)
    await shelf.cursors.advance("lake", 3)
    shelf.rig.timekeeper = Timekeeper(shelf.rig.store, shelf.rig.clock, journal_bytes=1, held=shelf.cursors.lowest)
    await shelf.rig.timekeeper._pass_time()
    assert (await shelf.rig.store.spans())[0].oldest == 3
