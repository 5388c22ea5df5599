"""The journal as its readers see it."""

import asyncio
import sqlite3
from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from couriermq.core.chronicle import Commit, blanked, entries_of
from couriermq.core.errors import OffsetGone, Unavailable
from couriermq.core.events import Entry
from couriermq.core.incarnations import Identity
from couriermq.core.jumps import Jump, skip, stretches
from couriermq.core.lanes import LANE_SIZE, first_of_lane, is_other, lane_of
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES
from couriermq.storage.base import ShardLog, Span
from couriermq.storage.contents import Holes
from couriermq.storage.group_commit import Collector
from couriermq.storage.sqlite import trim
from couriermq.storage.sqlite.contents import is_sound
from couriermq.storage.sqlite.engine import Engine
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.trimming import TIDIED, Round

if TYPE_CHECKING:
    import threading


class Journal:
    """The part of the store that reads and trims the journal."""

    if TYPE_CHECKING:
        _db: sqlite3.Connection
        _reader: sqlite3.Connection
        _reading: threading.Lock
        _commit: Collector
        _engine: Engine

        def holds(self, duty: str) -> bool: ...

    _oldest_offset = 0
    _holes: Holes
    identity: Identity
    jumps: Sequence[Jump] = ()
    _trimmed = -1
    """Up to where rows have been trimmed; a trim may have been interrupted, so the first one looks at all rows."""

    def journals(self) -> Sequence[ShardLog]:
        return [self]

    async def spans(self) -> dict[int, Span]:
        own = lane_of(self._oldest_offset)
        return {own: self._span_of(own), **self._others}

    def _span_of(self, lane: int) -> Span:
        if not is_other(lane):
            return Span(oldest=self._oldest_offset, next=self._engine.durable_offset)
        return self._others.get(lane, Span(oldest=first_of_lane(lane), next=first_of_lane(lane)))

    @cached_property
    def _round(self) -> Round:
        return Round()

    @cached_property
    def _others(self) -> dict[int, Span]:
        """The lanes of a store that came from PostgreSQL; nothing is added to them."""
        return self._find_others()

    def _find_others(self) -> dict[int, Span]:
        found = self._db.execute(Q.other_spans, {"size": LANE_SIZE})
        return {lane: Span(oldest=oldest, next=following) for lane, oldest, following in found}

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        commits = await self.read_commits(start=start, limit=limit)
        return await asyncio.to_thread(entries_of, commits, start=start, limit=limit) if commits else []

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        """The same as they are stored; what is damaged is replaced by events that say so."""
        lane = lane_of(start)
        span = self._span_of(lane)
        if start < span.oldest:
            raise OffsetGone(start, span.oldest)
        start = skip(self.jumps, start)
        if start >= span.next:
            return []
        try:
            commits = await asyncio.to_thread(self._read_journal, lane, start, min(limit, span.next - start), span.next)
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the journal cannot be read at offset {start}: {error}; run `courier doctor`") from error
        if not commits:  # trimmed in this moment
            raise OffsetGone(start, self._span_of(lane).oldest)
        return commits

    def _read_journal(self, lane: int, start: int, limit: int, durable: int) -> list[Commit]:
        commits: list[Commit] = []
        size, at, stop = 0, 0, start + limit
        expected = start
        with self._reading:
            rows = self._reader.execute(
                Q.read_other if is_other(lane) else Q.read_journal, {"offset": start, "durable": durable}
            )
            for row in rows:
                if not is_sound(row):
                    continue  # its end is where the next sound row begins
                first, count, at, _, _, is_private, *_, events = row
                if first + count <= expected:
                    continue
                if first > expected and start < self._span_of(lane).oldest:
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
            if start < self._span_of(lane).oldest:
                return []  # trimmed in this moment
            if not commits:
                before = self._reader.execute(Q.other_before if is_other(lane) else Q.journal_before, (start,))
                at = next((row[2] for row in before if is_sound(row)), 0)
        return commits + self._damaged(expected, stop, at)

    def _damaged(self, start: int, stop: int, at: int) -> list[Commit]:
        """Offsets that cannot be read any more."""
        return self._holes.told(stretches(self.jumps, start, stop), self._engine.metrics, at=at)

    async def trim_events(self, *, before: int) -> int:
        if is_other(lane := lane_of(before)):
            return await self._trim_other(lane, before)

        def find_oldest(unit: Unit) -> int:
            self._engine.flush(unit)
            found = trim.oldest_behind(self._db, before)
            oldest = self._oldest_offset if found is None else max(found, self._oldest_offset)
            self._db.execute(Q.put_meta, (trim.OLDEST, oldest))
            return oldest

        since: int | None = self._trimmed
        self._oldest_offset = await self._commit.submit(find_oldest)
        steps = 0
        while since is not None:
            since = await self._commit.submit(partial(self._trim, since=since))
            steps += 1
        self._trimmed = self._oldest_offset
        await self._round.go_on(self._drop_unused, trimmed=steps)
        return self._oldest_offset

    async def tidy(self) -> None:
        if not self._round.is_over:
            await self._round.go_on(self._drop_unused, trimmed=TIDIED)

    async def _trim_other(self, lane: int, before: int) -> int:
        span = self._others.get(lane)
        if span is None:
            return first_of_lane(lane)
        where = {"first": first_of_lane(lane), "before": before, "next": span.next}

        def trim_lane(unit: Unit) -> None:
            self._engine.flush(unit)
            self._db.execute(Q.trim_other, where)

        await self._commit.submit(trim_lane)
        self._others = self._find_others()
        return self._others[lane].oldest

    def _trim(self, unit: Unit, *, since: int) -> int | None:
        self._engine.flush(unit)
        return trim.trim(self._db, since=since, before=self._oldest_offset)

    async def _drop_unused(self, after: int) -> tuple[int | None, int]:
        def drop(unit: Unit) -> tuple[int | None, int]:
            self._engine.flush(unit)
            return trim.drop_unused(self._db, self._engine.cache, after=after)

        dropped: tuple[int | None, int] = await self._commit.submit(drop)
        return dropped

    async def offsets_at(self, at: int) -> dict[int, int]:
        """The offset of the first event that was committed at `at` or later."""
        try:
            found = self._db.execute(Q.offset_at, (at, self._oldest_offset)).fetchone()[0]
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the journal cannot be read: {error}; run `courier doctor`") from error
        durable = self._engine.durable_offset
        offsets = {lane_of(self._oldest_offset): durable if found is None else min(int(found), durable)}
        for lane, span in self._others.items():
            (found,) = self._db.execute(Q.other_offset_at, (at, span.oldest, span.next)).fetchone()
            offsets[lane] = span.next if found is None else int(found)
        return offsets

    async def offset_keeping(self, size: int, lane: int) -> int:
        span = self._span_of(lane)
        try:
            found = await asyncio.to_thread(self._find_offset_keeping, size, lane, span)
        except sqlite3.DatabaseError as error:
            raise Unavailable(f"the journal cannot be read: {error}; run `courier doctor`") from error
        return span.oldest if found is None else min(found, span.next)

    def _find_offset_keeping(self, size: int, lane: int, span: Span) -> int | None:
        other = Q.other_offset_keeping, (span.oldest, span.next, size)
        first = Q.offset_keeping, {"size": size, "oldest": span.oldest}
        with self._reading:
            found: int | None = self._reader.execute(*(other if is_other(lane) else first)).fetchone()[0]
        return found
