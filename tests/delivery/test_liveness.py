"""Liveness checks: what they say of a receiver, and what follows for deliveries."""

from functools import partial

from couriermq.clock import FakeClock
from couriermq.core.model import MINUTE, Listener
from couriermq.delivery import BreakerState, Liveness
from couriermq.delivery.liveness import EACH_AT_ONCE
from tests.delivery.conftest import Post
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, answer, hang, receiving


async def until_checked(post: Post, listener: Listener, count: int) -> None:
    await eventually(lambda: post.health(listener).live_count + post.health(listener).lifeless_count == count)


async def test_a_new_listener_is_checked_soon_and_then_every_minute(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, liveness_url=receiver.url + "/live")
    for count in (1, 2, 3):
        await until_checked(post, listener, count)
        clock.advance(ms=MINUTE)
    health = post.health(listener)
    assert (health.liveness, health.lifeless_count) == (Liveness.STABLE, 0)
    assert {(request.method, request.path) for request in receiver.requests} == {("GET", "/hook/live")}


async def test_a_receiver_without_a_liveness_url_is_not_checked(post: Post, clock: FakeClock) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, "http://127.0.0.1:9/")
    clock.advance(ms=10 * MINUTE)
    assert post.health(listener).liveness is Liveness.UNKNOWN


async def test_checks_that_fail_make_it_unstable_then_down_and_one_that_succeeds_stable(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(500), answer(500), answer(500), answer(200))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, liveness_url=receiver.url)
    states = []
    for count in range(1, 5):
        await until_checked(post, listener, count)
        states.append(post.health(listener).liveness)
        clock.advance(ms=MINUTE)
    assert states == [Liveness.UNSTABLE, Liveness.UNSTABLE, Liveness.DOWN, Liveness.STABLE]
    assert post.health(listener).last_lifeless_status == 500


async def test_a_receiver_that_is_back_gets_what_waits_at_once(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(500))
    async with receiving(answer(500)) as life:
        queue = await post.queue()
        listener = await post.listen(queue, receiver.url, liveness_url=life.url, concurrency=1, schedule_ms=(1,) * 50)
        await post.send(queue, *[b"x"] * 12)
        await eventually(lambda: post.health(listener).breaker is BreakerState.OPEN)
        for count in (1, 2, 3):
            await until_checked(post, listener, count)
            clock.advance(ms=MINUTE if count < 3 else 0)
        assert post.health(listener).liveness is Liveness.DOWN
        receiver.behave(answer())
        life.behave(answer())
        clock.advance(ms=MINUTE)

        async def acked_count() -> int:
            clock.advance(ms=1)  # an attempt that failed before the receiver was back is repeated after 1 ms
            return (await post.waiting(listener)).acked_count

        await eventually(acked_count, lambda count: count == 12)


async def test_a_liveness_url_that_points_inside_is_never_dialled(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, liveness_url="http://10.0.0.1/live")
    await eventually(lambda: post.health(listener).lifeless_count == 1)
    assert "private" in (post.health(listener).last_lifeless_error or "")


async def test_a_changed_liveness_url_is_checked_instead_of_the_old_one(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, liveness_url=receiver.url + "/old")
    await eventually(lambda: post.health(listener).live_count == 1)
    await post.catalog.change_listener(listener, liveness_url=receiver.url + "/new", principal="test")
    await eventually(lambda: post.health(listener).live_count == 2)
    clock.advance(ms=MINUTE)
    await eventually(lambda: post.health(listener).live_count == 3)
    assert [request.path for request in receiver.requests] == ["/hook/old", "/hook/new", "/hook/new"]


async def test_a_challenge_is_answered_by_exactly_the_text(post: Post, receiver: Receiver) -> None:
    receiver.behave(answer(200, b"proof"))
    challenge = partial(post.deliveries.challenge, tenant="default")
    assert await challenge("127.0.0.1", receiver.port, "/.well-known/x", "proof")
    assert not await challenge("127.0.0.1", receiver.port, "/.well-known/x", "proof\n")
    assert not await challenge("10.0.0.1", receiver.port, "/.well-known/x", "proof")
    receiver.behave(answer(404, b"proof"))
    assert not await challenge("127.0.0.1", receiver.port, "/.well-known/x", "proof")


async def test_a_tenant_whose_checks_hang_does_not_delay_those_of_others(post: Post, receiver: Receiver) -> None:
    async with receiving(hang) as hanging:
        queue = await post.queue()
        for number in range(60):
            await post.listen(queue, receiver.url, f"shop-{number}", liveness_url=hanging.url)
        await post.catalog.create_tenant("other", principal="test")
        others = await post.catalog.create_queue("other", "orders", principal="test")
        await post.catalog.create_listener(
            others, "shop", receiver.url, secrets=(), liveness_url=receiver.url, principal="test"
        )
        await receiver.wait(1)
        assert len(hanging.requests) <= EACH_AT_ONCE
