"""Where scans for ready messages begin, and that they miss nothing."""

import psycopg
import pytest

from couriermq.core.lifecycle.needs import Found
from couriermq.core.lifecycle.rows import Pack
from couriermq.storage.postgres import notifications
from couriermq.storage.postgres.notifications import MARGIN_MS, MOST_MARKS, Mark, Marks
from tests.storage.postgres.test_store import nodes, url
from tests.support.engines import Rig

__all__ = ["url"]

ROUNDS = 100


def pack(due_at: int) -> Pack:
    return Pack(due_at, 1, 1, due_at, 0, 0, due_at, 1, 1, 1, 1, 0, 0)


class Line:
    """Packs that are ready, and the scans that were made of them, each of which takes a tenth of a second."""

    def __init__(self, *due_at: int) -> None:
        self.packs = [pack(at) for at in due_at]
        self.time = 1_000.0
        self.scans: list[int] = []

    async def since(self, since: int) -> Found:
        self.time += 0.1
        self.scans.append(since)
        return Found([pack for pack in self.packs if pack.due_at >= since], [])

    def clock(self) -> float:
        return self.time


async def test_a_scan_begins_a_little_before_what_the_last_one_found() -> None:
    line = Line(10_000, 20_000)
    mark = Mark(line.clock)
    assert (await mark.scan(line.since, 2)).packs == line.packs
    del line.packs[0]
    await mark.scan(line.since, 1)
    await mark.scan(line.since, 1)
    assert line.scans == [0, 10_000 - MARGIN_MS, 20_000 - MARGIN_MS]


async def test_a_scan_that_finds_less_than_is_wanted_is_made_again_from_the_front() -> None:
    line = Line(20_000)
    mark = Mark(line.clock)
    await mark.scan(line.since, 1)
    line.packs = [pack(10_000), pack(20_000)]
    assert (await mark.scan(line.since, 2)).packs == line.packs
    assert line.scans == [0, 20_000 - MARGIN_MS, 0]


async def test_an_empty_queue_is_scanned_once() -> None:
    line = Line(20_000)
    mark = Mark(line.clock)
    await mark.scan(line.since, 1)
    line.packs = []
    await mark.scan(line.since, 1)
    line.scans.clear()
    await mark.scan(line.since, 1)
    assert line.scans == [0]


async def test_scans_from_the_front_take_a_twentieth_of_the_time() -> None:
    line = Line(10_000, 20_000)
    mark = Mark(line.clock)
    for _ in range(210):
        await mark.scan(line.since, 1)
    assert line.scans.count(0) == 10


async def test_only_so_many_queues_have_marks() -> None:
    kept = Marks(lambda: 0.0)
    first = kept.of(0)
    assert kept.of(0) is first
    for key in range(1, MOST_MARKS + 1):
        kept.of(key)
    assert len(kept._marks) == 1


async def test_receives_read_no_more_while_somebody_holds_a_transaction_open(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        notifications, "REST", 1_000_000
    )  # after the first, no scan is made from the front unless it must
    async with nodes(url, 1) as (one,), await psycopg.AsyncConnection.connect(url) as holder:
        await one.create("orders")
        await one.send("orders")
        await holder.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await holder.execute("SELECT count(*) FROM pack")
        before = await entries_read(url, one)
        for _ in range(ROUNDS):
            one.clock.advance(ms=1_000)
            await one.send("orders")
            (lease,) = await one.receive("orders")
            await one.ack("orders", lease)
        assert await entries_read(url, one) - before < 10 * ROUNDS


async def test_a_message_that_another_session_had_locked_is_received_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "REST", 1_000_000)
    async with nodes(url, 1) as (one,):
        await one.create("orders")
        first = await one.send("orders")
        async with await psycopg.AsyncConnection.connect(url) as holder:
            await holder.execute("SELECT FROM pack FOR UPDATE")
            one.clock.advance(ms=60_000)
            second = await one.send("orders")
            assert [lease.message.id for lease in await one.receive("orders")] == [second.id]
        one.clock.advance(ms=1_000)
        assert [lease.message.id for lease in await one.receive("orders", limit=10)] == [first.id]


async def entries_read(url: str, rig: Rig) -> int:
    """Index entries of packs by state that all sessions together have read."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for committer in rig.store._committers:  # type: ignore[attr-defined]
            if committer._connection is not None:
                await committer._connection.execute("SELECT pg_stat_force_next_flush()")
        sql = (
            "SELECT idx_tup_read FROM pg_stat_user_indexes "
            "WHERE schemaname = current_schema() AND indexrelname = 'pack_state'"
        )
        ((count,),) = await (await connection.execute(sql)).fetchall()
        return int(count)
