"""By which a receiver knows a message: one id for each message, whatever its sender calls it."""

import time

import pytest
from standardwebhooks import Webhook

from couriermq.core.model import Draft
from tests.delivery.conftest import Post
from tests.support.receiver import Receiver, answer, receiving


@pytest.mark.parametrize("bodies", [(b"a", b"b"), (b"same", b"same")])
async def test_messages_with_the_same_id_have_ids_of_their_own(
    post: Post, receiver: Receiver, bodies: tuple[bytes, ...]
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, *bodies, id="größe 1.5")  # in one call
    for body in bodies:
        await post.send(queue, body, id="größe 1.5")  # in the same millisecond, by the clock of this test
    await post.delivered(listener, 4)
    ids = {request.headers["webhook-id"] for request in receiver.requests}
    assert len(ids) == 4
    assert not any(set(one) & set("%. ") for one in ids)
    assert {request.headers["courier-message-id"] for request in receiver.requests} == {"gr%C3%B6%C3%9Fe%201.5"}


async def test_the_id_is_the_same_for_every_attempt_every_listener_and_every_replay(
    post: Post, receiver: Receiver
) -> None:
    async with receiving(answer(500), answer()) as other:
        queue = await post.queue()
        first = await post.listen(queue, receiver.url, "first", schedule_ms=(0, 0))
        second = await post.listen(queue, other.url, "second", schedule_ms=(0, 0))
        await post.send(queue, b"hello", id="order-1")
        await post.delivered(first, 1)
        await post.delivered(second, 1)
        await post.deliveries.replay(first, message_ids=["order-1"], principal="test")
        await post.delivered(first, 2)
        ids = [request.headers["webhook-id"] for request in (*receiver.requests, *other.requests)]
    assert len(ids) == 4
    assert len(set(ids)) == 1
    assert ids[0].startswith("order-1_")


async def test_a_minted_id_is_what_the_receiver_gets(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    (sent,) = await post.send(queue, b"hello")
    await post.delivered(listener, 1)
    assert receiver.requests[0].headers["webhook-id"] == sent.id


async def test_a_sender_cannot_choose_the_id_of_a_delivery(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    for message_id in (None, "mine"):
        await post.broker.send_one(
            queue, Draft(body=b"x", id=message_id, attributes={"webhook-id": "forged"}), principal="test"
        )
    await post.delivered(listener, 2)
    assert "forged" not in {request.headers["webhook-id"] for request in receiver.requests}


async def test_a_verifier_accepts_what_is_signed_with_such_an_id(post: Post, receiver: Receiver) -> None:
    post.clock.wall_ahead_ms = time.time_ns() // 1_000_000 - post.clock.now()  # a verifier looks at the time of day
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b'{"total": 1}', id="order 1.5/%")
    await post.delivered(listener, 1)
    (request,) = receiver.requests
    verifier = Webhook(post.now(listener).secrets[0].value)
    assert verifier.verify(request.body, request.headers) == {"total": 1}
