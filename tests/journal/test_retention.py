"""What has grown old or too much is forgotten, but nothing that a cursor has not passed."""

from pathlib import Path

import pytest

from couriermq.core.errors import CursorNotFound, OffsetGone
from couriermq.core.shards import STEP
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


async def test_a_cursor_has_a_place_in_each_shard(shelf: Shelf) -> None:
    await shelf.cursors.advance("lake", 7)
    await shelf.cursors.advance("lake", STEP + 4)
    await shelf.cursors.advance("report", STEP + 3)
    await shelf.restart()
    assert [shelf.cursors.lowest(shard) for shard in range(3)] == [7, STEP + 3, None]
    await shelf.cursors.delete("lake")
    await shelf.restart()
    assert [(one.name, one.offset) for one in shelf.cursors.all()] == [("report", STEP + 3)]


async def test_the_journals_own_limits_stop_at_a_cursor_too(shelf: Shelf) -> None:
    await fill(shelf)
    await shelf.cursors.advance("lake", 3)
    shelf.rig.timekeeper = Timekeeper(shelf.rig.store, shelf.rig.clock, journal_bytes=1, held=shelf.cursors.lowest)
    await shelf.rig.timekeeper._pass_time()
    assert (await shelf.rig.store.span()).oldest == 3
