"""A client made from the vendor's OpenAPI files alone runs every operation against a real server.

What it sends must fit the file's schemas, and so must what comes back: an answer with a status that is not listed, or
a body that does not fit, fails the test.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import requests

from tests.support.anypoint_spec import SpecClient
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

PLACE = ("default", "default")
HERE = (*PLACE, "us-east-1")

MESSAGES = "/organizations/{}/environments/{}/destinations/{}/messages"
AUTHORIZE_BELOW = "/organizations/{}/environments/{}/authorize"
"""The connectors of Mule 4.x call it; the vendor's file does not list it, Courier's own document does."""
ENVIRONMENT = "/v1/organizations/{}/environments/{}"
REGION = f"{ENVIRONMENT}/regions/{{}}"
QUEUE = f"{REGION}/destinations/queues/{{}}"
EXCHANGE = f"{REGION}/destinations/exchanges/{{}}"
BINDING = f"{REGION}/bindings/exchanges/{{}}/queues/{{}}"
STATS = "/organizations/{}/environments/{}/regions/{}"

BINDING_STATUSES = frozenset({("GET", BINDING, 200), ("PUT", BINDING, 200)})
"""The file lists no success at all for reading and making a binding; Terraform's client expects 200."""
BATCH_ARRAYS = frozenset({("DELETE", MESSAGES, 200), ("DELETE", f"{MESSAGES}/locks", 200)})
"""Only in lenient mode: one status a message, where the file has a single object."""


@pytest.fixture(scope="module", params=["strict", "lenient"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, mode: str) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("anypoint"), dialects_anypoint_mode=mode) as server:
        yield server


@pytest.fixture(scope="module")
def broker(server: ServerProcess, admin: SpecClient, mode: str) -> SpecClient:
    """The broker in the eyes of a client app, as it has authorized itself."""
    made = admin.call("PUT", f"{ENVIRONMENT}/clients", *PLACE, body={"name": "spec client"}).body
    anonymous = SpecClient("broker", server.url, None)
    form = {"client_id": made["clientId"], "client_secret": made["clientSecret"], "grant_type": "client_credentials"}
    answer = anonymous.call("POST", "/authorize", form=form)
    assert answer.body["simple_client"] == {"orgId": "default", "envId": "default"}
    below = requests.post(f"{anonymous.base}{AUTHORIZE_BELOW.format(*PLACE)}", data=form, timeout=60)
    assert below.json() == answer.body
    deviations = BATCH_ARRAYS if mode == "lenient" else frozenset()
    client = SpecClient("broker", server.url, answer.body["access_token"], deviations=deviations)
    client.called |= anonymous.called
    client.called |= {("POST", AUTHORIZE_BELOW)} & client.operations
    return client


@pytest.fixture(scope="module")
def admin(server: ServerProcess) -> SpecClient:
    return SpecClient("admin", server.url, server.token, deviations=BINDING_STATUSES)


@pytest.fixture(scope="module")
def stats(server: ServerProcess) -> SpecClient:
    return SpecClient("stats", server.url, server.token)


@pytest.fixture
def queue(admin: SpecClient, request: pytest.FixtureRequest) -> str:
    name = f"q-{abs(hash(request.node.name)) % 10**9}"
    admin.call("PUT", QUEUE, *HERE, name, body={})
    return name


def publish(broker: SpecClient, queue: str, *message_ids: str) -> None:
    for message_id in message_ids:
        broker.call("PUT", f"{MESSAGES}/{{}}", *PLACE, queue, message_id, body={"body": message_id})


def consume(broker: SpecClient, queue: str, count: int = 10, **query: Any) -> list[Any]:
    query = {"batchSize": count, "pollingTime": 0} | query
    return broker.call("GET", MESSAGES, *PLACE, queue, query=query).body or []


def locks(messages: list[Any], **more: Any) -> list[Any]:
    return [{name: one["headers"][name] for name in ("messageId", "lockId")} | more for one in messages]


def statuses(body: Any) -> set[str]:
    return {one["status"] for one in (body if isinstance(body, list) else [body])}


# -- broker ---------------------------------------------------------------------------------------------------


def test_every_operation_of_the_broker(broker: SpecClient, queue: str) -> None:
    answer = broker.call("PUT", f"{MESSAGES}/{{}}", *PLACE, queue, "one", body={"body": "1", "properties": {"n": 1}})
    assert (answer.status, answer.body["status"]) == (201, "successful")
    batch = [{"headers": {"messageId": f"m-{n}"}, "properties": {}, "body": str(n)} for n in range(9)]
    assert statuses(broker.call("PUT", MESSAGES, *PLACE, queue, body=batch).body) == {"successful"}

    messages = consume(broker, queue, lockTtl=60_000)
    assert [one["headers"]["messageId"] for one in messages] == ["one", *(f"m-{n}" for n in range(9))]
    assert all(isinstance(value, str) for one in messages for value in one["headers"].values())
    assert consume(broker, queue) == []

    first, second, third, *others = messages
    lock = first["headers"]["lockId"]
    one_lock = f"{MESSAGES}/{{}}/locks/{{}}"
    assert broker.call("PATCH", one_lock, *PLACE, queue, "one", lock, body={"ttl": 120}).body["status"] == "successful"
    assert broker.call("DELETE", f"{MESSAGES}/{{}}", *PLACE, queue, "one", body={"lockId": lock}).status == 200
    assert broker.call("DELETE", f"{MESSAGES}/{{}}", *PLACE, queue, "one", body={"lockId": lock}).status == 400

    asked = locks([second, third], ttl=120)
    assert statuses(broker.call("PATCH", f"{MESSAGES}/locks", *PLACE, queue, body=asked).body) == {"successful"}
    nack = broker.call("DELETE", one_lock, *PLACE, queue, "m-0", second["headers"]["lockId"])
    assert nack.body["status"] == "successful"
    nacks = broker.call("DELETE", f"{MESSAGES}/locks", *PLACE, queue, body=locks([third]))
    assert statuses(nacks.body) == {"successful"}
    assert statuses(broker.call("DELETE", MESSAGES, *PLACE, queue, body=locks(others)).body) == {"successful"}

    again = consume(broker, queue)
    assert sorted(one["headers"]["messageId"] for one in again) == ["m-0", "m-1"]
    assert {one["headers"]["deliveryCount"] for one in again} == {"2"}
    assert broker.called == broker.operations


def test_a_failure_inside_a_batch_is_its_own(broker: SpecClient, queue: str, mode: str) -> None:
    publish(broker, queue, "a", "b")
    messages = consume(broker, queue)
    asked = [*locks(messages), {"messageId": "c", "lockId": "none"}]
    body = broker.call("DELETE", MESSAGES, *PLACE, queue, body=asked).body
    assert statuses(body) == ({"failure"} if mode == "strict" else {"successful", "failure"})
    assert consume(broker, queue) == []


def test_a_long_poll_waits_for_a_message_that_comes_later(broker: SpecClient, queue: str) -> None:
    body = {"headers": {"messageId": "later", "deliveryDelay": 300}, "body": "x"}
    broker.call("PUT", MESSAGES, *PLACE, queue, body=[body])
    [message] = consume(broker, queue, pollingTime=20_000)
    assert message["headers"]["deliveryDelay"] == "300"


def test_refusals_are_those_that_the_file_lists(broker: SpecClient, admin: SpecClient, queue: str) -> None:
    admin.call("PUT", EXCHANGE, *HERE, "refusing", body={})
    assert broker.call("GET", MESSAGES, *PLACE, "refusing").status == 400
    assert broker.call("GET", MESSAGES, *PLACE, "nowhere").status == 404
    assert broker.call("GET", MESSAGES, "other", "other", queue).status == 403
    too_large = broker.call("PUT", f"{MESSAGES}/{{}}", *PLACE, queue, "big", body={"body": "x" * (10 * 2**20 + 1)})
    assert too_large.status == 413
    assert broker.call("PUT", MESSAGES, *PLACE, queue, body=[]).status == 400


def test_ten_megabytes_go_there_and_back(broker: SpecClient, queue: str) -> None:
    payload = "0123456789abcdef" * (10 * 2**20 // 16)
    assert broker.call("PUT", f"{MESSAGES}/{{}}", *PLACE, queue, "big", body={"body": payload}).status == 201
    [hidden] = consume(broker, queue, lockTtl=0, payloadVisibility="conditional")
    assert (hidden["body"], hidden["headers"]["payloadHidden"]) == ("", "true")
    [shown] = consume(broker, queue)
    assert shown["body"] == payload


# -- admin ----------------------------------------------------------------------------------------------------


def test_every_operation_of_admin(admin: SpecClient, broker: SpecClient, server: ServerProcess) -> None:
    _queues(admin)
    _exchanges(admin, broker)
    _clients(admin)
    made = server.session.post(f"{server.url}/courier/v1/tenants", json={"id": "doomed"}, timeout=30)
    assert made.status_code == 201
    doomed = ("doomed", "doomed")
    admin.call("PUT", QUEUE, *doomed, "us-east-1", "a", body={})
    assert admin.call("DELETE", ENVIRONMENT, *doomed).status == 204
    assert admin.call("DELETE", "/v1/organizations/{}", "doomed").status == 204
    form = {"client_id": "root", "client_secret": server.token, "grant_type": "client_credentials"}
    assert admin.call("POST", "/v1/authorize", form=form).body["token_type"] == "bearer"
    assert admin.called == admin.operations


def _queues(admin: SpecClient) -> None:
    admin.call("PUT", QUEUE, *HERE, "failed", body={"defaultTtl": 120_000})
    settings = {"defaultTtl": 120_000, "defaultLockTtl": 10_000, "deadLetterQueueId": "failed", "maxDeliveries": 10}
    made = admin.call("PUT", QUEUE, *HERE, "tasks", body=settings)
    assert made.body.items() >= settings.items()
    assert admin.call("PUT", QUEUE, *HERE, "tasks", body=settings).body == made.body
    assert admin.call("GET", QUEUE, *HERE, "tasks").body == made.body
    changed = admin.call("PATCH", QUEUE.replace("/v1/", "/v2/"), *HERE, "tasks", body={"encrypted": True}).body
    assert changed == made.body | {"encrypted": True}
    assert "maxDeliveries" not in admin.call("PATCH", QUEUE, *HERE, "tasks", body={}).body
    linked = admin.call("PUT", f"{QUEUE}/fallback", *HERE, "tasks", body={"fallbackEnabled": True})
    assert linked.body["fallbackConfig"]["linkedQueueName"] == "tasks_fb"
    assert admin.call("DELETE", f"{QUEUE}/messages", *HERE, "tasks").status == 204
    query = {"startsWith": "tas", "destinationType": "queue", "limit": 1, "offset": 0, "inclusion": "minimal"}
    [listed] = admin.call("GET", f"{REGION}/destinations", *HERE, query=query).body
    assert listed["queueId"] == "tasks"
    assert admin.call("DELETE", QUEUE, *HERE, "failed").status == 204
    assert admin.call("GET", QUEUE, *HERE, "failed").body == {"message": "queue not found"}


def _exchanges(admin: SpecClient, broker: SpecClient) -> None:
    admin.call("PUT", EXCHANGE, *HERE, "events", body={"encrypted": True})
    assert admin.call("PATCH", EXCHANGE, *HERE, "events", body={"encrypted": False}).body["encrypted"] is False
    assert admin.call("GET", EXCHANGE, *HERE, "events").body["exchangeId"] == "events"
    admin.call("PUT", BINDING, *HERE, "events", "tasks")
    rule = {"propertyName": "Order Number", "propertyType": "NUMERIC", "matcherType": "GT", "value": 1009}
    made = admin.call("PUT", f"{BINDING}/rules/routing", *HERE, "events", "tasks", body={"routingRules": [rule]})
    assert (made.status, made.body["routingRules"]) == (201, [rule])
    for number in (1009, 1010):
        body = {"body": str(number), "properties": {"Order Number": number}}
        broker.call("PUT", f"{MESSAGES}/{{}}", *PLACE, "events", str(number), body=body)
    assert [one["body"] for one in consume(broker, "tasks")] == ["1010"]
    query = {"startsWith": "", "inclusion": "all"}
    [by_exchange] = admin.call("GET", f"{REGION}/bindings/exchanges/{{}}", *HERE, "events", query=query).body
    [by_queue] = admin.call("GET", f"{REGION}/bindings/queues/{{}}", *HERE, "tasks", query=query).body
    found = admin.call("GET", BINDING, *HERE, "events", "tasks", query={"inclusion": "all"}).body
    assert by_exchange == by_queue == found == made.body
    assert admin.call("DELETE", f"{BINDING}/rules/routing", *HERE, "events", "tasks").status == 204
    assert admin.call("DELETE", BINDING, *HERE, "events", "tasks").status == 204
    assert admin.call("DELETE", BINDING, *HERE, "events", "tasks").status == 404
    assert admin.call("DELETE", EXCHANGE, *HERE, "events").status == 204


def _clients(admin: SpecClient) -> None:
    made = admin.call("PUT", f"{ENVIRONMENT}/clients", *PLACE, body={"name": "billing"}).body
    again = admin.call("POST", f"{ENVIRONMENT}/clients/{{}}", *PLACE, made["clientId"]).body
    assert again["clientSecret"] != made["clientSecret"]
    listed = admin.call("GET", f"{ENVIRONMENT}/clients", *PLACE).body
    assert made["clientId"] in [one["clientId"] for one in listed]
    assert admin.call("DELETE", f"{ENVIRONMENT}/clients/{{}}", *PLACE, made["clientId"]).status == 200
    [region] = admin.call("GET", f"{ENVIRONMENT}/regions", *PLACE).body
    assert admin.call("GET", REGION, *HERE).body == region
    assert region["serviceUrl"] == admin.base.replace("/mq/admin/api", "/api/v1")


# -- stats ----------------------------------------------------------------------------------------------------


def test_every_operation_of_stats(stats: SpecClient, admin: SpecClient, broker: SpecClient, queue: str) -> None:
    publish(broker, queue, "a", "b", "c")
    first, *_ = consume(broker, queue, 2)
    broker.call("DELETE", f"{MESSAGES}/{{}}", *PLACE, queue, "a", body={"lockId": first["headers"]["lockId"]})
    live = stats.call("GET", f"{STATS}/queues", *HERE, query={"destinationIds": f"{queue},nowhere"}).body
    assert live == [{"destination": queue, "messages": 1, "inflightMessages": 1}]

    now = datetime.now(UTC)
    dates = {name: format_datetime(now + delta, usegmt=True) for name, delta in WINDOW.items()}
    told = stats.call("GET", f"{STATS}/queues/{{}}", *HERE, queue, query=dates | {"period": 60}).body
    assert (told["messages"][-1]["value"], told["inflightMessages"][-1]["value"]) == (1, 1)
    totals = {name: sum(point["value"] for point in told[name]) for name in told if name.startswith("messages")}
    assert (totals["messagesSent"], totals["messagesReceived"], totals["messagesAcked"]) == (3, 2, 1)

    admin.call("PUT", EXCHANGE, *HERE, "measured", body={})
    publish(broker, "measured", "x")
    told = stats.call("GET", f"{STATS}/exchanges/{{}}", *HERE, "measured", query=dates | {"period": 86_400}).body
    assert sum(point["value"] for point in told["messagesPublished"]) == 1

    environment = "/organizations/{}/environments/{}"
    rows = stats.call("GET", environment, *PLACE, query=dates | {"period": "1hour"}).body
    assert sum(row["messageReceiptCount"] for row in rows) >= 2
    rows = stats.call("GET", "/organizations/{}", "default", query=dates | {"period": "1month"}).body
    assert rows[-1]["timestamp"] == f"{time.gmtime().tm_year}-{time.gmtime().tm_mon:02}-01T00:00Z"
    assert stats.called == stats.operations


WINDOW = {"startDate": timedelta(minutes=-10), "endDate": timedelta(minutes=1)}
