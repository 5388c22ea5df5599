"""Messages cross: pushed through Cloudflare's dialect, received through the native one, and back."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.cloudflare import Queue, cloudflare_account

pytestmark = pytest.mark.every_engine


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


async def native(queue: Queue, verb: str, order: Any) -> Any:
    response = await queue.account.app.post(f"/courier/v1/tenants/default/queues/{queue.name}/{verb}", order)
    assert response.status in {200, 201}, response
    return response.json()


CASES = [
    ({"body": "grüße", "content_type": "text"}, "text/plain; charset=utf-8", "grüße".encode()),
    ({"body": {"a": [1, 2]}}, "application/json", b'{"a":[1,2]}'),
    ({"body": "AP8Q", "content_type": "bytes"}, "application/octet-stream", b"\x00\xff\x10"),
    ({"body": "/w8iAmhp", "content_type": "v8"}, "application/x-v8", b"\xff\x0f\x22\x02hi"),
]


@pytest.mark.parametrize(("order", "content_type", "body"), CASES, ids=["text", "json", "bytes", "v8"])
async def test_what_is_pushed_here_is_received_there_unharmed(
    queue: Queue, order: dict[str, Any], content_type: str, body: bytes
) -> None:
    await queue.push(**order)
    (lease,) = (await native(queue, "receive", {}))["leases"]
    message = lease["message"]
    received = message["body"].encode() if "body" in message else base64.b64decode(message["body_base64"])
    assert (received, message["content_type"], message["attempts"]) == (body, content_type, 1)
    await native(queue, "ack", {"receipt": lease["receipt"]})
    assert await queue.count() == 0


@pytest.mark.parametrize(
    ("order", "word", "body"),
    [
        ({"body": "grüße"}, "text", "grüße"),
        ({"json": {"a": [1, 2]}}, "json", '{"a":[1,2]}'),
        ({"json": "a string"}, "json", '"a string"'),
        ({"body_base64": "AP8Q"}, "bytes", "AP8Q"),
        ({"body": "<a/>", "content_type": "text/xml"}, "text", "<a/>"),
        ({"body": "<a/>", "content_type": "application/xml"}, "bytes", "PGEvPg=="),
    ],
)
async def test_what_is_sent_there_is_pulled_here_unharmed(
    queue: Queue, order: dict[str, Any], word: str, body: str
) -> None:
    sent = await native(queue, "messages", order)
    message = await queue.pull_one()
    assert (message["id"], message["body"]) == (sent["id"], body)
    assert message["metadata"]["CF-Content-Type"] == word
    assert (await queue.ack(message["lease_id"]))["ackCount"] == 1


@pytest.mark.parametrize(("order", "content_type", "body"), CASES, ids=["text", "json", "bytes", "v8"])
async def test_a_message_there_and_back_again_is_the_same(
    queue: Queue, order: dict[str, Any], content_type: str, body: bytes
) -> None:
    await queue.push(**order)
    (lease,) = (await native(queue, "receive", {}))["leases"]
    content = {name: lease["message"][name] for name in ("body", "body_base64") if name in lease["message"]}
    await native(queue, "messages", content | {"content_type": lease["message"]["content_type"]})
    await native(queue, "ack", {"receipt": lease["receipt"]})
    again = await queue.pull_one()
    assert again["metadata"]["CF-Content-Type"] == order.get("content_type", "json")
    assert again["body"] == (order["body"] if isinstance(order["body"], str) else body.decode())


async def test_attributes_of_other_dialects_show_in_the_metadata_as_strings(queue: Queue) -> None:
    attributes = {"colour": "red", "count": 5, "ratio": 0.5, "urgent": True, "CF-Content-Type": "forged"}
    await native(queue, "messages", {"json": {}, "attributes": attributes, "delay_ms": 2_500})
    queue.account.clock.advance(ms=2_500)
    assert (await queue.pull_one())["metadata"] == {
        "colour": "red",
        "count": "5",
        "ratio": "0.5",
        "urgent": "true",
        "CF-Content-Type": "json",
        "CF-sourceMessageSource": "api",
        "CF-msg-delay-secs": "2.5",
    }


async def test_a_lease_of_one_dialect_is_a_lease_in_the_other(queue: Queue) -> None:
    await queue.push({"n": 1})
    message = await queue.pull_one()
    assert (await native(queue, "receive", {}))["leases"] == []
    await native(queue, "ack", {"receipt": message["lease_id"]})
    assert await queue.count() == 0


async def test_a_trace_crosses_too(queue: Queue) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await queue.result("POST", "/messages", {"body": {}}, headers={"traceparent": trace})
    (lease,) = (await native(queue, "receive", {}))["leases"]
    assert lease["message"]["trace"] == trace
