"""The shortest way to the server: prepared statements, sent together, answered together.

libpq's pipeline mode, driven by the event loop directly. A node asks a few thousand things a second, and what happens
on the way to the socket costs as much as what PostgreSQL does with it.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Self

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGresult

from courier.storage.postgres.arrays import Packed, PackedText, texts

Rows = list[tuple[Any, ...]]
Step = tuple[str, Mapping[str, Any]]

LOST = "the connection to the database was lost"
REPLAN_SECONDS = 20.0
FORGET_PLANS: Step = ("DISCARD PLANS", {})
"""A plan is made once for a statement, by how large the tables were then; a queue does not stay as large as it was."""

_PARAMETER = re.compile(r"%\((\w+)\)s")
_TEXT, _BINARY = pq.Format.TEXT, pq.Format.BINARY
_TUPLES, _COMMAND = pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK
_SYNC = pq.ExecStatus.PIPELINE_SYNC
_UNKNOWN, _BOOLEAN, _BIGINT, _BYTEA, _DOUBLE, _BYTEAS, _TEXTS = 0, 16, 20, 17, 701, 1001, 1009


@lru_cache(maxsize=1_000)
def _compiled(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement with numbered parameters, and the names of these in their order."""
    names = tuple(dict.fromkeys(_PARAMETER.findall(sql)))
    numbered = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql)
    return numbered.replace("%%", "%").encode(), names


Written = tuple[bytes | None, int, pq.Format]


def _written(value: Any) -> Written:
    """A parameter's bytes, its type as far as it must be said, and its format."""
    if value is None:
        return None, _UNKNOWN, _TEXT
    kind = type(value)
    if kind is bytes:
        return value, _BYTEA, _BINARY
    if kind is Packed:
        return value, _BYTEAS, _BINARY
    if kind is str:
        if "\0" in value:
            raise psycopg.DataError("PostgreSQL's text cannot hold the character NUL")
        return value.encode(), _UNKNOWN, _TEXT
    if kind is bool:
        return b"t" if value else b"f", _BOOLEAN, _TEXT
    if kind is list:
        value = texts(value)
        kind = PackedText
    if kind is PackedText:
        return value, _TEXTS, _BINARY
    if kind is float:
        return repr(value).encode(), _DOUBLE, _TEXT
    return b"%d" % value, _BIGINT, _TEXT


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that can also be asked many things in one round trip."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._names: dict[str, bytes] = {}
        self._fresh: dict[str, bytes] = {}
        self._numbers = count()
        self._replan_at = asyncio.get_running_loop().time() + REPLAN_SECONDS
        self._loader: Any = None

    @classmethod
    async def to(cls, **where: Any) -> Self:
        # What psycopg prepares by itself it also forgets, after a rollback, by DEALLOCATE ALL: and ours with it.
        return await cls.connect(**where, autocommit=True, prepare_threshold=None)

    async def ask(self, steps: Sequence[Step]) -> list[Rows]:
        """Send all the steps at once and wait once; the rows of each. Steps without a BEGIN are one transaction."""
        if (now := asyncio.get_running_loop().time()) >= self._replan_at:
            self._replan_at = now + REPLAN_SECONDS
            await self._ask([FORGET_PLANS])
        return await self._ask(steps)

    async def _ask(self, steps: Sequence[Step]) -> list[Rows]:
        texts = [_compiled(sql) for sql, _ in steps]
        written = [
            [_written(params[name]) for name in names] for (_, params), (_, names) in zip(steps, texts, strict=True)
        ]
        pgconn = self.pgconn
        pgconn.enter_pipeline_mode()
        try:
            expected = self._send([sql for sql, _ in steps], [text for text, _ in texts], written)
            results = await self._results()
        except BaseException:
            pgconn.finish()  # nobody can tell what is still on its way
            raise
        pgconn.exit_pipeline_mode()
        return self._read(expected, results)

    def _send(
        self, names: Sequence[str], texts: Sequence[bytes], written: Sequence[Sequence[Written]]
    ) -> list[str | None]:
        """Put everything into the outgoing buffer; which result makes which statement prepared (None: an answer)."""
        pgconn, fresh = self.pgconn, self._fresh
        fresh.clear()
        expected: list[str | None] = []
        for sql, text, values in zip(names, texts, written, strict=True):
            name = self._names.get(sql) or fresh.get(sql)
            if name is None:
                name = fresh[sql] = b"c%d" % next(self._numbers)
                pgconn.send_prepare(name, text, [type_ for _, type_, _ in values])
                expected.append(sql)
            pgconn.send_query_prepared(
                name, [value for value, _, _ in values], [format_ for _, _, format_ in values], _BINARY
            )
            expected.append(None)
        pgconn.pipeline_sync()
        return expected

    async def _results(self) -> list[PGresult]:
        """Everything up to the end of the pipeline."""
        pgconn, loop = self.pgconn, asyncio.get_running_loop()
        results: list[PGresult] = []
        unsent = pgconn.flush()
        while True:
            await _ready(loop, pgconn.socket, writing=bool(unsent))
            pgconn.consume_input()
            if unsent:
                unsent = pgconn.flush()
            if self._collect(results):
                return results

    def _collect(self, results: list[PGresult]) -> bool:
        """Take in what has arrived; whether that was all."""
        pgconn = self.pgconn
        between = False
        while not pgconn.is_busy():
            result = pgconn.get_result()
            if result is not None:
                if result.status == _SYNC:
                    return True
                results.append(result)
                between = False
            elif pgconn.status != pq.ConnStatus.OK:
                raise error_from_result(results[-1], "utf-8") if results else psycopg.OperationalError(LOST)
            elif between:  # nothing of the next statement is here yet
                return False
            else:
                between = True
        return False

    def _read(self, expected: list[str | None], results: list[PGresult]) -> list[Rows]:
        """The answers; what was prepared stays so, even where a later statement failed."""
        answers: list[Rows] = []
        for place, result in enumerate(results):
            if result.status not in (_TUPLES, _COMMAND):
                raise self._error(result)
            if (sql := expected[place]) is not None:
                self._names[sql] = self._fresh[sql]
            else:
                answers.append(self._load(result) if result.status == _TUPLES and result.ntuples else [])
        return answers

    def _error(self, result: PGresult) -> psycopg.Error:
        error = error_from_result(result, "utf-8")
        if isinstance(error, psycopg.errors.InvalidSqlStatementName):
            self.pgconn.finish()  # somebody has made the session forget; a new one knows what it knows
        return error

    def _load(self, result: PGresult) -> Rows:
        if self._loader is None:
            self._loader = Transformer(self)
        self._loader.set_pgresult(result, format=_BINARY)
        rows: Rows = self._loader.load_rows(0, result.ntuples, tuple)
        return rows


async def _ready(loop: asyncio.AbstractEventLoop, socket: int, *, writing: bool) -> None:
    """Wait until there is something to read, or room to write."""
    future: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_reader(socket, wake)
    if writing:
        loop.add_writer(socket, wake)
    try:
        await future
    finally:
        loop.remove_reader(socket)
        if writing:
            loop.remove_writer(socket)
