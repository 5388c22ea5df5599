"""Reading the journal: whole commits are found by their first offset, then cut to what was asked for."""

import asyncio
from collections.abc import Sequence

from couriermq.core.chronicle import Commit, entries_of
from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry
from couriermq.core.jumps import Jump, skip
from couriermq.core.lanes import lane_of
from couriermq.core.limits import RESPONSE_BYTES
from couriermq.storage.base import Span
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.queries import Q

CHUNK = 64
"""How many commits are fetched at a time."""


class Journal:
    """What has been committed, by offset."""

    def __init__(self, pool: Pool, *, first: int = 0) -> None:
        self._pool = pool
        self._first = first
        self.jumps: Sequence[Jump] = ()

    async def spans(self) -> dict[int, Span]:
        return {lane_of(self._first): await self.span()}

    async def span(self) -> Span:
        found = await self._pool.ask_one(Q.span)
        return Span(oldest=found[0][0], next=found[0][1]) if found else Span(oldest=self._first, next=self._first)

    async def read(self, *, start: int, limit: int) -> list[Entry]:
        commits = await self.commits(start=start, limit=limit)
        return await asyncio.to_thread(entries_of, commits, start=start, limit=limit) if commits else []

    async def commits(self, *, start: int, limit: int) -> list[Commit]:
        """Whole commits, from the one on that holds `start`, until there are about `limit` events."""
        span = await self.span()
        if start < span.oldest:
            raise OffsetGone(start, span.oldest)
        start = skip(self.jumps, start)
        commits: list[Commit] = []
        size, after, stop = 0, start, min(start + limit, span.next)
        while after < stop and size < RESPONSE_BYTES:
            rows = await self._pool.ask_one(Q.read_journal, offset=after, stop=stop, limit=CHUNK, budget=RESPONSE_BYTES)
            found = [Commit(*row) for row in rows]
            if not found:  # trimmed in this moment
                break
            commits += found
            size += sum(len(commit.events) for commit in found)
            after = skip(self.jumps, found[-1].start + found[-1].count)
        if not commits and start < span.next:
            raise OffsetGone(start, (await self.span()).oldest)
        return commits

    async def trim(self, *, before: int) -> int:
        await self._pool.ask_one(Q.trim_journal, before=before)
        return (await self.span()).oldest

    async def offsets_at(self, at: int) -> dict[int, int]:
        found = await self._pool.ask_one(Q.offset_at, at=at)
        offset = int(found[0][0]) if found and found[0][0] is not None else (await self.span()).next
        return {lane_of(self._first): offset}

    async def offset_keeping(self, size: int) -> int:
        ((found,),) = await self._pool.ask_one(Q.offset_keeping, size=size)
        return (await self.span()).oldest if found is None else int(found)
