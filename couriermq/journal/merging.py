"""All lanes of the journal as one course of events, in the order of time.

Each lane counts its own offsets, so only instants tell what came first. Where there is one lane, this is its journal.
"""

from collections.abc import AsyncIterator, Mapping

from couriermq.core.events import Entry
from couriermq.core.jumps import backward, skip
from couriermq.core.lanes import lane_of
from couriermq.storage.base import EventLog, Span

Places = dict[int, int]
"""An offset of each lane."""
Spans = Mapping[int, Span]
"""What can be read of each lane."""


def instant_of(entry: Entry) -> tuple[int, int]:
    """Where an entry stands among those of all lanes."""
    return entry.event.at, entry.offset


async def forwards(
    log: EventLog, starts: Mapping[int, int], *, chunk: int
) -> AsyncIterator[tuple[list[Entry], Places]]:
    """What there is from an offset of each lane on, each time with the offsets to go on from; raises OffsetGone."""
    lanes: dict[int, list[Entry]] = {lane: [] for lane in starts}
    upcoming = dict(starts)
    while True:
        for lane in [lane for lane, entries in lanes.items() if not entries]:
            lanes[lane] = await log.read_events(start=upcoming[lane], limit=chunk)
            if not lanes[lane]:
                del lanes[lane]
            else:
                upcoming[lane] = lanes[lane][-1].offset + 1
        if not lanes:
            return
        # What a lane tells next is no earlier than the latest that it has told; so one lane is taken whole each time.
        until = min(max(entry.event.at for entry in entries) for entries in lanes.values())
        taken: list[Entry] = []
        for lane, entries in lanes.items():
            count = next((place for place, entry in enumerate(entries) if entry.event.at > until), len(entries))
            taken += entries[:count]
            lanes[lane] = entries[count:]
        places = {lane: lanes[lane][0].offset if lanes.get(lane) else place for lane, place in upcoming.items()}
        yield taken if len(starts) == 1 else _in_order(taken), places


def _in_order(entries: list[Entry]) -> list[Entry]:
    """By time; entries of a lane keep their order, also where one tells of an earlier instant than those before it."""
    latest: dict[int, int] = {}
    places = []
    for entry in entries:
        lane = lane_of(entry.offset)
        latest[lane] = max(latest.get(lane, 0), entry.event.at)
        places.append(latest[lane])
    return [entry for _, entry in sorted(zip(places, entries, strict=True), key=lambda pair: (pair[0], pair[1].offset))]


async def backwards(
    log: EventLog, ends: Mapping[int, int], oldest: Mapping[int, int], *, chunk: int
) -> AsyncIterator[Entry]:
    """What there is below an offset of each lane, down to another, the newest first."""
    lanes: dict[int, list[Entry]] = {lane: [] for lane in ends}
    upcoming = dict(ends)
    while True:
        for lane in [lane for lane, entries in lanes.items() if not entries]:
            start = max(oldest[lane], backward(log.jumps, upcoming[lane], chunk))
            lanes[lane] = await _between(log, start, upcoming[lane])
            upcoming[lane] = start
            if not lanes[lane]:
                del lanes[lane]
        if not lanes:
            return
        newest = max(lanes, key=lambda lane: instant_of(lanes[lane][-1]))
        yield lanes[newest].pop()


async def _between(log: EventLog, start: int, end: int) -> list[Entry]:
    entries: list[Entry] = []
    start = skip(log.jumps, start)
    while start < end:
        some = await log.read_events(start=start, limit=end - start)
        if not some:
            break
        entries += some
        start = skip(log.jumps, some[-1].offset + 1)
    return entries
