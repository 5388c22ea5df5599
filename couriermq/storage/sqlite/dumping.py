"""An embedded store as plain facts; see `storage.dump`."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Container, Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from couriermq.core.chronicle import blanked
from couriermq.core.lanes import LANE_SIZE, first_of_lane, lane_of
from couriermq.core.lifecycle.needs import Named
from couriermq.core.lifecycle.rows import Pack, Single, encode
from couriermq.core.limits import COMMIT_BYTES, Room
from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import (
    KEYS,
    NOTE,
    TABLES,
    Batch,
    DumpedCommit,
    DumpedMessage,
    Facts,
    Note,
    Rows,
    dumped,
    dumped_pack,
    fitting,
    refusing_damage,
    rows_at_once,
)
from couriermq.storage.sqlite import facts
from couriermq.storage.sqlite.checksums import COLUMNS, checksum, sound
from couriermq.storage.sqlite.connection import DATABASE, DirectoryLock, connect, migrate, migrations, prepare
from couriermq.storage.sqlite.contents import is_sound, load_contents
from couriermq.storage.sqlite.files import refuse_missing_log
from couriermq.storage.sqlite.identity import IDENTITY, MARK, NEXT, next_numbers
from couriermq.storage.sqlite.loss import find_loss
from couriermq.storage.sqlite.mark import forget_mark
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import single_values, to_pack, to_single
from couriermq.storage.sqlite.trim import OLDEST

STEP = 1_000
PACKS = 10
COMMITS = 100
_SINGLES = Q.named_singles.partition("WHERE")[0]


_MENDED = {"tally": " (a server that starts on the store counts anew)"}
"""What mends a damaged row of a table."""


class SqliteDump:
    """A data directory; what is read of it is read beside a running server, until `hold`."""

    def __init__(self, directory: Path, *, source: bool) -> None:
        self._path = directory
        self._source = source
        self._lock: DirectoryLock | None = None
        self._is_written = False

    async def open(self) -> None:
        if self._source and not (self._path / DATABASE).exists():
            raise CannotOpen(f"there is no store in {self._path}")
        if not self._source:
            self._lock = prepare(self._path)
        else:
            self._refuse_loss()
        self._db = connect(self._path / DATABASE, read_only=True)
        if self._source and self._one("PRAGMA user_version") < migrations()[-1][0]:
            self._db.close()
            raise CannotOpen(f"{self._path} was written by an earlier Courier: start this one on it once, then migrate")

    async def begin_writing(self) -> None:
        if not self._is_written:
            self._db.close()
            forget_mark(self._path)
            self._db = connect(self._path / DATABASE)
            self._is_written = True
            migrate(self._db)

    async def close(self) -> None:
        if self._is_written:
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
            self._db.close()  # what is missing is found without another connection
            self._refuse_loss()  # the server may have died since the first look
            self._db = connect(self._path / DATABASE, read_only=True)
            if self._db.execute("SELECT 1 FROM landing").fetchone():
                raise CannotOpen("messages of a publication are still on their way; start the server once more")
        return True

    # -- reading ----------------------------------------------------------------------------------------------

    async def is_used(self) -> bool:
        return self._meta("seal_key") is not None

    def _meta(self, name: str) -> bytes | None:
        """Also of an empty database, or one of an earlier version."""
        if not self._one("SELECT count(*) FROM sqlite_master WHERE name = 'meta'"):
            return None
        found = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return bytes(found[0]) if found else None

    async def facts(self) -> Facts | None:
        with _refusing_damage():
            rows = self._db.execute("SELECT name, value, crc = crc(name, value) FROM meta").fetchall()
            meta = {row[0]: sound(f"the entry {row[0]} of table meta", row)[1] for row in rows}
        if "seal_key" not in meta:
            return None
        if MARK in meta:
            raise CannotOpen("the source was restored and not started since; start a server on it once")
        newest = self._one("SELECT max(coalesce((SELECT max(seq) FROM message), 0), coalesce(max(last), 0)) FROM pack")
        offset, known_seq, known_lease = next_numbers(self._db) or (0, 1, 1)
        if ends := self._db.execute(Q.journal_ends).fetchone():
            with _refusing_damage():
                _, offset, known_seq, known_lease = sound("the end of the journal", ends)
        return Facts(
            seal_key=bytes(meta["seal_key"]),
            next_key=int(meta.get("next_key", 1)),
            next_seq=max(newest + 1, known_seq),
            next_lease=known_lease,
            next_offset=offset,
            identity=meta.get(IDENTITY),
        )

    def _refuse_loss(self) -> None:
        """Nothing is copied of what would not be served either."""
        if loss := find_loss(self._path):
            raise CannotOpen(
                f"the store in {self._path} has lost commits that were accepted: {loss}. Restore a backup with `courier"
                " restore`, or start a server on it once with --accept-loss, then migrate what is left"
            )
        refuse_missing_log(self._path)

    async def counts(self) -> tuple[int, int]:
        messages = self._one("SELECT (SELECT count(*) FROM message) + coalesce(sum(remaining), 0) FROM pack")
        oldest, _ = (await self.spans()).get(0, (0, 0))
        events = self._one("SELECT coalesce(sum(count), 0) FROM journal WHERE start >= ?", oldest)
        return messages, events + self._one("SELECT coalesce(sum(count), 0) FROM other_lane")

    async def messages(self, after: str) -> AsyncIterator[Batch]:
        """Packs first, then singles; what a server changes meanwhile, the journal tells."""
        table, _, last = after.partition(":")
        seq = int(last or 0)
        while table != "message":
            before = seq
            batch, seq = self._packed(before)
            if seq == before:
                table, seq = "message", 0
                break
            yield batch, f"pack:{seq}"
        while True:
            batch, seq = self._single(seq)
            if not batch:
                return
            yield batch, f"message:{seq}"

    def _packed(self, after: int) -> tuple[list[DumpedMessage], int]:
        """Messages of some packs, and the key of the last of these."""
        with self._one_moment(), _refusing_damage():
            rows = self._db.execute(
                "SELECT * FROM pack WHERE last > ? ORDER BY last LIMIT ?", (after, PACKS)
            ).fetchall()
            packs = fitting(map(to_pack, rows))
            return self._dumped(packs), packs[-1].last if packs else after

    def _single(self, after: int) -> tuple[list[DumpedMessage], int]:
        with self._one_moment(), _refusing_damage():
            rows = self._db.execute(f"{_SINGLES} WHERE seq > ? ORDER BY seq LIMIT ?", (after, STEP)).fetchall()
            singles = fitting(map(to_single, rows))
            return self._dumped(singles), singles[-1].seq if singles else after

    @contextlib.contextmanager
    def _one_moment(self) -> Iterator[None]:
        """Rows and what they point to of one moment, while a server goes on writing."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("COMMIT")

    def _dumped(self, rows: Sequence[Pack | Single], wanted: Container[int] | None = None) -> list[DumpedMessage]:
        """Messages of these rows, all or those with the wanted seqs; contents are in memory row by row."""
        found: list[DumpedMessage] = []
        with _refusing_damage():
            for row in rows:
                if isinstance(row, Pack):
                    messages = dumped_pack(row, load_contents(self._db, [row], []))
                    found += [message for message in messages if wanted is None or message.seq in wanted]
                else:
                    found.append(dumped(row, load_contents(self._db, [], [row]).body_of(row)))
        return found

    async def named(self, seqs: Sequence[int]) -> AsyncIterator[list[DumpedMessage]]:
        with _refusing_damage():
            found = facts.Facts(self._db).load(Named(None, seqs))
        rows: list[Pack | Single] = [*found.packs, *found.singles]
        while some := fitting(rows):
            yield self._dumped(some, set(seqs))
            rows = rows[len(some) :]

    async def may_be_ready(self, at: int) -> list[int]:
        where = "WHERE state = 0 AND (due_at <= ? OR attempts > 0)"
        seqs = [seq for (seq,) in self._db.execute(f"SELECT seq FROM message {where}", (at,))]  # noqa: S608 - ours
        with _refusing_damage():
            for row in self._db.execute(f"SELECT * FROM pack {where}", (at,)):  # noqa: S608 - ours
                seqs += to_pack(row).seqs()
        return seqs

    async def spans(self) -> dict[int, tuple[int, int]]:
        oldest, following = self._db.execute("SELECT min(start), max(start + count) FROM journal").fetchone()
        kept = self._db.execute(Q.read_meta, (OLDEST,)).fetchone()
        if kept:
            with _refusing_damage():
                oldest = int(sound("the beginning of the journal", kept)[0])
        spans = {} if following is None else {0: (oldest, following)}
        others = self._db.execute(Q.other_spans, {"size": LANE_SIZE})
        return spans | {lane: (oldest, following) for lane, oldest, following in others}

    async def journal(self, start: int) -> AsyncIterator[list[DumpedCommit]]:
        end = first_of_lane(lane_of(start) + 1)
        while found := self._rows_from(start, end):
            yield [
                DumpedCommit(first, count, at, blanked(events) if is_private else events)
                for first, count, at, _, _, is_private, *_, events in found
            ]
            start = found[-1][0] + 1

    def _rows_from(self, start: int, end: int) -> Rows:
        """As many as a batch has room for, and the first in any case."""
        if lane_of(start):
            rows = self._db.execute(Q.other_from, (start, end, COMMITS))
        else:
            rows = self._db.execute(Q.journal_from, (start, COMMITS))
        found: Rows = []
        room = Room(COMMIT_BYTES)
        for row in rows:
            if not is_sound(row):
                raise CannotOpen(f"the journal is damaged behind offset {start}; run `courier doctor`")
            if not room.takes(len(row[-1])):
                break
            found.append(row)
        return found

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        is_sound, size = "1", KEYS.get(table, 2)
        if table in COLUMNS:
            is_sound = f"crc = crc({COLUMNS[table]})"
        if table == "stage":
            is_sound += " AND parcels_crc = crc32(parcels)"
        with _refusing_damage():
            rows = self._db.execute(f"SELECT {', '.join(TABLES[table])}, {is_sound} FROM {table}")  # noqa: S608 - ours
            while some := rows.fetchmany(rows_at_once(table)):
                whole = [row for row in some if row[-1] or table != "dedup"]  # a damaged one counts as none
                yield [sound(f"row {row[:size]} of table {table}{_MENDED.get(table, '')}", row) for row in whole]

    def _one(self, query: str, *values: int) -> int:
        return int(self._db.execute(query, values).fetchone()[0] or 0)

    # -- writing ----------------------------------------------------------------------------------------------

    async def read_note(self) -> Note | None:
        found = self._meta(NOTE)
        return msgspec.msgpack.decode(found, type=Note) if found else None

    async def write_note(self, note: Note | None) -> None:
        if note is None:
            self._db.execute(Q.delete_meta, (NOTE,))
        else:
            self._db.execute(Q.put_meta, (NOTE, encode(note)))

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

    async def put_journal(self, commits: Sequence[DumpedCommit]) -> None:
        rows: list[tuple[Any, ...]] = []
        others: list[tuple[Any, ...]] = []
        for c in commits:
            head = (c.start, c.count, c.at, 1, 1, 0, None, None, crc32(c.events))
            if lane_of(c.start):
                others.append((c.start, c.count, c.at, head[-1], checksum(head), c.events))
            else:
                rows.append((*head, checksum(head), c.events))
        self._many(Q.insert_journal.replace("INSERT", "INSERT OR REPLACE", 1), rows)
        self._many(Q.put_other, others)

    async def put_rows(self, table: str, portions: AsyncIterator[Rows]) -> None:
        columns = TABLES[table]
        marks = ", ".join("?" * len(columns))
        put = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - ours
        with self._db:  # commits, or rolls back what a failure leaves
            self._db.execute("BEGIN")
            self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - ours
            async for rows in portions:
                self._db.executemany(put, rows)
            if table == "stage":
                self._db.execute("UPDATE stage SET parcels_crc = crc32(parcels)")
            if table in COLUMNS:
                self._db.execute(f"UPDATE {table} SET crc = crc({COLUMNS[table]})")  # noqa: S608 - ours

    async def put_facts(self, facts: Facts) -> None:
        meta: list[tuple[str, object]] = [("seal_key", facts.seal_key), ("next_key", facts.next_key)]
        if facts.identity is not None:
            meta.append((IDENTITY, facts.identity))
        self._many(Q.put_meta, meta)
        changed = self._db.execute(Q.set_next_numbers, (facts.next_seq, facts.next_lease))
        if not changed.rowcount:  # rows of the first lane keep the numbers to go on with
            numbers = (facts.next_offset, facts.next_seq, facts.next_lease)
            self._db.execute(Q.put_meta, (NEXT, msgspec.msgpack.encode(numbers)))

    async def erase_messages(self) -> None:
        self._db.executescript("DELETE FROM message; DELETE FROM payload; DELETE FROM journal; DELETE FROM other_lane;")

    async def trim_journal(self, *, before: int) -> None:
        lane = lane_of(before)
        table = "other_lane" if lane else "journal"
        where = (first_of_lane(lane), before)
        self._db.execute(f"DELETE FROM {table} WHERE start >= ? AND start < ?", where)  # noqa: S608 - ours

    def _many(self, sql: str, values: Sequence[tuple[Any, ...]]) -> None:
        self._db.execute("BEGIN")
        self._db.executemany(sql, values)
        self._db.execute("COMMIT")


@contextlib.contextmanager
def _refusing_damage() -> Iterator[None]:
    """Damage may also be found by SQLite itself."""
    try:
        with refusing_damage():
            yield
    except sqlite3.DatabaseError as error:
        raise CannotOpen(f"the database cannot be read: {error}; run `courier doctor`") from error


def _single(m: DumpedMessage) -> Single:
    return Single(
        m.seq, m.queue, m.state, m.due_at, m.attempts, m.lease_no, m.entered_at, m.discard_at, m.sent_at, m.delay_ms,
        len(m.body), int(m.given), m.id, m.content_type, encode(m.attributes) if m.attributes else None, m.group,
        m.trace, m.origin, m.death, None, 0, m.turn,
    )  # fmt: skip
