"""Looking after a store: is it sound, make a copy, bring a copy back. Works beside running nodes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
import psycopg

from couriermq.core.model import UNENDING
from couriermq.core.sharding import Shard
from couriermq.core.shards import OUTBOX
from couriermq.durable import appear, make_folder, sync
from couriermq.storage.base import CannotOpen
from couriermq.storage.checking import (
    OLDER,
    Findings,
    JournalCheck,
    PackCheck,
    added_up,
    body_findings,
    claim_findings,
    fifo_keys,
    group_findings,
    journal_findings,
    quarantine_findings,
    tally_findings,
)
from couriermq.storage.contents import is_intact
from couriermq.storage.postgres.connection import (
    LIVES,
    MIGRATION_LOCK,
    Connection,
    connect,
    has_table,
    migrate,
    migrations,
    space_of,
    version_of,
)
from couriermq.storage.postgres.facts import PACK, to_pack
from couriermq.storage.postgres.failures import detail
from couriermq.storage.postgres.identity import mark
from couriermq.storage.postgres.identity import read as read_identity

TABLES = (
    "meta",
    "record",
    "pack",
    "message",
    "payload",
    "journal",
    "lane",
    "retained",
    "quarantine",
    "tally",
    "fifo",
    "dedup",
    "job",
    "claim",
    "claim_part",
    "stage",
    "publication",
)
SEQUENCES = ("queue_key", "message_seq", "lease_block")
VERSION_FILE = "schema_version"
RESTORED = "the data was restored from a backup"

_ONE_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COUNTED = """
SELECT queue, count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 0), count(*) FILTER (WHERE state = 2),
       sum(size)::bigint FROM message GROUP BY queue
UNION ALL
SELECT queue, coalesce(sum(remaining) FILTER (WHERE state = 1), 0)::bigint,
       coalesce(sum(remaining) FILTER (WHERE state = 0), 0)::bigint,
       coalesce(sum(remaining) FILTER (WHERE state = 2), 0)::bigint, sum(bytes)::bigint FROM pack GROUP BY queue
"""
_STRAY_TALLIES = """
SELECT queue, lane FROM tally LEFT JOIN lane ON number = lane
GROUP BY queue, lane HAVING count(*) > 1 OR (lane >= 0 AND count(number) = 0) ORDER BY queue, lane LIMIT 20
"""
_BODIES = """
SELECT (SELECT count(*) FROM message LEFT JOIN payload USING (seq)
        WHERE message.start IS NULL AND payload.seq IS NULL)
     + (SELECT count(*) FROM message LEFT JOIN journal USING (start)
        WHERE message.start IS NOT NULL AND journal.start IS NULL)
     + (SELECT coalesce(sum(remaining), 0)::bigint FROM pack LEFT JOIN journal USING (start)
        WHERE journal.start IS NULL),
       (SELECT count(*) FROM payload LEFT JOIN message USING (seq)
        WHERE message.seq IS NULL OR message.start IS NOT NULL)
"""
_WAITING = "SELECT start FROM message WHERE start = ANY (%s) UNION SELECT start FROM pack WHERE start = ANY (%s)"
"""Which of these rows of the journal messages wait in."""
_GROUPS = """
SELECT count(*) FROM (SELECT queue, grp, head, leased FROM fifo WHERE queue < %s) AS kept FULL JOIN (
    SELECT queue, grp, min(seq) AS head, count(*) FILTER (WHERE state = 2) AS leased
    FROM message WHERE queue = ANY (%s) GROUP BY queue, grp
) AS held USING (queue, grp)
WHERE held.head IS DISTINCT FROM kept.head OR held.leased IS DISTINCT FROM kept.leased
"""


# -- is it sound --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Connection]:
    try:
        connection = await connect(url)
    except psycopg.Error as error:
        raise CannotOpen(f"the database cannot be opened: {detail(error, url)}") from error
    try:
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Connection]:
    """A connection for somebody who is no node; raises CannotOpen where there is nothing to look after."""
    async with _connected(url) as connection:
        if await _rows(connection, "SELECT to_regclass('journal') IS NOT NULL") != [(True,)]:
            raise CannotOpen("the database holds no data of Courier; `courier serve` with this store makes it")
        yield connection


async def shards(connection: Connection) -> list[Shard]:
    """The databases of the store that this home has noted."""
    rows = await _rows(connection, "SELECT document FROM record WHERE kind = 'shard' AND NOT gone")
    return [msgspec.msgpack.decode(document, type=Shard) for (document,) in rows]


async def check(connection: Connection) -> list[str]:
    """Every sign of damage, one sentence each; none means that no damage was found."""
    return (await examine(connection)).all_damage


async def examine(connection: Connection) -> Findings:
    """Every sign of damage, and what was not looked at."""
    present, newest = await version_of(connection), migrations()[-1][0]
    if present > newest:
        wrong = f"the schema is version {present}, newer than this Courier knows ({newest}); upgrade Courier"
        return Findings(damage=[wrong])
    if present < newest:  # the tables are those of an earlier version, until this one opens it
        return Findings(not_checked=[OLDER])
    await connection.execute(_ONE_MOMENT)  # one snapshot for all checks, while nodes go on writing
    try:
        for setting in ("enable_seqscan", "enable_hashjoin"):
            await connection.execute(f"SET LOCAL {setting} = on".encode())
        looks = (_tallies, _packs, _bodies, _groups, _claims)
        damage = [finding for look in looks for finding in await look(connection)]
        return Findings(damage=damage) + await _journal(connection) + await _quarantine(connection)
    finally:
        await connection.execute("ROLLBACK")


async def _rows(connection: Connection, sql: str, *values: Any) -> list[tuple[Any, ...]]:
    return await (await connection.execute(sql.encode(), values, binary=True)).fetchall()


async def _stream(connection: Connection, sql: str) -> AsyncIterator[tuple[Any, ...]]:
    """Rows of a table that may not fit into memory."""
    async with connection.cursor("check", binary=True) as cursor:
        cursor.itersize = 20
        await cursor.execute(sql.encode())
        async for row in cursor:
            yield row


async def _tallies(connection: Connection) -> list[str]:
    if strays := await _rows(connection, _STRAY_TALLIES):
        return [f"the figures of queue {queue} have a row too many for lane {lane}" for queue, lane in strays]
    stored = await _rows(connection, "SELECT queue, ready, delayed, leased, bytes FROM tally")
    return tally_findings(added_up(stored), added_up(await _rows(connection, _COUNTED)))


async def _packs(connection: Connection) -> list[str]:
    check = PackCheck()
    async for row in _stream(connection, f"SELECT {PACK} FROM pack ORDER BY last"):  # noqa: S608 - ours
        check.add(to_pack(row))
    return check.findings


async def _bodies(connection: Connection) -> list[str]:
    """Messages whose bodies are not there or are damaged, and bodies that belong to no message."""
    ((missing, orphaned),) = await _rows(connection, _BODIES)
    damaged = 0
    async for body, crc in _stream(connection, "SELECT body, crc FROM payload"):
        damaged += crc32(body) != crc
    return body_findings(missing=missing, damaged=damaged, orphaned=orphaned)


async def _groups(connection: Connection) -> list[str]:
    documents = await _rows(
        connection, "SELECT document FROM record WHERE kind = 'doomed' OR (kind = 'queue' AND NOT gone)"
    )
    ((wrong,),) = await _rows(connection, _GROUPS, OUTBOX, fifo_keys(document for (document,) in documents))
    return group_findings(wrong)


async def _claims(connection: Connection) -> list[str]:
    parts = await _rows(connection, "SELECT seqs FROM claim_part")
    seqs = await _rows(connection, "SELECT seq FROM message WHERE state = 2 AND due_at = %s", UNENDING)
    packs = await _rows(connection, f"SELECT {PACK} FROM pack WHERE state = 2 AND due_at = %s", UNENDING)  # noqa: S608
    return claim_findings([part for (part,) in parts], [seq for (seq,) in seqs], map(to_pack, packs))


async def _journal(connection: Connection) -> Findings:
    identity = await read_identity(connection)
    oldest = dict(await _rows(connection, "SELECT number, oldest FROM lane"))
    check = JournalCheck(oldest, () if identity is None else identity.jumps)
    async for start, count, crc, events in _stream(
        connection, "SELECT start, count, crc, events FROM journal ORDER BY start"
    ):
        check.add(start, count, events, is_sound=is_intact(events, crc))
    waiting = await _rows(connection, _WAITING, check.damaged, check.damaged) if check.damaged else []
    return journal_findings([check], {start for (start,) in waiting})


async def _quarantine(connection: Connection) -> Findings:
    found = await _rows(connection, "SELECT queue, sum(count)::bigint FROM quarantine GROUP BY queue ORDER BY queue")
    return Findings(set_aside=quarantine_findings([(queue, count) for queue, count in found]))


# -- copies -------------------------------------------------------------------------------------------------------


async def backup(connection: Connection, target: Path) -> None:
    """Write a consistent copy, a file a table, into a new directory while the nodes go on working.

    The file with the version comes last, when all others are on disk: without it there is no backup.
    """
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
    await asyncio.to_thread(sync, target)
    await asyncio.to_thread(appear, target / VERSION_FILE, lambda draft: draft.write_text(f"{version}\n"))


def _make_empty(target: Path) -> None:
    if target.exists() and any(target.iterdir()):
        raise CannotOpen(f"{target} is not empty; choose a new directory for the backup")
    make_folder(target, mode=0o700)


async def _copy_out(connection: Connection, query: str, path: Path) -> None:
    with path.open("wb") as file:
        async with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT".encode()) as rows:
            async for block in rows:
                file.write(block)
    await asyncio.to_thread(sync, path)


async def restore(url: str, source: Path, look_at: Callable[[list[Shard]], Awaitable[None]] | None = None) -> None:
    """Put a backup into an empty store; no node may be running on it.

    What is put in is undone where `look_at`, which is given the shards that the backup knows of, raises an error.
    """
    _refuse_other_version(source)
    async with _connected(url) as connection:
        await _refuse_data(connection)
        await migrate(connection, await space_of(connection))
        async with connection.transaction():
            await _refuse_data(connection)
            await _copy_in(connection, source)
            await mark(connection, RESTORED)
            if look_at is not None:
                await look_at(await shards(connection))
            await _set_sequences(connection, source)  # no transaction undoes this


async def look_at_target(url: str, source: Path) -> None:
    """Raise CannotOpen where a restore would; changes nothing."""
    _refuse_other_version(source)
    async with _connected(url) as connection:
        await _refuse_data(connection)


def _refuse_other_version(source: Path) -> None:
    if not (source / VERSION_FILE).exists():
        raise CannotOpen(f"{source} holds no backup of a PostgreSQL store")
    if int((source / VERSION_FILE).read_text()) != migrations()[-1][0]:
        raise CannotOpen(f"the backup in {source} was made by another version of Courier; restore it with that one")


async def _refuse_data(connection: Connection) -> None:
    """Whichever version has written it; an empty database has no tables."""
    for table in TABLES:
        if not await has_table(connection, table):
            continue
        if await _rows(connection, f"SELECT FROM {table} LIMIT 1"):
            raise CannotOpen("the store already holds data; restore into an empty one")


async def begin_incarnation(url: str, *, reason: str) -> None:
    """Have the next start begin a new incarnation; raises CannotOpen while a node is running."""
    async with opened(url) as connection:
        space = await space_of(connection)
        await connection.execute("SELECT pg_advisory_lock(%s::int, %s::int)", (space, MIGRATION_LOCK))  # others wait
        ((is_served,),) = await (await connection.execute(LIVES, (space & 0xFFFFFFFF,))).fetchall()
        if is_served:
            raise CannotOpen("a node is running on the database; stop all nodes first")
        await mark(connection, reason)


async def _copy_in(connection: Connection, source: Path) -> None:
    for table in TABLES:
        async with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as rows:
            with (source / table).open("rb") as file:
                while block := file.read(1 << 20):
                    await rows.write(block)


async def _set_sequences(connection: Connection, source: Path) -> None:
    for sequence in SEQUENCES:
        last, called = (source / sequence).read_text().split()
        await connection.execute("SELECT setval(%s, %s, %s)", (sequence, int(last), called == "t"))
