"""A listener that is resumed, or called otherwise than before, gets what has waited at once, whatever the schedule."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, ListenerSettings, ListenerState
from couriermq.delivery import BreakerState, Outcome
from couriermq.delivery.breaker import TRIP_COUNT
from tests.delivery.conftest import COURIER, Post
from tests.support.eventually import eventually
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver, Request, answer, held_until, receiving

SLOWLY: dict[str, Any] = {"schedule_ms": (10 * HOUR,) * 5, "jitter": 0.0}


async def test_a_corrected_url_is_tried_at_once(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, "http://127.0.0.1:1/", **SLOWLY)
    await post.send(queue, *[b"x"] * (TRIP_COUNT + 5))
    await post.attempts(listener, TRIP_COUNT)
    await eventually(lambda: post.health(listener).breaker is BreakerState.OPEN)
    await post.catalog.change_listener(listener, url=receiver.url, principal="test")
    await post.delivered(listener, TRIP_COUNT + 5)
    assert post.health(listener).failure_run == 0


async def test_a_request_to_the_old_url_that_fails_later_is_made_to_the_new_one_at_once(
    post: Post, receiver: Receiver
) -> None:
    corrected = asyncio.Event()

    async def fail_late(request: Request, writer: asyncio.StreamWriter) -> None:
        await corrected.wait()
        await answer(500)(request, writer)

    async with receiving(fail_late) as slow:
        queue = await post.queue()
        listener = await post.listen(queue, slow.url, **SLOWLY)
        await post.send(queue, b"x")
        await slow.wait(1)
        await post.catalog.change_listener(listener, url=receiver.url, principal="test")
        corrected.set()
        await post.delivered(listener, 1)
        assert post.health(listener).failure_count == 0


async def test_a_last_attempt_that_fails_at_the_old_url_is_made_again_at_the_new_one(
    post: Post, receiver: Receiver
) -> None:
    corrected = asyncio.Event()
    async with receiving(held_until(corrected, answer(500))) as slow:
        queue = await post.queue()
        listener = await post.listen(queue, slow.url, schedule_ms=())
        await post.send(queue, b"x")
        await slow.wait(1)
        await post.catalog.change_listener(listener, url=receiver.url, principal="test")
        corrected.set()
        await post.delivered(listener, 1)
        lines = await post.attempts(listener, 2)
    expected = [(1, Outcome.DELIVERED), (1, Outcome.RETRY)]
    assert [(line.attempt, line.verdict) for line in lines] == expected
    post.deliveries._log.forget(listener)  # so that the journal has to tell
    assert [(line.attempt, line.verdict) for line in await post.deliveries.log(listener)] == expected
    assert (await post.dead(listener)).total_count == 0


async def test_corrected_headers_are_tried_at_once(post: Post, receiver: Receiver) -> None:
    receiver.behave(answer(401), answer())
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, **SLOWLY)
    await post.send(queue, b"x")
    await post.attempts(listener, 1)
    settings = ListenerSettings(headers={"x-key": "right"}, **SLOWLY)
    await post.catalog.change_listener(listener, settings=settings, principal="test")
    await post.delivered(listener, 1)
    assert receiver.requests[1].headers["x-key"] == "right"


async def test_a_new_name_changes_nothing_for_what_waits(post: Post, receiver: Receiver) -> None:
    receiver.behave(answer(500))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, **SLOWLY)
    await post.send(queue, b"x")
    await post.attempts(listener, 1)
    await post.catalog.change_listener(listener, name="store", principal="test")
    await post.send(queue, b"y")
    await post.attempts(listener, 2)
    assert receiver.bodies == [b"x", b"y"]
    assert (await post.waiting(listener)).delayed_count == 2


async def test_a_resumed_listener_gets_what_has_waited_in_its_order(post: Post, receiver: Receiver) -> None:
    receiver.behave(answer(500))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, ordered=True, **SLOWLY)
    await post.send(queue, b"1", b"2", b"3")
    await post.attempts(listener, 1)
    await post.deliveries.pause(listener, principal="test")
    receiver.behave(answer())
    receiver.requests.clear()
    await post.deliveries.resume(listener, principal="test")
    await post.delivered(listener, 3)
    assert receiver.bodies == [b"1", b"2", b"3"]


async def test_an_active_listener_can_be_resumed_to_be_tried_at_once(post: Post, receiver: Receiver) -> None:
    receiver.behave(answer(500), answer())
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, **SLOWLY)
    await post.send(queue, b"x")
    await post.attempts(listener, 1)
    assert post.now(listener).state is ListenerState.ACTIVE
    await post.deliveries.resume(listener, principal="test")
    await post.delivered(listener, 1)


async def test_a_message_that_its_sender_delays_is_not_hastened(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.deliveries.pause(listener, principal="test")
    await post.send(queue, b"later", delay_ms=MINUTE)
    await post.deliveries.resume(listener, principal="test")
    await post.send(queue, b"now")
    await post.delivered(listener, 1)
    assert receiver.bodies == [b"now"]
    clock.advance(ms=MINUTE)
    await post.delivered(listener, 2)


async def test_a_disabled_listener_gets_what_has_waited_when_it_is_resumed(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(410))
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, schedule_ms=(5 * DAY,), jitter=0.0)
    await post.send(queue, b"x")
    await eventually(lambda: post.now(listener).state is ListenerState.DISABLED)
    receiver.behave(answer())
    await post.deliveries.resume(listener, principal="test")
    await post.delivered(listener, 1)


@contextlib.contextmanager
def nobody_delivers(post: Post, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As when the node that delivered has died and no other has taken its duties over."""
    with monkeypatch.context() as patch:
        patch.setattr(post.deliveries._dispatcher, "_holds", lambda duty: False)
        post.deliveries.duties_changed()
        yield
    post.deliveries.duties_changed()


async def test_a_url_that_is_corrected_while_nobody_delivers_is_tried_when_somebody_does(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, "http://127.0.0.1:1/", **SLOWLY)
    await post.send(queue, b"x")
    await post.attempts(listener, 1)
    with nobody_delivers(post, monkeypatch):
        post.clock.advance(ms=SECOND)
        await post.catalog.change_listener(listener, url=receiver.url, principal="test")
        post.clock.advance(ms=10 * SECOND)
    await post.delivered(listener, 1)


async def test_a_listener_that_is_resumed_while_nobody_delivers_is_tried_when_somebody_does(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.behave(answer(500), answer())
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, **SLOWLY)
    await post.send(queue, b"x")
    await post.attempts(listener, 1)
    await post.deliveries.pause(listener, principal="test")
    with nobody_delivers(post, monkeypatch):
        post.clock.advance(ms=SECOND)
        await post.deliveries.resume(listener, principal="test")
        post.clock.advance(ms=10 * SECOND)
    await post.delivered(listener, 1)


async def test_a_url_that_was_corrected_just_before_the_server_was_killed_is_tried_when_it_starts(
    tmp_path: Path, clock: FakeClock, receiver: Receiver
) -> None:
    async with courier_app(tmp_path, clock=clock, **COURIER) as app:
        post = Post(app)
        queue = await post.queue()
        listener = await post.listen(queue, "http://127.0.0.1:1/", **SLOWLY)
        await post.send(queue, b"x")
        await post.attempts(listener, 1)
        clock.advance(ms=SECOND)
        post.catalog.watch_listeners(None)  # so that nothing follows from the change before the end
        await post.catalog.change_listener(listener, url=receiver.url, principal="test")
    async with courier_app(tmp_path, clock=clock, **COURIER) as app:
        await Post(app).delivered(listener, 1)


async def test_another_node_keeps_to_the_schedule_of_a_listener_that_was_not_changed(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.behave(answer(500), answer())
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, **SLOWLY)
    await post.send(queue, b"x")
    await post.attempts(listener, 1)
    with nobody_delivers(post, monkeypatch):
        post.clock.advance(ms=10 * SECOND)
    await post.send(queue, b"y")
    await post.delivered(listener, 1)
    assert receiver.bodies == [b"x", b"y"]
