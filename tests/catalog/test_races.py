"""Two nodes on one store change the same things at the same time: one of them is first, and nothing gets lost."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from tests.support.engines import forget
from tests.support.inprocess import InProcess, Response, courier_app
from tests.support.postgres import shared_cluster

ROUNDS = 100
QUEUES = "/client/v4/accounts/default/queues"
CLIENTS = "/mq/admin/api/v1/organizations/default/environments/default/clients"
NATIVE = "/courier/v1/tenants/default"

pytestmark = [pytest.mark.slow]


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[InProcess]]:
    """Two nodes on one database; they share the clock, so that no id comes twice."""
    url, clock = shared_cluster().store_url(tmp_path), FakeClock()
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                courier_app(tmp_path, clock=clock, data=tmp_path / name, store=url, archive_enabled=False)
            )
            for name in ("one", "two")
        ]
    forget(tmp_path)


async def together(*calls: Awaitable[Response]) -> list[Response]:
    return list(await asyncio.gather(*calls))


def only_success(responses: Sequence[Response], refusal: int) -> Response:
    """The one that succeeded, when all others were refused alike."""
    assert sorted(response.status for response in responses) == [200, *[refusal] * (len(responses) - 1)], responses
    return next(response for response in responses if response.status == 200)


async def read(node: InProcess, path: str, **options: Any) -> Any:
    await node.services.catalog.catch_up()
    response = await node.get(path, **options)
    assert response.status == 200, response
    return response.json()


async def test_a_queue_gets_one_consumer(nodes: list[InProcess]) -> None:
    made = (await nodes[0].post(QUEUES, {"queue_name": "orders"})).json()["result"]
    path = f"{QUEUES}/{made['queue_id']}/consumers"
    order = {"type": "http_pull", "dead_letter_queue": "dead"}
    for _ in range(ROUNDS):
        won = only_success(await together(*(node.post(path, order) for node in nodes)), 400)
        consumer_id = won.json()["result"]["consumer_id"]
        for node in nodes:
            assert (await read(node, f"{path}/{consumer_id}"))["result"]["consumer_id"] == consumer_id
        assert (await nodes[1].request("DELETE", f"{path}/{consumer_id}")).status == 200


async def test_a_client_app_is_made_once(nodes: list[InProcess]) -> None:
    one, two = nodes
    for number in range(ROUNDS):
        order = {"name": f"app-{number}"}
        answers = await together(*(node.request("PUT", CLIENTS, json=order) for node in (one, two, one, two, one)))
        only_success(answers, 409)
    for node in nodes:
        assert sorted(app["name"] for app in await read(node, CLIENTS)) == sorted(f"app-{n}" for n in range(ROUNDS))


async def test_no_change_of_a_queue_or_a_listener_is_lost(nodes: list[InProcess]) -> None:
    one, two = nodes
    queue_id = (await one.post(QUEUES, {"queue_name": "start"})).json()["result"]["queue_id"]
    listener = (
        await one.post(f"{NATIVE}/queues/{queue_id}/listeners", {"name": "shop", "url": "https://shop.example"})
    ).json()
    hook = f"{NATIVE}/queues/{queue_id}/listeners/{listener['id']}"
    for number in range(ROUNDS):
        answers = await together(
            one.request("PATCH", f"{QUEUES}/{queue_id}", json={"queue_name": f"name-{number}"}),
            two.request("PATCH", f"{QUEUES}/{queue_id}", json={"settings": {"delivery_delay": number}}),
            one.request("PATCH", hook, json={"settings": {"concurrency": number % 50 + 1}}),
            two.request("PATCH", hook, json={"settings": {"timeout_ms": 1_000 + number}}),
        )
        assert [answer.status for answer in answers] == [200] * 4, answers
        for node in nodes:
            queue = (await read(node, f"{QUEUES}/{queue_id}"))["result"]
            assert (queue["queue_name"], queue["settings"]["delivery_delay"]) == (f"name-{number}", number)
            settings = (await read(node, hook))["settings"]
            assert (settings["concurrency"], settings["timeout_ms"]) == (number % 50 + 1, 1_000 + number)


async def test_of_two_renames_to_one_name_one_is_refused(nodes: list[InProcess]) -> None:
    made = [(await nodes[0].post(QUEUES, {"queue_name": f"q-{n}"})).json()["result"]["queue_id"] for n in range(2)]
    for number in range(ROUNDS // 2):
        rename = {"queue_name": f"name-{number}"}
        pairs = zip(nodes, made, strict=True)
        only_success(await together(*(node.request("PATCH", f"{QUEUES}/{q}", json=rename) for node, q in pairs)), 409)


async def test_a_key_is_made_once_and_keeps_every_change(nodes: list[InProcess]) -> None:
    one, two = nodes

    def call(node: InProcess, method: str, path: str, json: Any) -> Awaitable[Response]:
        headers = {"x-api-key": "root-token"}
        return node.request(method, f"/v1/api_keys{path}", json=json, token=None, headers=headers)

    for number in range(ROUNDS // 4):
        order = {"alias": f"key-{number}"}
        won = only_success(await together(*(call(node, "POST", "", order) for node in nodes)), 422)
        path = f"/{won.json()['api_key']['id']}"
        await two.services.catalog.catch_up()
        await one.services.catalog.catch_up()
        scopes = {"messages": {"access": "read", "targets": ["*"]}}
        answers = await together(
            call(one, "PUT", path, {"alias": f"renamed-{number}"}), call(two, "PUT", path, {"scopes": scopes})
        )
        assert [answer.status for answer in answers] == [200, 200], answers
        for node in nodes:
            await node.services.catalog.catch_up()
            key = (await call(node, "GET", path, {})).json()["api_key"]
            assert (key["alias"], key["scopes"]) == (f"renamed-{number}", scopes)


async def test_documents_of_dialects_keep_every_change(nodes: list[InProcess]) -> None:
    """Later names of messages, event subscriptions and domains."""
    one, two = nodes
    key: dict[str, Any] = {"headers": {"x-api-key": "root-token"}, "token": None}
    subscriptions = "/client/v4/accounts/default/event_subscriptions/subscriptions"
    queue_id = (await one.post(QUEUES, {"queue_name": "orders"})).json()["result"]["queue_id"]
    await two.services.catalog.catch_up()
    messages = f"/v1/queues/{queue_id}/messages"
    ids = [(await one.post(messages, {"data": "x"}, **key)).json()["message"]["id"] for _ in nodes]
    order = {
        "name": "s",
        "source": {"type": "kv"},
        "events": ["namespace.created"],
        "destination": {"type": "queues.queue", "queue_id": queue_id},
    }
    made = (await one.post(subscriptions, order)).json()["result"]["id"]
    for number in range(ROUNDS // 4):
        domain = {"alias": f"domain-{number}", "hostname": "shop.example", "port": 443}
        only_success(await together(*(node.post("/v1/domains", domain, **key) for node in nodes)), 422)
        pairs = list(zip(nodes, ids, strict=True))
        answers = await together(
            *(node.request("PUT", f"{messages}/{m}", json={"name": f"{m}-{number}"}, **key) for node, m in pairs),
            one.request("PATCH", f"{subscriptions}/{made}", json={"name": f"s-{number}"}),
            two.request("PATCH", f"{subscriptions}/{made}", json={"enabled": bool(number % 2)}),
        )
        assert [answer.status for answer in answers] == [200] * 4, answers
        for node in nodes:
            listed = {one["id"]: one["name"] for one in (await read(node, messages, **key))["messages"]}
            assert listed == {message: f"{message}-{number}" for message in ids}
            kept = (await read(node, f"{subscriptions}/{made}"))["result"]
            assert (kept["name"], kept["enabled"]) == (f"s-{number}", bool(number % 2))


async def test_a_binding_keeps_its_rule_and_a_fallback_agrees_with_its_queue(nodes: list[InProcess]) -> None:
    one, two = nodes
    admin = "/mq/admin/api/v1/organizations/default/environments/default/regions/us-east-1"
    await one.request("PUT", f"{admin}/destinations/queues/orders", json={})
    await one.request("PUT", f"{admin}/destinations/exchanges/news", json={})
    await two.services.catalog.catch_up()
    binding, fallback = f"{admin}/bindings/exchanges/news/queues/orders", f"{admin}/destinations/queues/orders/fallback"
    for number in range(ROUNDS // 4):
        assert (await one.request("PUT", binding, json={})).status == 200
        await two.services.catalog.catch_up()
        rule = {"propertyName": "n", "propertyType": "NUMERIC", "matcherType": "EQ", "value": number}
        answers = await together(
            one.request("PUT", binding, json={}),
            two.request("PUT", f"{binding}/rules/routing", json={"routingRules": [rule]}),
            one.request("PUT", fallback, json={"fallbackEnabled": True}),
            two.request("PUT", fallback, json={"fallbackEnabled": False}),
        )
        assert [answer.status for answer in answers] == [200, 201, 201, 201], answers
        for node in nodes:
            kept = await read(node, f"{binding}?inclusion=all")
            assert [one["value"] for one in kept["routingRules"]] == [number]
            link = (await read(node, f"{admin}/destinations/queues/orders"))["fallbackConfig"]["enabled"]
            queues = {queue.name: queue for queue in node.services.catalog.queues("default")}
            if "orders_fb" in queues:
                assert queues["orders_fb"].annotations["anypoint.fallback_of"]["enabled"] is link
        assert (await two.request("DELETE", binding)).status == 204
        await one.services.catalog.catch_up()
