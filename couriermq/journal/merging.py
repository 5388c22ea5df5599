"""The journals of all shards as one course of events, in the order of time.

Each shard counts its own offsets, so only instants tell what came first. Where there is one shard, this is its journal.
"""

from collections.abc import AsyncIterator, Sequence

from couriermq.core.events import Entry
from couriermq.storage.base import EventLog


def instant_of(entry: Entry) -> tuple[int, int]:
    """Where an entry stands among those of all shards."""
    return entry.event.at, entry.offset


async def forwards(log: EventLog, starts: Sequence[int], *, chunk: int) -> AsyncIterator[tuple[list[Entry], list[int]]]:
    """What there is from an offset of each shard on, each time with the offsets to go on from; raises OffsetGone."""
    lanes: dict[int, list[Entry]] = {shard: [] for shard in range(len(starts))}
    upcoming = list(starts)
    while True:
        for shard in [shard for shard, lane in lanes.items() if not lane]:
            lanes[shard] = await log.read_events(start=upcoming[shard], limit=chunk)
            if not lanes[shard]:
                del lanes[shard]
            else:
                upcoming[shard] = lanes[shard][-1].offset + 1
        if not lanes:
            return
        # What a shard tells next is no earlier than the latest that it has told; so one lane is taken whole each time.
        until = min(max(entry.event.at for entry in lane) for lane in lanes.values())
        taken: list[Entry] = []
        for shard, lane in lanes.items():
            count = next((place for place, entry in enumerate(lane) if entry.event.at > until), len(lane))
            taken += lane[:count]
            lanes[shard] = lane[count:]
        places = [lanes[shard][0].offset if lanes.get(shard) else place for shard, place in enumerate(upcoming)]
        yield taken if len(starts) == 1 else sorted(taken, key=instant_of), places


async def backwards(
    log: EventLog, ends: Sequence[int], oldest: Sequence[int], *, chunk: int
) -> AsyncIterator[tuple[int, Entry]]:
    """What there is below an offset of each shard, down to another, the newest first, with its shard's number."""
    lanes: dict[int, list[Entry]] = {shard: [] for shard in range(len(ends))}
    upcoming = list(ends)
    while True:
        for shard in [shard for shard, lane in lanes.items() if not lane]:
            start = max(oldest[shard], upcoming[shard] - chunk)
            lanes[shard] = await _between(log, start, upcoming[shard])
            upcoming[shard] = start
            if not lanes[shard]:
                del lanes[shard]
        if not lanes:
            return
        newest = max(lanes, key=lambda shard: instant_of(lanes[shard][-1]))
        yield newest, lanes[newest].pop()


async def _between(log: EventLog, start: int, end: int) -> list[Entry]:
    entries: list[Entry] = []
    while start < end:
        some = await log.read_events(start=start, limit=end - start)
        if not some:
            break
        entries += some
        start = some[-1].offset + 1
    return entries
