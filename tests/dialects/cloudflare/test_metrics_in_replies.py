"""What was committed is answered as done, also where the metrics beside it cannot be read."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.errors import QueueNotFound, Unavailable
from tests.support.cloudflare import Queue, cloudflare_account

NO_METRICS = {"backlog_bytes": 0, "backlog_count": 0, "oldest_message_timestamp_ms": 0}
NO_PLAIN_METRICS = {"backlogBytes": 0, "backlogCount": 0, "oldestMessageTimestamp": 0}


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path) as account:
        yield await account.queue()


def fail(queue: Queue, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let every read of counters fail."""

    async def counters(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(queue.account.app.services.broker, "counters", counters)


@pytest.fixture
def unreadable(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(queue, monkeypatch, Unavailable("the database cannot be reached"))


@pytest.mark.usefixtures("unreadable")
async def test_a_push_that_is_stored_is_answered_as_stored(queue: Queue) -> None:
    one = await queue.result("POST", "/messages", {"body": {}})
    many = await queue.result("POST", "/messages/batch", {"messages": [{"body": {}}, {"body": {}}]})
    assert [reply["metadata"]["metrics"] for reply in (one, many)] == [NO_METRICS] * 2


@pytest.mark.usefixtures("unreadable")
async def test_messages_of_a_binding_that_are_stored_are_answered_as_stored(queue: Queue) -> None:
    one = await queue.call("POST", "/binding/message", body=b"x")
    many = await queue.call("POST", "/binding/batch", {"messages": [{"body": "eA=="}]})
    for reply in (one, many):
        assert (reply.status, reply.json()["metadata"]["metrics"]) == (200, NO_PLAIN_METRICS)


async def test_messages_that_are_leased_are_given_out(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    await queue.push({"n": 1})
    fail(queue, monkeypatch, Unavailable("the database cannot be reached"))
    pulled = await queue.result("POST", "/messages/pull", {})
    assert [message["body"] for message in pulled["messages"]] == ['{"n":1}']
    assert (pulled["message_backlog_count"], pulled["metadata"]["metrics"]) == (0, NO_METRICS)


@pytest.mark.usefixtures("unreadable")
async def test_who_asks_for_the_metrics_is_told_that_they_cannot_be_read(queue: Queue) -> None:
    assert (await queue.call("GET", "/metrics")).status == 503
    assert (await queue.call("GET", "/binding/metrics")).status == 503


async def test_another_error_is_answered_as_it_is(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(queue, monkeypatch, QueueNotFound("orders"))
    assert (await queue.call("POST", "/messages", {"body": {}})).status == 404
