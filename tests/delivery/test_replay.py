"""Delivering again: one message, a span of time, all that were missed."""

import contextlib
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.errors import BatchTooLarge, Invalid, Unavailable
from couriermq.core.model import HOUR, MINUTE, Listener, Matcher, Queue, QueueSettings, Rule, RuleType
from tests.delivery.conftest import Post
from tests.support.receiver import Receiver, answer


async def listening(post: Post, receiver: Receiver, **settings: Any) -> tuple[Queue, Listener]:
    queue = await post.queue(settings=QueueSettings(keep_delivered=False))
    return queue, await post.listen(queue, receiver.url, **settings)


async def missed(post: Post, receiver: Receiver, *bodies: bytes) -> Listener:
    """A listener that has missed these messages."""
    receiver.behave(answer(500))
    queue, listener = await listening(post, receiver, schedule_ms=(), concurrency=1)
    await post.send(queue, *bodies)
    await post.attempts(listener, len(bodies))
    assert (await post.dead(listener)).total_count == len(bodies)
    receiver.requests.clear()
    receiver.behave(answer())
    return listener


async def test_all_missed_messages_are_delivered_again(post: Post, receiver: Receiver) -> None:
    listener = await missed(post, receiver, b"a", b"b", b"c")
    replayed = await post.deliveries.replay(listener, missed=True, principal="test")
    await post.delivered(listener, 3)
    assert replayed.count == 3
    assert sorted(receiver.bodies) == [b"a", b"b", b"c"]
    assert (await post.dead(listener)).total_count == 0


async def test_one_missed_message_is_delivered_again(post: Post, receiver: Receiver) -> None:
    listener = await missed(post, receiver, b"a", b"b")
    letters = (await post.broker.browse(post.catalog.dead_letters(listener))).messages
    replayed = await post.deliveries.replay(listener, message_ids=[letters[1].id], principal="test")
    await post.delivered(listener, 1)
    assert (replayed.count, replayed.missing) == (1, [])
    assert receiver.bodies == [b"b"]
    assert receiver.requests[0].headers["webhook-id"] == letters[1].id


async def test_a_delivered_message_comes_again_from_the_journal(post: Post, receiver: Receiver) -> None:
    queue, listener = await listening(post, receiver)
    (sent,) = await post.send(queue, b"hello", attributes={"n": 1})
    await post.delivered(listener, 1)
    assert (await post.broker.counters(queue)).total_count == 0
    await post.deliveries.replay(listener, message_ids=[sent.id], principal="test")
    await post.delivered(listener, 2)
    assert receiver.bodies == [b"hello", b"hello"]
    assert {request.headers["webhook-id"] for request in receiver.requests} == {sent.id}
    assert {request.headers["content-type"] for request in receiver.requests} == {"text/plain"}


async def test_a_message_that_waits_for_its_next_attempt_is_tried_at_once(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    receiver.behave(answer(500), answer())
    queue, listener = await listening(post, receiver, schedule_ms=(10 * HOUR,))
    (sent,) = await post.send(queue, b"hello")
    await post.attempts(listener, 1)
    await post.deliveries.replay(listener, message_ids=[sent.id], principal="test")
    await post.delivered(listener, 1)
    assert (await post.broker.counters(queue)).total_count == 0  # its original has left with it


async def test_a_message_that_waits_is_hurried_in_one_commit_and_goes_on_with_its_schedule(
    post: Post, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.behave(answer(500))
    queue, listener = await listening(post, receiver, schedule_ms=(10 * HOUR, 10 * HOUR))
    (sent,) = await post.send(queue, b"hello")
    await post.attempts(listener, 1)
    move, moves = post.broker.move, list[str]()

    async def stop_after_the_first(*args: Any, **facts: Any) -> int:
        if moves:
            raise Unavailable("the process is killed here")
        moves.append("moved")
        return await move(*args, **facts)

    monkeypatch.setattr(post.broker, "move", stop_after_the_first)
    with contextlib.suppress(Unavailable):
        await post.deliveries.replay(listener, message_ids=[sent.id], principal="test")
    assert (await post.dead(listener)).total_count == 0
    assert [line.attempt for line in await post.attempts(listener, 2)] == [2, 1]


async def test_a_message_that_nobody_knows_is_named(post: Post, receiver: Receiver) -> None:
    _, listener = await listening(post, receiver)
    replayed = await post.deliveries.replay(listener, message_ids=["nope"], principal="test")
    assert (replayed.count, replayed.missing) == (0, ["nope"])


async def test_a_body_that_the_journal_does_not_keep_cannot_come_again(post: Post, receiver: Receiver) -> None:
    queue = await post.queue(settings=QueueSettings(keep_delivered=False, archive_bodies=False))
    listener = await post.listen(queue, receiver.url)
    (sent,) = await post.send(queue, b"secret")
    await post.delivered(listener, 1)
    replayed = await post.deliveries.replay(listener, message_ids=[sent.id], principal="test")
    assert replayed.missing == [sent.id]


async def test_a_span_of_time_is_delivered_again(post: Post, receiver: Receiver, clock: FakeClock) -> None:
    queue, listener = await listening(post, receiver)
    start = clock.now()
    for number in range(4):
        await post.send(queue, b"%d" % number)
        await post.delivered(listener, number + 1)
        clock.advance(ms=MINUTE)
    receiver.requests.clear()
    replayed = await post.deliveries.replay(listener, since=start + MINUTE, until=start + 3 * MINUTE, principal="test")
    await post.delivered(listener, 6)
    assert (replayed.count, replayed.next_since) == (2, None)
    assert sorted(receiver.bodies) == [b"1", b"2"]


async def test_a_span_brings_back_dead_letters_too_and_only_what_the_rules_let_through(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    listener = await missed(post, receiver, b"dead")
    rules = (Rule(attribute="for", type=RuleType.STRING, matcher=Matcher.EQ, value="me"),)
    settings = listener.settings
    await post.catalog.change_listener(listener, settings=type(settings)(schedule_ms=(), rules=rules), principal="test")
    queue = post.catalog.queue("default", "orders")
    await post.send(queue, b"other", attributes={"for": "you"})
    await post.send(queue, b"mine", attributes={"for": "me"})
    await post.delivered(listener, 1)
    replayed = await post.deliveries.replay(listener, since=0, principal="test")
    await post.delivered(listener, 3)
    assert replayed.count == 2
    assert sorted(receiver.bodies) == [b"dead", b"mine", b"mine"]


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        ({}, Invalid),
        ({"missed": True, "since": 1}, Invalid),
        ({"message_ids": ["a"], "missed": True}, Invalid),
        ({"message_ids": []}, BatchTooLarge),
        ({"since": 5, "until": 5}, Invalid),
    ],
)
async def test_a_replay_chooses_one_way(
    post: Post, receiver: Receiver, choice: dict[str, Any], error: type[Exception]
) -> None:
    _, listener = await listening(post, receiver)
    with pytest.raises(error):
        await post.deliveries.replay(listener, **choice, principal="test")
