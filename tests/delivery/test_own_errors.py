"""An error of our own costs one attempt at most: nothing is held for good, and everything else goes on."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import SECOND, Ack, Extend, QueueSettings
from couriermq.delivery.alarms import Alarms
from couriermq.delivery.book import KIND, SAVE_MS
from couriermq.delivery.dispatcher import JUDGE_RETRY_MS, STORE_RETRY_MS
from couriermq.delivery.lane import LEASE_MS
from couriermq.delivery.renewing import RETRY_MS
from tests.delivery.conftest import Post
from tests.delivery.test_removal import lane_of
from tests.delivery.test_workers import consumed, count_of, outcome
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, answer, held_until


def fail_once(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, when: Callable[..., bool] = lambda *args: True
) -> list[str]:
    """Let the first such call raise what nobody expects; what was raised is noted."""
    original, failed = getattr(where, name), list[str]()

    def call(*args: Any, **facts: Any) -> Any:
        if not failed and when(*args):
            failed.append(name)
            raise RuntimeError("an error of our own")
        return original(*args, **facts)

    monkeypatch.setattr(where, name, call)
    return failed


async def test_a_batch_whose_answer_cannot_be_judged_comes_again(
    post: Post, receiver: Receiver, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, post.deliveries._batches.judge, "judge")
    queue = await consumed(post, receiver, batch_size=1, max_wait_time_ms=0, max_concurrency=1)
    await post.send(queue, b"one", b"two")
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 1)
    await eventually(count_of(post, queue, "delayed_count"), lambda count: count == 1)
    clock.advance(ms=JUDGE_RETRY_MS)
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 2)
    assert len(receiver.requests) == 3
    assert lane_of(post, post.deliveries.consumer(queue)).leases == {}


async def test_a_delivery_whose_answer_cannot_be_judged_comes_again(
    post: Post, receiver: Receiver, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_once(monkeypatch, post.deliveries._dispatcher._judge, "judge")
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, ordered=True)
    await post.send(queue, b"one")
    await eventually(lambda: post.waiting(listener), lambda counters: counters.delayed_count == 1)
    clock.advance(ms=JUDGE_RETRY_MS)
    await post.delivered(listener, 1)
    assert receiver.bodies == [b"one", b"one"]


async def test_a_delay_beyond_all_measure_is_a_day(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    settings = QueueSettings(max_attempts=3)
    queue = await consumed(post, receiver, settings=settings, batch_size=1, max_wait_time_ms=0)
    receiver.behave(outcome(retryBatch={"retry": True, "delaySeconds": 1e306}), outcome())
    await post.send(queue, b"one")
    await eventually(count_of(post, queue, "delayed_count"), lambda count: count == 1)
    clock.advance(ms=24 * 3_600 * SECOND)
    await eventually(count_of(post, queue, "acked_count"), lambda count: count == 1)


async def test_an_alarm_that_fails_keeps_no_other_from_ringing(clock: FakeClock) -> None:
    alarms, rung = Alarms(clock), list[str]()

    def fail() -> None:
        rung.append("before")
        raise RuntimeError("an error of our own")

    alarms.set(clock.now(), fail)
    alarms.set(clock.now() + SECOND, lambda: rung.append("after"))
    running = asyncio.create_task(alarms.run())
    await eventually(lambda: rung == ["before"])
    clock.advance(ms=SECOND)
    await eventually(lambda: rung == ["before", "after"])
    running.cancel()


async def test_a_listener_goes_on_after_a_settlement_that_failed(
    post: Post, receiver: Receiver, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_ack(_: object, orders: list[object], *args: object) -> bool:
        return isinstance(orders[0], Ack)

    fail_once(monkeypatch, post.broker, "settle", is_ack)
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"one")
    await receiver.wait(1)
    lane = lane_of(post, listener)
    await eventually(lambda: not (lane.active or lane.settling))
    assert lane.leases == {}
    clock.advance(ms=LEASE_MS)
    await post.delivered(listener, 1)
    assert receiver.bodies == [b"one", b"one"]


async def test_leases_are_renewed_again_after_a_renewal_that_failed(
    post: Post, receiver: Receiver, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_extend(_: object, orders: list[object], *args: object) -> bool:
        return isinstance(orders[0], Extend)

    failed, alarms = fail_once(monkeypatch, post.broker, "settle", is_extend), post.deliveries._alarms
    go_on = asyncio.Event()
    receiver.behave(held_until(go_on, answer()))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, timeout_ms=60 * SECOND)
    await post.send(queue, b"one")
    await receiver.wait(1)
    lane = lane_of(post, listener)
    clock.advance(ms=LEASE_MS // 2)
    await eventually(lambda: failed and any(alarm[0] == clock.now() + RETRY_MS for alarm in alarms._heap))
    clock.advance(ms=RETRY_MS)
    await eventually(lambda: set(lane.leases.values()) == {clock.now() + LEASE_MS})
    go_on.set()
    await post.delivered(listener, 1)
    assert receiver.bodies == [b"one"]


async def test_messages_are_leased_after_a_call_that_failed(
    post: Post, receiver: Receiver, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"one")
    await post.delivered(listener, 1)
    failed = fail_once(monkeypatch, post.broker, "receive")
    await post.send(queue, b"two")
    await eventually(lambda: failed and lane_of(post, listener).alarm_at is not None)
    clock.advance(ms=STORE_RETRY_MS)
    await post.delivered(listener, 2)
    assert receiver.bodies == [b"one", b"two"]


async def test_health_is_saved_after_a_round_that_failed(
    post: Post, receiver: Receiver, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = fail_once(monkeypatch, post.catalog, "put_records")
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"one")
    await post.delivered(listener, 1)
    clock.advance(ms=SAVE_MS)
    await eventually(lambda: failed and not post.deliveries._book._saving_soon)
    await post.send(queue, b"two")
    await post.delivered(listener, 2)
    clock.advance(ms=SAVE_MS)
    await eventually(lambda: [record.id for record in post.catalog.records(KIND, "default")] == [listener.id])
