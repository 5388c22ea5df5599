"""The routes that a queue binding of the Workers runtime calls."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import Action
from tests.support.cloudflare import Account, Queue, cloudflare_account


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


async def send(queue: Queue, body: bytes, **headers: str) -> Any:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    response = await queue.call("POST", "/binding/message", body=body, headers=sent)
    assert response.status == 200, response
    return response.json()


def item(body: bytes, **options: Any) -> dict[str, Any]:
    return {"body": base64.b64encode(body).decode(), **options}


@pytest.mark.parametrize(
    ("form", "body", "shown"),
    [
        ("text", "grüße".encode(), "grüße"),
        ("json", b'{"a":1}', '{"a":1}'),
        ("json", b'"just a string"', '"just a string"'),
        ("bytes", b"\x00\xff", "AP8="),
        ("v8", b"\xff\x0f\x22\x02hi", "/w8iAmhp"),
    ],
)
async def test_a_worker_sends_a_message_of_any_format(queue: Queue, form: str, body: bytes, shown: str) -> None:
    await send(queue, body, x_msg_fmt=form)
    message = await queue.pull_one()
    assert message["body"] == shown
    assert message["metadata"] == {"CF-Content-Type": form, "CF-sourceMessageSource": "worker"}


async def test_no_format_means_v8(queue: Queue) -> None:
    await send(queue, b"\xff\x0f")
    assert (await queue.pull_one())["metadata"]["CF-Content-Type"] == "v8"


async def test_a_worker_sends_a_batch(queue: Queue) -> None:
    order = {"messages": [item(b"one", contentType="text"), item(b'{"n":2}', contentType="json"), item(b"\x00")]}
    response = await queue.call("POST", "/binding/batch", order)
    assert response.json()["metadata"]["metrics"]["backlogCount"] == 3
    assert [(m["body"], m["metadata"]["CF-Content-Type"]) for m in await queue.pull()] == [
        ("one", "text"),
        ('{"n":2}', "json"),
        ("AA==", "v8"),
    ]


async def test_answers_have_the_names_that_the_runtime_reads(queue: Queue) -> None:
    now = queue.account.clock.now()
    metrics = {"backlogCount": 1, "backlogBytes": 2, "oldestMessageTimestamp": now}
    empty = await queue.call("GET", "/binding/metrics")
    assert empty.json() == {"backlogCount": 0, "backlogBytes": 0, "oldestMessageTimestamp": 0}
    assert await send(queue, b"{}", x_msg_fmt="json") == {"metadata": {"metrics": metrics}}
    assert (await queue.call("GET", "/binding/metrics")).json() == metrics


async def test_delays_of_messages_win_over_the_batch_and_that_over_the_queue(queue: Queue) -> None:
    await queue.result("PATCH", "", {"settings": {"delivery_delay": 30}})
    order = {
        "messages": [
            item(b"10", contentType="text", delaySecs=10),
            item(b"20", contentType="text"),
            item(b"0", contentType="text", delaySecs=0),
        ]
    }
    await queue.call("POST", "/binding/batch", order, headers={"x-msg-delay-secs": "20"})
    await send(queue, b"30", x_msg_fmt="text")
    await send(queue, b"5", x_msg_fmt="text", x_msg_delay_secs="5")
    seen = []
    for ms in (0, 5_000, 5_000, 10_000, 10_000):
        queue.account.clock.advance(ms=ms)
        seen.append([m["body"] for m in await queue.pull(visibility_timeout_ms=600_000)])
    assert seen == [["0"], ["5"], ["10"], ["20"], ["30"]]


LARGE = b"x" * 128_001
BAD_MESSAGES: dict[str, tuple[bytes, dict[str, str], int, int]] = {
    "too large": (LARGE, {"x-msg-fmt": "bytes"}, 413, 10204),
    "unknown format": (b"{}", {"x-msg-fmt": "xml"}, 400, 10203),
    "bad delay": (b"{}", {"x-msg-fmt": "json", "x-msg-delay-secs": "soon"}, 400, 10203),
    "delay too long": (b"{}", {"x-msg-fmt": "json", "x-msg-delay-secs": "86401"}, 400, 10203),
    "text that is none": (b"\xff", {"x-msg-fmt": "text"}, 400, 10207),
    "json that is none": (b"undefined", {"x-msg-fmt": "json"}, 400, 10207),
}


@pytest.mark.parametrize("case", BAD_MESSAGES.values(), ids=BAD_MESSAGES.keys())
async def test_a_message_that_is_refused_tells_the_runtime_why(
    queue: Queue, case: tuple[bytes, dict[str, str], int, int]
) -> None:
    body, headers, status, code = case
    response = await queue.call("POST", "/binding/message", body=body, headers=headers)
    assert (response.status, response.headers["cf-queues-error-code"]) == (status, str(code))
    assert response.headers["cf-queues-error-cause"] == response.json()["errors"][0]["message"]
    assert await queue.count() == 0


BAD_BATCHES: dict[str, tuple[Any, dict[str, str], int, int]] = {
    "empty": ({"messages": []}, {}, 400, 10013),
    "too many": ({"messages": [item(b"x")] * 101}, {}, 413, 10206),
    "too heavy": ({"messages": [item(b"x" * 100_000)] * 3}, {}, 413, 10205),
    "one too large": ({"messages": [item(b"x"), item(LARGE)]}, {}, 413, 10204),
    "not base64": ({"messages": [{"body": "***"}]}, {}, 400, 10207),
    "bad delay": ({"messages": [item(b"x")]}, {"x-msg-delay-secs": "86401"}, 400, 10202),
}


@pytest.mark.parametrize("case", BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
async def test_a_batch_that_is_refused_stores_nothing(queue: Queue, case: tuple[Any, dict[str, str], int, int]) -> None:
    order, headers, status, code = case
    response = await queue.call("POST", "/binding/batch", order, headers=headers)
    assert (response.status, response.headers["cf-queues-error-code"]) == (status, str(code))
    assert await queue.count() == 0


async def test_a_worker_needs_the_right_to_send(queue: Queue) -> None:
    response = await queue.call("POST", "/binding/message", body=b"{}", token=None)
    assert (response.status, response.headers["cf-queues-error-code"]) == (401, "10106")
    reader = await queue.account.with_scopes(Action.RECEIVE)
    response = await reader.call("POST", f"{queue.path}/binding/message", body=b"{}")
    assert (response.status, response.headers["cf-queues-error-code"]) == (403, "10106")
    sender: Account = await queue.account.with_scopes(Action.SEND)
    assert (await sender.call("GET", f"{queue.path}/binding/metrics")).status == 200


async def test_a_queue_that_does_not_exist_has_the_vendors_code(queue: Queue) -> None:
    response = await queue.account.call("POST", "/queues/none/binding/message", body=b"{}")
    assert (response.status, response.headers["cf-queues-error-code"]) == (404, "10104")
