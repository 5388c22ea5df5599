"""Looking after a store: is it sound, make a copy, bring a copy back. Works beside running nodes."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import psycopg

from couriermq.core.model import UNENDING, Kind, Queue
from couriermq.core.sharding import Shard
from couriermq.core.shards import OUTBOX
from couriermq.storage.base import CannotOpen
from couriermq.storage.checking import commit_finding
from couriermq.storage.postgres import bundles, held
from couriermq.storage.postgres.failures import detail
from couriermq.storage.postgres.identity import mark
from couriermq.storage.postgres.identity import read as read_identity
from couriermq.storage.postgres.link import Connection, connect
from couriermq.storage.postgres.queries import BUNDLE, HELD
from couriermq.storage.postgres.rows import Row
from couriermq.storage.postgres.schema import LIVES, MIGRATION_LOCK, migrate, migrations, space_of, version_of

TABLES = (
    "meta",
    "record",
    "message",
    "bundle",
    "held",
    "tally",
    "fifo",
    "dedup",
    "journal",
    "job",
    "claim",
    "claim_part",
    "stage",
    "publication",
)
SEQUENCES = ("queue_key", "message_seq")
VERSION_FILE = "schema_version"
RESTORED = "the data was restored from a backup"
UNREADABLE = (msgspec.DecodeError, struct.error, ValueError, IndexError)

_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


# -- is it sound --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Connection]:
    """A connection for somebody who is no node; raises CannotOpen where there is nothing to look after."""
    try:
        connection = await connect(url)
    except psycopg.Error as error:
        raise CannotOpen(f"the database cannot be opened: {detail(error, url)}") from error
    try:
        found = await (await connection.execute("SELECT to_regclass('journal') IS NOT NULL")).fetchall()
        if found != [(True,)]:
            raise CannotOpen("the database holds no data of Courier; `courier serve` with this store makes it")
        yield connection
    finally:
        await connection.close()


async def shards(connection: Connection) -> list[Shard]:
    """The databases of the store that this home has noted."""
    rows = await connection.execute("SELECT document FROM record WHERE kind = 'shard' AND NOT gone")
    return [msgspec.msgpack.decode(document, type=Shard) for (document,) in await rows.fetchall()]


async def check(connection: Connection) -> list[str]:
    """Every sign of damage, one sentence each; none means sound."""
    present, newest = await version_of(connection), migrations()[-1][0]
    if present > newest:
        return [f"the schema is version {present}, newer than this Courier knows ({newest}); upgrade Courier"]
    await connection.execute(_ONE_MOMENT)  # for all the looks, whatever the nodes do meanwhile
    try:
        await connection.execute("SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on")
        looks = (_tallies, _bundles, _held, _groups, _claims, _journal)
        return [finding for look in looks for finding in await look(connection)]
    finally:
        await connection.execute("ROLLBACK")


async def _tallies(connection: Connection) -> list[str]:
    counted = await _by_queue(
        connection,
        "SELECT queue, sum(ready)::bigint, sum(delayed)::bigint, sum(leased)::bigint, sum(bytes)::bigint FROM ("
        " SELECT queue, (state = 1)::int AS ready, (state = 0)::int AS delayed, (state = 2)::int AS leased,"
        " size AS bytes FROM message UNION ALL SELECT queue, count, 0, 0, bytes FROM bundle"
        " UNION ALL SELECT queue, 0, 0, count, bytes FROM held) AS present GROUP BY queue",
    )
    stored = await _by_queue(
        connection,
        "SELECT DISTINCT ON (queue) queue, ready, delayed, leased, bytes FROM tally ORDER BY queue, version DESC",
    )
    none = [0, 0, 0, 0]
    return [
        f"queue {key} counts {stored.get(key, none)} (ready, delayed, leased, bytes) but holds {counted.get(key, none)}"
        for key in sorted(counted.keys() | stored.keys())
        if stored.get(key, none) != counted.get(key, none)
    ]


async def _by_queue(connection: Connection, sql: str) -> dict[int, list[int]]:
    return {key: figures for key, *figures in await (await connection.execute(sql.encode())).fetchall()}


async def _bundles(connection: Connection) -> list[str]:
    async with connection.cursor("bundle_check", binary=True) as cursor:
        await cursor.execute(f"SELECT seq, last, count, bytes, {BUNDLE} FROM bundle".encode())  # noqa: S608 - ours
        async for first, last, count, size, queue, seq, *packed in cursor:
            try:
                rows = bundles.unpack(queue, seq, *packed)
            except UNREADABLE:
                return [f"the bundle of queue {queue} at seq {seq} cannot be read"]
            if _span(rows) != (first, last, count, size):
                return [f"the bundle of queue {queue} at seq {seq} does not hold what it says"]
    return []


async def _held(connection: Connection) -> list[str]:
    async with connection.cursor("held_check", binary=True) as cursor:
        await cursor.execute(f"SELECT seq, last, count, bytes, {HELD} FROM held".encode())  # noqa: S608 - ours
        async for first, last, count, size, queue, lease_no, *packed in cursor:
            where = f"what queue {queue} has leased under {lease_no}"
            try:
                rows = held.unpack(queue, lease_no, *packed)
            except UNREADABLE:
                return [f"{where} cannot be read"]
            if _span(rows) != (first, last, count, size):
                return [f"{where} is not what it says"]
    return []


def _span(rows: Sequence[Row]) -> tuple[int, int, int, int]:
    seqs = [row.seq for row in rows]
    return min(seqs), max(seqs), len(seqs), sum(row.size for row in rows)


async def _groups(connection: Connection) -> list[str]:
    documents = await connection.execute(
        "SELECT document FROM record WHERE kind = 'doomed' OR (kind = 'queue' AND NOT gone)"
    )
    queues = [msgspec.msgpack.decode(document, type=Queue) for (document,) in await documents.fetchall()]
    fifo = [queue.key for queue in queues if queue.kind is Kind.FIFO]
    found = await connection.execute(
        """
        SELECT count(*) FROM (SELECT queue, grp, head, leased FROM fifo WHERE queue < %s) AS kept FULL JOIN (
            SELECT queue, grp, min(seq) AS head, count(*) FILTER (WHERE state = 2) AS leased
            FROM message WHERE queue = ANY (%s) GROUP BY queue, grp
        ) AS held USING (queue, grp)
        WHERE held.head IS DISTINCT FROM kept.head OR held.leased IS DISTINCT FROM kept.leased
        """,
        (OUTBOX, fifo),
    )
    ((wrong,),) = await found.fetchall()
    return [f"{wrong} FIFO groups do not agree with their messages"] if wrong else []


async def _claims(connection: Connection) -> list[str]:
    """A message that is leased without end and belongs to no claim would never come back."""
    parts = await connection.execute("SELECT seqs FROM claim_part")
    held = {seq for (blob,) in await parts.fetchall() for seq in msgspec.msgpack.decode(blob, type=list[int])}
    rows = await connection.execute("SELECT seq FROM message WHERE state = 2 AND due_at = %s", (UNENDING,))
    lost = len({seq for (seq,) in await rows.fetchall()} - held)
    return [f"{lost} messages are held by a claim that is not there"] if lost else []


async def _journal(connection: Connection) -> list[str]:
    expected, identity = None, await read_identity(connection)
    jumps = {} if identity is None else {jump.end: jump.first for jump in identity.jumps}
    async with connection.cursor("journal_check", binary=True) as cursor:
        await cursor.execute("SELECT start, count, events FROM journal ORDER BY start")
        async for start, count, blob in cursor:
            if wrong := commit_finding(expected, start, count, blob):
                return [wrong]
            expected = jumps.get(start + count, start + count)
    return []


# -- copies -------------------------------------------------------------------------------------------------------


async def backup(connection: Connection, target: Path) -> None:
    """Write a consistent copy, a file a table, into a new directory while the nodes go on working."""
    await asyncio.to_thread(_make_empty, target)
    version = await version_of(connection)
    await connection.execute(_ONE_MOMENT)
    try:
        for table in TABLES:
            await _copy_out(connection, f"TABLE {table}", target / table)
        for sequence in SEQUENCES:
            await _copy_out(connection, f"SELECT last_value, is_called FROM {sequence}", target / sequence)  # noqa: S608
    finally:
        await connection.execute("ROLLBACK")
    await asyncio.to_thread((target / VERSION_FILE).write_text, f"{version}\n")


def _make_empty(target: Path) -> None:
    if target.exists() and any(target.iterdir()):
        raise CannotOpen(f"{target} is not empty; choose a new directory for the backup")
    target.mkdir(parents=True, exist_ok=True, mode=0o700)


async def _copy_out(connection: Connection, query: str, path: Path) -> None:
    with path.open("wb") as file:
        async with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT".encode()) as rows:
            async for block in rows:
                file.write(block)


async def restore(url: str, source: Path) -> None:
    """Put a backup into an empty store; no node may be running on it."""
    if not (source / VERSION_FILE).exists():
        raise CannotOpen(f"{source} holds no backup of a PostgreSQL store")
    connection = await connect(url)
    try:
        await migrate(connection, await space_of(connection))
        if int((source / VERSION_FILE).read_text()) != await version_of(connection):
            raise CannotOpen(f"the backup in {source} was made by another version of Courier; restore it with that one")
        async with connection.transaction():
            await _copy_in(connection, source)
            await mark(connection, RESTORED)
    finally:
        await connection.close()


async def begin_incarnation(url: str, *, reason: str) -> None:
    """Have the next start begin a new incarnation; raises CannotOpen while a node is running."""
    async with opened(url) as connection:
        space = await space_of(connection)
        await connection.execute("SELECT pg_advisory_lock(%s, %s)", (space, MIGRATION_LOCK))  # a node that starts waits
        ((is_served,),) = await (await connection.execute(LIVES, (space & 0xFFFFFFFF,))).fetchall()
        if is_served:
            raise CannotOpen("a node is running on the database; stop all nodes first")
        await mark(connection, reason)


async def _copy_in(connection: Connection, source: Path) -> None:
    for table in TABLES:
        (count,) = await (await connection.execute(f"SELECT count(*) FROM {table}".encode())).fetchone() or (0,)  # noqa: S608
        if count:
            raise CannotOpen("the store already holds data; restore into an empty one")
        async with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as rows:
            with (source / table).open("rb") as file:
                while block := file.read(1 << 20):
                    await rows.write(block)
    await connection.execute(
        "SELECT setval(pg_get_serial_sequence('tally', 'version'), (SELECT max(version) + 1 FROM tally))"
    )
    for sequence in SEQUENCES:
        last, called = (source / sequence).read_text().split()
        await connection.execute("SELECT setval(%s, %s, %s)", (sequence, int(last), called == "t"))
