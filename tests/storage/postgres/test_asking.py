"""What is asked in one round trip: its values, its errors, and what they leave of the connection."""

import asyncio
from collections.abc import AsyncIterator
from enum import IntEnum
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus, TransactionStatus

from couriermq.storage.postgres import connection as module
from couriermq.storage.postgres.connection import Connection, Step, ask, blobs, connect, numbers
from tests.storage.postgres.test_store import postgres
from tests.support.engines import Rig
from tests.support.eventually import eventually

ONE: Step = ("SELECT 1", ())


class Number(IntEnum):
    SEVEN = 7


@pytest.fixture
async def session(node: Rig) -> AsyncIterator[Connection]:
    connection = await connect(postgres(node).url)
    yield connection
    await connection.close()


async def is_sound(session: Connection) -> bool:
    is_idle = session.info.transaction_status is TransactionStatus.IDLE
    return is_idle and await ask(session, [ONE, ("SELECT %s::int", (2,))]) == [[(1,)], [(2,)]]


@pytest.mark.parametrize(
    ("sql", "value", "answer"),
    [
        ("SELECT %s::bigint", 2**62, 2**62),
        ("SELECT %s::int", -1, -1),
        ("SELECT %s::smallint", Number.SEVEN, 7),
        ("SELECT %s::text", "Grüße, 100 % \U0001f4ec", "Grüße, 100 % \U0001f4ec"),
        ("SELECT %s::text", "", ""),
        ("SELECT %s::bytea", b"\x00\xff'", b"\x00\xff'"),
        ("SELECT %s::bytea", b"", b""),
        ("SELECT %s::boolean", True, True),
        ("SELECT %s::boolean", False, False),
        ("SELECT %s::float8", 0.1, 0.1),
        ("SELECT %s::bigint", None, None),
        ("SELECT %s::bigint[]", [1, 2], [1, 2]),
        ("SELECT %s::bigint[]", numbers([1, None]), [1, None]),
        ("SELECT %s::bytea[]", blobs([b"a", None, b""]), [b"a", None, b""]),
        ("SELECT %s::bytea[]", blobs([]), []),
        ("SELECT 7 %% %s::int", 4, 3),
    ],
)
async def test_a_value_comes_back_as_it_was(session: Connection, sql: str, value: Any, answer: Any) -> None:
    for _ in range(2):  # prepared with the first
        assert await ask(session, [(sql, (value,))]) == [[(answer,)]]


async def test_steps_without_rows_have_none(session: Connection) -> None:
    assert await ask(session, [("BEGIN", ()), ONE, ("COMMIT", ())]) == [[], [(1,)], []]


async def test_a_text_with_a_null_byte_is_refused_before_anything_is_sent(session: Connection) -> None:
    with pytest.raises(psycopg.DataError):
        await ask(session, [("BEGIN", ()), ("SELECT %s::text", ("a\0b",))])
    assert await is_sound(session)


@pytest.mark.parametrize("wrong", [("SELECT 1 / %s::int", (0,)), ("SELECT nonsense FROM nowhere", ())])
async def test_an_error_is_raised_and_what_follows_it_is_not_done(session: Connection, wrong: Step) -> None:
    for _ in range(2):
        with pytest.raises((psycopg.errors.DivisionByZero, psycopg.errors.UndefinedTable)):
            await ask(session, [("BEGIN", ()), wrong, ("SELECT 'never prepared'", ())])
        await ask(session, [("ROLLBACK", ())])
        assert await is_sound(session)
    assert await ask(session, [("SELECT 'never prepared'", ())]) == [[("never prepared",)]]


@pytest.mark.parametrize("others", [[], [ONE, ONE]])
async def test_a_session_that_was_ended_is_closed(session: Connection, others: list[Step]) -> None:
    with pytest.raises(psycopg.errors.AdminShutdown):
        await ask(session, [("SELECT pg_terminate_backend(pg_backend_pid())", ()), *others])
    assert session.closed


async def test_why_a_silent_session_was_ended_is_told(session: Connection, node: Rig) -> None:
    await ask(session, [("SET idle_in_transaction_session_timeout = '100ms'", ()), ("BEGIN", ())])
    look: Step = ("SELECT 1 FROM pg_stat_activity WHERE pid = %s::int", (session.info.backend_pid,))
    await eventually(lambda: postgres(node)._pool.ask(look), [[]].__eq__)
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        await ask(session, [ONE, ("COMMIT", ())])
    assert session.closed


@pytest.mark.parametrize("turns", range(4))
async def test_a_caller_that_goes_away_leaves_the_connection_sound_or_closed(session: Connection, turns: int) -> None:
    asking = asyncio.create_task(ask(session, [("SELECT pg_sleep(%s::float8)", (30.0,)), ONE]))
    for _ in range(turns):
        await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises((asyncio.CancelledError, psycopg.Error)):
        await asking
    assert session.closed or await is_sound(session)


async def test_statements_beyond_the_limit_are_prepared_for_once(
    session: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STATEMENTS", 3)
    steps: list[Step] = [(f"SELECT {number} + %s::int", (1,)) for number in range(6)]
    for _ in range(2):
        assert await ask(session, steps) == [[(number + 1,)] for number in range(6)]
    assert len(session.statements) == 3


async def test_more_than_the_buffers_of_both_sides_hold_goes_through(session: Connection) -> None:
    large = b"x" * 4_000_000
    steps: list[Step] = [("SELECT %s::bytea", (large,))] * 4
    async with asyncio.timeout(60):
        answers = await ask(session, steps)
    assert all(rows == [(large,)] for rows in answers)


async def test_an_error_of_the_commit_itself_is_raised(session: Connection) -> None:
    """A single step is committed by the end of the round trip, after its own answer."""
    await ask(session, [("CREATE TEMPORARY TABLE once (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)", ())])
    await ask(session, [("INSERT INTO once VALUES (%s)", (1,))])
    with pytest.raises(psycopg.errors.UniqueViolation):
        await ask(session, [("INSERT INTO once VALUES (%s)", (1,))])
    assert await is_sound(session)
    assert await ask(session, [("SELECT count(*) FROM once", ())]) == [[(1,)]]


async def test_an_error_after_a_commit_leaves_it_committed(
    session: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when somebody cancels a statement in the moment in which it has ended."""
    await ask(session, [("CREATE TEMPORARY TABLE kept (n INT)", ())])
    errors = [session.pgconn.exec_(b"SELECT 1 / 0")]
    next_result, ends = module._next_result, list[Any]()

    def with_an_error_before_the_end(pgconn: Any) -> Any:
        if ends:
            return ends.pop()
        result = yield from next_result(pgconn)
        if result.status == ExecStatus.PIPELINE_SYNC and errors:
            ends.append(result)
            return errors.pop()
        return result

    monkeypatch.setattr(module, "_next_result", with_an_error_before_the_end)
    await ask(session, [("BEGIN", ()), ("INSERT INTO kept VALUES (1)", ()), ("COMMIT", ())])
    assert errors == []
    assert await ask(session, [("SELECT n FROM kept", ())]) == [[(1,)]]
    assert await is_sound(session)
