"""Real receivers that behave well and badly, each with the state that it leads to."""

import socket
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import SECOND, Listener, ListenerState
from couriermq.delivery import DeliveryAttempt, Outcome
from tests.delivery.conftest import Post
from tests.support.eventually import eventually
from tests.support.receiver import Manner, Receiver, answer, endless, hang, hang_up, raw, trickle

HEAD = b"HTTP/1.1 200 OK\r\n"


async def delivered(
    post: Post, receiver: Receiver, manner: Manner, **settings: Any
) -> tuple[Listener, DeliveryAttempt]:
    """One message to a receiver of this manner: the listener, and the first line of its log."""
    receiver.behave(manner)
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, **settings)
    await post.send(queue, b"hello")
    return listener, (await post.attempts(listener, 1))[-1]


async def test_a_receiver_that_takes_it_gets_it_once_as_it_was_sent(post: Post, receiver: Receiver) -> None:
    listener, line = await delivered(post, receiver, answer(200, b"thanks"))
    (request,) = receiver.requests
    assert (request.method, request.path, request.body) == ("POST", "/hook", b"hello")
    assert request.headers["content-type"] == "text/plain"
    assert request.headers["webhook-id"] == line.message_id
    assert (line.verdict, line.status, line.excerpt, line.attempt) == (Outcome.DELIVERED, 200, "thanks", 1)
    counters = await post.waiting(listener)
    assert (counters.total_count, counters.acked_count) == (0, 1)
    assert post.health(listener).success_count == 1


async def test_a_receiver_that_fails_gets_it_again_after_the_first_wait(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    listener, line = await delivered(post, receiver, answer(500, b"oops"))
    assert (line.verdict, line.status, line.excerpt) == (Outcome.RETRY, 500, "oops")
    assert 4 * SECOND <= (line.delay_ms or 0) <= 6 * SECOND
    assert (await post.waiting(listener)).delayed_count == 1
    receiver.behave(answer())
    clock.advance(ms=6 * SECOND)
    lines = await post.attempts(listener, 2)
    assert [(one.attempt, one.verdict) for one in lines] == [(2, Outcome.DELIVERED), (1, Outcome.RETRY)]
    first, second = receiver.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.headers["webhook-timestamp"] != second.headers["webhook-timestamp"]
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


async def test_a_receiver_that_hangs_is_a_failed_attempt(post: Post, receiver: Receiver) -> None:
    listener, line = await delivered(post, receiver, hang, timeout_ms=100)
    assert (line.verdict, line.status, line.error) == (Outcome.RETRY, None, "no answer within 100 ms")
    assert (await post.waiting(listener)).delayed_count == 1


async def test_a_redirect_is_a_failure_and_is_not_followed(post: Post, receiver: Receiver) -> None:
    _, line = await delivered(post, receiver, answer(302, Location=f"http://127.0.0.1:{receiver.port}/elsewhere"))
    assert (line.verdict, line.status) == (Outcome.RETRY, 302)
    assert [request.path for request in receiver.requests] == ["/hook"]


async def test_410_disables_the_listener_and_keeps_the_message(post: Post, receiver: Receiver) -> None:
    listener, line = await delivered(post, receiver, answer(410))
    await eventually(lambda: post.now(listener).state is ListenerState.DISABLED)
    assert line.verdict is Outcome.GONE
    assert "410" in (post.now(listener).reason or "")
    assert (await post.waiting(listener)).total_count == 1


async def test_429_with_retry_after_is_left_alone_until_then(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    listener, line = await delivered(post, receiver, answer(429, Retry_After="120"))
    assert (line.verdict, line.status, line.delay_ms) == (Outcome.RETRY, 429, 120 * SECOND)
    receiver.behave(answer())
    queue = post.catalog.queue("default", "orders")
    await post.send(queue, b"another")
    clock.advance(ms=119 * SECOND)
    assert (await post.waiting(listener)).ready_count == 1
    assert len(receiver.requests) == 1
    clock.advance(ms=1 * SECOND)
    await post.attempts(listener, 3)
    assert sorted(receiver.bodies[1:]) == [b"another", b"hello"]


async def test_429_with_retry_after_holds_back_what_was_leased_ahead(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(), answer(), answer(), answer(429, Retry_After="120"), answer())
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, concurrency=1)
    await post.send(queue, *[b"x"] * 20)
    await post.attempts(listener, 4)
    counters = await eventually(lambda: post.waiting(listener), lambda now: now.leased_count == 0)
    assert (counters.acked_count, counters.delayed_count, counters.ready_count) == (3, 1, 16)
    assert len(receiver.requests) == 4
    clock.advance(ms=119 * SECOND)
    assert len(receiver.requests) == 4
    clock.advance(ms=1 * SECOND)
    await post.delivered(listener, 20)
    assert len(receiver.requests) == 21


async def test_a_huge_body_is_cut_off_and_the_status_counts(post: Post, receiver: Receiver) -> None:
    listener, line = await delivered(post, receiver, answer(200, b"x" * 1_000_000))
    assert (line.verdict, line.status) == (Outcome.DELIVERED, 200)
    assert len(line.excerpt or "") == 512
    await eventually(lambda: receiver.open_count == 0)
    assert (await post.waiting(listener)).acked_count == 1


async def test_an_endless_body_is_cut_off_and_the_status_counts(post: Post, receiver: Receiver) -> None:
    _, line = await delivered(post, receiver, endless)
    assert (line.verdict, line.status) == (Outcome.DELIVERED, 200)
    await eventually(lambda: receiver.open_count == 0)


async def test_a_body_that_trickles_is_over_when_its_time_is(post: Post, receiver: Receiver) -> None:
    _, line = await delivered(post, receiver, trickle, timeout_ms=100)
    assert (line.verdict, line.error) == (Outcome.RETRY, "no answer within 100 ms")


async def test_a_receiver_that_hangs_up_is_a_failed_attempt(post: Post, receiver: Receiver) -> None:
    _, line = await delivered(post, receiver, hang_up)
    assert line.verdict is Outcome.RETRY
    assert line.error == "the receiver closed the connection without an answer"


async def test_a_port_that_nobody_listens_on_is_a_failed_attempt(post: Post) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        queue = await post.queue()
        listener = await post.listen(queue, f"http://127.0.0.1:{port}/")
        await post.send(queue, b"hello")
        (line,) = await post.attempts(listener, 1)
    assert line.verdict is Outcome.RETRY
    assert "no connection to 127.0.0.1" in (line.error or "")


@pytest.mark.parametrize(
    ("manner", "status"),
    [
        (raw(HEAD + b"Content-Length: 2\r\n\r\nok", close=False), 200),
        (raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", close=False), 200),
        (raw(HEAD + b"\r\nuntil the end"), 200),
        (raw(b"HTTP/1.0 204 No Content\r\n\r\n"), 204),
        (raw(b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + b"Content-Length: 0\r\n\r\n", close=False), 200),
        (raw(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + HEAD + b"Content-Length: 0\r\n\r\n", close=False), 200),
        (raw(HEAD + b"Content-Length: 2\r\n\r\nok" + HEAD + b"Content-Length: 2\r\n\r\nno", close=False), 200),
        (raw(HEAD + b"Content-Length: 0\r\n\r\n" + b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", close=False), 200),
    ],
)
async def test_answers_in_every_shape_that_http_allows(
    post: Post, receiver: Receiver, manner: Manner, status: int
) -> None:
    _, line = await delivered(post, receiver, manner)
    assert (line.verdict, line.status) == (Outcome.DELIVERED, status)


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "not HTTP"),
        (raw(b"\x00\x01\x02\x03" * 10), "not HTTP"),
        (raw(HEAD), "without an answer"),
        (raw(HEAD + b"Content-Length: 10\r\n\r\nhalf"), "in the middle"),
        (raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), "not HTTP"),
        (raw(HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), "not HTTP"),
        (raw(HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "not HTTP"),
        (raw(HEAD, *[b"X-Filler: " + b"x" * 8_000 + b"\r\n"] * 40), "head of the answer"),
        (raw(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), "another protocol"),
    ],
)
async def test_what_is_not_an_answer_is_a_failed_attempt(
    post: Post, receiver: Receiver, manner: Manner, why: str
) -> None:
    _, line = await delivered(post, receiver, manner)
    assert line.verdict is Outcome.RETRY
    assert why in (line.error or "")


async def test_a_listener_that_cannot_be_served_fails_its_attempts_and_holds_up_nothing(
    post: Post, receiver: Receiver
) -> None:
    queue = await post.queue()
    odd = await post.listen(queue, receiver.url, "odd", headers={"x": "ü"}, concurrency=1)
    good = await post.listen(queue, receiver.url, "good")
    await post.send(queue, b"a", b"b", b"c")
    lines = await post.attempts(odd, 3)
    assert {line.error for line in lines} == {"an error of our own; the server's log has the details"}
    await post.delivered(good, 3)
