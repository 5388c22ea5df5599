"""A listener or worker consumer that is removed gets nothing more, whatever is under way."""

import asyncio

from couriermq.clock import FakeClock
from couriermq.core.model import MINUTE, Listener, Queue
from couriermq.delivery.book import KIND
from couriermq.delivery.concurrency import ConcurrencyMeter
from couriermq.delivery.lane import Lane
from tests.delivery.conftest import Post
from tests.delivery.test_workers import consumed, held, outcome
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, answer, held_until


def lane_of(post: Post, listener: Listener | None) -> Lane:
    lane = post.deliveries._dispatcher.lane_of(listener) if listener else None
    assert lane is not None
    return lane


async def with_a_backlog(post: Post, receiver: Receiver, go_on: asyncio.Event) -> tuple[Queue, Lane]:
    """A consumer whose first batch of five is under way."""
    queue = await consumed(post, receiver, batch_size=1, max_wait_time_ms=0, max_concurrency=1)
    receiver.behave(held_until(go_on, outcome()))
    await post.send(queue, b"1", b"2", b"3", b"4", b"5")
    await receiver.wait(1)
    return queue, lane_of(post, post.deliveries.consumer(queue))


async def all_quiet(post: Post, queue: Queue, lane: Lane) -> None:
    """Until one message is acked and nothing is under way."""
    counters = await eventually(lambda: post.broker.counters(queue), lambda now: now.leased_count == 0)
    await eventually(lambda: not (lane.active or lane.settling or lane.fetching))
    assert (counters.acked_count, counters.ready_count) == (1, 4)


async def test_a_worker_that_is_detached_gets_no_further_batch(post: Post, receiver: Receiver) -> None:
    go_on = asyncio.Event()
    queue, lane = await with_a_backlog(post, receiver, go_on)
    await post.catalog.detach_worker("default", "shop", principal="test")
    go_on.set()
    await all_quiet(post, queue, lane)
    assert len(receiver.requests) == 1


async def test_a_worker_consumer_that_is_removed_gets_no_further_batch_and_leaves_no_record(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    go_on = asyncio.Event()
    queue, lane = await with_a_backlog(post, receiver, go_on)
    await post.catalog.change_queue(queue, annotations={}, principal="test")
    go_on.set()
    await all_quiet(post, queue, lane)
    assert len(receiver.requests) == 1
    assert lane.listener.id not in post.deliveries._book._dirty
    assert lane.listener.id not in post.deliveries._log._recent
    clock.advance(ms=MINUTE)
    assert post.deliveries.concurrency(queue) == {}


async def test_what_was_leased_for_a_worker_that_is_detached_is_given_back_untried(
    post: Post, receiver: Receiver
) -> None:
    queue = await consumed(post, receiver, batch_size=10, max_wait_time_ms=60_000)
    await post.send(queue, b"one", b"two")
    await held(post, queue, 2)
    await post.catalog.detach_worker("default", "shop", principal="test")
    await eventually(lambda: post.broker.counters(queue), lambda counters: counters.ready_count == 2)
    assert {message.attempts for message in (await post.broker.browse(queue)).messages} == {0}
    assert receiver.requests == []


async def test_a_listener_that_is_deleted_during_a_delivery_leaves_no_record(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    go_on = asyncio.Event()
    receiver.behave(held_until(go_on, answer(500)))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"x")
    await receiver.wait(1)
    lane = lane_of(post, listener)
    await post.catalog.delete_listener(listener, principal="test")
    go_on.set()
    await eventually(lambda: not (lane.active or lane.settling))
    assert listener.id not in post.deliveries._book._dirty
    assert listener.id not in post.deliveries._book._known
    assert list(post.catalog.records(KIND, "default")) == []


def test_an_invocation_that_ends_after_its_consumer_was_removed_is_not_counted() -> None:
    meter = ConcurrencyMeter()
    meter.change("q", 1, now=0)
    meter.forget("q")
    meter.change("q", -1, now=MINUTE)
    assert meter.averages("q", now=2 * MINUTE) == {}


def test_an_invocation_of_a_consumer_that_was_removed_is_not_subtracted_from_those_of_the_next() -> None:
    meter = ConcurrencyMeter()
    meter.change("q", 1, now=0)
    meter.forget("q")
    meter.change("q", 1, now=0)
    meter.change("q", -1, now=MINUTE)
    meter.change("q", -1, now=MINUTE)
    assert meter.averages("q", now=2 * MINUTE) == {0: 1.0}
