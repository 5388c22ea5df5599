"""The official Python SDK drives every method of Cloudflare Queues against a real server."""

import inspect
import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import cloudflare
import httpx
import pytest
from cloudflare import Cloudflare
from cloudflare.types.queues import Queue
from cloudflare.types.queues.consumer import MqHTTPConsumerResponse, MqWorkerConsumerResponse

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

METHODS = {
    "queues": {"create", "update", "list", "delete", "edit", "get", "get_metrics"},
    "messages": {"ack", "bulk_push", "peek", "pull", "purge", "push"},
    "purge": {"start", "status"},
    "consumers": {"create", "update", "list", "delete", "get"},
    "subscriptions": {"create", "update", "list", "delete", "get"},
}
"""All that the SDK can call; every one of them is called below."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("cloudflare-python")) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Cloudflare]:
    """The SDK as a program would make it, but strict: an answer that does not fit its types raises."""
    with Cloudflare(
        base_url=f"{server.url}/client/v4", api_token=server.token, _strict_response_validation=True
    ) as client:
        yield client


@pytest.fixture
def queue(client: Cloudflare, request: pytest.FixtureRequest) -> Iterator[Queue]:
    """A queue of this test's own, with an http_pull consumer."""
    name = f"q-{abs(hash(request.node.name)) % 10**9}"
    queue = client.queues.create(account_id="default", queue_name=name)
    assert queue is not None
    assert queue.queue_id is not None
    client.queues.consumers.create(queue.queue_id, account_id="default", type="http_pull")
    yield queue
    client.queues.delete(queue.queue_id, account_id="default")


def of(queue: Queue) -> dict[str, Any]:
    return {"queue_id": queue.queue_id, "account_id": "default"}


def test_the_sdk_has_no_method_that_is_not_tried_here(client: Cloudflare) -> None:
    resources = {"queues": client.queues} | {
        name: getattr(client.queues, name) for name in ("messages", "purge", "consumers", "subscriptions")
    }
    found = {
        name: {
            method
            for method, value in inspect.getmembers(type(resource), inspect.isfunction)
            if not method.startswith("_")
        }
        for name, resource in resources.items()
    }
    assert found == METHODS


def test_queues(client: Cloudflare) -> None:
    made = client.queues.create(account_id="default", queue_name="sdk-queue", jurisdiction="eu")
    assert made is not None
    assert made.queue_id is not None
    assert (made.queue_name, made.jurisdiction, made.consumers, made.producers_total_count) == (
        "sdk-queue", "eu", [], 0,
    )  # fmt: skip
    assert datetime.fromisoformat(str(made.created_on)).tzinfo is not None
    assert client.queues.get(made.queue_id, account_id="default") == made
    assert made in client.queues.list(account_id="default").result

    edited = client.queues.edit(made.queue_id, account_id="default", settings={"delivery_delay": 5})
    assert edited is not None
    assert edited.settings is not None
    assert (edited.settings.delivery_delay, edited.settings.message_retention_period) == (5, 345_600)
    updated = client.queues.update(made.queue_id, account_id="default", queue_name="sdk-renamed")
    assert updated is not None
    assert updated.settings is not None
    assert (updated.queue_name, updated.settings.delivery_delay) == ("sdk-renamed", 0)

    metrics = client.queues.get_metrics(made.queue_id, account_id="default")
    assert metrics is not None
    assert (metrics.backlog_count, metrics.backlog_bytes, metrics.oldest_message_timestamp_ms) == (0, 0, 0)
    deleted = client.queues.delete(made.queue_id, account_id="default")
    assert (deleted.success, deleted.errors) == (True, [])
    with pytest.raises(cloudflare.NotFoundError):
        client.queues.get(made.queue_id, account_id="default")


def test_messages(client: Cloudflare, queue: Queue) -> None:
    messages = client.queues.messages
    before = time.time() * 1_000 - 1_000
    pushed = messages.push(**of(queue), body={"order": 1})
    assert pushed is not None
    assert pushed.metadata is not None
    assert pushed.metadata.metrics is not None
    assert pushed.metadata.metrics.backlog_count == 1
    assert pushed.metadata.metrics.oldest_message_timestamp_ms > before
    messages.push(**of(queue), body="plain text", content_type="text", delay_seconds=0)
    bulk = messages.bulk_push(
        **of(queue),
        messages=[{"body": {"order": 2}, "content_type": "json"}, {"body": "later", "content_type": "text"}],
        delay_seconds=3_600,
    )
    assert bulk is not None
    assert bulk.metadata is not None
    assert bulk.metadata.metrics is not None
    assert bulk.metadata.metrics.backlog_count == 4

    pulled = messages.pull(**of(queue), batch_size=10, visibility_timeout_ms=60_000)
    assert pulled is not None
    assert pulled.messages is not None
    assert pulled.message_backlog_count == 4
    assert [(json.loads(pulled.messages[0].body or ""), pulled.messages[1].body)] == [({"order": 1}, "plain text")]
    assert [message.attempts for message in pulled.messages] == [1, 1]
    assert pulled.messages[0].metadata == {"CF-Content-Type": "json", "CF-sourceMessageSource": "api"}

    first, second = (str(message.lease_id) for message in pulled.messages)
    settled = messages.ack(**of(queue), acks=[{"lease_id": first}], retries=[{"lease_id": second, "delay_seconds": 0}])
    assert settled is not None
    assert (settled.ack_count, settled.retry_count, settled.warnings) == (1, 1, None)
    again = messages.ack(**of(queue), acks=[{"lease_id": first}, {"lease_id": "made-up"}])
    assert again is not None
    assert again.ack_count == 1
    assert set(again.warnings or {}) == {first, "made-up"}
    retried = messages.pull(**of(queue))
    assert retried is not None
    assert [(message.body, message.attempts) for message in retried.messages or []] == [("plain text", 2)]


def test_peek_and_purge(client: Cloudflare, queue: Queue) -> None:
    messages = client.queues.messages
    messages.bulk_push(**of(queue), messages=[{"body": {"n": n}, "content_type": "json"} for n in range(3)])
    peeked = messages.peek(**of(queue), batch_size=2)
    assert peeked is not None
    assert peeked.messages is not None
    assert [message.attempts for message in peeked.messages] == [0, 0]
    removed = messages.purge(**of(queue), refs=[{"ref": str(peeked.messages[0].ref)}])
    assert removed is not None
    assert (removed.errors, removed.warnings) == (None, None)
    assert count(client, queue) == 2

    never = client.queues.purge.status(**of(queue))
    assert never is not None
    assert (never.completed, never.started_at) == (None, None)
    started = client.queues.purge.start(**of(queue), delete_messages_permanently=True)
    assert started is not None
    assert started.queue_id == queue.queue_id
    status = client.queues.purge.status(**of(queue))
    assert status is not None
    assert status.completed == "true"
    assert datetime.fromisoformat(str(status.started_at)).tzinfo is not None
    assert count(client, queue) == 0


def count(client: Cloudflare, queue: Queue) -> float:
    metrics = client.queues.get_metrics(**of(queue))
    assert metrics is not None
    return metrics.backlog_count


def test_consumers(client: Cloudflare) -> None:
    made = client.queues.create(account_id="default", queue_name="sdk-consumed")
    assert made is not None
    queue = of(made)
    consumers = client.queues.consumers
    created = consumers.create(
        **queue,
        type="http_pull",
        dead_letter_queue="sdk-dead",
        settings={"batch_size": 50, "max_retries": 5, "retry_delay": 10, "visibility_timeout_ms": 6_000},
    )
    assert isinstance(created, MqHTTPConsumerResponse)
    assert created.settings is not None
    assert created.dead_letter_queue == "sdk-dead"
    assert (created.settings.batch_size, created.settings.max_retries) == (50, 5)
    assert [q.queue_name for q in client.queues.list(account_id="default") if q.queue_name == "sdk-dead"]
    assert consumers.list(**queue).result == [created]
    consumer_id = str(created.consumer_id)
    assert consumers.get(consumer_id, **queue) == created

    updated = consumers.update(consumer_id, **queue, type="worker", script_name="my-worker")
    assert isinstance(updated, MqWorkerConsumerResponse)
    assert (updated.script_name, updated.dead_letter_queue) == ("my-worker", "")
    deleted = consumers.delete(consumer_id, **queue)
    assert deleted.success is True
    assert consumers.list(**queue).result == []


def test_subscriptions(client: Cloudflare, queue: Queue) -> None:
    subscriptions = client.queues.subscriptions
    names = [f"s{number:02d}" for number in range(25)]
    for name in names:
        made = subscriptions.create(
            account_id="default",
            name=name,
            enabled=True,
            source={"type": "workersBuilds.worker", "worker_name": "my-worker"},
            destination={"type": "queues.queue", "queue_id": str(queue.queue_id)},
            events=["build.started", "build.failed"],
        )
    assert made is not None
    # the SDK asks for the next page until one is empty
    assert [found.name for found in subscriptions.list(account_id="default", order="name")] == names
    assert len(subscriptions.list(account_id="default", per_page=7, page=2, direction="desc").result) == 7

    updated = subscriptions.update(made.id, account_id="default", enabled=False, events=["build.canceled"])
    assert updated is not None
    assert (updated.enabled, updated.events, updated.name) == (False, ["build.canceled"], "s24")
    read = subscriptions.get(made.id, account_id="default")
    assert read is not None
    assert read.model_dump() == updated.model_dump()
    for found in list(subscriptions.list(account_id="default")):
        deleted = subscriptions.delete(found.id, account_id="default")
        assert deleted is not None
        assert deleted.id == found.id
    assert list(subscriptions.list(account_id="default")) == []


# -- what goes wrong is raised as the SDK's own exceptions, with the vendor's codes ---------------------------


def codes(error: cloudflare.APIStatusError) -> list[int]:
    return [int(problem.code) for problem in error.errors if problem.code is not None]


def test_a_wrong_token(server: ServerProcess) -> None:
    with Cloudflare(base_url=f"{server.url}/client/v4", api_token="wrong") as client:
        with pytest.raises(cloudflare.AuthenticationError) as caught:
            client.queues.list(account_id="default")
        assert codes(caught.value) == [10000]


def test_another_account(client: Cloudflare) -> None:
    with pytest.raises(cloudflare.PermissionDeniedError) as caught:
        client.queues.list(account_id="nobody")
    assert codes(caught.value) == [10000]


def test_the_legacy_key_and_email(server: ServerProcess, queue: Queue) -> None:
    with Cloudflare(
        base_url=f"{server.url}/client/v4", api_key=server.token, api_email="someone@example.com"
    ) as client:
        assert client.queues.get(**of(queue)) == client.queues.get(**of(queue))


def test_refusals(client: Cloudflare, queue: Queue) -> None:
    queues, messages = client.queues, client.queues.messages
    bad, conflict, missing = cloudflare.BadRequestError, cloudflare.ConflictError, cloudflare.NotFoundError
    one: Any = {"body": {}, "content_type": "json"}
    cases: list[tuple[type[cloudflare.APIStatusError], int, Any]] = [
        (bad, 10207, lambda: messages.push(**of(queue), body="text", content_type="json")),
        (bad, 10204, lambda: messages.push(**of(queue), body="x" * 128_001, content_type="text")),
        (bad, 10206, lambda: messages.bulk_push(**of(queue), messages=[one] * 101)),
        (bad, 10202, lambda: messages.bulk_push(**of(queue), messages=[one], delay_seconds=90_000)),
        (bad, 10026, lambda: messages.pull(**of(queue), batch_size=101)),
        (bad, 11003, lambda: queues.create(account_id="default", queue_name="Not Good")),
        (bad, 100128, lambda: queues.edit(**of(queue), settings={"message_retention_period": 1})),
        (conflict, 11009, lambda: queues.create(account_id="default", queue_name=str(queue.queue_name))),
        (bad, 11004, lambda: queues.consumers.create(**of(queue), type="http_pull")),
        (missing, 10104, lambda: messages.pull("none", account_id="default")),
        (missing, 11000, lambda: queues.get("none", account_id="default")),
    ]
    for kind, code, call in cases:
        with pytest.raises(kind) as caught:
            call()
        assert codes(caught.value) == [code]
        assert caught.value.errors[0].message
    assert count(client, queue) == 0


def test_pulling_without_a_consumer(client: Cloudflare) -> None:
    made = client.queues.create(account_id="default", queue_name="sdk-unread")
    assert made is not None
    with pytest.raises(cloudflare.APIStatusError) as caught:
        client.queues.messages.pull(**of(made))
    assert (caught.value.status_code, codes(caught.value)) == (405, [0])


def test_a_paused_queue_is_told_once_and_not_tried_again(server: ServerProcess, queue: Queue) -> None:
    requests: list[str] = []
    http = httpx.Client(event_hooks={"request": [lambda request: requests.append(request.url.path)]})
    with Cloudflare(base_url=f"{server.url}/client/v4", api_token=server.token, http_client=http) as client:
        client.queues.edit(**of(queue), settings={"delivery_paused": True})
        with pytest.raises(cloudflare.ConflictError) as caught:
            client.queues.messages.pull(**of(queue))
    assert caught.value.errors[0].message == "queue_delivery_paused"
    assert sum(path.endswith("/pull") for path in requests) == 1


def test_the_caller_and_its_accounts(client: Cloudflare) -> None:
    verified = client.user.tokens.verify()
    assert verified is not None
    assert verified.status == "active"
    (account,) = client.accounts.list().result
    assert account.name == "default"
    assert client.accounts.get(account_id=account.id) == account
    (membership,) = client.memberships.list().result
    assert membership.account is not None
    assert membership.account.id == account.id
    user = client.user.get()
    assert user is not None
    listed = client.queues.list(account_id=account.id).result
    assert listed == client.queues.list(account_id="default").result
