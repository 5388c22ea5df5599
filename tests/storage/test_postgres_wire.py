"""The wire to PostgreSQL: what a session has prepared, and what becomes of it."""

import psycopg
import pytest

from courier.storage.postgres.link import connect, is_usable
from courier.storage.postgres.wire import Step
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
