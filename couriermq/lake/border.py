"""Where the tables end and the journal takes over."""

import asyncio
from collections.abc import Sequence

import msgspec

from couriermq.core.errors import OffsetGone
from couriermq.core.model import MINUTE
from couriermq.core.shards import first_of
from couriermq.lake.tables import Freshness, Lake
from couriermq.storage.base import EventLog, Span

HEADER = b"courier-tables-until"


class Border(msgspec.Struct, frozen=True):
    """What happened before `at`, a whole minute, is in the tables; from then on the journal is to be asked."""

    at: int
    offsets: list[int]
    """Those of each shard from which on that is."""
    fresh: Freshness


async def find_border(lake: Lake, log: EventLog) -> Border | None:
    """None where there are no tables, or none that have taken anything in."""
    fresh = await asyncio.to_thread(lake.freshness)
    if fresh is None or all(offset == first_of(int(shard)) for shard, offset in fresh.offsets.items()):
        return None
    spans = await log.spans()
    at = await _taken_in_until(fresh, spans, log)
    at -= at % MINUTE
    return Border(at, [await log.offset_at(at, shard) for shard in range(len(spans))], fresh)


async def _taken_in_until(fresh: Freshness, spans: Sequence[Span], log: EventLog) -> int:
    """As far as the shard goes that is most behind; one of which all was taken in holds nothing up."""
    behind: list[int] = []
    level = [0]
    for shard, span in enumerate(spans):
        first = first_of(shard)
        end = fresh.offsets.get(str(shard), first)
        if span.next > first:
            last = await _instant(log, max(first, end - 1))
            (behind if end < span.next else level).append(last)
    return min(behind, default=max(level))


async def _instant(log: EventLog, offset: int) -> int:
    """When an event happened, or, if it is no longer kept, the oldest that is."""
    try:
        entries = await log.read_events(start=offset, limit=1)
    except OffsetGone as gone:
        entries = await log.read_events(start=gone.oldest, limit=1)
    return entries[0].event.at if entries else 0


def describe(border: Border | None) -> str:
    """For a header: up to which instant, in epoch milliseconds, the tables tell; what is newer is the journal's."""
    return "none" if border is None else str(border.at)
