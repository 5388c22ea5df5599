"""What listeners get, in what order, how many at a time, and what one does not do to another."""

import asyncio
from pathlib import Path

from couriermq.clock import FakeClock, SystemClock
from couriermq.core.model import MINUTE, SECOND, Kind, Listener, Matcher, QueueSettings, Rule, RuleType
from couriermq.delivery import Outcome
from tests.delivery.conftest import COURIER, Post
from tests.support.eventually import eventually
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver, Request, answer, hang, receiving


async def test_every_listener_gets_every_message(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    async with receiving() as other:
        await post.listen(queue, receiver.url, "one")
        await post.listen(queue, other.url, "two")
        await post.send(queue, b"a", b"b")
        await receiver.wait(2)
        await other.wait(2)
        assert sorted(receiver.bodies) == sorted(other.bodies) == [b"a", b"b"]


async def test_a_listener_does_not_get_what_was_sent_before_it(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    await post.send(queue, b"early")
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"late")
    await post.attempts(listener, 1)
    assert receiver.bodies == [b"late"]


async def test_messages_of_an_exchange_are_delivered_too(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    exchange = await post.catalog.create_exchange("default", "events", principal="test")
    await post.catalog.bind(exchange, queue, principal="test")
    await post.app.post("/courier/v1/tenants/default/exchanges/events/messages", {"body": "hello"})
    await post.attempts(listener, 1)
    assert receiver.bodies == [b"hello"]


async def test_a_dead_listener_does_not_hold_up_another(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    async with receiving(hang) as dead:
        await post.listen(queue, dead.url, "dead", timeout_ms=300_000)
        live = await post.listen(queue, receiver.url, "live")
        await post.send(queue, *[b"x"] * 200)
        await dead.wait(8)
        await post.delivered(live, 200)
        assert len(dead.requests) == 8


async def test_filters_look_at_attributes_and_into_json(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    rules = (
        Rule(attribute="region", type=RuleType.STRING, matcher=Matcher.EQ, value="eu"),
        Rule(attribute="$.order.total", type=RuleType.NUMERIC, matcher=Matcher.GE, value=100),
    )
    listener = await post.listen(queue, receiver.url, rules=rules)
    await post.send(queue, b'{"order": {"total": 50}}', b'{"order": {"total": 150}}', attributes={"region": "eu"})
    await post.send(queue, b'{"order": {"total": 500}}', attributes={"region": "us"})
    await post.attempts(listener, 1)
    assert (await post.waiting(listener)).sent_count == 1
    assert receiver.bodies == [b'{"order": {"total": 150}}']


async def test_an_ordered_listener_gets_one_at_a_time_in_order_whatever_fails(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, ordered=True)
    bodies = [b"%d" % number for number in range(20)]
    receiver.behave(*[answer()] * 5, answer(500), answer())
    await post.send(queue, *bodies)
    await post.attempts(listener, 6)
    assert (await post.waiting(listener)).total_count == 15
    clock.advance(ms=6 * SECOND)
    await post.delivered(listener, 20)
    assert receiver.bodies == [*bodies[:6], *bodies[5:]]
    assert receiver.most_at_once == 1


async def test_an_ordered_listener_of_a_fifo_queue(post: Post, receiver: Receiver) -> None:
    queue = await post.queue(kind=Kind.FIFO)
    listener = await post.listen(queue, receiver.url, ordered=True)
    for number in range(10):
        await post.send(queue, b"%d" % number, group=f"g{number % 2}")
    await post.delivered(listener, 10)
    assert receiver.bodies == [b"%d" % number for number in range(10)]


async def test_no_more_deliveries_are_under_way_than_the_listener_takes(post: Post, receiver: Receiver) -> None:
    gate = asyncio.Event()

    async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await answer()(request, writer)

    receiver.behave(slow)
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, concurrency=3)
    await post.send(queue, *[b"x"] * 30)
    await receiver.wait(3)
    gate.set()
    await post.delivered(listener, 30)
    assert receiver.most_at_once == 3
    assert receiver.connection_count == 3  # and the connections are used again


async def until_succeeded(post: Post, listener: Listener, count: int) -> None:
    await eventually(lambda: post.health(listener).success_count >= count)


async def test_a_rate_limit_spreads_deliveries_over_time(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, requests_per_second=2)
    await post.send(queue, *[b"x"] * 7)
    for count in range(1, 8):
        await until_succeeded(post, listener, count)
        assert post.health(listener).success_count == len(receiver.requests) == count
        clock.advance(ms=500)


async def test_a_paused_listener_gets_nothing_until_it_is_resumed(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    paused = await post.deliveries.pause(listener, principal="test")
    await post.send(queue, b"hello")
    assert (await post.waiting(listener)).ready_count == 1
    await post.deliveries.resume(paused, principal="test")
    await post.attempts(listener, 1)
    assert receiver.bodies == [b"hello"]


async def test_a_changed_url_is_used_at_once(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"one")
    await post.attempts(listener, 1)
    async with receiving() as other:
        await post.catalog.change_listener(listener, url=other.url, principal="test")
        await post.send(queue, b"two")
        await post.attempts(listener, 2)
        assert (receiver.bodies, other.bodies) == ([b"one"], [b"two"])


async def test_what_waits_for_a_deleted_listener_goes_with_it(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    receiver.behave(answer(500))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"hello")
    await post.attempts(listener, 1)
    await post.catalog.delete_listener(listener, principal="test")
    clock.advance(ms=MINUTE)
    await eventually(lambda: not post.catalog.records("delivery.health", "default"))
    assert len(receiver.requests) == 1


async def test_a_delay_holds_for_listeners_too(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"later", delay_ms=MINUTE)
    assert (await post.waiting(listener)).delayed_count == 1
    clock.advance(ms=MINUTE)
    await post.attempts(listener, 1)
    assert receiver.bodies == [b"later"]


async def test_a_message_stays_for_receivers_where_the_queue_keeps_it(post: Post, receiver: Receiver) -> None:
    kept = await post.queue("kept")
    passing = await post.queue("passing", settings=QueueSettings(keep_delivered=False))
    for queue in (kept, passing):
        listener = await post.listen(queue, receiver.url)
        await post.send(queue, b"hello")
        await post.attempts(listener, 1)
    assert (await post.broker.counters(kept)).ready_count == 1
    assert (await post.broker.counters(passing)).total_count == 0


async def test_thousands_of_idle_listeners_have_no_task_and_no_lane(post: Post) -> None:
    queues = [await post.queue(f"q{number}") for number in range(50)]
    before = len(asyncio.all_tasks())
    for queue in queues:
        for name in ("a", "b"):
            await post.listen(queue, "http://127.0.0.1:9/", name)
    await eventually(lambda: not post.deliveries._dispatcher._lanes)
    assert len(asyncio.all_tasks()) < before + 10  # the store's and the clock's own come and go


async def test_what_a_listener_has_been_through_survives_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    receiver.behave(answer(500))
    clock = FakeClock()
    async with courier_app(tmp_path, clock=clock, **COURIER) as app:
        post = Post(app)
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url)
        await post.send(queue, b"hello")
        await post.attempts(listener, 1)
    clock.advance(ms=SECOND)
    async with courier_app(tmp_path, clock=clock, **COURIER) as app:
        post = Post(app)
        health = post.health(listener)
        assert (health.failure_count, health.last_failure_status) == (1, 500)
        assert [line.verdict for line in await post.deliveries.log(listener)] == [Outcome.RETRY]
        receiver.behave(answer())
        clock.advance(ms=6 * SECOND)
        await post.attempts(listener, 1)
        assert [line.attempt for line in await post.deliveries.log(listener)] == [2, 1]


async def test_what_is_under_way_when_courier_stops_is_finished(tmp_path: Path, receiver: Receiver) -> None:
    asked, gate = asyncio.Event(), asyncio.Event()

    async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await gate.wait()
        await answer()(request, writer)

    receiver.behave(slow)
    async with courier_app(tmp_path, clock=SystemClock(), **COURIER) as app:
        post = Post(app)
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url)
        await post.send(queue, b"hello")
        await asked.wait()
        asyncio.get_running_loop().call_soon(gate.set)
    async with courier_app(tmp_path, clock=SystemClock(), **COURIER) as app:
        post = Post(app)
        assert [line.verdict for line in await post.deliveries.log(listener)] == [Outcome.DELIVERED]
        assert (await post.waiting(listener)).acked_count == 1


async def test_a_paused_queue_gives_its_listeners_nothing_either(post: Post, receiver: Receiver) -> None:
    queue = await post.queue(settings=QueueSettings(paused=True))
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"hello")
    assert (await post.waiting(listener)).ready_count == 1
    await post.catalog.change_queue(queue, settings=QueueSettings(), principal="test")
    await post.delivered(listener, 1)
    assert receiver.bodies == [b"hello"]


async def test_what_was_leased_ahead_is_given_back_untried_when_the_listener_is_paused(
    post: Post, receiver: Receiver
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, concurrency=2)
    await post.send(queue, *[b"quick"] * 60)
    await post.delivered(listener, 60)
    gate, held = asyncio.Event(), []

    async def slow(request: Request, writer: asyncio.StreamWriter) -> None:
        held.append(request)
        await gate.wait()
        await answer()(request, writer)

    receiver.behave(slow)
    lane = post.deliveries._dispatcher.lane_of(listener)
    assert lane is not None
    lane.latency_ms = 1.0  # only of a quick receiver's messages some are leased ahead, however busy the machine is
    await post.send(queue, *[b"slow"] * 40)
    await eventually(lambda: len(held) == 2)
    assert (await post.waiting(listener)).leased_count > 2
    await post.deliveries.pause(listener, principal="test")
    gate.set()
    await post.delivered(listener, 62)
    counters = await eventually(lambda: post.waiting(listener), lambda counters: not counters.leased_count)
    assert (counters.ready_count, counters.leased_count) == (38, 0)
    messages = (await post.broker.browse(post.catalog.outbox(listener), limit=100)).messages
    assert {message.attempts for message in messages} == {0}
    assert {line.verdict for line in await post.deliveries.log(listener, limit=1_000)} == {Outcome.DELIVERED}
