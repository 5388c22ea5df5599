"""Connections: how they are made, what is asked over them in one round trip, the pool, and the schema."""

import asyncio
import contextlib
import logging
import re
import select
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeGuard

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import Diagnostic, error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import AsyncRowFactory, tuple_row

from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres.failures import refusal
from couriermq.storage.postgres.migrations.conversion import CONVERTED, convert

if TYPE_CHECKING:
    from couriermq.storage.postgres.identity import Guard

OLDEST_VERSION = 150_000
DEFAULTS: dict[str, Any] = {
    "application_name": "courier",
    "connect_timeout": 5,
    # A standby is behind the truth: no decision is ever taken on one.
    "target_session_attrs": "read-write",
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
SETTINGS = """
SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_material = off; SET enable_memoize = off;
SET plan_cache_mode = force_generic_plan; SET jit = off;
SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;
SET tcp_user_timeout = '10s';
SET idle_in_transaction_session_timeout = '15s'; SET lock_timeout = '10s';
"""
"""A queue is empty one minute and full the next: what the planner believes about its size is always out of date, so it
may only use indexes. A node that falls silent in the middle of a transaction must not hold its locks for long."""

APPLICATION_NAME_SIZE = 50
"""PostgreSQL cuts names at 63 bytes; that of the node stands at the end."""
POOL_SIZE = 4
STATEMENTS = 500
"""Statements that a connection keeps prepared."""
ENCODING = "utf-8"
STANDBY_WAIT = "SyncRepWaitForLSN"
"""The function of the server that warns when somebody cancels a wait for a synchronous standby. The name is not
translated, as the text is, and the SQLSTATE is that of any warning."""
FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED)
MIGRATION_LOCK = -4
STEP_PAUSE_SECONDS = 2.0
"""The pause after a step of the schema that did not get its locks."""
LIVES = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid::bigint = %s AND objsubid = 2"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid())"
)
"""Whether a node runs on the store with this number: it holds advisory locks."""
FOLDER: Traversable = files(__package__).joinpath("migrations")
_VERSION = re.compile(r"\d+")
_BYTEA = 17
_head = struct.Struct(">iiIii").pack
_length = struct.Struct(">i").pack
_NULL = _length(-1)

logging.getLogger("psycopg").setLevel(logging.ERROR)  # it warns of lost connections; the error is raised, too

log = logging.getLogger(__name__)

Rows = list[tuple[Any, ...]]
Step = tuple[str, Sequence[Any]]
"""A statement and its parameters."""
COMMIT: Step = ("COMMIT", ())
Call = tuple[str, list[bytes | None], list[Format]]
"""The same as libpq takes them."""


# -- parameters ---------------------------------------------------------------------------------------------------


def numbers(values: Iterable[int | None]) -> str:
    """An array of numbers as PostgreSQL reads it from text."""
    return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"


def blobs(values: Iterable[bytes | None]) -> bytes:
    """An array of byte strings in PostgreSQL's binary form."""
    listed = list(values)
    if not listed:
        return _head(0, 0, _BYTEA, 0, 0)[:12]
    parts = [_head(1, 1, _BYTEA, len(listed), 1)]
    for value in listed:
        parts += (_NULL,) if value is None else (_length(len(value)), value)
    return b"".join(parts)


# -- connections --------------------------------------------------------------------------------------------------


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A session that knows which statements `ask` has prepared in it."""

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.statements: dict[str, bytes] = {}
        self.is_unreplicated = False
        """Whether one of the last answers came before the synchronous standbys had what was committed."""
        self._names = count()
        self._loader = Transformer(self)
        self.add_notice_handler(self._note)

    def _note(self, notice: Diagnostic) -> None:
        self.is_unreplicated |= notice.source_function == STANDBY_WAIT

    def new_statement(self, sql: str) -> bytes:
        """A name for it; without one it is prepared for this once."""
        if len(self.statements) >= STATEMENTS:
            return b""
        name = self.statements[sql] = b"courier_%d" % next(self._names)
        return name

    def rows_of(self, result: PGresult) -> Rows:
        if result.status != ExecStatus.TUPLES_OK:
            return []
        self._loader.set_pgresult(result)
        rows: Rows = self._loader.load_rows(0, result.ntuples, tuple)
        self._loader.set_pgresult(None)
        return rows


async def connect(url: str, guard: "Guard | None" = None) -> Connection:
    """A connection that commits only when told to; those of a node have a guard look at the database first."""
    given = {key: value for key, value in conninfo_to_dict(url).items() if value is not None}
    where: dict[str, Any] = {**DEFAULTS, **given, "client_encoding": ENCODING}
    if guard is not None:
        where["application_name"] = f"{where['application_name'][:APPLICATION_NAME_SIZE]} {guard.node}"
    connection = await Connection.connect(**where, autocommit=True, prepare_threshold=None)
    try:
        if connection.info.server_version < OLDEST_VERSION:
            raise CannotOpen(f"PostgreSQL {connection.info.server_version // 10_000} is too old; 15 is the oldest")
        await connection.execute(SETTINGS, prepare=False)
        if guard is not None:
            await guard.check(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


def is_usable(connection: Connection | None) -> TypeGuard[Connection]:
    """Whether a connection that lay idle is still there: the server says nothing unasked but farewell."""
    if connection is None or connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


# -- asking -------------------------------------------------------------------------------------------------------


async def ask(connection: Connection, steps: Sequence[Step]) -> list[Rows]:
    """Send all the steps at once and wait once; the rows of each."""
    calls = [_call(sql, params) for sql, params in steps]
    async with connection.lock:
        results = await connection.wait(_exchange(connection, calls))
    return [connection.rows_of(result) for result in results]


def _exchange(connection: Connection, calls: Sequence[Call]) -> PQGen[list[PGresult]]:
    """One pipeline, by libpq itself: psycopg's takes three times the processor time.

    Statements and sync are sent together, so that a node rarely freezes between them. The server limits how long a
    session may be silent in its transaction only after a sync that nothing follows; psycopg sends a flush request.
    """
    pgconn = connection.pgconn
    results: list[PGresult] = []
    failure: psycopg.Error | None = None
    connection.is_unreplicated = False
    pgconn.enter_pipeline_mode()
    try:
        asked = [sql for call in calls for sql in _send(connection, *call)]
        pgconn.pipeline_sync()
        yield from send(pgconn)
        for prepared in asked:
            result = yield from _next_result(pgconn)
            if result.status in FAILED:
                connection.statements.pop(prepared, None)
                if failure is None and result.status == ExecStatus.FATAL_ERROR:
                    failure = error_from_result(result, encoding=ENCODING)
            elif not prepared:
                results.append(result)
        # The sync commits a step that stands alone. What was committed before stays so: an error that comes now, as
        # that of a cancelled statement may, is none of ours.
        is_committed = failure is None and calls[-1][0] == COMMIT[0]
        while (result := (yield from _next_result(pgconn))).status != ExecStatus.PIPELINE_SYNC:
            if not is_committed:
                failure = failure or error_from_result(result, encoding=ENCODING)
    except psycopg.OperationalError:
        if failure is None:  # else the server has said why it ends the session
            raise
    finally:
        if pgconn.status == ConnStatus.OK:
            pgconn.exit_pipeline_mode()
    if failure is not None:
        raise failure
    return results


def _next_result(pgconn: PGconn) -> PQGen[PGresult]:
    found: list[PGresult] = yield from fetch_many(pgconn)
    if not found:
        raise psycopg.OperationalError("the connection is lost")
    return found[-1]


def _send(connection: Connection, sql: str, values: list[bytes | None], formats: list[Format]) -> Iterator[str]:
    """For each result that will come: the statement that it says to be prepared, or nothing."""
    pgconn, name = connection.pgconn, connection.statements.get(sql)
    if name is None:
        name = connection.new_statement(sql)
        pgconn.send_prepare(name, _numbered(sql))
        yield sql
    pgconn.send_query_prepared(name, values, formats, result_format=Format.BINARY)
    yield ""


def _call(sql: str, params: Sequence[Any]) -> Call:
    formats = [Format.BINARY if isinstance(value, bytes) else Format.TEXT for value in params]
    return sql, [_encoded(value) for value in params], formats


def _numbered(sql: str) -> bytes:
    """With the parameters as PostgreSQL numbers them."""
    first, *others = sql.split("%s")
    return "".join([first, *(f"${n}{part}" for n, part in enumerate(others, 1))]).replace("%%", "%").encode()


def _encoded(value: Any) -> bytes | None:
    """Bytes as they are; everything else as text, whose type follows from where it stands."""
    kind = type(value)
    if kind is int:
        return b"%d" % value
    if kind is str:
        if "\0" in value:
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return bytes(value, "utf-8")
    if value is None or isinstance(value, bytes):
        return value
    return (numbers(value) if isinstance(value, list) else str(value)).encode()


class Pool:
    """A few connections for what is not part of the group commit; made when first needed, and again after a loss.

    psycopg_pool makes callers wait until its timeout while a database cannot be reached; ours are told at once.
    """

    def __init__(self, url: str, size: int = POOL_SIZE, *, guard: "Guard") -> None:
        self._url = url
        self.guard = guard
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(size)
        self._is_open = True

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[Connection]:
        """A connection of one's own; raises Unavailable where the database fails."""
        async with self._places:
            try:
                connection = await self._find()
                try:
                    yield connection
                finally:
                    await self._put_back(connection)
            except psycopg.Error as error:
                raise refusal(error) from error

    async def _find(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if is_usable(connection):
                return connection
            await connection.close()
        return await connect(self._url, self.guard)

    async def ask(self, *steps: Step) -> list[Rows]:
        async with self.taken() as connection:
            return await ask(connection, steps)

    async def ask_one(self, sql: str, *params: Any) -> Rows:
        return (await self.ask((sql, params)))[0]

    async def _put_back(self, connection: Connection) -> None:
        try:
            if not connection.closed and not _is_idle(connection):
                with contextlib.suppress(psycopg.Error):
                    await connection.execute("ROLLBACK")
        finally:
            # A caller that is cancelled during the rollback leaves a transaction open; a closed pool keeps nothing.
            if self._is_open and _is_idle(connection):
                self._idle.append(connection)
            else:
                await connection.close()

    def open(self) -> None:
        """Keep connections from now on; a pool is open until it is closed."""
        self._is_open = True

    async def close(self) -> None:
        """Close the idle connections now, and those in use when they are given back."""
        self._is_open = False
        while self._idle:
            await self._idle.pop().close()


def _is_idle(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status is TransactionStatus.IDLE


# -- schema -------------------------------------------------------------------------------------------------------


def migrations() -> list[tuple[int, str]]:
    """(version, SQL) of every schema step, in order."""
    found = [(_VERSION.match(file.name), file) for file in FOLDER.iterdir()]
    return sorted((int(match[0]), file.read_text()) for match, file in found if match)


async def space_of(connection: Connection) -> int:
    """The number under which this store's locks are taken: several stores may share a database, a schema each."""
    row = await (await connection.execute("SELECT current_schema()::regnamespace::oid::bigint")).fetchone()
    if row is None or row[0] is None:
        raise CannotOpen("the database has no schema to work in; create the one that search_path names")
    return int(row[0]) - 2**32 if row[0] >= 2**31 else int(row[0])


async def has_table(connection: Connection, name: str) -> bool:
    """Whether the store's own schema has the table; the search path may name other schemas behind it."""
    found = await connection.execute(
        "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = current_schema() AND tablename = %s)", (name,)
    )
    return await found.fetchone() == (True,)


async def migrate(connection: Connection, space: int) -> None:
    """Run what is missing, one transaction a step; refuses a schema from the future. One node does it, others wait."""
    await connection.execute("SET lock_timeout = 0", prepare=False)
    await connection.execute("SELECT pg_advisory_lock(%s::int, %s::int)", (space, MIGRATION_LOCK))
    try:
        await _run_steps(connection)
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s::int, %s::int)", (space, MIGRATION_LOCK))
            await connection.execute("SET lock_timeout = '10s'", prepare=False)


async def _run_steps(connection: Connection) -> None:
    present, steps = await version_of(connection), migrations()
    if present > steps[-1][0]:
        raise CannotOpen(
            f"the data was written by a newer Courier (schema {present}, this one knows {steps[-1][0]}); upgrade it"
        )
    for version, sql in steps:
        while version > present:
            try:
                await _run_step(connection, version, sql)
            except psycopg.errors.LockNotAvailable:
                log.warning("step %d of the schema waits until no transaction has the tables that it changes", version)
                await asyncio.sleep(STEP_PAUSE_SECONDS)
            else:
                present = version


async def _run_step(connection: Connection, version: int, sql: str) -> None:
    async with connection.transaction():
        await connection.execute(sql.encode(), prepare=False)
        if version == CONVERTED:
            await convert(connection)
        await connection.execute("DELETE FROM schema_version")
        await connection.execute("INSERT INTO schema_version VALUES (%s)", (version,))


async def version_of(connection: Connection) -> int:
    await connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER NOT NULL)")
    row = await (await connection.execute("SELECT version FROM schema_version")).fetchone()
    return int(row[0]) if row else 0
