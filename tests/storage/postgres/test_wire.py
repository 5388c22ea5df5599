"""The wire to PostgreSQL: what a session has prepared, and what becomes of it."""

import asyncio
from collections.abc import Callable

import psycopg
import pytest
import uvloop

from couriermq.storage.postgres.link import Connection, connect, is_usable
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.wire import Step
from tests.support.eventually import eventually
from tests.support.postgres import shared_cluster

ONE: Step = ("SELECT 1 + %(n)s::bigint", {"n": 1})


async def test_a_rollback_after_many_other_queries_forgets_nothing_that_was_prepared() -> None:
    connection = await connect(shared_cluster().url())
    assert await connection.ask([ONE]) == [[(2,)]]
    for _ in range(10):  # as often as psycopg needs to prepare it by itself
        await connection.execute("SELECT 2")
    await connection.execute("ROLLBACK")
    await connection.execute("SELECT 2")
    assert await connection.ask([ONE]) == [[(2,)]]
    await connection.close()


async def test_a_session_that_was_made_to_forget_is_given_up() -> None:
    connection = await connect(shared_cluster().url())
    await connection.ask([ONE])
    await connection.execute("DEALLOCATE ALL")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        await connection.ask([ONE])
    assert not is_usable(connection)


async def test_what_is_done_meanwhile_is_done_before_the_answer_is_there() -> None:
    connection = await connect(shared_cluster().url())
    done: list[str] = []
    (rows,) = await connection.ask([ONE], meanwhile=lambda: done.append("meanwhile"))
    assert (rows, done) == ([(2,)], ["meanwhile"])
    await connection.close()


async def test_what_fails_meanwhile_gives_the_connection_up() -> None:
    connection = await connect(shared_cluster().url())

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await connection.ask([ONE], meanwhile=fail)
    assert not is_usable(connection)


async def test_a_question_and_an_answer_that_no_buffer_holds_get_through() -> None:
    connection = await connect(shared_cluster().url())
    large = bytes(range(256)) * 100_000
    echo: Step = ("SELECT %(large)s::bytea, length(%(large)s::bytea)", {"large": large})
    for _ in range(2):
        assert await connection.ask([echo, ONE]) == [[(large, len(large))], [(2,)]]
    await connection.close()


def is_asleep(connection: Connection) -> bool:
    """Whether the server has begun with a question that takes long."""
    sql = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {connection.info.backend_pid}"
    return shared_cluster().execute(sql) == [("PgSleep",)]


async def test_a_server_that_says_farewell_unasked_is_heard_once_and_seen_by_whoever_asks_next() -> None:
    connection = await connect(shared_cluster().url())
    await connection.ask([ONE])
    heard: list[object] = []
    hear = connection._hear

    def hear_and_tell() -> None:
        heard.append(None)
        hear()

    asyncio.get_running_loop().add_reader(connection.fileno(), hear_and_tell)
    shared_cluster().execute(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
    await eventually(lambda: not is_usable(connection))
    await asyncio.sleep(0.02)
    assert len(heard) == 1
    with pytest.raises(psycopg.OperationalError):
        await connection.ask([ONE])
    assert not is_usable(connection)


async def test_a_connection_that_is_lost_in_the_middle_fails_whoever_waits() -> None:
    connection = await connect(shared_cluster().url())
    await connection.ask([ONE])
    pid = connection.info.backend_pid
    waiting = asyncio.ensure_future(connection.ask([("SELECT pg_sleep(60)", {})]))
    await eventually(lambda: is_asleep(connection))
    shared_cluster().execute(f"SELECT pg_terminate_backend({pid})")
    with pytest.raises(psycopg.Error):
        await waiting
    assert not is_usable(connection)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_server_that_goes_before_it_has_read_all_fails_whoever_waits(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The socket then has its last words and a failure, and a loop that was busy may tell of both only once."""
    cluster = shared_cluster()

    async def lose() -> None:
        connection = await connect(shared_cluster().url())
        unread: Step = ("SELECT length(%(large)s::bytea)", {"large": bytes(150_000)})
        waiting = asyncio.ensure_future(connection.ask([("SELECT pg_sleep(60)", {}), unread]))
        await eventually(lambda: is_asleep(connection))
        pid = connection.info.backend_pid
        cluster.execute(f"SELECT pg_terminate_backend({pid})")
        while cluster.execute(f"SELECT pid FROM pg_stat_activity WHERE pid = {pid}"):
            pass  # and the loop hears nothing of it
        with pytest.raises(psycopg.OperationalError):
            await asyncio.wait_for(waiting, 10)
        assert not is_usable(connection)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(lose())


async def test_a_question_that_is_called_off_takes_its_connection_with_it_and_no_other() -> None:
    connection, other = [await connect(shared_cluster().url()) for _ in range(2)]
    await other.ask([ONE])
    waiting = asyncio.ensure_future(connection.ask([("SELECT pg_sleep(60)", {})]))
    await eventually(lambda: is_asleep(connection))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not is_usable(connection)
    following = await connect(shared_cluster().url())  # it may well get the number of the socket that was closed
    assert await following.ask([ONE]) == await other.ask([ONE]) == [[(2,)]]
    for one in (following, other):
        await one.close()


@pytest.mark.parametrize(
    "step", [("SELECT length(%(sent)s)", {"sent": b"x" * 5_000_000}), ("SELECT repeat('x', 20000000)", {})]
)
async def test_a_pool_replaces_a_connection_whose_buffers_have_grown(step: Step) -> None:
    pool = Pool(shared_cluster().url())
    async with pool.taken() as small:
        await small.ask([("SELECT 1", {})])
    async with pool.taken() as first:
        await first.ask([step])
    async with pool.taken() as second:
        assert await second.ask([("SELECT 1", {})]) == [[(1,)]]
    await pool.close()
    assert (first is small, first.closed, second is first) == (True, True, False)
