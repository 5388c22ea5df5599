"""A journal of several lanes, which appear while others read: nothing is lost and nothing comes twice."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry, Event
from couriermq.core.jumps import Jump
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.journal import segments
from couriermq.journal.history import History
from couriermq.journal.merging import Places, backwards, forwards
from couriermq.journal.place import LocalPlace
from couriermq.storage.base import CannotOpen, Span
from couriermq.upkeep.timekeeper import Timekeeper
from tests.journal.shelf import HOUR, Shelf, files
from tests.support.engines import Rig
from tests.support.laned import LanedStore


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    rig = Rig(lambda: LanedStore(tmp_path / "data"))
    await rig.open()
    await rig.create("orders")
    yield Shelf(rig, LocalPlace(tmp_path / "archive"))
    await rig.close()


async def send(shelf: Shelf, count: int) -> None:
    for _ in range(count):
        shelf.rig.clock.advance(ms=1)
        await shelf.rig.send("orders")


async def everything(history: History) -> dict[int, list[int]]:
    """The offsets that can be read of each lane."""
    found: dict[int, list[int]] = {}
    for lane, span in (await history.spans()).items():
        start = span.oldest
        found[lane] = []
        while entries := await history.read_events(start=start, limit=7):
            found[lane] += [entry.offset for entry in entries]
            start = entries[-1].offset + 1
    return found


async def whole(shelf: Shelf) -> dict[int, list[int]]:
    """All offsets that each lane has had."""
    spans = await shelf.rig.store.spans()
    return {lane: list(range(first_of_lane(lane), span.next)) for lane, span in spans.items()}


# -- the archive ----------------------------------------------------------------------------------------------


async def test_each_lane_is_sealed_and_trimmed_on_its_own(shelf: Shelf, tmp_path: Path) -> None:
    await send(shelf, 10)
    await shelf.seal()
    ends = [(0, (await shelf.rig.store.spans())[0].next)]
    await send(shelf, 80)  # two more lanes appear
    spans = await shelf.rig.store.spans()
    assert list(spans) == [0, 1, 2]
    await shelf.seal()
    ends += [(ends[0][1], spans[0].next), *((first_of_lane(lane), spans[lane].next) for lane in (1, 2))]
    assert files(tmp_path) == sorted(segments.name_of(*end) for end in ends)
    assert all(span.oldest == span.next - 1 for span in (await shelf.rig.store.spans()).values())  # but the newest
    assert await everything(shelf.history) == await whole(shelf)


async def test_a_lane_that_appears_between_two_rounds_is_sealed_from_its_beginning(shelf: Shelf) -> None:
    for _ in range(12):
        await send(shelf, 9)
        await shelf.seal()
        assert await everything(shelf.history) == await whole(shelf)
    assert len(await whole(shelf)) == 3
    await shelf.restart()
    assert await everything(shelf.history) == await whole(shelf)


async def test_another_node_finds_what_was_sealed_of_a_lane_that_it_did_not_know(shelf: Shelf) -> None:
    other = Shelf(shelf.rig, shelf.place)
    await other.archive.open()
    await send(shelf, 80)
    await shelf.seal()
    assert await everything(other.history) == await whole(shelf)
    assert await other.history.unsealed_count(0) == 0


async def test_an_instant_is_found_in_each_lane_in_the_archive_and_in_the_journal(shelf: Shelf) -> None:
    await send(shelf, 80)
    at = shelf.rig.now
    await shelf.seal()
    await send(shelf, 20)
    for instant in (0, at - 30, at, at + 1, shelf.rig.now, shelf.rig.now + 1):
        offsets = await shelf.history.offsets_at(instant)
        for lane, found in (await everything(shelf.history)).items():
            entries = [(await shelf.history.read_events(start=offset, limit=1))[0] for offset in found]
            later = (entry.offset for entry in entries if entry.event.at >= instant)
            assert offsets[lane] == next(later, found[-1] + 1)


async def test_a_lane_is_kept_for_a_cursor_that_has_not_come_to_it(shelf: Shelf) -> None:
    await send(shelf, 5)
    await shelf.cursors.advance("lake", 3)
    await send(shelf, 80)
    await shelf.seal()
    shelf.rig.clock.advance(ms=2 * HOUR)
    await shelf.archive.tend()
    assert await everything(shelf.history) == await whole(shelf)
    await shelf.cursors.advance("lake", (await shelf.rig.store.spans())[1].next)
    await shelf.archive.tend()
    assert {lane for lane, offsets in (await everything(shelf.history)).items() if len(offsets) > 1} == {0, 2}


async def test_the_oldest_segment_of_all_lanes_is_forgotten_first(shelf: Shelf, tmp_path: Path) -> None:
    for _ in range(4):
        await send(shelf, 30)
        await shelf.seal()
    before = shelf.archive.segments
    limits = {"total_bytes": sum(segment.size for segment in before) - 1}
    small = Shelf(shelf.rig, shelf.place, **limits)
    await small.archive.tend()
    assert set(files(tmp_path)) == {segment.name for segment in before} - {segments.name_of(0, before[0].end)}


async def test_an_archive_with_a_lane_that_the_store_does_not_have_is_another_stores(shelf: Shelf) -> None:
    await send(shelf, 5)
    await shelf.seal()
    draft = shelf.place.create("x")
    draft.sink.write(b"nothing")
    draft.publish(segments.name_of(first_of_lane(5), first_of_lane(5) + 3))
    with pytest.raises(CannotOpen, match="it is another store's"):
        await shelf.archive.look()


async def test_lanes_share_the_bytes_of_a_journal_without_an_archive(shelf: Shelf) -> None:
    await send(shelf, 120)
    store = shelf.rig.store
    assert isinstance(store, LanedStore)
    spans = await store.spans()
    size = sum(len(row.events) for rows in store.rows for row in rows)
    await Timekeeper(store, shelf.rig.clock, journal_bytes=size // 2)._pass_time()
    kept = {lane: [row for row in rows if row.start >= store.oldest[lane]] for lane, rows in enumerate(store.rows)}
    assert all(1 < len(rows) < len(store.rows[lane]) for lane, rows in kept.items())
    assert sum(len(row.events) for rows in kept.values() for row in rows) <= size // 2
    assert {lane: span.next for lane, span in spans.items()} == {
        lane: span.next for lane, span in (await store.spans()).items()
    }


# -- merging --------------------------------------------------------------------------------------------------


class Told:
    """A log of lanes whose events have these instants."""

    jumps: tuple[Jump, ...] = ()

    def __init__(self, **instants: list[int]) -> None:
        self._lanes = {
            int(name[1:]): [Entry(first_of_lane(int(name[1:])) + n, Event("sent", at, "t")) for n, at in enumerate(ats)]
            for name, ats in instants.items()
        }

    async def spans(self) -> dict[int, Span]:
        return {
            lane: Span(oldest=first_of_lane(lane), next=first_of_lane(lane) + len(entries))
            for lane, entries in self._lanes.items()
        }

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        n = start - first_of_lane(lane_of(start))
        if n < 0:
            raise OffsetGone(start, first_of_lane(lane_of(start)))
        return self._lanes[lane_of(start)][n : n + limit]

    async def offsets_at(self, at: int) -> dict[int, int]:
        raise NotImplementedError


def shown(entries: list[Entry]) -> list[tuple[int, int]]:
    """Lane and number of each."""
    return [(lane_of(entry.offset), entry.offset - first_of_lane(lane_of(entry.offset))) for entry in entries]


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
async def test_lanes_are_merged_by_time_and_each_keeps_its_order(chunk: int) -> None:
    log = Told(_0=[1, 5, 4, 9], _1=[2, 5, 5, 6], _17=[3])
    starts = {lane: span.oldest for lane, span in (await log.spans()).items()}
    found: list[Entry] = []
    reached: Places = {}
    async for entries, places in forwards(log, starts, chunk=chunk):
        found += entries
        reached = places
    for lane in (0, 1, 17):
        assert [n for its, n in shown(found) if its == lane] == list(range(sum(its == lane for its, _ in shown(found))))
    assert shown(found)[:3] == [(0, 0), (1, 0), (17, 0)]
    assert shown(found)[-1] == (0, 3)
    assert reached == {lane: span.next for lane, span in (await log.spans()).items()}


async def test_a_reader_can_stop_and_go_on_anywhere() -> None:
    log = Told(_0=list(range(0, 40, 2)), _1=list(range(1, 41, 2)))
    places = {lane: span.oldest for lane, span in (await log.spans()).items()}
    found: list[Entry] = []
    while True:
        async for entries, following in forwards(log, places, chunk=3):
            found, places = found + entries, following
            break
        else:
            break
    assert [entry.event.at for entry in found] == list(range(40))


async def test_the_newest_come_first_backwards() -> None:
    log = Told(_0=[1, 3, 5], _1=[2, 4, 6])
    spans = await log.spans()
    ends = {lane: span.next for lane, span in spans.items()}
    oldest = {lane: span.oldest for lane, span in spans.items()}
    assert [entry.event.at async for entry in backwards(log, ends, oldest, chunk=2)] == [6, 5, 4, 3, 2, 1]
