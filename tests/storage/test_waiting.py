"""A receiver that waits is woken by whatever makes a message ready, at once, and by nothing else.

The clock is moved by hand: a receiver that were not woken would wait for ever, and the test with it.
"""

import asyncio
from typing import Any

import pytest

from couriermq.core.errors import QueueNotFound, QueuePaused, Unavailable
from couriermq.core.model import Kind, Lease, QueueSettings
from couriermq.storage.group_commit import Collector
from tests.support.engines import WHO, Rig
from tests.support.eventually import PATIENCE_SECONDS

WAIT_MS = 20_000


async def parked(rig: Rig, name: str = "orders", **order: object) -> "asyncio.Task[list[Lease]]":
    """A receiver that has looked in vain and waits."""
    receiver = asyncio.create_task(rig.receive(name, wait_ms=WAIT_MS, **order))
    await rig.arrivals.waits.get()
    return receiver


async def test_a_waiting_receiver_is_woken_by_a_send(rig: Rig) -> None:
    await rig.create("orders")
    receiver = await parked(rig)
    sent = await rig.send("orders")
    assert [lease.message.seq for lease in await receiver] == [sent.seq]


async def test_a_receiver_does_not_wait_when_there_is_something(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders")
    assert len(await rig.receive("orders", wait_ms=WAIT_MS)) == 1
    assert rig.arrivals.waits.empty()


async def test_a_waiting_receiver_goes_home_empty_handed_at_its_time(rig: Rig) -> None:
    await rig.create("orders")
    receiver = await parked(rig)
    rig.clock.advance(ms=WAIT_MS)
    assert await receiver == []


async def test_a_waiting_receiver_is_woken_by_the_end_of_a_lease(rig: Rig) -> None:
    await rig.create("orders")
    sent = await rig.send("orders")
    await rig.receive_one("orders", lease_ms=5_000)
    async with rig.keeping_time():
        receiver = await parked(rig)
        rig.clock.advance(ms=5_000)
        (lease,) = await receiver
    assert (lease.message.seq, lease.message.attempts) == (sent.seq, 2)


async def test_a_waiting_receiver_is_woken_by_the_end_of_a_delay(rig: Rig) -> None:
    await rig.create("orders")
    async with rig.keeping_time():
        receiver = await parked(rig)
        sent = await rig.send("orders", delay_ms=5_000)
        rig.clock.advance(ms=5_000)
        assert [lease.message.seq for lease in await receiver] == [sent.seq]


async def test_a_waiting_receiver_is_woken_by_the_end_of_a_retry_delay(rig: Rig) -> None:
    await rig.create("orders", retry_delay_ms=3_000)
    await rig.send("orders")
    lease = await rig.receive_one("orders")
    async with rig.keeping_time():
        receiver = await parked(rig)
        await rig.release("orders", lease)
        rig.clock.advance(ms=3_000)
        assert len(await receiver) == 1


async def test_a_waiting_receiver_is_woken_by_a_release(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders")
    lease = await rig.receive_one("orders")
    receiver = await parked(rig)
    await rig.release("orders", lease)
    assert len(await receiver) == 1


async def test_a_waiting_receiver_is_woken_by_a_redrive(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    await rig.release("orders", await rig.receive_one("orders"))
    receiver = await parked(rig)
    await rig.broker.redrive(rig.queue("graves"), principal=WHO)
    assert len(await receiver) == 1


async def test_a_waiting_receiver_is_woken_by_a_move(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    await rig.send("bills")
    receiver = await parked(rig)
    await rig.broker.move(rig.queue("bills"), rig.queue("orders"), principal=WHO)
    assert len(await receiver) == 1


async def test_a_receiver_at_a_dead_letter_queue_is_woken_by_a_death(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=5_000)
    async with rig.keeping_time():
        receiver = await parked(rig, "graves")
        rig.clock.advance(ms=5_000)
        (lease,) = await receiver
    assert lease.message.death


async def test_a_receiver_at_a_fifo_queue_is_woken_when_a_group_is_unlocked(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    await rig.send("line", b"a", group="g")
    await rig.send("line", b"b", group="g")
    lease = await rig.receive_one("line")
    receiver = await parked(rig, "line")
    await rig.ack("line", lease)
    assert [each.message.body for each in await receiver] == [b"b"]


async def test_a_receiver_at_a_fifo_queue_is_woken_when_retention_unlocks_a_group(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    await rig.send("line", b"a", group="g", retention_ms=4_000)
    await rig.send("line", b"b", group="g")
    await rig.receive_one("line", lease_ms=60_000)
    async with rig.keeping_time():
        receiver = await parked(rig, "line")
        rig.clock.advance(ms=4_000)
        assert [each.message.body for each in await receiver] == [b"b"]


async def test_each_of_several_waiting_receivers_gets_a_message(rig: Rig) -> None:
    await rig.create("orders")
    receivers = [await parked(rig) for _ in range(3)]
    sent = [await rig.send("orders") for _ in range(3)]
    received = [lease.message.seq for leases in await asyncio.gather(*receivers) for lease in leases]
    assert sorted(received) == [each.seq for each in sent]


async def test_a_receiver_that_another_was_faster_than_waits_on(rig: Rig) -> None:
    await rig.create("orders")
    receiver = await parked(rig)
    sending = asyncio.create_task(rig.send("orders"))
    stealing = asyncio.create_task(rig.receive("orders"))
    await asyncio.gather(sending, stealing)
    if stealing.result():
        await rig.arrivals.waits.get()
        assert not receiver.done()
        await rig.send("orders")
    assert len(await receiver) == 1


async def test_messages_elsewhere_do_not_disturb_a_waiting_receiver(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    receiver = await parked(rig)
    await rig.send("bills")
    assert not receiver.done()
    assert rig.arrivals.waits.empty()
    rig.clock.advance(ms=WAIT_MS)
    assert await receiver == []


async def test_a_receiver_that_waits_at_a_queue_that_is_paused_hears_of_it_when_woken(rig: Rig) -> None:
    queue = await rig.create("orders")
    receiver = await parked(rig)
    await rig.catalog.change_queue(queue, settings=QueueSettings(paused=True), principal=WHO)
    await rig.send("orders")
    with pytest.raises(QueuePaused):
        await receiver


async def test_all_receivers_that_wait_at_a_queue_that_is_paused_hear_of_it_with_the_first_message(rig: Rig) -> None:
    queue = await rig.create("orders")
    receivers = [await parked(rig) for _ in range(3)]
    await rig.catalog.change_queue(queue, settings=QueueSettings(paused=True), principal=WHO)
    await rig.send("orders")
    async with asyncio.timeout(PATIENCE_SECONDS):
        failures = await asyncio.gather(*receivers, return_exceptions=True)
    assert [type(failure) for failure in failures] == [QueuePaused] * 3


async def test_a_receiver_that_the_store_fails_leaves_the_message_to_the_next(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.create("orders")
    first, second = await parked(rig), await parked(rig)
    receive = rig.store.receive

    async def fails_once(*values: Any, **order: Any) -> list[Lease]:
        monkeypatch.setattr(rig.store, "receive", receive)
        raise Unavailable("the database is out of reach")

    monkeypatch.setattr(rig.store, "receive", fails_once)
    sent = await rig.send("orders")
    with pytest.raises(Unavailable):
        await first
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [lease.message.seq for lease in await second] == [sent.seq]


async def test_a_receiver_that_waits_at_a_paused_queue_is_woken_when_the_queue_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node may not have heard of what came meanwhile."""
    queue = await rig.create("orders")
    receiver = await parked(rig)
    paused = await rig.catalog.change_queue(queue, settings=QueueSettings(paused=True), principal=WHO)
    with monkeypatch.context() as patch:
        patch.setattr(rig.arrivals, "ready", lambda queue_key, count: None)
        sent = await rig.send("orders")
    await rig.catalog.change_queue(paused, settings=QueueSettings(), principal=WHO)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert [lease.message.seq for lease in await receiver] == [sent.seq]


async def test_a_receiver_that_waits_at_a_queue_that_is_deleted_hears_of_it(rig: Rig) -> None:
    queue = await rig.create("orders")
    receiver = await parked(rig)
    await rig.catalog.delete_queue(queue, principal=WHO)
    rig.clock.advance(ms=WAIT_MS)
    with pytest.raises(QueueNotFound):
        await receiver


async def test_a_receiver_that_goes_away_leaves_the_message_to_the_next(rig: Rig) -> None:
    await rig.create("orders")
    first, second = await parked(rig), await parked(rig)
    first.cancel()
    sent = await rig.send("orders")
    assert [lease.message.seq for lease in await second] == [sent.seq]


async def test_stopping_answers_everybody_who_waits(rig: Rig) -> None:
    await rig.create("orders")
    receivers = [await parked(rig) for _ in range(3)]
    rig.broker.stop_waiting()
    assert await asyncio.gather(*receivers) == [[], [], []]


async def test_waiting_costs_no_commits(rig: Rig) -> None:
    await rig.create("orders")
    before = await rig.store.spans()
    async with rig.keeping_time():
        receivers = [await parked(rig) for _ in range(20)]
        rig.clock.advance(ms=WAIT_MS - 1)
        assert not any(receiver.done() for receiver in receivers)
        rig.clock.advance(ms=1)
        await asyncio.gather(*receivers)
    assert await rig.store.spans() == before


MOMENTS = ["its commit is under way", "its leases are on the way to it"]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_a_receiver_is_given_after_it_has_gone_away_is_given_back_untried(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    await rig.create("orders", max_attempts=1)
    sent = await rig.send("orders")
    with pytest.raises(asyncio.CancelledError):
        await cancelled(rig, monkeypatch, moment)
    (lease,) = await rig.receive("orders", wait_ms=WAIT_MS)
    assert (lease.message.seq, lease.message.attempts) == (sent.seq, 1)
    await rig.ack("orders", lease)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_is_being_given_back_is_given_back_before_the_store_closes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    await rig.create("orders")
    await rig.send("orders")
    receiver = cancelled(rig, monkeypatch, moment)
    await asyncio.sleep(0)  # it has given its order
    await rig.restart()
    assert receiver.cancelled()
    counters = await rig.counters("orders")
    assert (counters.ready_count, counters.leased_count) == (1, 0)


def cancelled(rig: Rig, monkeypatch: pytest.MonkeyPatch, moment: str) -> "asyncio.Task[list[Lease]]":
    """A receiver that is cancelled just before the commit tells its results, or just after."""
    receiver = asyncio.create_task(rig.receive("orders", lease_ms=600_000))
    answer = Collector._answer

    def answer_and_cancel(collector: Collector, results: Any) -> None:
        monkeypatch.undo()
        if moment == MOMENTS[0]:
            receiver.cancel()
        answer(collector, results)
        receiver.cancel()

    monkeypatch.setattr(Collector, "_answer", answer_and_cancel)
    return receiver
