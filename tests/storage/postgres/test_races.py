"""What two nodes on one store do at the same moment."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import psycopg
import pytest

from couriermq.core.errors import QueueNotFound, Unavailable
from couriermq.core.model import Draft, Kind
from couriermq.storage.postgres import duties
from couriermq.storage.postgres.engine import Committer
from tests.storage.postgres.test_store import nodes, postgres, url
from tests.support.engines import WHO, Rig
from tests.support.eventually import PATIENCE_SECONDS, eventually

__all__ = ["url"]


def before_commit(rig: Rig, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], Awaitable[object]]) -> None:
    """Have something happen once, after the node has decided and before it commits."""
    for committer in postgres(rig)._committers:
        finish = committer._finish

        async def held(*values: Any, finish: Any = finish) -> None:
            monkeypatch.undo()
            await meanwhile()
            await finish(*values)

        monkeypatch.setattr(committer, "_finish", held)


async def begin(url: str, rig: Rig, order: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Start an order; returns when it is done, or when its node waits for a lock."""
    task = asyncio.create_task(order)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def waits() -> bool:
            connections = [committer._connection for committer in postgres(rig)._committers]
            pids = [each.info.backend_pid for each in connections if each is not None and not each.closed]
            found = await connection.execute(
                "SELECT 1 FROM pg_stat_activity WHERE pid = ANY (%s) AND wait_event_type = 'Lock'", (pids,)
            )
            return task.done() or bool(await found.fetchall())

        await eventually(waits)
    return task


async def test_a_message_that_dies_into_a_group_while_another_node_empties_it_is_found(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url) as (one, two):
        await one.create("dead", kind=Kind.FIFO)
        await one.create("work", max_attempts=1, dead_letter_queue="dead")
        await two.store.catch_up()
        await one.send("dead", group="g")
        await one.send("work", group="g")
        lease, dying = await one.receive_one("dead"), await two.receive_one("work")
        tasks = []

        async def meanwhile() -> None:
            tasks.append(await begin(url, two, two.release("work", dying)))

        before_commit(one, monkeypatch, meanwhile)
        await one.ack("dead", lease)
        await tasks[0]
        assert len(await one.receive("dead", limit=1)) == 1


async def test_a_purge_takes_what_another_node_leases_from_the_same_pack(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url) as (one, two):
        await one.create("orders")
        await two.store.catch_up()
        await one.send_all("orders", [Draft(body=b"x")] * 10)
        tasks = []

        async def meanwhile() -> None:
            tasks.append(await begin(url, two, two.purge("orders")))

        before_commit(one, monkeypatch, meanwhile)
        await one.receive("orders", limit=3)
        await tasks[0]
        assert (await one.counters("orders")).total_count == 0


async def test_a_deletion_whose_answer_is_lost_is_heard_of_although_the_node_knew_its_version(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url, 1) as (one,):
        queue = await one.create("orders")
        for committer in postgres(one)._committers:
            finish = committer._finish

            async def lost(*values: Any, finish: Any = finish, committer: Committer = committer) -> None:
                monkeypatch.undo()
                await finish(*values)
                await postgres(one).refresh()  # as another batch does that has found the catalog changed
                await committer.disconnect()
                raise psycopg.OperationalError("the connection is lost")

            monkeypatch.setattr(committer, "_finish", lost)
        with pytest.raises(Unavailable):
            await one.catalog.delete_queue(queue, principal=WHO)
        (outcome,) = await one.broker.send(queue, [Draft(body=b"x")], principal=WHO)
        assert isinstance(outcome, QueueNotFound)


@pytest.mark.parametrize("statement", ["pg_advisory_lock", "pg_advisory_unlock"])
async def test_a_change_that_is_cancelled_leaves_the_turn_to_others(
    url: str, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    execute = psycopg.AsyncConnection.execute

    async def cancelled(self: Any, query: Any, *values: Any, **options: Any) -> Any:
        """The server has done what was asked when the caller is cancelled; of an end, before it has done it."""
        if f"{statement}(" not in str(query):
            return await execute(self, query, *values, **options)
        if statement == "pg_advisory_lock":
            await execute(self, query, *values, **options)
        raise asyncio.CancelledError

    async with nodes(url) as (one, two):
        monkeypatch.setattr(psycopg.AsyncConnection, "execute", cancelled)
        with pytest.raises(asyncio.CancelledError):
            await one.create("orders")
        monkeypatch.undo()
        await two.create("others")


async def leased(rig: Rig) -> None:
    await rig.create("orders", max_attempts=5)
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=1_000)


async def delayed(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", delay_ms=1_000)


async def kept(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    await rig.send_all("orders", [Draft(body=b"x")] * 2)


async def kept_by_itself(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", retention_ms=1_000)


@pytest.mark.parametrize("prepare", [leased, delayed, kept, kept_by_itself])
async def test_what_is_due_and_locked_by_another_session_holds_up_nobody(
    url: str, prepare: Callable[[Rig], Awaitable[None]]
) -> None:
    async with nodes(url, 1) as (one,):
        await prepare(one)
        one.clock.advance(ms=2_000)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute("SELECT FROM pack FOR UPDATE")
            await connection.execute("SELECT FROM message FOR UPDATE")
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await one.counters("orders")).total_count > 0
                await one.store.advance(now=one.now)
        await one.store.advance(now=one.now)
        assert (await one.counters("orders")).ready_count == (0 if prepare in {kept, kept_by_itself} else 1)


async def test_a_silent_node_loses_a_session_that_has_sent_half_of_its_statements(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server does not count such a session as idle, so that no timeout of its own ends it."""
    monkeypatch.setattr(duties, "SILENT_SECONDS", 4.0)
    async with nodes(url) as (one, two):
        await one.create("orders")
        await two.store.catch_up()
        await one.send("orders")
        silent = postgres(one)._duties._task
        assert silent is not None
        silent.cancel()
        connection = await postgres(one)._committers[0]._connected()
        connection.pgconn.enter_pipeline_mode()
        for statement in (b"BEGIN", b"SELECT FROM pack FOR UPDATE"):
            connection.pgconn.send_query_params(statement, None)
        connection.pgconn.send_flush_request()
        connection.pgconn.flush()
        await eventually(lambda: two.receive("orders", limit=1))
