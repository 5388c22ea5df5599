"""Rows that other sessions hold: nobody waits for them in vain, passes over what is behind them, or sleeps on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.model import Draft, Kind
from couriermq.core.shards import Newest
from couriermq.storage import group_commit
from couriermq.storage.postgres import duties, engine, notifications
from couriermq.storage.postgres.connection import ask
from couriermq.storage.postgres.notifications import Pause
from tests.storage.postgres.test_races import before_commit, begin
from tests.storage.postgres.test_store import all_heard, nodes, postgres, url
from tests.support.engines import WHO, Rig
from tests.support.eventually import PATIENCE_SECONDS, eventually

__all__ = ["url"]

PACKS, LOCKED = 30, 25
"""Of packs of a hundred messages: more are locked than one step of time takes."""


# -- what is due ------------------------------------------------------------------------------------------------


async def leased(rig: Rig) -> None:
    await rig.create("orders")
    for _ in range(PACKS):
        await rig.send_all("orders", [Draft(body=b"x")] * 100)
    for _ in range(PACKS):
        assert len(await rig.receive("orders", limit=100, lease_ms=1_000)) == 100


async def delayed(rig: Rig) -> None:
    await rig.create("orders")
    for _ in range(PACKS):
        await rig.send_all("orders", [Draft(body=b"x", delay_ms=1_000)] * 100)


async def aged(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    for _ in range(PACKS):
        await rig.send_all("orders", [Draft(body=b"x")] * 100)


@pytest.mark.parametrize("prepare", [leased, delayed, aged])
async def test_what_another_session_has_locked_does_not_hide_what_is_due_behind_it(
    url: str, prepare: Callable[[Rig], Awaitable[None]]
) -> None:
    async with nodes(url, 1) as (one,):
        await prepare(one)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            await connection.execute(f"SELECT FROM pack ORDER BY last FOR UPDATE LIMIT {LOCKED}".encode())
            one.clock.advance(ms=2_000)
            async with asyncio.timeout(PATIENCE_SECONDS):
                counters = await one.counters("orders")
        left = 100 * (PACKS - LOCKED)
        changed = counters.ready_count if prepare is not aged else 100 * PACKS - counters.total_count
        assert changed == left


async def test_the_full_look_comes_however_long_looks_take(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(url, 1) as (one,):
        await one.create("orders")
        store, time, looks = postgres(one), 0.0, 0
        await store._watch.stop()
        ask_one, doomed = store._pool.ask_one, store._records.doomed

        async def slow(*values: Any) -> Any:
            nonlocal time
            time += 0.1
            return await ask_one(*values)

        async def counted() -> Any:
            nonlocal looks
            looks += 1
            return await doomed()

        monkeypatch.setattr(store._pool, "ask_one", slow)
        monkeypatch.setattr(store._records, "doomed", counted)
        monkeypatch.setattr(type(store), "leads", True)
        store._pause = Pause(lambda: time)
        for tick in range(37, 637):  # ten minutes, from when the node began to lead
            time += 1.0
            await store._tick(tick)
        monkeypatch.undo()
        assert looks > 1


# -- pages ------------------------------------------------------------------------------------------------------


def gate(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Stop the node before each commit until it is let through: (it has come there, it may go on)."""
    come, go = asyncio.Event(), asyncio.Event()
    for committer in postgres(rig)._committers:
        finish = committer._finish

        async def held(*values: Any, finish: Any = finish) -> None:
            come.set()
            await go.wait()
            await finish(*values)

        monkeypatch.setattr(committer, "_finish", held)
    return come, go


async def waits_for(url: str, rig: Rig) -> bool:
    """Whether a session waits for a lock of the node's."""
    pids = [each._connection.info.backend_pid for each in postgres(rig)._committers if each._connection is not None]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        sql = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pg_blocking_pids(pid) && %s::int[]"
        return bool(await (await connection.execute(sql, (pids,))).fetchall())


async def test_a_purge_goes_on_behind_packs_that_others_remove_meanwhile(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url, 3) as (one, two, three):
        queue = await one.create("orders")
        await one.create("other")
        for other in (two, three):
            await other.store.catch_up()
            await other.send("other")  # connects, so that its next two acks share a commit
        for _ in range(20):  # a pack each
            await one.send("orders")
            one.clock.advance(ms=1)
        leases = await one.receive("orders", limit=10)
        last_seq = await one.store.last_seq(queue)
        monkeypatch.setattr(group_commit, "TURN_SECONDS", 60.0)  # so that a busy machine does not part them
        come, go = gate(two, monkeypatch)
        front = asyncio.gather(*(two.ack("orders", lease) for lease in leases[:2]))
        await come.wait()
        come, gone = gate(three, monkeypatch)
        behind = asyncio.gather(*(three.ack("orders", lease) for lease in leases[5:7]))
        await come.wait()
        step = one.store.purge(queue, upto=Newest(last_seq, one.now), after=None, limit=4, now=one.now, principal=WHO)
        purge = await begin(url, one, step)
        assert not purge.done()
        go.set()
        await front
        await eventually(lambda: waits_for(url, three))
        gone.set()
        await behind
        moved = await purge
        assert (await one.counters("orders")).total_count == 20 - 4 - moved.count
        assert moved.next is not None


# -- receivers that wait ----------------------------------------------------------------------------------------


async def pack_first(rig: Rig) -> None:
    await rig.send("orders")
    rig.clock.advance(ms=1)
    await rig.send("orders", id="given")


async def single_first(rig: Rig) -> None:
    await rig.send("orders", id="given")
    rig.clock.advance(ms=1)
    await rig.send("orders")


async def one_pack(rig: Rig) -> None:
    await rig.send_all("orders", [Draft(body=b"x")] * 2)


@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("prepare", [one_pack, pack_first, single_first])
async def test_a_receiver_hears_of_what_another_node_has_locked_and_not_taken(
    url: str, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Rig], Awaitable[None]]
) -> None:
    async with nodes(url) as (one, two):
        await one.create("orders")
        await two.store.catch_up()
        await prepare(one)
        await all_heard(one, two)
        tasks = []

        async def meanwhile() -> None:
            tasks.append(asyncio.create_task(two.receive("orders", limit=1, wait_ms=60_000)))
            await two.arrivals.waits.get()

        with monkeypatch.context() as patch:
            before_commit(one, patch, meanwhile)
            await one.receive_one("orders")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert len(await tasks[0]) == 1


async def test_what_others_are_owed_is_not_lost_with_a_commit(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(url, 1) as (one,):
        await one.create("orders")
        node = postgres(one)._node
        node._told_at = 0.0
        node._owe({7: 3})  # of an earlier commit
        told: list[dict[int, int]] = []

        async def failing(connection: Any, steps: Any) -> Any:
            if any("commit_unit" in step[0] for step in steps):
                raise psycopg.OperationalError("the connection is lost")
            return await ask(connection, steps)

        monkeypatch.setattr(node, "tell_later", told.append)
        monkeypatch.setattr(engine, "ask", failing)
        with pytest.raises(Unavailable):
            await one.send("orders")
        assert [some[7] for some in told if 7 in some] == [3]


async def test_what_may_have_been_committed_is_not_tried_again(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(url, 1) as (one,):
        await one.create("orders")
        with pytest.raises(psycopg.errors.AdminShutdown) as end:
            async with await psycopg.AsyncConnection.connect(url) as connection:
                await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        async def answered_with_the_end_of_the_session(connection: Any, steps: Any) -> Any:
            answers = await ask(connection, steps)
            if any("commit_unit" in step[0] for step in steps):
                raise end.value
            return answers

        with monkeypatch.context() as patch:
            patch.setattr(engine, "ask", answered_with_the_end_of_the_session)
            with pytest.raises(Unavailable, match="may or may not have been done"):
                await one.send("orders")
        assert (await one.counters("orders")).sent_count == 1


async def test_a_warning_of_a_trigger_of_the_operator_fails_no_send(url: str) -> None:
    async with (
        nodes(url, 1) as (one,),
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        await one.create("orders")
        await connection.execute(WARN_OF_COMMITS, prepare=False)
        await one.send("orders")
        assert (await one.counters("orders")).sent_count == 1


WARN_OF_COMMITS = """
CREATE FUNCTION warn() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'canceling wait for synchronous replication due to user request';
    RETURN NULL;
END $$;
CREATE TRIGGER warned AFTER INSERT ON journal EXECUTE FUNCTION warn();
"""


# -- sessions ---------------------------------------------------------------------------------------------------


async def test_a_node_that_has_lost_one_session_keeps_the_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its network has forgotten one connection: the server knows nothing of that, and the node makes another."""
    monkeypatch.setattr(duties, "SILENT_SECONDS", 1.0)
    async with nodes(url) as (one, _):
        await one.create("orders")
        await one.send("orders")
        committers = [each._connection for each in postgres(one)._committers if each._connection is not None]
        lost, postgres(one)._duties._connection = postgres(one)._duties._connection, None
        assert lost is not None
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

            async def living(pids: list[int]) -> list[int]:
                sql = "SELECT pid FROM pg_stat_activity WHERE pid = ANY (%s) ORDER BY pid"
                return [pid for (pid,) in await (await connection.execute(sql, (pids,))).fetchall()]

            await eventually(lambda: living([lost.info.backend_pid]), [].__eq__)
            pids = sorted(each.info.backend_pid for each in committers)
            assert await living(pids) == pids
        await lost.close()


async def test_a_statement_that_is_cancelled_leaves_no_lock_that_other_nodes_wait_for(url: str) -> None:
    async with (
        nodes(url) as (one, other),
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):
        await one.create("orders", kind=Kind.FIFO)
        await other.store.catch_up()
        (source,) = await (await connection.execute(SOURCE_OF_TAKE_SEQS)).fetchone() or ("",)
        slow = source.replace("first := nextval", "PERFORM pg_sleep(60); first := nextval")
        assert slow != source
        await connection.execute(slow.encode())
        sending = asyncio.create_task(one.send("orders", group="g"))
        await eventually(lambda: rows_of(connection, HOLDING_TAKE_SEQS), bool)
        await connection.execute(source.encode())
        await connection.execute(f"SELECT pg_cancel_backend(pid) FROM ({HOLDING_TAKE_SEQS}) AS holder".encode())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await other.send("orders", group="g")
            await sending
        assert len(await one.receive("orders", limit=10)) == 2


async def test_a_timeout_of_the_role_ends_only_the_order_that_waits(url: str) -> None:
    async with nodes(f"{url}%20-c%20statement_timeout%3D1000", 1) as (one,):
        line = await one.create("line", kind=Kind.FIFO)
        await one.create("orders")
        node = postgres(one)._node
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute("SELECT pg_advisory_lock(%s::int, %s::int)", (node.space, line.key))
            names = ("line", "orders", "orders")
            outcomes = await asyncio.gather(*map(one.send, names), return_exceptions=True)
        assert [type(outcome).__name__ for outcome in outcomes] == ["Unavailable", "Sent", "Sent"]


SOURCE_OF_TAKE_SEQS = "SELECT pg_get_functiondef('take_seqs'::regproc)"
HOLDING_TAKE_SEQS = """
SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid::bigint = 4294967296 - 6
AND classid::bigint = (current_schema()::regnamespace::oid::bigint & 4294967295)
"""


async def rows_of(connection: psycopg.AsyncConnection[Any], sql: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(sql.encode())).fetchall()


async def test_a_look_leaves_statements_prepared(url: str) -> None:
    async with nodes(url, 1) as (one,):
        await one.create("orders")
        await one.send("orders")
        await one.browse("orders")
        async with postgres(one)._pool.taken() as connection:
            assert len(connection.statements) > 0


# -- who hears of what is ready ---------------------------------------------------------------------------------


async def waits(rig: Rig, **order: Any) -> asyncio.Task[Any]:
    """A receiver that has found nothing and waits."""
    key = rig.queue("orders").key
    receiver = asyncio.create_task(rig.receive("orders", wait_ms=60_000, **order))
    await eventually(lambda: rig.is_awaited(key, 1))
    return receiver


@pytest.mark.usefixtures("no_polls")
async def test_other_nodes_are_not_woken_by_what_a_receiver_of_this_node_takes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url, 2) as (one, two):
        await one.create("orders")
        await two.store.catch_up()
        here, there = await waits(one, limit=10), await waits(two, limit=10)
        with monkeypatch.context() as patch:
            patch.setattr(notifications, "NOTICE_SECONDS", 60.0)  # until somebody else is told
            await one.send("orders")
            assert len(await here) == 1
            await eventually(lambda: not postgres(one)._node.owed_now().counts)
        await one.send("orders")  # nobody waits here any more
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert len(await there) == 1


@pytest.mark.usefixtures("no_polls")
async def test_other_nodes_hear_of_what_no_receiver_of_this_node_has_come_for(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url, 2) as (one, two):
        await one.create("orders")
        await two.store.catch_up()
        monkeypatch.setattr(one, "is_awaited", lambda key, count: True)  # it goes away before it is called
        there = await waits(two, limit=10)
        await one.send("orders")
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert len(await there) == 1


@pytest.mark.usefixtures("no_polls")
async def test_what_a_receiver_of_this_node_leaves_is_told_to_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with nodes(url, 2) as (one, two):
        await one.create("orders")
        await two.store.catch_up()
        here, there = await waits(one, limit=1), await waits(two, limit=10)
        monkeypatch.setattr(one, "is_awaited", lambda key, count: True)
        await one.send_all("orders", [Draft(body=b"x")] * 2)
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert [len(await here), len(await there)] == [1, 1]


async def test_what_became_ready_after_a_notice_is_still_owed_when_the_earlier_has_been_taken(url: str) -> None:
    async with nodes(url, 1) as (one,):
        node = postgres(one)._node
        node._owe({1: 5})
        before = node.owed_now()
        node._take_notice()
        node._owe({1: 3})
        node.taken(1, before)
        assert node.owed_now().counts == {1: 3}
        node.taken(1, node.owed_now())
        assert node.owed_now().counts == {}


async def test_a_claim_of_what_was_ready_by_an_instant_takes_nothing_from_what_is_owed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url, 2) as (one, _):
        queue = await one.create("orders")
        monkeypatch.setattr(notifications, "NOTICE_SECONDS", 3_600.0)
        job = await one.claims.open(queue, "spark")
        await one.send("orders")
        owed = postgres(one)._node.owed_now().counts
        assert owed == {queue.key: 1}
        await one.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=10, principal=WHO)
        assert postgres(one)._node.owed_now().counts == owed
        monkeypatch.undo()
