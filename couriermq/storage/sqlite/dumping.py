"""An embedded store as plain facts; see `storage.dump`."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import TABLES, Batch, DumpedCommit, DumpedMessage, Facts, Note
from couriermq.storage.sqlite.connection import DATABASE, DirectoryLock, connect, migrate, prepare
from couriermq.storage.sqlite.rows import INLINE_BYTES

STEP = 1_000
COMMITS = 100
_SELECT = (
    "SELECT message.seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, sent_at, delay_ms, given,"
    " id, content_type, attributes, grp, trace, origin, death, coalesce(message.body, payload.body)"
    " FROM message LEFT JOIN payload ON payload.seq = message.seq"
)
_INSERT = (
    "INSERT OR REPLACE INTO message (seq, queue, state, due_at, attempts, lease_no, entered_at, own, discard_at,"
    " sent_at, delay_ms, size, given, id, content_type, attributes, grp, trace, origin, death, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_encode = msgspec.msgpack.Encoder().encode


class SqliteDump:
    """A data directory; what is read of it is read beside a running server, until `hold`."""

    def __init__(self, directory: Path, *, source: bool) -> None:
        self._path = directory
        self._source = source
        self._lock: DirectoryLock | None = None

    async def open(self) -> None:
        if self._source and not (self._path / DATABASE).exists():
            raise CannotOpen(f"there is no store in {self._path}")
        if not self._source:
            self._lock = prepare(self._path)
        self._db = connect(self._path / DATABASE, read_only=self._source)
        if not self._source:
            migrate(self._db)

    async def close(self) -> None:
        if not self._source:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        if self._lock is not None:
            self._lock.release()

    async def hold(self) -> bool:
        if self._lock is None:
            try:
                self._lock = prepare(self._path)
            except CannotOpen:
                return False
            if self._db.execute("SELECT 1 FROM landing").fetchone():
                raise CannotOpen("messages of a publication are still on their way; start the server once more")
        return True

    # -- reading ----------------------------------------------------------------------------------------------

    async def facts(self) -> Facts | None:
        meta = dict(self._db.execute("SELECT name, value FROM meta WHERE name IN ('seal_key', 'next_key')").fetchall())
        if "seal_key" not in meta:
            return None
        (newest,) = self._db.execute("SELECT coalesce(max(seq), 0) FROM message").fetchone()
        known = self._db.execute("SELECT next_seq FROM journal ORDER BY start DESC LIMIT 1").fetchone() or (1,)
        next_key = int(meta.get("next_key", 1))
        return Facts(seal_key=bytes(meta["seal_key"]), next_key=next_key, next_seq=max(newest + 1, known[0]))

    async def counts(self) -> tuple[int, int]:
        (messages,) = self._db.execute("SELECT count(*) FROM message").fetchone()
        return messages, await self.next_offset() - await self.oldest_offset()

    async def messages(self, after: str) -> AsyncIterator[Batch]:
        last = int(after or 0)
        while found := self._db.execute(
            f"{_SELECT} WHERE message.seq > ? ORDER BY message.seq LIMIT ?", (last, STEP)
        ).fetchall():
            last = found[-1][0]
            yield [_message(row) for row in found], str(last)

    async def named(self, seqs: Sequence[int]) -> list[DumpedMessage]:
        found: list[DumpedMessage] = []
        for first in range(0, len(seqs), 500):
            some = seqs[first : first + 500]
            marks = ", ".join("?" * len(some))
            found += map(_message, self._db.execute(f"{_SELECT} WHERE message.seq IN ({marks})", some))
        return found

    async def delayed_until(self, at: int) -> list[int]:
        return [seq for (seq,) in self._db.execute("SELECT seq FROM message WHERE state = 0 AND due_at <= ?", (at,))]

    async def journal(self, start: int) -> AsyncIterator[list[DumpedCommit]]:
        query = "SELECT start, count, at, events FROM journal WHERE start >= ? ORDER BY start LIMIT ?"
        while found := self._db.execute(query, (start, COMMITS)).fetchall():
            yield [DumpedCommit(*row) for row in found]
            start = found[-1][0] + 1

    async def oldest_offset(self) -> int:
        (found,) = self._db.execute("SELECT min(start) FROM journal").fetchone()
        return found or 0

    async def next_offset(self) -> int:
        (found,) = self._db.execute("SELECT max(start + count) FROM journal").fetchone()
        return found or 0

    async def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._db.execute(f"SELECT {', '.join(TABLES[table])} FROM {table}").fetchall()  # noqa: S608 - ours

    # -- writing ----------------------------------------------------------------------------------------------

    async def read_note(self) -> Note | None:
        found = self._db.execute("SELECT value FROM meta WHERE name = 'migration'").fetchone()
        return msgspec.msgpack.decode(found[0], type=Note) if found else None

    async def write_note(self, note: Note | None) -> None:
        if note is None:
            self._db.execute("DELETE FROM meta WHERE name = 'migration'")
        else:
            self._db.execute("INSERT OR REPLACE INTO meta VALUES ('migration', ?)", (_encode(note),))

    async def put_messages(self, messages: Sequence[DumpedMessage], *, gone: Sequence[int] = ()) -> None:
        self._db.execute("BEGIN")
        leaving = [(seq,) for seq in (*gone, *(message.seq for message in messages))]
        self._db.executemany("DELETE FROM message WHERE seq = ?", leaving)
        self._db.executemany("DELETE FROM payload WHERE seq = ?", leaving)
        self._db.executemany(_INSERT, [_values(message) for message in messages])
        large = [(message.seq, message.body) for message in messages if len(message.body) > INLINE_BYTES]
        self._db.executemany("INSERT INTO payload (seq, body) VALUES (?, ?)", large)
        self._db.execute("COMMIT")

    async def put_journal(self, commits: Sequence[DumpedCommit], *, next_seq: int) -> None:
        values = [(c.start, c.count, c.at, next_seq, c.events) for c in commits]
        self._many("INSERT OR REPLACE INTO journal (start, count, at, next_seq, events) VALUES (?, ?, ?, ?, ?)", values)

    async def put_rows(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        columns = TABLES[table]
        self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - ours
        marks = ", ".join("?" * len(columns))
        self._many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)  # noqa: S608 - ours

    async def put_facts(self, facts: Facts) -> None:
        self._many(
            "INSERT OR REPLACE INTO meta VALUES (?, ?)", [("seal_key", facts.seal_key), ("next_key", facts.next_key)]
        )
        self._db.execute("UPDATE journal SET next_seq = ?", (facts.next_seq,))

    async def erase_messages(self) -> None:
        self._db.executescript("DELETE FROM message; DELETE FROM payload; DELETE FROM journal;")

    async def trim_journal(self, *, before: int) -> None:
        self._db.execute("DELETE FROM journal WHERE start < ?", (before,))

    def _many(self, sql: str, values: Sequence[tuple[Any, ...]]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(sql, values)
        self._db.execute("COMMIT")


def _message(row: sqlite3.Row | tuple[Any, ...]) -> DumpedMessage:
    *facts, given, id_, content_type, attributes, group, trace, origin, death, body = row
    known = msgspec.msgpack.decode(attributes) if attributes else {}
    values = [*facts, bool(given), id_, content_type, known, group, trace, origin, death, body]
    return DumpedMessage(*values)


def _values(m: DumpedMessage) -> tuple[Any, ...]:
    return (
        m.seq, m.queue, m.state, m.due_at, m.attempts, m.lease_no, m.entered_at, int(m.discard_at is not None),
        m.discard_at, m.sent_at, m.delay_ms, len(m.body), int(m.given), m.id, m.content_type,
        _encode(m.attributes) if m.attributes else None, m.group, m.trace, m.origin, m.death,
        m.body if len(m.body) <= INLINE_BYTES else None,
    )  # fmt: skip
