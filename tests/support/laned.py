"""A SQLite store whose journal is dealt out over several lanes, as that of a store with several writers is.

`COMMAND` serves one. Only what readers see is different: commits go to the lanes in turn.
"""

import asyncio
import sys
from itertools import islice
from typing import Any

from couriermq import server
from couriermq.cli.app import main
from couriermq.core.chronicle import Commit, entries_of
from couriermq.core.errors import OffsetGone
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.storage.base import Span
from couriermq.storage.sqlite.store import SqliteStore

APPEARS_AT = (0, 24, 48)
"""How many events there are when each lane appears."""
CHUNK = 1_000
COMMAND = [sys.executable, "-P", __file__, "serve"]


class LanedStore(SqliteStore):
    """Deals out what has become durable whenever somebody looks."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.rows: list[list[Commit]] = [[] for _ in APPEARS_AT]
        self.oldest = [first_of_lane(lane) for lane in range(len(APPEARS_AT))]
        self._dealt_count = self._dealt_until = 0
        self._dealing = asyncio.Lock()

    async def _deal(self) -> None:
        async with self._dealing:
            while commits := await super().read_commits(start=self._dealt_until, limit=CHUNK):
                for commit in commits:
                    lane = self._dealt_count % sum(commit.start >= begin for begin in APPEARS_AT)
                    self.rows[lane].append(Commit(self._next(lane), commit.count, commit.events))
                    self._dealt_count += 1
                    self._dealt_until = commit.start + commit.count

    def _next(self, lane: int) -> int:
        rows = self.rows[lane]
        return rows[-1].start + rows[-1].count if rows else first_of_lane(lane)

    async def spans(self) -> dict[int, Span]:
        await self._deal()
        lanes = [lane for lane, rows in enumerate(self.rows) if rows or not lane]
        return {lane: Span(oldest=self.oldest[lane], next=self._next(lane)) for lane in lanes}

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        await self._deal()
        lane = lane_of(start)
        if lane >= len(self.rows):
            return []
        if start < self.oldest[lane]:
            raise OffsetGone(start, self.oldest[lane])
        later = (row for row in self.rows[lane] if row.start + row.count > start and row.start < start + limit)
        return list(islice(later, CHUNK))

    async def offsets_at(self, at: int) -> dict[int, int]:
        return {lane: self._offset_at(at, lane) for lane in await self.spans()}

    def _offset_at(self, at: int, lane: int) -> int:
        kept = [row for row in self.rows[lane] if row.start >= self.oldest[lane]]
        entries = entries_of(kept, start=self.oldest[lane], limit=10**9) if kept else []
        return next((entry.offset for entry in entries if entry.event.at >= at), self._next(lane))

    async def offset_keeping(self, size: int, lane: int) -> int:
        await self._deal()
        end = self._next(lane)
        for row in reversed(self.rows[lane]):
            size -= len(row.events)
            if size < 0 or row.start < self.oldest[lane]:
                break
            end = row.start
        return end

    async def trim_events(self, *, before: int) -> int:
        await self._deal()
        lane = lane_of(before)
        newest = self.rows[lane][-1].start if self.rows[lane] else first_of_lane(lane)
        starts = [row.start for row in self.rows[lane] if row.start <= min(before, newest)]
        self.oldest[lane] = max([self.oldest[lane], *starts])
        return self.oldest[lane]


if __name__ == "__main__":
    vars(server)["SqliteStore"] = LanedStore
    sys.exit(main())
