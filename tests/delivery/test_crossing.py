"""Messages that come in through any dialect are delivered, and stay for pull consumers where the queue keeps them."""

import base64

import pytest

from couriermq.core.model import Draft, QueueSettings
from tests.delivery.conftest import Post
from tests.support.receiver import Receiver

pytestmark = pytest.mark.every_engine

CLOUDFLARE = "/client/v4/accounts/default/queues"


async def push(post: Post, queue_id: str, body: object) -> None:
    pushed = await post.app.post(f"{CLOUDFLARE}/{queue_id}/messages", {"body": body, "content_type": "json"})
    assert pushed.status == 200, pushed.body


async def publish(post: Post, name: str, message_id: str, body: str) -> None:
    path = f"/api/v1/organizations/default/environments/default/destinations/{name}/messages/{message_id}"
    published = await post.app.request("PUT", path, json={"headers": {"messageId": message_id}, "body": body})
    assert published.status in {200, 201}, published.body


@pytest.mark.parametrize("kept", [True, False])
async def test_a_message_pushed_through_cloudflare_is_delivered(post: Post, receiver: Receiver, kept: bool) -> None:
    queue = await post.queue(settings=QueueSettings(keep_delivered=kept))
    listener = await post.listen(queue, receiver.url)
    await push(post, queue.id, {"order": 7})
    await post.delivered(listener, 1)
    assert receiver.bodies == [b'{"order":7}']
    await post.app.post(f"{CLOUDFLARE}/{queue.id}/consumers", {"type": "http_pull"})
    pulled = await post.app.post(f"{CLOUDFLARE}/{queue.id}/messages/pull", {"batch_size": 10})
    messages = pulled.json()["result"]["messages"]
    assert len(messages) == (1 if kept else 0)


@pytest.mark.parametrize("kept", [True, False])
async def test_a_message_published_through_anypoint_is_delivered(post: Post, receiver: Receiver, kept: bool) -> None:
    queue = await post.queue(settings=QueueSettings(keep_delivered=kept))
    listener = await post.listen(queue, receiver.url)
    await publish(post, queue.name, "m-1", "hello")
    await post.delivered(listener, 1)
    assert receiver.bodies == [b"hello"]
    assert receiver.requests[0].headers["courier-message-id"] == "m-1"
    consumed = await post.app.get(
        "/api/v1/organizations/default/environments/default/destinations/orders/messages?batchSize=10&pollingTime=0"
    )
    found = consumed.json() if consumed.body else []
    assert [message["body"] for message in found] == (["hello"] if kept else [])


async def test_bytes_arrive_as_they_were_sent(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    body = bytes(range(256))
    await post.app.post(
        "/courier/v1/tenants/default/queues/orders/messages",
        {"body_base64": base64.b64encode(body).decode(), "content_type": "image/x-strange"},
    )
    await post.delivered(listener, 1)
    assert receiver.bodies == [body]
    assert receiver.requests[0].headers["content-type"] == "image/x-strange"


async def test_an_empty_body_is_a_message_too(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    await post.send(queue, b"")
    await post.delivered(listener, 1)
    assert receiver.bodies == [b""]


async def test_large_messages_that_do_not_fit_one_fetch_are_all_delivered(post: Post, receiver: Receiver) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url)
    drafts = [Draft(body=bytes([number]) * 3 * 1024 * 1024) for number in range(7)]
    await post.app.services.broker.send(queue, drafts, principal="test")
    await post.delivered(listener, 7)
    assert sorted(body[0] for body in receiver.bodies) == list(range(7))
