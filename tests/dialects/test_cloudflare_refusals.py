"""Every limit and every refusal of the Cloudflare dialect: status, code, a sentence that helps, and nothing stored."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from courier.core.errors import CourierError, Unavailable
from courier.dialects.cloudflare.errors import answer_for
from tests.support.cloudflare import Account, Queue, cloudflare_account, refused

HOUR_MS = 3_600_000


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


@pytest.fixture
def account(queue: Queue) -> Account:
    return queue.account


def text(size: int) -> dict[str, Any]:
    return {"body": "x" * size, "content_type": "text"}


# -- push ------------------------------------------------------------

BAD_PUSHES = {
    "no body": ({}, 10207, 'Required at "body"'),
    "string as json": (
        {"body": "hi", "content_type": "json"},
        10207,
        'Expected object, received string at "body"',
    ),
    "string without a type": ({"body": "hi"}, 10207, 'Expected object, received string at "body"'),
    "object as text": (
        {"body": {"a": 1}, "content_type": "text"},
        10207,
        'Expected string, received object at "body"',
    ),
    "number as text": ({"body": 5, "content_type": "text"}, 10207, 'Expected string, received number at "body"'),
    "bad base64": ({"body": "***", "content_type": "bytes"}, 10207, 'Invalid base64 at "body"'),
    "unknown content type": (
        {"body": {}, "content_type": "xml"},
        10203,
        'content_type is "xml"; choose text, json, bytes or v8',
    ),
    "content type of the wrong type": (
        {"body": {}, "content_type": 5},
        10203,
        "content_type is 5; choose text, json, bytes or v8",
    ),
    "delay too long": (
        {"body": {}, "delay_seconds": 86_401},
        10203,
        "delay_seconds is 86401; choose from 0 to 86400 seconds",
    ),
    "delay below zero": (
        {"body": {}, "delay_seconds": -1},
        10203,
        "delay_seconds is -1; choose from 0 to 86400 seconds",
    ),
    "delay as text": (
        {"body": {}, "delay_seconds": "5"},
        10203,
        'delay_seconds is "5"; choose from 0 to 86400 seconds',
    ),
    "delay as a boolean": (
        {"body": {}, "delay_seconds": True},
        10203,
        "delay_seconds is true; choose from 0 to 86400 seconds",
    ),
    "message too large": (text(128_001), 10204, "the message is 128001 bytes; at most 128000 are allowed"),
    "json too large": (
        {"body": ["x" * 128_000]},
        10204,
        "the message is 128004 bytes; at most 128000 are allowed",
    ),
    "not an object": ([], 10207, "the body does not fit: Expected `object`, got `array`"),
}


@pytest.mark.parametrize("order", BAD_PUSHES.values(), ids=BAD_PUSHES.keys())
async def test_a_push_that_the_vendor_refuses(queue: Queue, order: tuple[Any, int, str]) -> None:
    body, code, sentence = order
    assert refused(await queue.call("POST", "/messages", body)) == (400, code, sentence)
    assert await queue.count() == 0


@pytest.mark.parametrize(
    "body",
    [b"{", b'{"body": {"a":}}', b'{"body": {"a":"\xff"}}', b'{"body":' + b"[" * 5_000 + b"]" * 5_000 + b"}", b"\xff"],
    ids=["open", "hole", "not utf-8", "too deep", "no json"],
)
@pytest.mark.parametrize("path", ["/messages", "/messages/batch", "/messages/pull", "/messages/ack", "/messages/purge"])
async def test_a_body_that_is_not_json(queue: Queue, path: str, body: bytes) -> None:
    status, code, sentence = refused(await queue.call("POST", path, body=body))
    assert (status, code) == (400, 10208)
    assert sentence.startswith("the body is not JSON")
    assert await queue.count() == 0


BAD_BATCHES = {
    "no messages": ({}, 10013, "the batch is empty; send between 1 and 100 messages"),
    "empty": ({"messages": []}, 10013, "the batch is empty; send between 1 and 100 messages"),
    "messages of the wrong type": (
        {"messages": 5},
        10013,
        "the body does not fit: Expected `array | null`, got `int` - at `$.messages`",
    ),
    "an item of the wrong type": (
        {"messages": [5]},
        10013,
        "the body does not fit: Expected `object`, got `int` - at `$.messages[0]`",
    ),
    "too many": (
        {"messages": [{"body": {}}] * 101},
        10206,
        "the batch has 101 messages; send at most 100",
    ),
    "too heavy": (
        {"messages": [text(100_000), text(100_000), text(56_001)]},
        10205,
        "the batch is 256001 bytes; send at most 256000",
    ),
    "one message too large": (
        {"messages": [{"body": {}}, text(128_001)]},
        10204,
        "the message is 128001 bytes; at most 128000 are allowed",
    ),
    "one message without a body": ({"messages": [{"body": {}}, {}]}, 10207, 'Required at "messages[1].body"'),
    "one delay too long": (
        {"messages": [{"body": {}}, {"body": {}, "delay_seconds": 86_401}]},
        10203,
        "messages[1].delay_seconds is 86401; choose from 0 to 86400 seconds",
    ),
    "batch delay too long": (
        {"messages": [{"body": {}}], "delay_seconds": 86_401},
        10202,
        "delay_seconds is 86401; choose from 0 to 86400 seconds",
    ),
}


@pytest.mark.parametrize("order", BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
async def test_a_batch_that_the_vendor_refuses_is_refused_whole(queue: Queue, order: tuple[Any, int, str]) -> None:
    body, code, sentence = order
    assert refused(await queue.call("POST", "/messages/batch", body)) == (400, code, sentence)
    assert await queue.count() == 0


async def test_what_is_just_within_the_limits_is_taken(queue: Queue) -> None:
    await queue.push("", content_type="text")
    await queue.push("\u0001" * 128_000, content_type="text", delay_seconds=86_400)  # six times as long on the wire
    await queue.push_batch(text(128_000), text(128_000), delay_seconds=86_400)
    await queue.push_batch(*[{"body": {}}] * 100)
    assert await queue.count() == 104


async def test_a_request_too_large_to_be_read_is_refused_before_it_is(queue: Queue) -> None:
    huge = {"content-length": str(50_000_000)}
    assert refused(await queue.call("POST", "/messages", body=b"{}", headers=huge))[:2] == (413, 10204)
    assert refused(await queue.call("POST", "/messages/batch", body=b"{}", headers=huge))[:2] == (413, 10205)
    assert refused(await queue.call("PATCH", "", body=b"{}", headers=huge))[:2] == (413, 10026)
    assert await queue.count() == 0


async def test_a_queue_of_another_dialect_may_be_stricter_with_sizes(account: Account) -> None:
    from courier.core.model import QueueSettings

    made = await account.app.services.catalog.create_queue(
        "default", "narrow", settings=QueueSettings(max_body_bytes=10), principal="test"
    )
    order = {"messages": [text(5), text(11)]}
    answer = refused(await account.call("POST", f"/queues/{made.id}/messages/batch", order))
    assert answer == (400, 10204, "the message is 11 bytes; at most 10 are allowed")
    assert await account.backlog_count() == 0


async def test_the_place_of_a_mistake_is_pointed_at(queue: Queue) -> None:
    response = await queue.call("POST", "/messages/batch", {"messages": [{"body": {}}, {"body": "x"}]})
    assert response.json()["errors"][0]["source"] == {"pointer": "/messages/1/body"}
    assert response.json()["messages"] == ["a string needs content_type `text`"]


# -- pull, ack, peek, purge ------------------------------------------------------------

BAD_ORDERS = {
    "pull nothing": ("/pull", {"batch_size": 0}, "batch_size is 0; choose a whole number from 1 to 100"),
    "pull too many": ("/pull", {"batch_size": 101}, "batch_size is 101; choose a whole number from 1 to 100"),
    "pull a part": ("/pull", {"batch_size": 1.5}, "batch_size is 1.5; choose a whole number from 1 to 100"),
    "pull a word": ("/pull", {"batch_size": "5"}, 'batch_size is "5"; choose a whole number from 1 to 100'),
    "lease too long": (
        "/pull",
        {"visibility_timeout_ms": 12 * HOUR_MS + 1},
        "visibility_timeout_ms is 43200001; choose a whole number from 0 to 43200000",
    ),
    "lease below zero": (
        "/pull",
        {"visibility_timeout_ms": -1},
        "visibility_timeout_ms is -1; choose a whole number from 0 to 43200000",
    ),
    "pull with a list": ("/pull", [], "the body does not fit: Expected `object`, got `array`"),
    "ack without a lease": (
        "/ack",
        {"acks": [{}]},
        "the body does not fit: Object missing required field `lease_id` - at `$.acks[0]`",
    ),
    "ack with a number": (
        "/ack",
        {"acks": [{"lease_id": 5}]},
        "the body does not fit: Expected `str`, got `int` - at `$.acks[0].lease_id`",
    ),
    "retry much later": (
        "/ack",
        {"retries": [{"lease_id": "x", "delay_seconds": 86_401}]},
        "retries[0].delay_seconds is 86401; choose from 0 to 86400 seconds",
    ),
    "settle too many": (
        "/ack",
        {"acks": [{"lease_id": "x"}] * 1_001},
        "the call settles 1001 leases; settle at most 1000 at a time",
    ),
    "peek too many": ("/peek", {"batch_size": 101}, "batch_size is 101; choose a whole number from 1 to 100"),
    "purge without refs": (
        "/purge",
        {},
        "the body does not fit: Object missing required field `refs`",
    ),
    "purge too many": (
        "/purge",
        {"refs": [{"ref": "x"}] * 1_001},
        "the call names 1001 refs; name at most 1000 at a time",
    ),
}


@pytest.mark.parametrize("order", BAD_ORDERS.values(), ids=BAD_ORDERS.keys())
async def test_an_order_about_messages_that_is_refused_touches_none(queue: Queue, order: tuple[str, Any, str]) -> None:
    path, body, sentence = order
    await queue.push({"n": 1})
    assert refused(await queue.call("POST", f"/messages{path}", body)) == (400, 10026, sentence)
    assert (await queue.pull_one())["attempts"] == 1


async def test_the_longest_lease_is_twelve_hours(queue: Queue, account: Account) -> None:
    await queue.push({"n": 1})
    await queue.pull_one(visibility_timeout_ms=12 * HOUR_MS)
    account.clock.advance(ms=12 * HOUR_MS - 1)
    assert await queue.pull() == []
    account.clock.advance(ms=1)
    assert len(await queue.pull()) == 1


async def test_a_refused_ack_settles_nothing_of_the_call(queue: Queue) -> None:
    await queue.push({"n": 1})
    lease_id = (await queue.pull_one())["lease_id"]
    order = {"acks": [{"lease_id": lease_id}], "retries": [{"lease_id": "x", "delay_seconds": -1}]}
    assert refused(await queue.call("POST", "/messages/ack", order))[:2] == (400, 10026)
    assert await queue.count() == 1


async def test_a_pull_needs_an_http_pull_consumer(account: Account) -> None:
    queue = await account.queue("unread", pull=False)
    await queue.push({"n": 1})
    response = await queue.call("POST", "/messages/pull", {})
    assert refused(response) == (405, 0, "messages cannot be pulled unless http_pull mode is enabled")
    assert "create a consumer of type http_pull" in response.json()["messages"][0]
    assert (await queue.peek())[0]["attempts"] == 0


# -- queues ------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "Orders", "a_b", "-a", "a-", "a" * 64, "a.b", "a b", "é", None, 5, ["a"]], ids=repr
)
async def test_a_name_that_the_vendor_refuses(account: Account, name: object) -> None:
    status, code, sentence = refused(await account.call("POST", "/queues", {"queue_name": name}))
    assert (status, code) == (400, 11003)
    assert sentence.startswith("Queue name '")
    assert "is invalid: it must have 1 to 63 lower-case letters" in sentence
    assert len(await account.result("GET", "/queues")) == 1


async def test_a_queue_without_a_name_is_refused(account: Account) -> None:
    assert refused(await account.call("POST", "/queues"))[:2] == (400, 11003)
    assert refused(await account.call("POST", "/queues", {}))[:2] == (400, 11003)


async def test_a_name_of_63_characters_is_taken(account: Account) -> None:
    assert (await account.result("POST", "/queues", {"queue_name": "a" * 63}))["queue_name"] == "a" * 63


async def test_a_name_that_is_taken(queue: Queue, account: Account) -> None:
    sentence = "Queue name 'orders' is already taken. Please use a different name and try again."
    response = await account.call("POST", "/queues", {"queue_name": "orders"})
    assert refused(response) == (409, 11009, sentence)
    assert response.headers["x-should-retry"] == "false"
    other = await account.queue("other", pull=False)
    assert refused(await other.call("PATCH", "", {"queue_name": "orders"})) == (409, 11009, sentence)
    assert (await other.get())["queue_name"] == "other"


BAD_QUEUE_SETTINGS = {
    "delay too long": ({"delivery_delay": 86_401}, "settings.delivery_delay is 86401; choose from 0 to 86400 seconds"),
    "delay below zero": ({"delivery_delay": -1}, "settings.delivery_delay is -1; choose from 0 to 86400 seconds"),
    "retention too short": (
        {"message_retention_period": 59},
        "settings.message_retention_period is 59; choose from 60 to 1209600 seconds",
    ),
    "retention too long": (
        {"message_retention_period": 1_209_601},
        "settings.message_retention_period is 1209601; choose from 60 to 1209600 seconds",
    ),
    "paused as a word": ({"delivery_paused": "yes"}, 'settings.delivery_paused is "yes"; choose true or false'),
}


@pytest.mark.parametrize("order", BAD_QUEUE_SETTINGS.values(), ids=BAD_QUEUE_SETTINGS.keys())
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
async def test_queue_settings_that_are_refused(queue: Queue, method: str, order: tuple[Any, str]) -> None:
    settings, sentence = order
    before = await queue.account.result("GET", "/queues")
    path = "/queues" if method == "POST" else queue.path
    body = {"queue_name": "brand-new", "settings": settings}
    assert refused(await queue.account.call(method, path, body)) == (400, 100128, sentence)
    assert await queue.account.result("GET", "/queues") == before


async def test_a_jurisdiction_is_chosen_once(account: Account) -> None:
    unknown = await account.call("POST", "/queues", {"queue_name": "a", "jurisdiction": "moon"})
    assert refused(unknown)[:2] == (400, 100128)
    made = await account.result("POST", "/queues", {"queue_name": "b", "jurisdiction": "eu"})
    path = f"/queues/{made['queue_id']}"
    assert (await account.result("PATCH", path, {"jurisdiction": "eu"}))["jurisdiction"] == "eu"
    assert refused(await account.call("PATCH", path, {"jurisdiction": "us"})) == (
        400,
        100128,
        "the jurisdiction of a queue is chosen when it is created and cannot be changed",
    )


async def test_a_dead_letter_queue_in_use_cannot_be_deleted(account: Account) -> None:
    await account.queue("source", dead_letter_queue="dead")
    assert refused(await account.call("DELETE", "/queues/dead")) == (
        409,
        11005,
        "Cannot delete queue 'dead' that serves as dead letter queue for consumers",
    )
    assert len(await account.result("GET", "/queues?name=dead")) == 1


@pytest.mark.parametrize("flag", [False, None, "true", 1])
async def test_a_purge_must_be_meant(queue: Queue, flag: object) -> None:
    await queue.push({"n": 1})
    order = {"delete_messages_permanently": flag}
    answer = refused(await queue.call("POST", "/purge", order))
    assert answer == (400, 10026, "delete_messages_permanently must be true: a purge cannot be undone")
    assert refused(await queue.call("POST", "/purge"))[:2] == (400, 10026)
    assert (await queue.count(), await queue.result("GET", "/purge")) == (1, {})


@pytest.mark.parametrize("query", ["page=0", "page=x", "page=-1", "per_page=0", "page=9999999999"])
async def test_a_page_that_cannot_be(account: Account, query: str) -> None:
    status, code, sentence = refused(await account.call("GET", f"/queues?{query}"))
    assert (status, code) == (400, 10026)
    assert "choose a whole number from 1 on" in sentence


# -- consumers ------------------------------------------------------------

BAD_CONSUMERS = {
    "no type": ({}, 10026, "type is null; choose http_pull or worker"),
    "unknown type": ({"type": "push"}, 10026, 'type is "push"; choose http_pull or worker'),
    "type of the wrong type": ({"type": {}}, 10026, "type is {}; choose http_pull or worker"),
    "worker without a script": ({"type": "worker"}, 10026, "a worker consumer needs its script_name"),
    "dead letter queue of the wrong type": (
        {"type": "http_pull", "dead_letter_queue": 5},
        10026,
        "the body does not fit: Expected `str | null`, got `int` - at `$.dead_letter_queue`",
    ),
    "too many retries": (
        {"type": "http_pull", "settings": {"max_retries": 101}},
        100127,
        "settings.max_retries is 101; choose a whole number from 0 to 100",
    ),
    "retry delay too long": (
        {"type": "http_pull", "settings": {"retry_delay": 86_401}},
        100127,
        "settings.retry_delay is 86401; choose from 0 to 86400 seconds",
    ),
    "lease too long": (
        {"type": "http_pull", "settings": {"visibility_timeout_ms": 43_200_001}},
        100127,
        "settings.visibility_timeout_ms is 43200001; choose a whole number from 0 to 43200000",
    ),
    "batch too large": (
        {"type": "http_pull", "settings": {"batch_size": 101}},
        100127,
        "settings.batch_size is 101; choose a whole number from 1 to 100",
    ),
    "wait too long": (
        {"type": "worker", "script_name": "w", "settings": {"max_wait_time_ms": 60_001}},
        100127,
        "settings.max_wait_time_ms is 60001; choose a whole number from 0 to 60000",
    ),
    "too much concurrency": (
        {"type": "worker", "script_name": "w", "settings": {"max_concurrency": 251}},
        100127,
        "settings.max_concurrency is 251; choose a whole number from 1 to 250",
    ),
    "dead letters to itself": (
        {"type": "http_pull", "dead_letter_queue": "unread"},
        100127,
        "dead letters of 'unread' would come back to it; choose another queue",
    ),
    "dead letter queue with a bad name": (
        {"type": "http_pull", "dead_letter_queue": "Not A Name"},
        11003,
        "Queue name 'Not A Name' is invalid: it must have 1 to 63 lower-case letters, digits and hyphens, and start "
        "and end with a letter or a digit",
    ),
}


@pytest.mark.parametrize("order", BAD_CONSUMERS.values(), ids=BAD_CONSUMERS.keys())
async def test_a_consumer_that_is_refused(account: Account, order: tuple[Any, int, str]) -> None:
    body, code, sentence = order
    queue = await account.queue("unread", pull=False)
    before = await account.result("GET", "/queues")
    assert refused(await queue.call("POST", "/consumers", body)) == (400, code, sentence)
    assert refused(await queue.call("PUT", "/consumers/anything", body)) == (400, code, sentence)
    assert await account.result("GET", "/queues") == before


async def test_a_ring_of_dead_letter_queues_is_refused(queue: Queue, account: Account) -> None:
    other = await account.queue("other", dead_letter_queue="orders")
    (consumer,) = await queue.result("GET", "/consumers")
    order = {"type": "http_pull", "dead_letter_queue": "other"}
    answer = refused(await queue.call("PUT", f"/consumers/{consumer['consumer_id']}", order))
    assert answer[:2] == (400, 100127)
    assert "would come back to it" in answer[2]
    assert (await queue.get())["consumers"] == [consumer]
    assert (await other.get())["consumers"][0]["dead_letter_queue"] == "orders"


async def test_a_second_consumer_is_refused(queue: Queue) -> None:
    before = await queue.get()
    for method, path in (("POST", "/consumers"), ("PUT", "/consumers/another")):
        for order in ({"type": "http_pull"}, {"type": "worker", "script_name": "w"}):
            answer = refused(await queue.call(method, path, order))
            assert answer == (409, 11004, "Queue 'orders' already has a consumer.")
    assert await queue.get() == before


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_consumer_that_is_not_there(queue: Queue, method: str) -> None:
    answer = refused(await queue.call(method, "/consumers/none"))
    assert answer == (404, 11000, "the queue has no consumer 'none'")


# -- what is not there ------------------------------------------------------------


@pytest.mark.parametrize("path", ["/messages", "/messages/pull", "/messages/ack", "/messages/peek"])
async def test_messages_of_a_queue_that_does_not_exist(account: Account, path: str) -> None:
    answer = refused(await account.call("POST", f"/queues/0123456789abcdef/{path.lstrip('/')}", {"body": {}}))
    assert answer == (404, 10104, "no queue named '0123456789abcdef'")


async def test_a_queue_that_does_not_exist(account: Account) -> None:
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/consumers"), ("GET", "/metrics")):
        answer = refused(await account.call(method, f"/queues/0123456789abcdef{path}"))
        assert answer == (404, 11000, "no queue named '0123456789abcdef'")


async def test_an_id_that_no_queue_could_have(account: Account) -> None:
    for method, path in (("GET", ""), ("POST", "/messages")):
        answer = refused(await account.call(method, f"/queues/%7Bqueue%7D{path}", {"body": {}}))
        assert answer == (400, 10107, "'{queue}' is neither the id nor the name of a queue")


async def test_a_path_that_is_not_there(queue: Queue) -> None:
    for path in ("/pull", "/ack", "/messages/nothing"):  # the first two are names that the vendor retired
        response = await queue.call("POST", path, {})
        assert refused(response) == (404, 7003, "No route for the URI")
        assert response.json()["messages"] == [f"there is nothing at /client/v4/accounts/default{queue.path}{path}"]
    assert refused(await queue.account.app.request("GET", "/client/v4/zones")) == (404, 7003, "No route for the URI")


async def test_a_method_that_is_not_there(queue: Queue) -> None:
    response = await queue.call("GET", "/messages/pull")
    assert refused(response) == (405, 7001, "GET is not possible here; use POST")
    assert response.headers["allow"] == "POST"


# -- ours ------------------------------------------------------------


async def test_a_store_that_cannot_write_is_told_with_a_time_to_come_back(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full", retry_after_ms=3_000)

    monkeypatch.setattr(type(queue.account.app.store), "send", full)
    response = await queue.call("POST", "/messages", {"body": {}})
    assert refused(response) == (503, 10251, "the disk is full")
    assert response.headers["retry-after"] == "3"


async def test_a_bug_of_ours_says_nothing_about_the_inside(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(type(queue.account.app.store), "send", broken)
    response = await queue.call("POST", "/messages", {"body": {}})
    assert refused(response) == (500, 15000, "Unknown Internal Error")
    assert b"secret" not in response.body


def leaves(kind: type[CourierError]) -> list[type[CourierError]]:
    children = kind.__subclasses__()
    return [leaf for child in children for leaf in leaves(child)] if children else [kind]


@pytest.mark.parametrize("error", leaves(CourierError), ids=lambda error: error.__name__)
def test_every_error_has_an_answer(error: type[CourierError]) -> None:
    assert answer_for(error) is not None
