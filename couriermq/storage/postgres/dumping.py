"""A store on PostgreSQL as plain facts; see `storage.dump`."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import psycopg

from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import TABLES, Batch, DumpedCommit, DumpedMessage, Facts, Note
from couriermq.storage.postgres import bundles, held
from couriermq.storage.postgres.failures import detail
from couriermq.storage.postgres.identity import IDENTITY, MARK
from couriermq.storage.postgres.link import Connection, connect
from couriermq.storage.postgres.queries import BUNDLE, HELD
from couriermq.storage.postgres.rows import Content, Row, encode
from couriermq.storage.postgres.schema import LIVES, MIGRATION_LOCK, migrate, space_of

STEP = 1_000
COMMITS = 100
_COLUMNS = (
    "seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, given, id, grp, origin, death, content"
)
_TEXTS = {"grp", "dedup_id", "id"}
"""Columns of `fifo` and `dedup` that are bytes here."""
_content = msgspec.msgpack.Decoder(Content).decode


class PostgresDump:
    """A database, read beside running nodes until `hold`; nodes that start from then on wait."""

    def __init__(self, url: str) -> None:
        self._url = url

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
        await self._db.execute("SET enable_seqscan = on; SET enable_hashjoin = on")
        self._space = await space_of(self._db)
        await migrate(self._db, self._space)
        ((shards,),) = await self._ask("SELECT count(*) FROM record WHERE kind = 'shard' AND id <> '0' AND NOT gone")
        if shards or await self._ask("SELECT FROM meta WHERE name = 'shard'"):
            raise CannotOpen("the store is divided into shards; drain all but the home, then migrate that")

    async def close(self) -> None:
        await self._db.close()

    async def hold(self) -> bool:
        await self._db.execute("SELECT pg_advisory_lock(%s, %s)", (self._space, MIGRATION_LOCK))
        ((lives,),) = await self._ask(LIVES, self._space & 0xFFFFFFFF)
        if lives:
            await self._db.execute("SELECT pg_advisory_unlock(%s, %s)", (self._space, MIGRATION_LOCK))
        return not lives

    async def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return await (await self._db.execute(sql.encode(), values, binary=True)).fetchall()

    # -- reading ----------------------------------------------------------------------------------------------

    async def facts(self) -> Facts | None:
        found = await self._ask("SELECT value FROM meta WHERE name = 'seal_key'")
        if not found:
            return None
        next_key, next_seq = [await self._next(name) for name in ("queue_key", "message_seq")]
        kept = dict(await self._ask("SELECT name, value FROM meta WHERE name = ANY(%s)", [IDENTITY, MARK]))
        if MARK in kept:
            raise CannotOpen("the source was restored and not started since; start a server on it once")
        identity: bytes | None = kept.get(IDENTITY)
        return Facts(seal_key=bytes(found[0][0]), next_key=next_key, next_seq=next_seq, identity=identity)

    async def _next(self, sequence: str) -> int:
        ((last, called),) = await self._ask(f"SELECT last_value, is_called FROM {sequence}")  # noqa: S608 - ours
        return int(last) + int(called)

    async def counts(self) -> tuple[int, int]:
        ((messages,),) = await self._ask(
            "SELECT (SELECT count(*) FROM message) + (SELECT coalesce(sum(count), 0)::bigint FROM bundle)"
            " + (SELECT coalesce(sum(count), 0)::bigint FROM held)"
        )
        ((events,),) = await self._ask("SELECT coalesce(sum(count), 0)::bigint FROM journal")
        return messages, events

    async def messages(self, after: str) -> AsyncIterator[Batch]:
        """Single messages first, then those that share a row: one that moves meanwhile has an event to be found by."""
        kind, _, place = (after or "m:0").partition(":")
        last = int(place) if kind == "m" else 0
        query = f"SELECT {_COLUMNS} FROM message WHERE seq > %s ORDER BY seq LIMIT %s"  # noqa: S608 - ours
        while kind == "m" and (found := await self._ask(query, last, STEP)):
            last = found[-1][0]
            yield [_message(*row) for row in found], f"m:{last}"
        queue, seq = map(int, place.split("-")) if kind == "b" else (-(2**31), 0)
        while kind != "h" and (found := await self._bundles(queue, seq)):
            queue, seq = found[-1][:2]
            yield [_packed(row) for facts in found for row in bundles.unpack(*facts)], f"b:{queue}-{seq}"
        queue, number = map(int, place.split("-")) if kind == "h" else (-(2**31), 0)
        while found := await self._held(queue, number):
            queue, number = found[-1][:2]
            yield [_packed(row) for facts in found for row in held.unpack(*facts)], f"h:{queue}-{number}"

    async def _held(self, queue: int, number: int) -> list[tuple[Any, ...]]:
        query = f"SELECT {HELD} FROM held WHERE (lease_no, queue) > (%s, %s) ORDER BY lease_no, queue LIMIT %s"  # noqa: S608
        return await self._ask(query, number, queue, STEP // 10)

    async def _bundles(self, queue: int, seq: int) -> list[tuple[Any, ...]]:
        query = f"SELECT {BUNDLE} FROM bundle WHERE (queue, seq) > (%s, %s) ORDER BY queue, seq LIMIT %s"  # noqa: S608
        return await self._ask(query, queue, seq, STEP // 10)

    async def named(self, seqs: Sequence[int]) -> list[DumpedMessage]:
        chosen = list(seqs)
        query = f"SELECT {_COLUMNS} FROM message WHERE seq = ANY (%s::bigint[])"  # noqa: S608 - ours
        found = [_message(*row) for row in await self._ask(query, chosen)]
        left = set(chosen) - {message.seq for message in found}
        if left:
            query = f"SELECT {BUNDLE} FROM bundle WHERE last >= %s AND seq <= %s"  # noqa: S608 - ours
            for facts in await self._ask(query, min(left), max(left)):
                found += [_packed(row) for row in bundles.unpack(*facts) if row.seq in left]
            query = f"SELECT {HELD} FROM held WHERE last >= %s AND seq <= %s"  # noqa: S608 - ours
            for facts in await self._ask(query, min(left), max(left)):
                found += [_packed(row) for row in held.unpack(*facts) if row.seq in left]
        return found

    async def delayed_until(self, at: int) -> list[int]:
        return [seq for (seq,) in await self._ask("SELECT seq FROM message WHERE state = 0 AND due_at <= %s", at)]

    async def journal(self, start: int) -> AsyncIterator[list[DumpedCommit]]:
        query = "SELECT start, count, at, events FROM journal WHERE start >= %s ORDER BY start LIMIT %s"
        while found := await self._ask(query, start, COMMITS):
            yield [DumpedCommit(first, count, at, bytes(events)) for first, count, at, events in found]
            start = found[-1][0] + 1

    async def oldest_offset(self) -> int:
        ((found,),) = await self._ask("SELECT coalesce(min(start), 0) FROM journal")
        return int(found)

    async def next_offset(self) -> int:
        ((found,),) = await self._ask("SELECT coalesce(max(start + count), 0) FROM journal")
        return int(found)

    async def rows(self, table: str) -> list[tuple[Any, ...]]:
        columns = TABLES[table]
        where = {
            "record": "WHERE NOT gone",
            "tally": "WHERE version = (SELECT max(version) FROM tally AS other WHERE other.queue = tally.queue)",
        }.get(table, "")
        found = await self._ask(f"SELECT {', '.join(columns)} FROM {table} {where}")  # noqa: S608 - ours
        texts = _TEXTS if table in {"fifo", "dedup"} else set()
        return [tuple(_plain(name, value, texts) for name, value in zip(columns, row, strict=True)) for row in found]

    # -- writing ----------------------------------------------------------------------------------------------

    async def read_note(self) -> Note | None:
        found = await self._ask("SELECT value FROM meta WHERE name = 'migration'")
        return msgspec.msgpack.decode(bytes(found[0][0]), type=Note) if found else None

    async def write_note(self, note: Note | None) -> None:
        await self._db.execute("DELETE FROM meta WHERE name = 'migration'")
        if note is not None:
            await self._db.execute("INSERT INTO meta VALUES ('migration', %s)", (encode(note),))

    async def put_messages(self, messages: Sequence[DumpedMessage], *, gone: Sequence[int] = ()) -> None:
        leaving = [*gone, *(message.seq for message in messages)]
        async with self._db.transaction():
            await self._db.execute("DELETE FROM message WHERE seq = ANY (%s::bigint[])", (leaving,))
            names = f"{_COLUMNS}, size"
            async with self._db.cursor().copy(f"COPY message ({names}) FROM STDIN".encode()) as rows:
                for message in messages:
                    await rows.write_row(_values(message))

    async def put_journal(self, commits: Sequence[DumpedCommit], *, next_seq: int) -> None:
        async with self._db.transaction():
            await self._db.execute(
                "DELETE FROM journal WHERE start = ANY (%s::bigint[])", ([c.start for c in commits],)
            )
            async with self._db.cursor().copy(b"COPY journal (start, count, at, size, events) FROM STDIN") as rows:
                for c in commits:
                    await rows.write_row((c.start, c.count, c.at, len(c.events), c.events))

    async def put_rows(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        columns = TABLES[table]
        texts = _TEXTS if table in {"fifo", "dedup"} else set()
        version = ("version",) if table == "record" else ()
        async with self._db.transaction():
            await self._db.execute(f"DELETE FROM {table}".encode())  # noqa: S608 - ours
            names = ", ".join((*columns, *version))
            async with self._db.cursor().copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy:
                for row in rows:
                    values = [_own(name, value, texts) for name, value in zip(columns, row, strict=True)]
                    await copy.write_row([*values, *(1 for _ in version)])

    async def put_facts(self, facts: Facts) -> None:
        put = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        async with self._db.transaction():
            await self._db.execute(put, ("seal_key", facts.seal_key))
            await self._db.execute(put, ("catalog_version", b"1"))
            if facts.identity is not None:
                await self._db.execute(put, (IDENTITY, facts.identity))
            for sequence, following in (("queue_key", facts.next_key), ("message_seq", facts.next_seq)):
                await self._db.execute("SELECT setval(%s, %s, FALSE)", (sequence, following))

    async def erase_messages(self) -> None:
        await self._db.execute("TRUNCATE message, bundle, held, journal")

    async def trim_journal(self, *, before: int) -> None:
        await self._db.execute("DELETE FROM journal WHERE start < %s", (before,))


def _message(
    seq: int, queue: int, state: int, due_at: int, attempts: int, lease_no: int, entered_at: int,
    discard_at: int | None, given: bool, id_: bytes, grp: bytes | None, origin: int | None, death: bytes | None,
    content: bytes,
) -> DumpedMessage:  # fmt: skip
    held = _content(content)
    return DumpedMessage(
        seq, queue, state, due_at, attempts, lease_no, entered_at, discard_at, held.sent_at, held.delay_ms, given,
        bytes(id_).decode(), held.content_type, held.attributes, None if grp is None else bytes(grp).decode(),
        held.trace, origin, None if death is None else bytes(death), held.body,
    )  # fmt: skip


def _packed(row: Row) -> DumpedMessage:
    assert row.content is not None
    return _message(
        row.seq, row.queue, int(row.state), row.due_at, row.attempts, row.lease_no, row.entered_at, None, False,
        row.id.encode(), row.grp, None, None, row.content,
    )  # fmt: skip


def _values(m: DumpedMessage) -> tuple[Any, ...]:
    content = Content(m.body, m.content_type, m.sent_at, m.delay_ms, m.attributes, m.trace)
    group = None if m.group is None else m.group.encode()
    return (
        m.seq, m.queue, m.state, m.due_at, m.attempts, m.lease_no, m.entered_at, m.discard_at, m.given, m.id.encode(),
        group, m.origin, m.death, encode(content), len(m.body),
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
