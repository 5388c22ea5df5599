"""Notification consumers: listeners that come and go with the consumer."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import Action, Listener
from tests.support.cloudflare import Account, Queue, refused
from tests.support.eventually import eventually
from tests.support.inprocess import courier_app
from tests.support.receiver import Receiver, receiving


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with courier_app(tmp_path, delivery_allow=("127.0.0.0/8",)) as app:
        yield await Account(app).queue(pull=False)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def order(*urls: str, **more: Any) -> dict[str, Any]:
    """A consumer with these webhooks, and with empty lists for what else the vendor can notify."""
    settings = {"email": [], "pagerduty": [], "webhooks": [{"id": url} for url in urls]}
    return {"type": "notification", "settings": settings, **more}


def listeners(queue: Queue) -> list[Listener]:
    catalog = queue.account.app.services.catalog
    return catalog.listeners_of(catalog.queue("default", queue.id))


async def test_a_message_is_posted_to_every_webhook_and_leaves_the_queue(queue: Queue, receiver: Receiver) -> None:
    made = await queue.result("POST", "/consumers", order(f"{receiver.url}/a", f"{receiver.url}/b"))
    assert made["type"] == "notification"
    await queue.push({"n": 1})
    requests = await receiver.wait(2)
    assert sorted(one.path for one in requests) == ["/hook/a", "/hook/b"]
    assert set(receiver.bodies) == {b'{"n":1}'}
    await eventually(queue.account.backlog_count, lambda count: count == 0)


async def test_the_settings_are_the_vendors_fixed_ones_and_show_no_path(queue: Queue, receiver: Receiver) -> None:
    made = await queue.result("POST", "/consumers", order(f"{receiver.url}/a-secret-path"))
    assert made["settings"] == {
        "batch_size": 1,
        "max_retries": 100,
        "retry_delay": 10,
        "email": [],
        "pagerduty": [],
        "webhooks": [{"id": receiver.url.replace("hook", "…")}],
    }
    (listener,) = listeners(queue)
    assert (listener.settings.schedule_ms, listener.settings.jitter) == ((10_000,) * 100, 0.0)
    assert listener.url == f"{receiver.url}/a-secret-path"


async def test_dead_letters_go_to_the_queue_that_the_consumer_names(queue: Queue, receiver: Receiver) -> None:
    await queue.result("POST", "/consumers", order(receiver.url, dead_letter_queue="dead"))
    catalog = queue.account.app.services.catalog
    (listener,) = listeners(queue)
    assert catalog.outbox(listener).settings.dead_letter_queue == catalog.queue("default", "dead").id


async def test_dead_letters_go_elsewhere_when_the_consumer_is_replaced(queue: Queue, receiver: Receiver) -> None:
    made = await queue.result("POST", "/consumers", order(receiver.url, dead_letter_queue="dead"))
    catalog = queue.account.app.services.catalog
    path = f"/consumers/{made['consumer_id']}"
    await queue.result("PUT", path, order(receiver.url, dead_letter_queue="other"))
    (listener,) = listeners(queue)
    assert catalog.outbox(listener).settings.dead_letter_queue == catalog.queue("default", "other").id
    await queue.result("PUT", path, order(receiver.url))
    assert catalog.outbox(listener).settings.dead_letter_queue == listener.dead_letters_id


async def test_dead_letters_follow_a_change_of_the_queue_through_another_dialect(
    queue: Queue, receiver: Receiver
) -> None:
    await queue.result("POST", "/consumers", order(receiver.url, dead_letter_queue="dead"))
    app, native = queue.account.app, "/courier/v1/tenants/default/queues"
    await app.post(native, {"name": "other"})

    async def target_with(dead_letter_queue: str | None) -> str | None:
        change = {"settings": {"dead_letter_queue": dead_letter_queue}}
        assert (await app.request("PATCH", f"{native}/{queue.name}", json=change)).status == 200
        (listener,) = listeners(queue)
        return app.services.catalog.outbox(listener).settings.dead_letter_queue

    assert await target_with("other") == app.services.catalog.queue("default", "other").id
    assert (await app.request("DELETE", f"{native}/other")).status == 409
    (listener,) = listeners(queue)
    assert await target_with(None) == listener.dead_letters_id
    assert (await app.request("DELETE", f"{native}/other")).status == 204


async def test_dead_letters_of_a_listener_without_a_consumer_stay_with_it(queue: Queue, receiver: Receiver) -> None:
    app, native = queue.account.app, "/courier/v1/tenants/default/queues"
    await app.post(native, {"name": "dead"})
    assert (await app.post(f"{native}/{queue.name}/listeners", {"name": "l", "url": receiver.url})).status == 201
    change = {"settings": {"dead_letter_queue": "dead"}}
    assert (await app.request("PATCH", f"{native}/{queue.name}", json=change)).status == 200
    (listener,) = listeners(queue)
    assert app.services.catalog.outbox(listener).settings.dead_letter_queue == listener.dead_letters_id


async def test_replacing_and_deleting_change_the_listeners(queue: Queue, receiver: Receiver) -> None:
    made = await queue.result("POST", "/consumers", order(f"{receiver.url}/a", f"{receiver.url}/b"))
    kept = {one.url: one.id for one in listeners(queue)}
    await queue.result("PUT", f"/consumers/{made['consumer_id']}", order(f"{receiver.url}/b", f"{receiver.url}/c"))
    now = {one.url: one.id for one in listeners(queue)}
    assert set(now) == {f"{receiver.url}/b", f"{receiver.url}/c"}
    assert now[f"{receiver.url}/b"] == kept[f"{receiver.url}/b"]
    await queue.result("DELETE", f"/consumers/{made['consumer_id']}")
    assert listeners(queue) == []


async def test_listeners_of_other_dialects_stay(queue: Queue, receiver: Receiver) -> None:
    catalog = queue.account.app.services.catalog
    own = await catalog.create_listener(
        catalog.queue("default", queue.id), "own", "https://shop.example/", principal="test"
    )
    made = await queue.result("POST", "/consumers", order(receiver.url))
    await queue.result("DELETE", f"/consumers/{made['consumer_id']}")
    assert [one.id for one in listeners(queue)] == [own.id]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({}, "a notification consumer has 1 to 10 webhooks"),
        ({"webhooks": [{"id": "0123"}]}, 'the id of a webhook is "0123"; here it is the URL itself'),
        ({"webhooks": ["https://shop.example/"]}, "the id of a webhook is null; here it is the URL itself"),
        ({"webhooks": [{"id": "https://a.example/"}] * 2}, "each webhook stands once"),
        ({"email": [{"id": "a@b.example"}]}, "Courier notifies webhooks and has no email; choose settings.webhooks"),
    ],
)
async def test_what_cannot_be_notified_is_refused(queue: Queue, settings: Any, sentence: str) -> None:
    answer = await queue.call("POST", "/consumers", {"type": "notification", "settings": settings})
    assert refused(answer) == (400, 100127, sentence)
    assert listeners(queue) == []


async def test_an_address_that_may_not_be_delivered_to_is_refused(queue: Queue) -> None:
    answer = await queue.call("POST", "/consumers", order("http://10.0.0.1/"))
    assert answer.status == 400
    assert (await queue.get())["consumers"] == []


async def test_only_a_manager_may_have_messages_sent_elsewhere(queue: Queue) -> None:
    caller = await queue.account.with_scopes(Action.RECEIVE, Action.SEND)
    assert (await caller.call("POST", f"{queue.path}/consumers", order("https://shop.example/"))).status == 403
