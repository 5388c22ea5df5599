"""Orders about messages that the Cloudflare dialect refuses: status, code, a helpful sentence, and nothing stored."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

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
    from couriermq.core.model import QueueSettings

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
    "retry in part of a second": (
        "/ack",
        {"retries": [{"lease_id": "x", "delay_seconds": 0.5}]},
        "retries[0].delay_seconds is 0.5; choose a whole number of seconds",
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
