"""One queue in every dialect: what is sent elsewhere reaches Discue's listeners, and the other way round."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.anypoint import AnypointCaller, good
from tests.support.discue import LIVE, Organization, discue_organization
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, receiving

pytestmark = pytest.mark.every_engine

CLOUDFLARE = "/client/v4/accounts/default/queues"
NATIVE = "/courier/v1/tenants/default/queues/orders"


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path, delivery_allow=("127.0.0.0/8",)) as organization:
        yield organization


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def listening(org: Organization, receiver: Receiver) -> str:
    """The id of a queue with a listener."""
    queue_id = await org.queue("orders")
    await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
    return queue_id


async def emptied(org: Organization, queue_id: str) -> None:
    await eventually(lambda: org.count(queue_id), lambda count: not count)


async def test_what_cloudflare_pushes_is_delivered_and_then_gone(org: Organization, receiver: Receiver) -> None:
    queue_id = await listening(org, receiver)
    pushed = await org.app.post(f"{CLOUDFLARE}/{queue_id}/messages", {"body": {"order": 7}, "content_type": "json"})
    assert pushed.status == 200
    (request,) = await receiver.wait(1)
    assert (request.body, request.headers["content-type"]) == (b'{"order":7}', "application/json")
    await emptied(org, queue_id)
    shown = (await org.get(f"/queues/{queue_id}/messages/{request.headers['webhook-id']}"))["message"]
    assert (shown["state"], shown["data"]) == ("delivered", '{"order":7}')


async def test_what_anypoint_publishes_is_delivered_with_its_id_and_name(org: Organization, receiver: Receiver) -> None:
    queue_id = await listening(org, receiver)
    anypoint = AnypointCaller(org.app)
    good(await anypoint.publish("orders", "m-1", "hello", properties={"name": "request-1"}))
    (request,) = await receiver.wait(1)
    assert (request.body, request.headers["courier-message-id"]) == (b"hello", "m-1")
    await emptied(org, queue_id)
    assert (await org.get(f"/queues/{queue_id}/messages/m-1"))["message"]["name"] == "request-1"


async def test_half_a_character_is_delivered_as_it_was_sent(org: Organization, receiver: Receiver) -> None:
    queue_id = await listening(org, receiver)
    for body in (rb'{"body": {"cut": "\ud83d"}}', rb'{"body": "\ud83d", "content_type": "text"}'):
        assert (await org.app.request("POST", f"{CLOUDFLARE}/{queue_id}/messages", body=body)).status == 200
    await receiver.wait(2)
    assert sorted(receiver.bodies) == [rb'{"cut": "\ud83d"}', b"\xed\xa0\xbd"]


async def test_an_exchange_of_anypoint_reaches_the_listeners_of_a_bound_queue(
    org: Organization, receiver: Receiver
) -> None:
    await listening(org, receiver)
    anypoint = AnypointCaller(org.app)
    await anypoint.exchange("news", "orders")
    good(await anypoint.publish("news", "m-1", "hello"))
    await receiver.wait(1)
    assert receiver.bodies == [b"hello"]


async def test_a_queue_that_keeps_what_was_delivered_has_it_for_pull_consumers(
    org: Organization, receiver: Receiver
) -> None:
    queue_id = await listening(org, receiver)
    await org.app.request("PATCH", NATIVE, json={"settings": {"keep_delivered": True}})
    message_id = await org.add(queue_id, "hello")
    await receiver.wait(1)
    received = await org.app.post(f"{NATIVE}/receive", {"limit": 10})
    assert [lease["message"]["id"] for lease in received.json()["leases"]] == [message_id]


async def test_what_is_added_here_is_received_elsewhere_with_its_type_and_name(org: Organization) -> None:
    queue_id = await org.queue("orders")
    await org.add(queue_id, '{"order": 7}', name="request-1")
    await org.app.post(f"{CLOUDFLARE}/{queue_id}/consumers", {"type": "http_pull"})
    pulled = await org.app.post(f"{CLOUDFLARE}/{queue_id}/messages/pull", {"visibility_timeout_ms": 0})
    (message,) = pulled.json()["result"]["messages"]
    assert message["body"] == '{"order": 7}'
    (consumed,) = await AnypointCaller(org.app).consume("orders")
    assert (consumed["body"], consumed["properties"]["name"]) == ('{"order": 7}', "request-1")


async def test_a_queue_of_another_dialect_gets_listeners_here(org: Organization, receiver: Receiver) -> None:
    created = await org.app.post(CLOUDFLARE, {"queue_name": "orders"})
    queue_id = created.json()["result"]["queue_id"]
    await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
    await org.app.post(f"{CLOUDFLARE}/{queue_id}/messages", {"body": "hello", "content_type": "text"})
    await receiver.wait(1)
    assert receiver.bodies == [b"hello"]
    assert await org.count(queue_id) == 1  # such a queue keeps what was delivered


async def test_a_listener_made_here_is_seen_by_the_native_dialect(org: Organization, receiver: Receiver) -> None:
    await listening(org, receiver)
    listed = (await org.app.get(f"{NATIVE}/listeners")).json()["listeners"]
    assert [(one["name"], one["url"]) for one in listed] == [("shop", receiver.url)]
