"""The whole life of a delivery with the clock moved by hand: schedule, breaker, disabling, dead letters."""

from couriermq.clock import FakeClock
from couriermq.core.events import EventKind
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, ListenerState
from couriermq.delivery import BreakerState, Outcome
from couriermq.delivery.breaker import TRIP_COUNT
from tests.delivery.conftest import Post
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, answer

WAITS = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 10 * HOUR)


async def test_a_message_is_tried_by_the_whole_schedule_and_then_is_a_dead_letter(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(500))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    (sent,) = await post.send(queue, b"hello")
    for number, wait in enumerate(WAITS, 1):
        line = (await post.attempts(listener, number))[0]
        assert (line.attempt, line.verdict) == (number, Outcome.RETRY)
        assert 0.8 * wait <= (line.delay_ms or 0) <= 1.2 * wait
        clock.advance(ms=(line.delay_ms or 0) - 1)
        assert (await post.waiting(listener)).delayed_count == 1
        clock.advance(ms=1)
    line = (await post.attempts(listener, 8))[0]
    assert (line.attempt, line.verdict) == (8, Outcome.DEAD)
    assert len(receiver.requests) == 8
    counters = await post.waiting(listener)
    assert (counters.total_count, counters.dead_count) == (0, 1)
    (letter,) = (await post.broker.browse(post.catalog.dead_letters(listener))).messages
    assert (letter.id, letter.body) == (sent.id, b"hello")
    assert post.now(listener).state is ListenerState.ACTIVE


async def test_a_breaker_spares_a_dead_receiver_and_the_attempts_of_what_waits(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(503))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, concurrency=1)
    await post.send(queue, *[b"x"] * 40)
    await post.attempts(listener, TRIP_COUNT)
    assert post.health(listener).breaker is BreakerState.OPEN
    assert len(receiver.requests) == TRIP_COUNT
    assert (await post.waiting(listener)).ready_count == 40 - TRIP_COUNT

    clock.advance(ms=30 * SECOND)
    await post.attempts(listener, TRIP_COUNT + 1)
    assert len(receiver.requests) == TRIP_COUNT + 1  # one probe, which failed
    assert post.health(listener).breaker is BreakerState.OPEN

    receiver.behave(answer())
    clock.advance(ms=60 * SECOND)
    await eventually(lambda: len(receiver.requests) >= TRIP_COUNT + 41)
    await eventually(lambda: post.health(listener).breaker is BreakerState.CLOSED)
    await post.delivered(listener, 40)
    assert (await post.waiting(listener)).total_count == 0


async def test_days_of_nothing_but_failures_disable_a_listener_with_an_event_that_says_so(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(500))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, schedule_ms=(6 * HOUR,) * 50, jitter=0.0)
    await post.send(queue, b"hello")
    for number in range(1, 21):
        await post.attempts(listener, number)
        assert post.now(listener).state is ListenerState.ACTIVE
        clock.advance(ms=6 * HOUR)
    await eventually(lambda: post.now(listener).state is ListenerState.DISABLED)
    reason = post.now(listener).reason or ""
    assert reason == "nothing but failures for 5 days (21 attempts), the last: status 500"

    (told,) = [event for event in await post.events() if event.kind == EventKind.LISTENER_CHANGED]
    assert told.detail is not None
    assert (told.detail["state"], told.detail["reason"], told.principal) == ("disabled", reason, "delivery")

    clock.advance(ms=30 * DAY)
    await post.send(queue, b"later")
    assert len(receiver.requests) == 21
    assert (await post.waiting(listener)).total_count == 2


async def test_a_listener_that_is_resumed_gets_what_has_waited_and_a_fresh_start(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(410))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"one")
    await eventually(lambda: post.now(listener).state is ListenerState.DISABLED)
    await post.attempts(listener, 1)  # the clock must not end a lease that is just being given back
    await post.send(queue, b"two")
    receiver.behave(answer())
    clock.advance(ms=MINUTE)
    await post.deliveries.resume(post.now(listener), principal="test")
    await post.attempts(listener, 3)
    assert sorted(receiver.bodies[1:]) == [b"one", b"two"]
    assert (post.now(listener).state, post.now(listener).reason) == (ListenerState.ACTIVE, None)
    assert post.health(listener).failing_since is None


async def test_one_success_makes_a_failing_listener_whole(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    receiver.behave(answer(500), answer(200))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"hello")
    await post.attempts(listener, 1)
    assert post.health(listener).failing_since is not None
    clock.advance(ms=6 * SECOND)
    await post.attempts(listener, 2)
    health = post.health(listener)
    assert (health.failing_since, health.failure_run, health.success_count, health.failure_count) == (None, 0, 1, 1)
