"""The journal as its readers see it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING
from zlib import crc32

from couriermq.core.chronicle import Commit, blanked, entries_of
from couriermq.core.errors import OffsetGone, Unavailable
from couriermq.core.events import Entry
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES
from couriermq.storage.base import ShardLog, Span
from couriermq.storage.group_commit import GroupCommit
from couriermq.storage.sqlite import trim
from couriermq.storage.sqlite.engine import Engine
from couriermq.storage.sqlite.queries import Q

if TYPE_CHECKING:
    import sqlite3
    import threading


class Journal:
    """The part of the store that reads and trims the journal."""

    if TYPE_CHECKING:
        _db: sqlite3.Connection
        _reader: sqlite3.Connection
        _reading: threading.Lock
        _commit: GroupCommit
        _engine: Engine

        def holds(self, duty: str) -> bool: ...

    _oldest_offset = 0
    _trimmed = -1
    """Up to where rows have been trimmed; a trim may have been interrupted, so the first one looks at all rows."""

    def journals(self) -> Sequence[ShardLog]:
        return [self]

    async def spans(self) -> dict[int, Span]:
        return {0: Span(oldest=self._oldest_offset, next=self._engine.durable_offset)}

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        commits = await self.read_commits(start=start, limit=limit)
        return await asyncio.to_thread(entries_of, commits, start=start, limit=limit) if commits else []

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        if start < self._oldest_offset:
            raise OffsetGone(start, self._oldest_offset)
        durable = self._engine.durable_offset
        if start >= durable:
            return []
        commits = await asyncio.to_thread(self._read_journal, start, min(limit, durable - start), durable)
        if not commits:  # trimmed in this moment
            raise OffsetGone(start, self._oldest_offset)
        return commits

    def _read_journal(self, start: int, limit: int, durable: int) -> list[Commit]:
        commits: list[Commit] = []
        size = 0
        with self._reading:
            for row in self._reader.execute(Q.read_journal, {"offset": start, "durable": durable}):
                first, count, is_private, crc, events = row
                if crc32(events) != crc:
                    raise Unavailable(f"the journal is damaged at offset {first}; run `courier doctor`")
                commits.append(Commit(first, count, blanked(events) if is_private else events))
                size += len(events)
                if first + count >= start + limit or size >= COMMIT_BYTES:
                    break
        return commits

    async def trim_events(self, *, before: int) -> int:
        def find_oldest(unit: Unit) -> int:
            found = trim.oldest_behind(self._db, before)
            oldest = self._oldest_offset if found is None else max(found, self._oldest_offset)
            self._db.execute(Q.put_meta, (trim.OLDEST, oldest))
            return oldest

        since: int | None = self._trimmed
        self._oldest_offset = await self._commit.submit(find_oldest)
        while since is not None:
            since = await self._commit.submit(partial(self._trim, since=since))
        self._trimmed = self._oldest_offset
        after: int | None = -1
        while after is not None:
            after = await self._commit.submit(partial(self._drop_unused, after=after))
        return self._oldest_offset

    def _trim(self, unit: Unit, *, since: int) -> int | None:
        return trim.trim(self._db, since=since, before=self._oldest_offset)

    def _drop_unused(self, unit: Unit, *, after: int) -> int | None:
        return trim.drop_unused(self._db, after=after)

    async def offsets_at(self, at: int) -> dict[int, int]:
        found = self._db.execute(Q.offset_at, (at, self._oldest_offset)).fetchone()[0]
        durable = self._engine.durable_offset
        return {0: durable if found is None else min(int(found), durable)}

    async def offset_keeping(self, size: int, lane: int) -> int:
        found = await asyncio.to_thread(self._find_offset_keeping, size)
        return self._oldest_offset if found is None else min(found, self._engine.durable_offset)

    def _find_offset_keeping(self, size: int) -> int | None:
        with self._reading:
            where = {"size": size, "oldest": self._oldest_offset}
            found: int | None = self._reader.execute(Q.offset_keeping, where).fetchone()[0]
        return found
