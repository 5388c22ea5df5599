"""Reading the journal: whole commits are found by their first offset, then cut to what was asked for."""

import asyncio

import msgspec

from courier.core.errors import OffsetGone
from courier.core.events import Entry, Event
from courier.storage.base import Span
from courier.storage.postgres.pool import Pool
from courier.storage.postgres.queries import Q

EVENT_BYTES = 32 * 1024 * 1024
"""About how much of the journal one read decodes."""
CHUNK = 64
"""How many commits are fetched at a time."""

_events = msgspec.msgpack.Decoder(list[Event])


class Journal:
    """What has been committed, by offset."""

    def __init__(self, pool: Pool, *, first: int = 0) -> None:
        self._pool = pool
        self._first = first

    async def span(self) -> Span:
        found = await self._pool.ask_one(Q.span)
        return Span(oldest=found[0][0], next=found[0][1]) if found else Span(oldest=self._first, next=self._first)

    async def read(self, *, start: int, limit: int) -> list[Entry]:
        span = await self.span()
        if start < span.oldest:
            raise OffsetGone(start, span.oldest)
        entries: list[Entry] = []
        size, after = 0, start
        while after < span.next and len(entries) < limit and size < EVENT_BYTES:
            found = await self._pool.ask_one(Q.read_journal, offset=after, limit=CHUNK)
            if not found:
                break
            entries += await asyncio.to_thread(_decode, found, after, limit - len(entries))
            size += sum(len(blob) for _, blob in found)
            after = entries[-1].offset + 1
        if not entries and start < span.next:  # trimmed in this moment
            raise OffsetGone(start, (await self.span()).oldest)
        return entries

    async def trim(self, *, before: int) -> int:
        await self._pool.ask_one(Q.trim_journal, before=before)
        return (await self.span()).oldest

    async def offset_at(self, at: int) -> int:
        found = await self._pool.ask_one(Q.offset_at, at=at)
        return int(found[0][0]) if found and found[0][0] is not None else (await self.span()).next

    async def offset_keeping(self, size: int) -> int:
        ((found,),) = await self._pool.ask_one(Q.offset_keeping, size=size)
        return (await self.span()).oldest if found is None else int(found)


def _decode(found: list[tuple[int, bytes]], start: int, limit: int) -> list[Entry]:
    entries: list[Entry] = []
    for first, blob in found:
        events = _events.decode(blob)
        entries.extend(Entry(first + i, events[i]) for i in range(max(0, start - first), len(events)))
        if len(entries) >= limit:
            break
    return entries[:limit]
