"""The shortest way to the server: prepared statements, sent together, answered together.

libpq's pipeline mode, driven by the event loop directly. A node asks a few thousand things a second, and what happens
on the way to the socket costs as much as what PostgreSQL does with it.
"""

import asyncio
import re
import select
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any, Self

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq.abc import PGconn, PGresult

from couriermq.storage.postgres.arrays import Packed, PackedText, texts

Rows = list[tuple[Any, ...]]
Step = tuple[str, Mapping[str, Any]]

LOST = "the connection to the database was lost"
REPLAN_SECONDS = 20.0
LARGE_BYTES = 4 * 1024 * 1024
"""A question or an answer of so many bytes leaves large buffers behind in libpq."""
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
        self._answer: _Answer | None = None
        self.is_swollen = False
        """Whether its buffers have grown large. libpq never shrinks them, so that such a connection is replaced."""
        self._ear: int | None = None
        """The socket that the event loop listens to for us. It goes on between two questions: to begin costs more."""

    @classmethod
    async def to(cls, **where: Any) -> Self:
        # What psycopg prepares by itself it also forgets, after a rollback, by DEALLOCATE ALL: and ours with it.
        return await cls.connect(**where, autocommit=True, prepare_threshold=None)

    async def ask(self, steps: Sequence[Step], *, meanwhile: Callable[[], None] | None = None) -> list[Rows]:
        """Send all the steps at once and wait once; the rows of each. Steps without a BEGIN are one transaction.

        What can be done `meanwhile` costs no time: it happens while the database works.
        """
        if (now := asyncio.get_running_loop().time()) >= self._replan_at:
            self._replan_at = now + REPLAN_SECONDS
            await self._ask([FORGET_PLANS])
        return await self._ask(steps, meanwhile)

    async def _ask(self, steps: Sequence[Step], meanwhile: Callable[[], None] | None = None) -> list[Rows]:
        texts = [_compiled(sql) for sql, _ in steps]
        written = [
            [_written(params[name]) for name in names] for (_, params), (_, names) in zip(steps, texts, strict=True)
        ]
        pgconn = self.pgconn
        pgconn.enter_pipeline_mode()
        try:
            expected = self._send([sql for sql, _ in steps], [text for text, _ in texts], written)
            self._answer = answer = _Answer(pgconn)
            self._listen(writing=not answer.is_asked())
            if meanwhile is not None:
                meanwhile()
            results = await answer.whole
            self.is_swollen = self.is_swollen or _size(written) > LARGE_BYTES
        except BaseException:
            self._hang_up()  # nobody can tell what is still on its way
            raise
        finally:
            self._answer = None
        pgconn.exit_pipeline_mode()
        return self._read(expected, results)

    # -- the socket -------------------------------------------------------------------------------------------

    def _listen(self, *, writing: bool) -> None:
        loop = asyncio.get_running_loop()
        if self._ear is None:
            self._ear = self.pgconn.socket
            loop.add_reader(self._ear, self._hear)
        if writing:
            loop.add_writer(self._ear, self._hear)

    def _hear(self) -> None:
        answer = self._answer
        if answer is None or answer.whole.done():  # the server's farewell: whoever asks next will find out
            self._deafen()
            return
        try:
            if answer.take_in() and self._ear is not None:
                asyncio.get_running_loop().remove_writer(self._ear)
            # uvloop tells once of a socket that has failed, and never again: so all of it is taken now, to its end.
            while not answer.whole.done() and self._has_hung_up():
                answer.take_in()
        except Exception as error:  # the socket may be closed by now, and its number another one's soon
            self._deafen()
            answer.whole.set_exception(error)

    def _deafen(self) -> None:
        if self._ear is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._ear)
            loop.remove_writer(self._ear)
            self._ear = None

    def _has_hung_up(self) -> bool:
        """Whether the server has, or the network; what it said before that may still be to be read."""
        poll = select.poll()
        poll.register(self.pgconn.socket, 0)  # failures are told unasked
        return bool(poll.poll(0))

    def _hang_up(self) -> None:
        self._deafen()
        self.pgconn.finish()

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """psycopg's own way to ask has its own ear."""
        self._deafen()
        return await super().wait(*args, **kwargs)

    async def close(self) -> None:
        self._deafen()
        await super().close()

    # -- what is said -----------------------------------------------------------------------------------------

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
            self._hang_up()  # somebody has made the session forget; a new one knows what it knows
        return error

    def _load(self, result: PGresult) -> Rows:
        if self._loader is None:
            self._loader = Transformer(self)
        self._loader.set_pgresult(result, format=_BINARY)
        rows: Rows = self._loader.load_rows(0, result.ntuples, tuple)
        self._loader.set_pgresult(None)  # it would keep the result until the next one
        self.is_swollen = self.is_swollen or _first_size(rows) * len(rows) > LARGE_BYTES
        return rows


def _first_size(rows: Rows) -> int:
    """The bytes of the first row, by which the size of all of them is estimated."""
    return sum(len(value) for value in rows[0] if isinstance(value, bytes | str))


def _size(written: Sequence[Sequence[Written]]) -> int:
    return sum(len(value) for values in written for value, _, _ in values if value is not None)


class _Answer:
    """What comes back for one pipeline. It is taken in as it arrives; whoever waits is woken once, by the `whole`."""

    def __init__(self, pgconn: PGconn) -> None:
        self.whole: asyncio.Future[list[PGresult]] = asyncio.get_running_loop().create_future()
        self._pgconn = pgconn
        self._results: list[PGresult] = []
        self._unsent = True

    def is_asked(self) -> bool:
        """Whether all of the question has left; as much as there is room for goes now."""
        self._unsent = bool(self._pgconn.flush())
        return not self._unsent

    def take_in(self) -> bool:
        """Whether the last of the question has left with this."""
        self._pgconn.consume_input()
        has_left = self._unsent and self.is_asked()
        if self._collect():
            self.whole.set_result(self._results)
        return has_left

    def _collect(self) -> bool:
        """Take what has arrived; whether that was all."""
        pgconn, results = self._pgconn, self._results
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
