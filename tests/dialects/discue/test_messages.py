"""Messages through the Discue dialect: strings that listeners get as they are."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import DAY, Lease, Message, Queue
from tests.support.discue import LIVE, Organization, discue_organization, refused
from tests.support.eventually import eventually
from tests.support.receiver import answer, receiving

DATA = '{ "userId": "481512342" }'


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path, delivery_allow=("127.0.0.0/8",)) as organization:
        yield organization


async def emptied(org: Organization, queue_id: str) -> None:
    """Until the queue is empty: sockets take what time they take."""
    await eventually(lambda: org.count(queue_id), lambda count: not count)


async def test_a_message_is_added_read_and_listed(org: Organization) -> None:
    queue_id = await org.queue()
    added = await org.post(f"/queues/{queue_id}/messages", {"name": "request-1", "data": DATA})
    message_id = added["message"]["id"]
    assert len(message_id) == 21
    assert added["message"] == {"id": message_id, "name": "request-1", "alias": "request-1"}
    assert added["_links"]["self"]["href"].endswith(f"/queues/{queue_id}/messages/{message_id}")
    shown = (await org.get(f"/queues/{queue_id}/messages/{message_id}"))["message"]
    assert (shown["name"], shown["data"], shown["state"], shown["deliveries"]) == ("request-1", DATA, "ready", [])
    for path in (f"/queues/{queue_id}/messages", "/messages"):
        listed = await org.get(path)
        assert listed["messages"] == [{"id": message_id, "name": "request-1", "alias": "request-1"}]
        assert listed["_links"]["request-1"]["href"].endswith(message_id)


async def test_the_older_way_to_add_is_a_put(org: Organization) -> None:
    queue_id = await org.queue()
    assert (await org.put(f"/queues/{queue_id}/messages", {"data": DATA}))["message"]["id"]


async def test_a_message_without_a_name_is_called_by_its_id(org: Organization) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id)
    assert (await org.get(f"/queues/{queue_id}/messages/{message_id}"))["message"]["name"] == message_id


@pytest.mark.parametrize("order", [{}, {"name": "x"}, {"data": None}, {"data": {"userId": 1}}, {"data": 7}])
async def test_data_is_a_string_and_required(org: Organization, order: dict[str, Any]) -> None:
    queue_id = await org.queue()
    refused(await org.call("POST", f"/queues/{queue_id}/messages", order), 422)
    assert await org.count(queue_id) == 0


async def test_an_empty_string_is_a_message(org: Organization) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id, "")
    assert (await org.get(f"/queues/{queue_id}/messages/{message_id}"))["message"]["data"] == ""


async def test_a_message_that_is_too_large_for_its_queue_is_refused(org: Organization) -> None:
    queue_id = await org.queue()
    await org.app.request(
        "PATCH", "/courier/v1/tenants/default/queues/orders", json={"settings": {"max_body_bytes": 10}}
    )
    refused(await org.call("POST", f"/queues/{queue_id}/messages", {"data": "x" * 11}), 413)
    assert await org.count(queue_id) == 0


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (DATA, "application/json"),
        ("[1, 2]", "application/json"),
        ("7", "application/json"),
        ("hello, wörld", "text/plain; charset=utf-8"),
        ("{ broken", "text/plain; charset=utf-8"),
        ("", "text/plain; charset=utf-8"),
    ],
)
async def test_listeners_get_the_data_as_it_was_sent(org: Organization, data: str, content_type: str) -> None:
    async with receiving() as receiver:
        queue_id = await org.queue()
        await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
        message_id = await org.add(queue_id, data)
        (request,) = await receiver.wait(1)
        assert (request.method, request.body) == ("POST", data.encode())
        assert request.headers["content-type"] == content_type
        assert request.headers["webhook-id"] == message_id


async def test_a_message_leaves_its_queue_when_every_listener_has_it_and_is_still_shown_for_a_day(
    org: Organization,
) -> None:
    async with receiving() as shop, receiving() as books:
        queue_id = await org.queue()
        for name, receiver in (("shop", shop), ("books", books)):
            await org.listener(queue_id, name, notify_url=receiver.url, liveness_url=LIVE)
        message_id = await org.add(queue_id, DATA, name="request-1")
        await emptied(org, queue_id)
        shown = (await org.get(f"/queues/{queue_id}/messages/{message_id}"))["message"]
        assert (shown["name"], shown["data"], shown["state"]) == ("request-1", DATA, "delivered")
        assert [(one["listener"], one["state"]) for one in shown["deliveries"]] == [
            ("shop", "delivered"),
            ("books", "delivered"),
        ]
        org.clock.advance(ms=DAY + 60_000)
        refused(await org.call("GET", f"/queues/{queue_id}/messages/{message_id}"), 404)


async def test_a_listener_whose_rule_did_not_match_is_shown_as_filtered(org: Organization) -> None:
    async with receiving() as shop, receiving() as books:
        queue_id = await org.queue()
        for name, receiver in (("shop", shop), ("books", books)):
            await org.listener(queue_id, name, notify_url=receiver.url, liveness_url=LIVE)
        rule = {"attribute": "$.for", "type": "string", "matcher": "eq", "value": "books"}
        path = "/courier/v1/tenants/default/queues/orders/listeners/books"
        assert (await org.app.request("PATCH", path, json={"settings": {"rules": [rule]}})).status == 200
        message_id = await org.add(queue_id, '{"for": "shop"}')
        await emptied(org, queue_id)
        shown = (await org.get(f"/queues/{queue_id}/messages/{message_id}"))["message"]
        states = {one["listener"]: (one["state"], one["attempts"]) for one in shown["deliveries"]}
        assert states == {"shop": ("delivered", None), "books": ("filtered", None)}
        await org.put(f"/queues/{queue_id}/listeners/shop", {"status": "paused"})
        message_id = await org.add(queue_id, '{"for": "shop"}')
        shown = (await org.get(f"/queues/{queue_id}/messages/{message_id}"))["message"]
        assert {one["listener"]: one["state"] for one in shown["deliveries"]} == {
            "shop": "pending",
            "books": "filtered",
        }


async def test_a_delivered_message_can_be_deleted_as_long_as_it_can_be_read(org: Organization) -> None:
    async with receiving() as receiver:
        queue_id = await org.queue()
        listener = await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
        first, second = await org.add(queue_id, "1"), await org.add(queue_id, "2")
        await emptied(org, queue_id)
        path = f"/queues/{queue_id}/messages/{first}"
        await org.put(f"/queues/{queue_id}/listeners/{listener['id']}", {"status": "paused"})
        await org.post(f"/queues/{queue_id}/listeners/{listener['id']}/replay", {"message_ids": [first, second]})
        assert set(await org.delete(path)) == {"_links"}
        for method in ("GET", "DELETE"):
            refused(await org.call(method, path), 404)
        assert (await org.get(f"/queues/{queue_id}/messages/{second}"))["message"]["data"] == "2"
        await org.put(f"/queues/{queue_id}/listeners/{listener['id']}", {"status": "active"})
        await receiver.wait(3)
        assert sorted(receiver.bodies) == [b"1", b"2", b"2"]  # the copy that was to be delivered again is gone
        org.clock.advance(ms=DAY + 60_000)
        refused(await org.call("DELETE", f"/queues/{queue_id}/messages/{second}"), 404)


async def test_a_listener_that_fails_keeps_the_message_and_the_others_have_it(org: Organization) -> None:
    async with receiving() as shop, receiving(answer(503)) as books:
        queue_id = await org.queue()
        await org.listener(queue_id, "shop", notify_url=shop.url, liveness_url=LIVE)
        await org.listener(queue_id, "books", notify_url=books.url, liveness_url=LIVE)
        message_id = await org.add(queue_id)
        path = f"/queues/{queue_id}/messages/{message_id}"
        await eventually(lambda: org.get(path), lambda shown: shown["message"]["deliveries"][0]["state"] == "delivered")
        await books.wait(1)
        states = {one["listener"]: one["state"] for one in (await org.get(path))["message"]["deliveries"]}
        assert states == {"shop": "delivered", "books": "pending"}


async def test_a_listener_gets_what_was_sent_after_it_was_made(org: Organization) -> None:
    async with receiving() as receiver:
        queue_id = await org.queue()
        before = await org.add(queue_id, "before")
        org.clock.advance(ms=1)
        await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
        await org.add(queue_id, "after")
        await receiver.wait(1)
        assert receiver.bodies == [b"after"]
        assert (await org.get(f"/queues/{queue_id}/messages/{before}"))["message"]["deliveries"] == []


async def test_a_message_is_renamed(org: Organization) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id, name="old")
    path = f"/queues/{queue_id}/messages/{message_id}"
    assert (await org.put(path, {"name": "new"}))["message"]["name"] == "new"
    assert (await org.get(path))["message"]["name"] == "new"
    assert (await org.get(f"/queues/{queue_id}/messages"))["messages"][0]["alias"] == "new"
    assert (await org.put(path))["message"]["name"] == "new"


async def test_only_the_name_of_a_message_can_be_changed(org: Organization) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id)
    refused(await org.call("PUT", f"/queues/{queue_id}/messages/{message_id}", {"data": "other"}), 422)
    refused(await org.call("PUT", f"/queues/{queue_id}/messages/none", {"name": "x"}), 404)


async def test_names_of_messages_go_with_their_queue(org: Organization) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id)
    await org.put(f"/queues/{queue_id}/messages/{message_id}", {"name": "new"})
    await org.delete(f"/queues/{queue_id}")
    assert org.app.services.catalog.records("discue.names", "default") == []


async def test_names_make_room_for_others_when_their_messages_are_gone(
    org: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("couriermq.dialects.discue.names.RENAMED_COUNT", 2)
    queue_id = await org.queue()
    ids = [await org.add(queue_id) for _ in range(4)]
    for message_id in ids[:2]:
        await org.put(f"/queues/{queue_id}/messages/{message_id}", {"name": "x"})
    refused(await org.call("PUT", f"/queues/{queue_id}/messages/{ids[2]}", {"name": "x"}), 422)
    queue = org.app.services.catalog.queue_by_id("default", queue_id)
    gone = await org.app.services.broker.read_message(queue, ids[0])
    await org.app.services.broker.remove(queue, [gone.seq], principal="test")
    await org.put(f"/queues/{queue_id}/messages/{ids[2]}", {"name": "y"})
    assert (await org.get(f"/queues/{queue_id}/messages/{ids[2]}"))["message"]["name"] == "y"


async def test_a_message_is_deleted_with_the_copies_that_wait_for_listeners(org: Organization) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id, status="paused")
    message_id = await org.add(queue_id)
    path = f"/queues/{queue_id}/messages/{message_id}"
    assert list(await org.delete(path)) == ["_links"]
    refused(await org.call("GET", path), 404)
    refused(await org.call("DELETE", path), 404)
    shown = (await org.get(f"/queues/{queue_id}/listeners/{listener['id']}"))["listener"]
    assert shown["messages"]["pending_count"] == 0


async def test_a_message_in_the_hands_of_a_receiver_is_locked(org: Organization) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id)
    await org.app.post("/courier/v1/tenants/default/queues/orders/receive", {"limit": 1})
    assert "holds it" in refused(await org.call("DELETE", f"/queues/{queue_id}/messages/{message_id}"), 423)


async def test_a_message_that_is_received_while_it_is_being_deleted_is_locked(
    org: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id)
    queue, broker = org.app.services.catalog.queue("default", "orders"), org.app.services.broker
    leases: list[Lease] = []
    read_message = broker.read_message

    async def read_before_a_receiver(queue: Queue, message_id: str) -> Message:
        message = await read_message(queue, message_id)
        leases.extend(await broker.receive(queue, principal="test"))
        return message

    monkeypatch.setattr(broker, "read_message", read_before_a_receiver)
    assert "holds it" in refused(await org.call("DELETE", f"/queues/{queue_id}/messages/{message_id}"), 423)
    assert (await broker.ack(queue, leases[0].receipt, principal="test")).id == message_id


async def test_pages_of_messages_go_on_from_queue_to_queue(org: Organization) -> None:
    for name in ("a", "b", "c"):
        queue_id = await org.queue(name)
        for number in range(3):
            await org.add(queue_id, name=f"{name}-{number}")
    names = []
    for page in range(1, 6):
        response = await org.call("GET", f"/messages?page={page}&per_page=2")
        names += [message["name"] for message in response.json()["messages"]]
        assert ("link" in response.headers) is (page < 5)
    assert names == [f"{name}-{number}" for name in "abc" for number in range(3)]


async def test_pages_do_not_reach_into_a_queue_for_ever(org: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("couriermq.dialects.discue.messages.DEEPEST_PAGE", 2)
    queue_id = await org.queue()
    for _ in range(5):
        await org.add(queue_id)
    assert len((await org.get("/messages?page=3&per_page=1"))["messages"]) == 1
    assert "2 messages deep" in refused(await org.call("GET", "/messages?page=4&per_page=1"), 422)
    assert (await org.get("/messages?page=6&per_page=1"))["messages"] == []


async def test_bytes_of_another_dialect_are_shown_in_base64(org: Organization) -> None:
    queue_id = await org.queue()
    sent = await org.app.post("/courier/v1/tenants/default/queues/orders/messages", {"body_base64": "/wD/"})
    shown = (await org.get(f"/queues/{queue_id}/messages/{sent.json()['id']}"))["message"]
    assert (shown["data_base64"], shown["content_type"]) == ("/wD/", "application/octet-stream")
    assert "data" not in shown
