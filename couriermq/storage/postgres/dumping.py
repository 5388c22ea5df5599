"""A store on PostgreSQL as plain facts; see `storage.dump`."""

import contextlib
from collections.abc import AsyncIterator, Container, Sequence
from typing import Any
from zlib import crc32

import msgspec
import psycopg

from couriermq.core.chronicle import blanked
from couriermq.core.lanes import SHARD_LANES, first_of_lane, lane_of
from couriermq.core.lifecycle.needs import Content, Named
from couriermq.core.lifecycle.rows import Pack, Single, encode
from couriermq.core.limits import COMMIT_BYTES
from couriermq.storage.base import CannotOpen
from couriermq.storage.contents import Damaged, is_intact
from couriermq.storage.dump import (
    KEYS,
    NOTE,
    TABLES,
    Batch,
    DumpedCommit,
    DumpedMessage,
    Facts,
    Note,
    dumped,
    dumped_pack,
    fitting,
    refusing_damage,
    rows_at_once,
)
from couriermq.storage.postgres.connection import (
    LIVES,
    MIGRATION_LOCK,
    Connection,
    Rows,
    Step,
    ask,
    connect,
    has_table,
    migrate,
    space_of,
)
from couriermq.storage.postgres.engine import LEASE_BLOCK
from couriermq.storage.postgres.facts import PACK, SINGLE, Q, to_packs, to_singles
from couriermq.storage.postgres.facts import Facts as Loader
from couriermq.storage.postgres.failures import detail
from couriermq.storage.postgres.identity import IDENTITY, MARK
from couriermq.storage.postgres.migrations.conversion import NO_OWNER, put_messages

STEP = 1_000
PACKS = 10
COMMITS = 100
LAST_LEASE_BLOCK = 2_147_470_001
"""The largest value of the sequence of numbers for leases."""
_TEXTS = {"grp", "dedup_id", "id"}
"""Columns of `fifo` and `dedup` that are bytes here."""
_SUMS = ", ".join(f"sum({name})::bigint AS {name}" for name in TABLES["tally"][1:])
_TABLES = {
    "record": "(SELECT * FROM record WHERE NOT gone) AS record",
    "tally": f"(SELECT queue, {_SUMS} FROM tally GROUP BY queue) AS tally",  # noqa: S608 - ours
}
"""Where the rows of a table are not those that are stored."""
_JOURNAL = """
SELECT start, count, at, private, crc, events FROM (
    SELECT *, sum(octet_length(events)) OVER (ORDER BY start) AS bytes FROM journal
    WHERE start >= %s AND start < %s ORDER BY start LIMIT %s
) AS page WHERE bytes <= %s OR bytes = octet_length(events) ORDER BY start
"""
"""As many as a batch has room for, and the first in any case."""


class PostgresDump:
    """A database, read beside running nodes until `hold`; nodes that start from then on wait."""

    def __init__(self, url: str, *, source: bool) -> None:
        self._url = url
        self._source = source

    async def open(self) -> None:
        try:
            self._db: Connection = await connect(self._url)
        except psycopg.Error as error:
            raise CannotOpen(f"the database cannot be opened: {detail(error, self._url)}") from error
        try:
            await self._prepare()
        except BaseException:
            await self.close()
            raise

    async def _prepare(self) -> None:
        for setting in ("enable_seqscan", "enable_hashjoin"):
            await self._db.execute(f"SET {setting} = on".encode())
        self._space = await space_of(self._db)
        self._loader = Loader(self._asked, space=self._space, locks=False)
        if self._source:
            await self.begin_writing()

    async def begin_writing(self) -> None:
        await migrate(self._db, self._space)
        ((shards,),) = await self._ask("SELECT count(*) FROM record WHERE kind = 'shard' AND id <> '0' AND NOT gone")
        if shards or await self._ask("SELECT FROM meta WHERE name = 'shard'"):
            raise CannotOpen("the store is divided into shards; drain all but the home, then migrate that")

    async def close(self) -> None:
        await self._db.close()

    async def hold(self) -> bool:
        await self._ask("SELECT pg_advisory_lock(%s::int, %s::int)", self._space, MIGRATION_LOCK)
        ((lives,),) = await self._ask(LIVES, self._space & 0xFFFFFFFF)
        if lives:
            await self._ask("SELECT pg_advisory_unlock(%s::int, %s::int)", self._space, MIGRATION_LOCK)
        return not lives

    async def _ask(self, sql: str, *values: Any) -> Rows:
        return (await ask(self._db, [(sql, values)]))[0]

    async def _asked(self, steps: Sequence[Step]) -> list[Rows]:
        return await ask(self._db, steps)

    # -- reading ----------------------------------------------------------------------------------------------

    async def is_used(self) -> bool:
        return await self._meta("seal_key") is not None or await self._meta("shard") is not None

    async def _meta(self, name: str) -> bytes | None:
        """Also of an empty database, or one of an earlier version."""
        if not await has_table(self._db, "meta"):
            return None
        found = await self._ask("SELECT value FROM meta WHERE name = %s", name)
        return bytes(found[0][0]) if found else None

    async def facts(self) -> Facts | None:
        found = await self._ask("SELECT value FROM meta WHERE name = 'seal_key'")
        if not found:
            return None
        kept: dict[str, bytes] = dict(
            await self._ask("SELECT name, value FROM meta WHERE name = ANY(%s)", [IDENTITY, MARK])
        )
        if MARK in kept:
            raise CannotOpen("the source was restored and not started since; start a server on it once")
        return Facts(
            seal_key=bytes(found[0][0]),
            next_key=await self._next("queue_key"),
            next_seq=await self._next("message_seq"),
            next_lease=await self._next("lease_block", LEASE_BLOCK),
            next_offset=(await self.spans()).get(0, (0, 0))[1],
            identity=kept.get(IDENTITY),
        )

    async def _next(self, sequence: str, step: int = 1) -> int:
        ((last, called),) = await self._ask(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608 - ours
        return int(last) + step * int(called)

    async def counts(self) -> tuple[int, int]:
        ((messages,),) = await self._ask(
            "SELECT (SELECT count(*) FROM message) + (SELECT coalesce(sum(remaining), 0)::bigint FROM pack)"
        )
        ((events,),) = await self._ask(
            "SELECT coalesce(sum(count), 0)::bigint FROM journal, lane"
            " WHERE start >= oldest AND start < (number::bigint + 1) << 41"
        )
        return messages, events

    async def messages(self, after: str) -> AsyncIterator[Batch]:
        """Packs first, then singles; what nodes change meanwhile, the journal tells."""
        table, _, last = after.partition(":")
        seq = int(last or 0)
        while table != "message":
            before = seq
            batch, seq = await self._packed(before)
            if seq == before:
                table, seq = "message", 0
                break
            yield batch, f"pack:{seq}"
        while True:
            batch, seq = await self._single(seq)
            if not batch:
                return
            yield batch, f"message:{seq}"

    async def _packed(self, after: int) -> tuple[list[DumpedMessage], int]:
        """Messages of some packs, and the key of the last of these."""
        query = f"SELECT {PACK} FROM pack WHERE last > %s ORDER BY last LIMIT {PACKS}"  # noqa: S608 - ours
        async with self._one_moment():
            packs = fitting(to_packs(await self._ask(query, after)))
            return await self._dumped(packs), packs[-1].last if packs else after

    async def _single(self, after: int) -> tuple[list[DumpedMessage], int]:
        query = f"SELECT {SINGLE} FROM message WHERE seq > %s ORDER BY seq LIMIT {STEP}"  # noqa: S608 - ours
        async with self._one_moment():
            singles = fitting(to_singles(await self._ask(query, after)))
            return await self._dumped(singles), singles[-1].seq if singles else after

    @contextlib.asynccontextmanager
    async def _one_moment(self) -> AsyncIterator[None]:
        """One snapshot for rows and what they point to, while nodes go on writing."""
        async with self._db.transaction():
            await self._db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    async def _dumped(self, rows: Sequence[Pack | Single], wanted: Container[int] | None = None) -> list[DumpedMessage]:
        """Messages of these rows, all or those with the wanted seqs; contents are in memory row by row."""
        found: list[DumpedMessage] = []
        with refusing_damage():
            for row in rows:
                if isinstance(row, Pack):
                    messages = dumped_pack(row, await self._loader.load(Content([row])))
                    found += [message for message in messages if wanted is None or message.seq in wanted]
                else:
                    contents = await self._loader.load(Content((), [row]))
                    found.append(dumped(row, contents.body_of(row)))
        return found

    async def named(self, seqs: Sequence[int]) -> AsyncIterator[list[DumpedMessage]]:
        found = await self._loader.load(Named(None, seqs))
        rows: list[Pack | Single] = [*found.packs, *found.singles]
        while some := fitting(rows):
            yield await self._dumped(some, set(seqs))
            rows = rows[len(some) :]

    async def may_be_ready(self, at: int) -> list[int]:
        where = "WHERE state = 0 AND (due_at <= %s OR attempts > 0)"
        seqs = [seq for (seq,) in await self._ask(f"SELECT seq FROM message {where}", at)]  # noqa: S608 - ours
        packs = await self._ask(f"SELECT {PACK} FROM pack {where}", at)  # noqa: S608 - ours
        return [*seqs, *(seq for pack in to_packs(packs) for seq in pack.seqs())]

    async def spans(self) -> dict[int, tuple[int, int]]:
        return {lane: (oldest, following) for lane, oldest, following in await self._ask(Q.lanes, 0, SHARD_LANES - 1)}

    async def journal(self, start: int) -> AsyncIterator[list[DumpedCommit]]:
        end = first_of_lane(lane_of(start) + 1)
        while found := await self._ask(_JOURNAL, start, end, COMMITS, COMMIT_BYTES):
            yield [_commit(*row) for row in found]
            start = found[-1][0] + 1

    async def rows(self, table: str) -> AsyncIterator[Rows]:
        columns, size = TABLES[table], KEYS.get(table, 2)
        key, marks = ", ".join(columns[:size]), ", ".join(["%s"] * size)
        query = f"SELECT {', '.join(columns)} FROM {_TABLES.get(table, table)}"  # noqa: S608 - ours
        end = f"ORDER BY {key} LIMIT {rows_at_once(table)}"
        texts = _TEXTS if table in {"fifo", "dedup"} else set()
        found = await self._ask(f"{query} {end}")
        while found:
            yield [tuple(_plain(name, value, texts) for name, value in zip(columns, row, strict=True)) for row in found]
            found = await self._ask(f"{query} WHERE ({key}) > ({marks}) {end}", *found[-1][:size])

    # -- writing ----------------------------------------------------------------------------------------------

    async def read_note(self) -> Note | None:
        found = await self._meta(NOTE)
        return msgspec.msgpack.decode(found, type=Note) if found else None

    async def write_note(self, note: Note | None) -> None:
        await self._ask("DELETE FROM meta WHERE name = %s", NOTE)
        if note is not None:
            await self._ask("INSERT INTO meta VALUES (%s, %s)", NOTE, encode(note))

    async def put_messages(self, messages: Sequence[DumpedMessage], *, gone: Sequence[int] = ()) -> None:
        leaving = [*gone, *(message.seq for message in messages)]
        async with self._db.transaction():
            for table in ("message", "payload"):
                await self._ask(f"DELETE FROM {table} WHERE seq = ANY (%s::bigint[])", leaving)  # noqa: S608 - ours
            await put_messages(self._db, [(_values(message), message.body) for message in messages])

    async def put_journal(self, commits: Sequence[DumpedCommit]) -> None:
        async with self._db.transaction():
            await self._ask("DELETE FROM journal WHERE start = ANY (%s::bigint[])", [c.start for c in commits])
            async with self._db.cursor().copy(
                b"COPY journal (start, count, at, private, crc, events) FROM STDIN"
            ) as rows:
                for c in commits:
                    await rows.write_row((c.start, c.count, c.at, False, crc32(c.events), c.events))
            for lane in {lane_of(commit.start) for commit in commits}:
                first = min(commit.start for commit in commits if lane_of(commit.start) == lane)
                await self._ask("INSERT INTO lane VALUES (%s, %s) ON CONFLICT DO NOTHING", lane, first)

    async def put_rows(self, table: str, portions: AsyncIterator[Rows]) -> None:
        columns = TABLES[table]
        texts = _TEXTS if table in {"fifo", "dedup"} else set()
        more = {"record": {"version": 1}, "tally": {"lane": NO_OWNER}}.get(table, {})
        async with self._db.transaction():
            await self._db.execute(f"DELETE FROM {table}".encode())  # noqa: S608 - ours
            names = ", ".join((*columns, *more))
            async with self._db.cursor().copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy:
                async for rows in portions:
                    for row in rows:
                        values = [_own(name, value, texts) for name, value in zip(columns, row, strict=True)]
                        await copy.write_row([*values, *more.values()])

    async def put_facts(self, facts: Facts) -> None:
        put = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        block = -(-facts.next_lease // LEASE_BLOCK) * LEASE_BLOCK + 1
        numbers = {
            "queue_key": facts.next_key,
            "message_seq": facts.next_seq,
            "lease_block": block if block <= LAST_LEASE_BLOCK else 1,
        }
        async with self._db.transaction():
            await self._ask(put, "seal_key", facts.seal_key)
            await self._ask(put, "catalog_version", b"1")
            if facts.identity is not None:
                await self._ask(put, IDENTITY, facts.identity)
            for sequence, following in numbers.items():
                await self._ask("SELECT setval(%s, %s, FALSE)", sequence, following)

    async def erase_messages(self) -> None:
        await self._db.execute("TRUNCATE message, pack, payload, journal, lane, retained")

    async def trim_journal(self, *, before: int) -> None:
        lane = lane_of(before)
        async with self._db.transaction():
            await self._ask("DELETE FROM journal WHERE start >= %s AND start < %s", first_of_lane(lane), before)
            put = "INSERT INTO lane VALUES (%s, %s) ON CONFLICT (number) DO UPDATE SET oldest = excluded.oldest"
            await self._ask(put, lane, before)


def _commit(start: int, count: int, at: int, is_private: bool, crc: int, events: bytes) -> DumpedCommit:
    with refusing_damage():
        if not is_intact(events, crc):
            raise Damaged(start=start)
    return DumpedCommit(start, count, at, blanked(events) if is_private else events)


def _values(m: DumpedMessage) -> tuple[Any, ...]:
    group = None if m.group is None else m.group.encode()
    trace = None if m.trace is None else m.trace.encode()
    return (
        m.seq, m.queue, m.state, m.due_at, m.attempts, m.lease_no, m.entered_at, m.discard_at, m.sent_at, m.delay_ms,
        len(m.body), int(m.given), m.id.encode(), m.content_type.encode(),
        encode(m.attributes) if m.attributes else None, group, trace, m.origin, m.death, 0, m.turn,
    )  # fmt: skip


def _plain(name: str, value: Any, texts: set[str]) -> Any:
    if name in texts:
        return bytes(value).decode(errors="surrogateescape")
    if isinstance(value, memoryview):
        return bytes(value)
    return int(value) if isinstance(value, bool) else value


def _own(name: str, value: Any, texts: set[str]) -> Any:
    if name in texts:
        return value.encode(errors="surrogateescape")
    return bool(value) if name == "complete" else value
