"""An embedded store as plain facts; see `storage.dump`."""

from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from couriermq.core.chronicle import blanked
from couriermq.core.lifecycle.needs import Named
from couriermq.core.lifecycle.rows import Pack, Single, encode, single_of
from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import TABLES, Batch, DumpedCommit, DumpedMessage, Facts, Note
from couriermq.storage.sqlite import facts
from couriermq.storage.sqlite.checksums import COLUMNS, checksum
from couriermq.storage.sqlite.connection import DATABASE, DirectoryLock, connect, migrate, migrations, prepare
from couriermq.storage.sqlite.contents import is_sound, load_contents
from couriermq.storage.sqlite.identity import IDENTITY, MARK
from couriermq.storage.sqlite.mark import forget_mark
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import single_values, to_pack, to_single
from couriermq.storage.sqlite.trim import OLDEST

STEP = 1_000
COMMITS = 100
_SINGLES = Q.named_singles.partition("WHERE")[0]


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
            forget_mark(self._path)
        self._db = connect(self._path / DATABASE, read_only=self._source)
        if not self._source:
            migrate(self._db)
        elif self._one("PRAGMA user_version") < migrations()[-1][0]:
            self._db.close()
            raise CannotOpen(f"{self._path} was written by an earlier Courier: start this one on it once, then migrate")

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
        meta = dict(self._db.execute("SELECT name, value FROM meta").fetchall())
        if "seal_key" not in meta:
            return None
        if MARK in meta:
            raise CannotOpen("the source was restored and not started since; start a server on it once")
        newest = self._one("SELECT max(coalesce((SELECT max(seq) FROM message), 0), coalesce(max(last), 0)) FROM pack")
        known = self._db.execute("SELECT next_seq FROM journal ORDER BY start DESC LIMIT 1").fetchone() or (1,)
        next_key = int(meta.get("next_key", 1))
        following = max(newest + 1, known[0])
        identity: bytes | None = meta.get(IDENTITY)
        return Facts(seal_key=bytes(meta["seal_key"]), next_key=next_key, next_seq=following, identity=identity)

    async def counts(self) -> tuple[int, int]:
        messages = self._one("SELECT (SELECT count(*) FROM message) + coalesce(sum(remaining), 0) FROM pack")
        events = self._one("SELECT coalesce(sum(count), 0) FROM journal WHERE start >= ?", await self.oldest_offset())
        return messages, events

    async def messages(self, after: str) -> AsyncIterator[Batch]:
        """Packs first, then singles; what a server changes meanwhile, the journal tells."""
        table, _, last = after.partition(":")
        seq = int(last or 0)
        while table != "message":
            rows = self._db.execute("SELECT * FROM pack WHERE last > ? ORDER BY last LIMIT 10", (seq,)).fetchall()
            if not rows:
                table, seq = "message", 0
                break
            seq = rows[-1][0]
            yield self._dumped([to_pack(row) for row in rows], []), f"pack:{seq}"
        while rows := self._db.execute(f"{_SINGLES} WHERE seq > ? ORDER BY seq LIMIT ?", (seq, STEP)).fetchall():
            seq = rows[-1][0]
            yield self._dumped([], map(to_single, rows)), f"message:{seq}"

    async def named(self, seqs: Sequence[int]) -> list[DumpedMessage]:
        found = facts.Facts(self._db).load(Named(None, seqs))
        wanted = set(seqs)
        return [message for message in self._dumped(found.packs, found.singles) if message.seq in wanted]

    def _dumped(self, packs: Iterable[Pack], singles: Iterable[Single]) -> list[DumpedMessage]:
        dumped = []
        for pack in packs:
            contents = load_contents(self._db, [pack], [])
            taken = [single_of(pack, index, contents) for index in pack.indexes()]
            dumped += [_dump(single, contents.body_of(single)) for single in taken]
        for single in singles:
            dumped.append(_dump(single, load_contents(self._db, [], [single]).body_of(single)))
        return dumped

    async def delayed_until(self, at: int) -> list[int]:
        seqs = [seq for (seq,) in self._db.execute("SELECT seq FROM message WHERE state = 0 AND due_at <= ?", (at,))]
        for row in self._db.execute("SELECT * FROM pack WHERE state = 0 AND due_at <= ?", (at,)):
            pack = to_pack(row)
            seqs += [pack.first + index for index in pack.indexes()]
        return seqs

    async def journal(self, start: int) -> AsyncIterator[list[DumpedCommit]]:
        while found := self._db.execute(Q.journal_from, (start, COMMITS)).fetchall():
            if not all(map(is_sound, found)):
                raise CannotOpen(f"the journal is damaged behind offset {start}; run `courier doctor`")
            yield [
                DumpedCommit(first, count, at, blanked(events) if is_private else events)
                for first, count, at, _, _, is_private, *_, events in found
            ]
            start = found[-1][0] + 1

    async def oldest_offset(self) -> int:
        kept = self._db.execute(Q.read_meta, (OLDEST,)).fetchone()
        return int(kept[0]) if kept else self._one("SELECT min(start) FROM journal")

    async def next_offset(self) -> int:
        return self._one("SELECT max(start + count) FROM journal")

    async def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self._db.execute(f"SELECT {', '.join(TABLES[table])} FROM {table}").fetchall()  # noqa: S608 - ours

    def _one(self, query: str, *values: int) -> int:
        return int(self._db.execute(query, values).fetchone()[0] or 0)

    # -- writing ----------------------------------------------------------------------------------------------

    async def read_note(self) -> Note | None:
        found = self._db.execute("SELECT value FROM meta WHERE name = 'migration'").fetchone()
        return msgspec.msgpack.decode(found[0], type=Note) if found else None

    async def write_note(self, note: Note | None) -> None:
        if note is None:
            self._db.execute("DELETE FROM meta WHERE name = 'migration'")
        else:
            self._db.execute(Q.put_meta, ("migration", encode(note)))

    async def put_messages(self, messages: Sequence[DumpedMessage], *, gone: Sequence[int] = ()) -> None:
        self._db.execute("BEGIN")
        leaving = [(seq,) for seq in (*gone, *(message.seq for message in messages))]
        self._db.executemany(Q.delete_single, leaving)
        self._db.executemany(Q.delete_payload, leaving)
        rows = [(*single_values(_single(message)), int(message.discard_at is not None)) for message in messages]
        self._db.executemany(Q.insert_single, rows)
        bodies = [(message.seq, message.body, crc32(message.body)) for message in messages]
        self._db.executemany(Q.insert_payload, bodies)
        self._db.execute("COMMIT")

    async def put_journal(self, commits: Sequence[DumpedCommit], *, next_seq: int) -> None:
        rows: list[tuple[Any, ...]] = []
        for c in commits:
            head = (c.start, c.count, c.at, next_seq, 0, 0, None, None, crc32(c.events))
            rows.append((*head, checksum(head), c.events))
        self._many(Q.insert_journal.replace("INSERT", "INSERT OR REPLACE", 1), rows)

    async def put_rows(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        columns = TABLES[table]
        self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - ours
        marks = ", ".join("?" * len(columns))
        self._many(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)  # noqa: S608 - ours
        if table == "stage":
            self._db.execute("UPDATE stage SET parcels_crc = crc32(parcels)")
        if table in COLUMNS:
            self._db.execute(f"UPDATE {table} SET crc = crc({COLUMNS[table]})")  # noqa: S608 - ours

    async def put_facts(self, facts: Facts) -> None:
        meta: list[tuple[str, object]] = [("seal_key", facts.seal_key), ("next_key", facts.next_key)]
        if facts.identity is not None:
            meta.append((IDENTITY, facts.identity))
        self._many(Q.put_meta, meta)
        self._db.execute(Q.set_next_seq, (facts.next_seq,))

    async def erase_messages(self) -> None:
        self._db.executescript("DELETE FROM message; DELETE FROM payload; DELETE FROM journal;")

    async def trim_journal(self, *, before: int) -> None:
        self._db.execute("DELETE FROM journal WHERE start < ?", (before,))

    def _many(self, sql: str, values: Sequence[tuple[Any, ...]]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(sql, values)
        self._db.execute("COMMIT")


def _dump(s: Single, body: bytes) -> DumpedMessage:
    attributes = msgspec.msgpack.decode(s.attributes) if s.attributes else {}
    return DumpedMessage(
        s.seq, s.queue, s.state, s.due_at, s.attempts, s.lease_no, s.entered_at, s.discard_at, s.sent_at, s.delay_ms,
        bool(s.given), s.id, s.content_type, attributes, s.group, s.trace, s.origin, s.death, body, s.turn,
    )  # fmt: skip


def _single(m: DumpedMessage) -> Single:
    return Single(
        m.seq, m.queue, m.state, m.due_at, m.attempts, m.lease_no, m.entered_at, m.discard_at, m.sent_at, m.delay_ms,
        len(m.body), int(m.given), m.id, m.content_type, encode(m.attributes) if m.attributes else None, m.group,
        m.trace, m.origin, m.death, None, 0, m.turn,
    )  # fmt: skip
