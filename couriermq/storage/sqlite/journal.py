"""The journal as its readers see it."""

import asyncio
import logging
import sqlite3
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from couriermq.core.chronicle import Commit, blanked, damaged_commits, entries_of
from couriermq.core.errors import OffsetGone, Unavailable
from couriermq.core.events import Entry
from couriermq.core.incarnations import Identity
from couriermq.core.jumps import Jump, skip, stretches
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES
from couriermq.storage.base import ShardLog, Span
from couriermq.storage.group_commit import GroupCommit
from couriermq.storage.sqlite import trim
from couriermq.storage.sqlite.contents import is_sound
from couriermq.storage.sqlite.engine import Engine
from couriermq.storage.sqlite.queries import Q

if TYPE_CHECKING:
    import threading

MOST_HOLES = 100_000
"""Damaged offsets that are counted."""

log = logging.getLogger(__name__)


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
    _holes: set[int]
    """Damaged offsets that are known already."""
    identity: Identity
    jumps: Sequence[Jump] = ()
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
        """The same as they are stored; what is damaged is replaced by events that say so."""
        if start < self._oldest_offset:
            raise OffsetGone(start, self._oldest_offset)
        start, durable = skip(self.jumps, start), self._engine.durable_offset
        if start >= durable:
            return []
        try:
            commits = await asyncio.to_thread(self._read_journal, start, min(limit, durable - start), durable)
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the journal cannot be read at offset {start}: {error}; run `courier doctor`") from error
        if not commits:  # trimmed in this moment
            raise OffsetGone(start, self._oldest_offset)
        return commits

    def _read_journal(self, start: int, limit: int, durable: int) -> list[Commit]:
        commits: list[Commit] = []
        size, at, stop = 0, 0, start + limit
        expected = start
        with self._reading:
            for row in self._reader.execute(Q.read_journal, {"offset": start, "durable": durable}):
                if not is_sound(row):
                    continue  # its end is where the next sound row begins
                first, count, at, _, _, is_private, *_, events = row
                if first + count <= expected:
                    continue
                if first > expected and start < self._oldest_offset:
                    return []  # trimmed in this moment
                if first > expected:
                    commits += self._damaged(expected, min(first, stop), at)
                    if first >= stop:
                        return commits
                commits.append(Commit(first, count, blanked(events) if is_private else events))
                expected = skip(self.jumps, first + count)
                size += len(events)
                if expected >= stop or size >= COMMIT_BYTES:
                    return commits
            if start < self._oldest_offset:
                return []  # trimmed in this moment
            if not commits:
                rows = self._reader.execute(Q.journal_before, (start,))
                at = next((row[2] for row in rows if is_sound(row)), 0)
        return commits + self._damaged(expected, stop, at)

    def _damaged(self, start: int, stop: int, at: int) -> list[Commit]:
        """Offsets that cannot be read any more; told once."""
        ranges = stretches(self.jumps, start, stop)
        if not ranges:
            return []
        found = {offset for first, end in ranges for offset in range(first, end)} - self._holes
        if found and len(self._holes) < MOST_HOLES:
            self._holes |= found
            self._engine.metrics.damaged_events += len(found)
            log.error("the journal is damaged: its events from offset %d up to %d are lost", min(found), max(found) + 1)
        return [commit for first, end in ranges for commit in damaged_commits(first, end, at=at)]

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
        return trim.drop_unused(self._db, self._engine.cache, after=after)

    async def offsets_at(self, at: int) -> dict[int, int]:
        """The offset of the first event that was committed at `at` or later."""
        try:
            found = self._db.execute(Q.offset_at, (at, self._oldest_offset)).fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the journal cannot be read: {error}; run `courier doctor`") from error
        durable = self._engine.durable_offset
        return {0: durable if found is None else min(int(found), durable)}

    async def offset_keeping(self, size: int, lane: int) -> int:
        try:
            found = await asyncio.to_thread(self._find_offset_keeping, size)
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the journal cannot be read: {error}; run `courier doctor`") from error
        return self._oldest_offset if found is None else min(found, self._engine.durable_offset)

    def _find_offset_keeping(self, size: int) -> int | None:
        with self._reading:
            where = {"size": size, "oldest": self._oldest_offset}
            found: int | None = self._reader.execute(Q.offset_keeping, where).fetchone()[0]
        return found
