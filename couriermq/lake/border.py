"""Where the tables end and the journal takes over."""

import asyncio
from collections.abc import Mapping

import msgspec

from couriermq.core.errors import OffsetGone
from couriermq.core.lanes import first_of_lane, lane_name, lane_named
from couriermq.core.model import MINUTE
from couriermq.lake.tables import Freshness, Lake
from couriermq.storage.base import EventLog, Span

HEADER = b"courier-tables-until"


class Border(msgspec.Struct, frozen=True):
    """What happened before `at`, a whole minute, is in the tables; from then on the journal is to be asked."""

    at: int
    offsets: dict[int, int]
    """Those of each lane from which on that is."""
    fresh: Freshness


async def find_border(lake: Lake, log: EventLog) -> Border | None:
    """None where there are no tables, or none that have taken anything in."""
    fresh = await asyncio.to_thread(lake.freshness)
    return None if fresh is None else await border_of(fresh, log)


async def border_of(fresh: Freshness, log: EventLog) -> Border | None:
    """None for tables that have not taken anything in."""
    if all(offset == first_of_lane(lane_named(name)) for name, offset in fresh.offsets.items()):
        return None
    spans = await log.spans()
    at = await _taken_in_until(fresh, spans, log)
    at -= at % MINUTE
    return Border(at, await log.offsets_at(at), fresh)


async def _taken_in_until(fresh: Freshness, spans: Mapping[int, Span], log: EventLog) -> int:
    """As far as the lane goes that is most behind; one of which all was taken in holds nothing up."""
    behind: list[int] = []
    level = [0]
    for lane, span in spans.items():
        first = first_of_lane(lane)
        end = fresh.offsets.get(lane_name(lane), first)
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
