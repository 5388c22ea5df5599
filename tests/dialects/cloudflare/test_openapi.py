"""The OpenAPI document of the Cloudflare dialect says what the dialect does."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from couriermq.dialects.cloudflare.dialect import Cloudflare
from tests.support.cloudflare import PREFIX, cloudflare_account

DOCUMENT = Cloudflare().openapi()


def shape(path: str, method: str, status: str) -> Any:
    schema = DOCUMENT["paths"][path][method]["responses"][status]["content"]["application/json"]["schema"]
    return {**schema, "components": DOCUMENT["components"]}


@pytest.fixture
def calls() -> list[tuple[str, str, Any]]:
    """Calls that together see every kind of answer; `{queue}` and the like are filled in from the answers."""
    subscriptions = "/event_subscriptions/subscriptions"
    legacy = "/workers/queues/{queue_id}"
    queue, consumer, subscription = "/queues/{queue_id}", "/consumers/{consumer_id}", "/{subscription_id}"
    return [
        ("POST", "/queues", {"queue_name": "orders", "jurisdiction": "eu"}),
        ("GET", "/queues", None),
        ("POST", f"{queue}/consumers", {"type": "http_pull", "dead_letter_queue": "dead"}),
        ("GET", f"{queue}/consumers", None),
        ("GET", queue + consumer, None),
        ("PUT", queue + consumer, {"type": "worker", "script_name": "w"}),
        ("PUT", queue + consumer, {"type": "http_pull"}),
        ("GET", queue, None),
        ("PUT", queue, {}),
        ("PATCH", queue, {"settings": {"delivery_delay": 1}}),
        ("POST", f"{queue}/messages", {"body": {"n": 1}, "delay_seconds": 0}),
        ("POST", f"{queue}/messages/batch", {"messages": [{"body": {"n": 2}, "delay_seconds": 0}, {"body": {}}]}),
        ("GET", f"{queue}/metrics", None),
        ("POST", f"{queue}/messages/peek", {}),
        ("POST", f"{queue}/messages/preview", None),
        ("POST", f"{queue}/messages/pull", {"batch_size": 2}),
        ("POST", f"{queue}/messages/ack", {"acks": [{"lease_id": "{lease_id}"}, {"lease_id": "none"}]}),
        ("POST", f"{queue}/messages/purge", {"refs": [{"ref": "none"}]}),
        ("GET", f"{queue}/purge", None),
        ("POST", f"{queue}/purge", {"delete_messages_permanently": True}),
        ("GET", f"{queue}/purge", None),
        ("POST", f"{queue}/binding/message", b"{}"),
        ("POST", f"{queue}/binding/batch", {"messages": [{"body": "AA=="}]}),
        ("GET", f"{queue}/binding/metrics", None),
        (
            "POST",
            subscriptions,
            {
                "name": "s",
                "source": {"type": "r2"},
                "destination": {"type": "queues.queue", "queue_id": "{queue_id}"},
                "events": ["bucket.created"],
            },
        ),
        ("GET", subscriptions, None),
        ("GET", subscriptions + subscription, None),
        ("PATCH", subscriptions + subscription, {"enabled": False}),
        ("DELETE", subscriptions + subscription, None),
        ("DELETE", queue + consumer, None),
        ("DELETE", queue, None),
        ("POST", "/workers/queues", {"queue_name": "old"}),
        ("GET", "/workers/queues", None),
        ("GET", legacy, None),
        ("PUT", legacy, {"queue_name": "renamed"}),
        ("POST", f"{legacy}/consumers", {"service": "mailer"}),
        ("GET", f"{legacy}/consumers", None),
        ("GET", legacy + consumer, None),
        ("PUT", legacy + consumer, {"service": "mailer"}),
        ("DELETE", legacy + consumer, None),
        ("DELETE", legacy, None),
        ("GET", "", None),
        ("GET", "/tokens/verify", None),
        ("GET", "/client/v4/accounts", None),
        ("GET", "/client/v4/memberships", None),
        ("GET", "/client/v4/user", None),
        ("GET", "/client/v4/user/tokens/verify", None),
    ]


def filled(node: Any, known: dict[str, str]) -> Any:
    if isinstance(node, str):
        for name, value in known.items():
            node = node.replace("{" + name + "}", value)
        return node
    if isinstance(node, dict):
        return {name: filled(value, known) for name, value in node.items()}
    return [filled(value, known) for value in node] if isinstance(node, list) else node


def learned(result: Any) -> dict[str, str]:
    """Ids that later calls need."""
    found = {name: result[name] for name in ("queue_id", "consumer_id") if name in result}
    if "source" in result:
        found["subscription_id"] = result["id"]
    if result.get("messages") and "lease_id" in result["messages"][0]:
        found["lease_id"] = result["messages"][0]["lease_id"]
    return found


async def test_every_good_answer_has_the_shape_that_is_described(
    tmp_path: Path, calls: list[tuple[str, str, Any]]
) -> None:
    known: dict[str, str] = {}
    seen = set()
    async with cloudflare_account(tmp_path) as account:
        for method, pattern, order in calls:
            options = (
                {"body": order} if isinstance(order, bytes) else {} if order is None else {"json": filled(order, known)}
            )
            path = pattern if pattern.startswith("/client/v4") else f"{PREFIX}/{{account_id}}{pattern}"
            response = await account.app.request(method, filled(path, known | {"account_id": "default"}), **options)
            assert response.status == 200, (method, pattern, response)
            jsonschema.validate(response.json(), shape(path, method.lower(), "200"))
            seen.add((method, path))
            if isinstance(result := response.json().get("result"), dict):
                known |= learned(result)
    routes = {(route.method, route.pattern) for route in Cloudflare().routes}
    assert seen == routes - {("POST", "/client/v4/graphql")}, "GraphQL has a test of its own"


async def test_every_refusal_has_the_shape_that_is_described(tmp_path: Path) -> None:
    async with cloudflare_account(tmp_path) as account:
        for method, path in (("GET", "/queues/none"), ("POST", "/queues"), ("PATCH", "/queues"), ("GET", "/nothing")):
            response = await account.call(method, path)
            schema = {"$ref": "#/components/schemas/Failure", "components": DOCUMENT["components"]}
            jsonschema.validate(response.json(), schema)
