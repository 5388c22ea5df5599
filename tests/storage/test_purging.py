"""Purges and deletions of large queues: in small steps, up to a bound, resumed after a restart."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from couriermq.core.events import EventKind
from couriermq.core.limits import COMMIT_BYTES
from couriermq.core.model import Draft, Queue
from couriermq.core.shards import Newest
from couriermq.purges import SAVE_MS, STALE_MS, Purges
from couriermq.storage.base import SWEEP_COUNT, SWEEP_MS, Moved
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import WHO, Rig
from tests.support.eventually import eventually

COUNT = 450


@pytest.fixture
async def purges(rig: Rig) -> AsyncIterator[Purges]:
    found = purges_of(rig)
    yield found
    found.stop()


def purges_of(rig: Rig) -> Purges:
    shared = not isinstance(rig.store, SqliteStore)
    return Purges(rig.broker, rig.catalog, rig.clock, holds=rig.store.holds, shared=shared)


async def fill(rig: Rig, name: str, count: int = COUNT) -> Queue:
    queue = await rig.create(name)
    await rig.send_all(name, [Draft(body=b"x") for _ in range(count)])
    return queue


class Gate:
    """Stops a purge before each of its steps until it is let through."""

    def __init__(self, rig: Rig) -> None:
        self.limits: list[int] = []
        self._open = asyncio.Semaphore(0)
        self._purge = rig.store.purge
        rig.store.purge = self.step  # type: ignore[method-assign]

    async def step(
        self, queue: Queue, *, upto: Newest, after: str | None, limit: int, now: int, principal: str
    ) -> Moved:
        await self._open.acquire()
        self.limits.append(limit)
        return await self._purge(queue, upto=upto, after=after, limit=limit, now=now, principal=principal)

    def let(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._open.release()


async def test_a_purge_removes_what_was_there_when_it_was_asked_for(rig: Rig, purges: Purges) -> None:
    queue = await fill(rig, "orders")
    gate = Gate(rig)
    await purges.start(queue, principal=WHO)
    gate.let()
    await eventually(lambda: len(gate.limits) == 1)
    await rig.send("orders", b"later")
    gate.let(1_000)
    await eventually(lambda: (last := purges.last(queue)) and last.ended_at is not None)
    assert [message.body for message in await rig.browse("orders")] == [b"later"]
    last = purges.last(queue)
    assert last is not None
    assert last.count == COUNT
    assert len(await rig.events(EventKind.PURGED)) == COUNT
    assert max(gate.limits) <= 1_000 > gate.limits[0]


async def test_a_purge_that_takes_long_is_answered_before_its_end_and_tells_how_far_it_is(
    rig: Rig, purges: Purges
) -> None:
    queue = await fill(rig, "orders")
    assert purges.last(queue) is None
    gate = Gate(rig)
    gate.let()
    purge = await purges.purge(queue, principal=WHO, patience_seconds=0.2)
    assert purge.ended_at is None
    await eventually(lambda: purge.count, (100).__eq__)
    assert purges.last(queue) == purge
    gate.let(1_000)
    await eventually(lambda: (last := purges.last(queue)) and last.ended_at is not None)
    assert (await rig.counters("orders")).total_count == 0


async def test_an_interrupted_purge_goes_on_after_a_restart_up_to_the_same_message(rig: Rig, purges: Purges) -> None:
    queue = await fill(rig, "orders")
    gate = Gate(rig)
    gate.let()
    purge = await purges.purge(queue, principal=WHO, patience_seconds=0.2)
    await eventually(lambda: purge.count, (100).__eq__)
    purges.stop()
    await rig.restart()
    await rig.send("orders", b"later")
    assert (await rig.counters("orders")).total_count > 1
    again = purges_of(rig)
    found = again.last(rig.queue("orders"))
    assert found is not None
    assert found.ended_at is None
    if not isinstance(rig.store, SqliteStore):
        await eventually(lambda: rig.store.holds("upkeep"))
    rig.clock.advance(ms=STALE_MS)
    worker = asyncio.create_task(again.run())
    try:
        await eventually(lambda: (last := again.last(queue)) and last.ended_at is not None)
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    assert [message.body for message in await rig.browse("orders")] == [b"later"]


async def test_a_second_purge_takes_what_came_during_the_first(rig: Rig, purges: Purges) -> None:
    queue = await fill(rig, "orders")
    gate = Gate(rig)
    await purges.start(queue, principal=WHO)
    await rig.send("orders", b"later")
    second = await purges.start(queue, principal=WHO)
    gate.let(1_000)
    await eventually(lambda: second.ended_at is not None)
    assert (await rig.counters("orders")).total_count == 0


async def test_an_older_purge_does_not_overwrite_the_record_of_a_newer_one_of_another_node(
    rig: Rig, purges: Purges
) -> None:
    queue = await fill(rig, "orders", 1)
    gate = Gate(rig)
    await purges.start(queue, principal=WHO)
    await rig.send("orders", b"later")
    rig.clock.advance(ms=1)
    other = purges_of(rig)
    newer = await other.start(queue, principal=WHO)
    other.stop()  # its node dies
    gate.let(1_000)
    await eventually(lambda: not purges._tasks)
    record = rig.catalog.record("purge", queue.tenant, queue.id)
    assert (record.document["upto_seq"], record.document["ended_at"]) == (newer.upto_seq, None)
    rig.clock.advance(ms=STALE_MS)
    await purges._look()
    await eventually(lambda: (last := purges.last(queue)) and last.ended_at is not None)
    assert await rig.browse("orders") == []


async def test_progress_is_written_down_while_a_purge_runs(rig: Rig, purges: Purges) -> None:
    queue = await fill(rig, "orders")
    gate = Gate(rig)
    await purges.start(queue, principal=WHO)
    rig.clock.advance(ms=SAVE_MS)
    gate.let()
    await eventually(lambda: (kept := purges_of(rig).last(queue)) and kept.count == 100)


async def test_the_purge_of_a_queue_that_is_deleted_ends_and_is_forgotten(rig: Rig, purges: Purges) -> None:
    queue = await fill(rig, "orders")
    Gate(rig)
    await purges.start(queue, principal=WHO)
    await rig.catalog.delete_queue(queue, principal=WHO)
    if not isinstance(rig.store, SqliteStore):
        await eventually(lambda: rig.store.holds("upkeep"))
    worker = asyncio.create_task(purges.run())
    try:
        await eventually(lambda: not rig.catalog.records("purge", queue.tenant))
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def test_a_deleted_queue_is_gone_at_once_and_its_messages_go_in_small_steps(rig: Rig) -> None:
    queue = await fill(rig, "orders", 2 * SWEEP_COUNT + 10)
    await rig.catalog.delete_queue(queue, principal=WHO)
    await rig.create("orders")
    assert (await rig.counters("orders")).total_count == 0
    await rig.send("orders", b"new")
    removed: list[int] = []
    for _ in range(4):
        await rig.pass_time(ms=SWEEP_MS)
        removed.append(len(await rig.events(EventKind.PURGED)))
    assert removed[0] <= SWEEP_COUNT < removed[1]
    assert removed[-1] == 2 * SWEEP_COUNT + 10
    assert [message.body for message in await rig.browse("orders")] == [b"new"]


async def test_the_removal_of_a_deleted_queue_goes_on_after_a_restart(rig: Rig) -> None:
    queue = await fill(rig, "orders", 2 * SWEEP_COUNT + 10)
    await rig.catalog.delete_queue(queue, principal=WHO)
    await rig.pass_time(ms=SWEEP_MS)
    await rig.restart()
    for _ in range(4):
        await rig.pass_time(ms=SWEEP_MS)
    assert len(await rig.events(EventKind.PURGED)) == 2 * SWEEP_COUNT + 10


async def test_a_deleted_queue_of_large_messages_is_swept_to_its_end(rig: Rig) -> None:
    queue = await rig.create("orders")
    size = 4 * 1024 * 1024
    count = 2 * COMMIT_BYTES // size
    for _ in range(count):
        await rig.send("orders", b"x" * size)
    for span in (await rig.store.spans()).values():
        await rig.store.trim_events(before=span.next)  # the bodies are more than one read of the journal gives
    await rig.catalog.delete_queue(queue, principal=WHO)
    for _ in range(4):
        await rig.pass_time(ms=SWEEP_MS)
    assert len(await rig.events(EventKind.PURGED)) == count
