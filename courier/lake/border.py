"""Where the tables end and the journal takes over."""

import asyncio

import msgspec

from courier.core.errors import OffsetGone
from courier.core.model import MINUTE
from courier.lake.tables import Freshness, Lake
from courier.storage.base import EventLog

HEADER = b"courier-tables-until"


class Border(msgspec.Struct, frozen=True):
    """What happened before `at`, a whole minute, is in the tables; from `offset` on the journal is to be asked."""

    at: int
    offset: int
    fresh: Freshness


async def find_border(lake: Lake, log: EventLog) -> Border | None:
    """None where there are no tables, or none that have taken anything in."""
    fresh = await asyncio.to_thread(lake.freshness)
    ends = [offset for offset in fresh.offsets.values() if offset] if fresh is not None else []
    if fresh is None or not ends:
        return None
    last = [await _instant(log, offset - 1) for offset in ends]
    at = min(last) - min(last) % MINUTE
    return Border(at, await log.offset_at(at), fresh)


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
