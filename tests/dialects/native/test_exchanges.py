"""Exchanges and bindings through the native dialect."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.native import Tenant, native_tenant

RED = {"attribute": "colour", "type": "string", "matcher": "eq", "value": "red"}


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        await tenant.ask("POST", "/exchanges", {"name": "events", "annotations": {"team": "shop"}})
        yield tenant


async def test_an_exchange_can_be_created_read_changed_and_deleted(tenant: Tenant) -> None:
    made = await tenant.ask("GET", "/exchanges/events")
    assert made == await tenant.ask("GET", f"/exchanges/{made['id']}")
    assert made == {
        "id": made["id"],
        "name": "events",
        "tenant": "default",
        "annotations": {"team": "shop"},
        "created_at": tenant.clock.now(),
        "changed_at": tenant.clock.now(),
    }
    changed = await tenant.ask("PATCH", "/exchanges/events", {"annotations": {}})
    assert changed == made | {"annotations": {}}
    assert (await tenant.call("DELETE", "/exchanges/events")).status == 204
    problem = await tenant.refused("GET", "/exchanges/events")
    assert (problem["status"], problem["type"]) == (404, "urn:courier:problem:exchange-not-found")


async def test_exchanges_are_listed_by_name(tenant: Tenant) -> None:
    await tenant.ask("POST", "/exchanges", {"name": "audit"})
    first = await tenant.ask("GET", "/exchanges?limit=1")
    assert ([exchange["name"] for exchange in first["exchanges"]], first["next"]) == (["audit"], "audit")
    rest = await tenant.ask("GET", "/exchanges?after=audit")
    assert ([exchange["name"] for exchange in rest["exchanges"]], rest["next"]) == (["events"], None)


async def test_a_message_reaches_the_queues_whose_rules_let_it_through(tenant: Tenant) -> None:
    everything, red = await tenant.queue("everything"), await tenant.queue("red")
    await tenant.ask("PUT", "/exchanges/events/bindings/everything")
    await tenant.ask("PUT", "/exchanges/events/bindings/red", {"rules": [RED]})
    answer = await tenant.call(
        "POST", "/exchanges/events/messages", {"body": "a", "id": "mine", "attributes": {"colour": "red"}}
    )
    assert (answer.status, answer.json()) == (201, {"id": "mine", "queue_count": 2})
    batch = [{"body": "b", "attributes": {"colour": "blue"}}, {}]
    results = (await tenant.ask("POST", "/exchanges/events/messages", {"messages": batch}))["results"]
    assert results[0]["queue_count"] == 1
    assert results[1]["error"]["field"] == "body"
    assert await everything.bodies() == ["a", "b"]
    assert await red.bodies() == ["a"]


async def test_a_rule_of_a_binding_looks_into_the_body_as_a_trial_says(tenant: Tenant) -> None:
    large = await tenant.queue("large")
    rule = {"attribute": "$.order.total", "type": "numeric", "matcher": "gt", "value": 5}
    await tenant.ask("PUT", "/exchanges/events/bindings/large", {"rules": [rule]})
    for message, passes in (
        ({"json": {"order": {"total": 10}}}, True),
        ({"json": {"order": {"total": 1}}}, False),
        ({"json": {"order": {"total": 10}}, "attributes": {"$.order.total": 1}}, False),
        ({"json": {"order": {"total": 1}}, "attributes": {"$.order.total": 10}}, True),
    ):
        trial = await tenant.ask("POST", "/exchanges/events/route", message)
        sent = await tenant.ask("POST", "/exchanges/events/messages", message)
        assert (trial["queues"][0]["matches"], sent["queue_count"]) == (passes, int(passes))
    assert len(await large.bodies()) == 2


async def test_a_binding_can_be_listed_replaced_and_removed(tenant: Tenant) -> None:
    queue = await tenant.ask("POST", "/queues", {"name": "orders"})
    bound = await tenant.ask("PUT", "/exchanges/events/bindings/orders", {"rules": [RED]})
    assert bound == {
        "exchange": "events",
        "queue": "orders",
        "queue_id": queue["id"],
        "rules": [RED],
        "created_at": tenant.clock.now(),
        "changed_at": tenant.clock.now(),
    }
    assert await tenant.ask("GET", "/exchanges/events/bindings") == {"bindings": [bound]}
    assert (await tenant.ask("PUT", "/exchanges/events/bindings/orders", {"rules": []}))["rules"] == []
    assert (await tenant.call("DELETE", "/exchanges/events/bindings/orders")).status == 204
    problem = await tenant.refused("DELETE", "/exchanges/events/bindings/orders")
    assert (problem["status"], problem["type"]) == (404, "urn:courier:problem:binding-not-found")


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (RED | {"matcher": "lt"}, "rules[1].matcher"),
        (RED | {"matcher": "like"}, "rules[1].matcher"),
        (RED | {"attribute": ""}, "rules[1].attribute"),
        (RED | {"matcher": "any_of"}, "rules[1].value"),
        (RED | {"type": "numeric"}, "rules[1].value"),
        (RED | {"colour": "red"}, "rules[1].colour"),
    ],
)
async def test_a_rule_that_could_never_hold_is_named(tenant: Tenant, rule: object, field: str) -> None:
    await tenant.queue("orders")
    problem = await tenant.refused("PUT", "/exchanges/events/bindings/orders", {"rules": [RED, rule]})
    assert (problem["status"], problem["field"]) == (400, field)


async def test_only_what_is_there_can_be_bound(tenant: Tenant) -> None:
    await tenant.queue("orders")
    assert (await tenant.refused("PUT", "/exchanges/events/bindings/nowhere"))["type"].endswith("queue-not-found")
    assert (await tenant.refused("PUT", "/exchanges/orders/bindings/orders"))["type"].endswith("exchange-not-found")
