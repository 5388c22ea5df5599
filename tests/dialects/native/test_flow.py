"""Who consumes a queue, how messages flow, where an exchange would send one, and how the server does."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq import __version__
from couriermq.monitor.node import quantile_ms, shown_setting
from couriermq.telemetry.histogram import Histogram
from tests.support.native import PREFIX, Tenant, native_tenant


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path, delivery_allow=("127.0.0.0/8",)) as tenant:
        yield tenant


async def test_leases_have_their_holders(root: Tenant) -> None:
    orders = await root.queue("orders")
    worker = await root.with_scopes(("receive", ["*"]))
    for number in range(3):
        await orders.send(id=str(number))
    await orders.of(worker).receive(limit=2)
    root.clock.advance(ms=1_000)
    await orders.receive()
    found = await orders.ask("GET", "/receivers")
    (credential,) = (await root.ask("GET", "/credentials"))["credentials"]
    held = {lease["message_id"]: lease for lease in found["leases"]}
    assert held["0"]["principal"] == held["1"]["principal"] == credential["id"]
    assert (held["2"]["principal"], held["2"]["attempt"]) == ("root", 1)
    assert held["2"]["since"] - held["0"]["since"] == 1_000
    assert held["0"]["expires_at"] == held["0"]["since"] + 30_000
    people = {one["id"]: one for one in found["principals"]}
    assert (people[credential["id"]]["name"], people[credential["id"]]["leased_count"]) == ("limited", 2)
    assert people[credential["id"]]["received_per_second"] == round(2 / 60, 2)
    assert (found["leased_count"], found["waiting_count"]) == (3, 0)


async def test_the_last_receiver_of_a_message_is_its_holder(root: Tenant) -> None:
    orders = await root.queue("orders")
    worker = await root.with_scopes(("receive", ["*"]))
    await orders.send()
    await orders.of(worker).receive()
    root.clock.advance(ms=30_000)
    await orders.receive()
    (lease,) = (await orders.ask("GET", "/receivers"))["leases"]
    assert (lease["principal"], lease["attempt"]) == ("root", 2)


async def test_names_of_credentials_are_for_those_who_manage(root: Tenant) -> None:
    orders = await root.queue("orders")
    worker = await root.with_scopes(("receive", ["*"]))
    await orders.send()
    await orders.of(worker).receive()
    watcher = orders.of(await root.with_scopes(("stats", ["*"])))
    (lease,) = (await watcher.ask("GET", "/receivers"))["leases"]
    assert lease["principal"] is not None
    assert lease["principal_name"] is None
    assert (await orders.of(worker).refused("GET", "/receivers"))["status"] == 403


async def test_the_map_has_every_way_a_message_can_go(root: Tenant) -> None:
    failed = await root.queue("failed")
    orders = await root.queue("orders", dead_letter_queue="failed")
    await root.ask("POST", "/exchanges", {"name": "events"})
    await root.ask("PUT", "/exchanges/events/bindings/orders", {})
    await orders.ask("POST", "/listeners", {"name": "crm", "url": "http://127.0.0.1:9/"})
    await orders.send()
    await orders.receive()
    found = await root.ask("GET", "/map")
    names = {node["id"]: node["name"] for node in found["nodes"]}
    ways = {(edge["kind"], names[edge["from"]], names[edge["to"]]) for edge in found["edges"]}
    assert ways >= {
        ("binding", "events", "orders"),
        ("dead_letters", "orders", "failed"),
        ("delivery", "orders", "crm"),
        ("sends", "root", "orders"),
        ("receives", "orders", "root"),
    }
    assert found["truncated"] is False
    assert next(node for node in found["nodes"] if node["name"] == "orders")["leased_count"] == 1
    limited = await root.with_scopes(("stats", [failed.name]))
    assert {node["name"] for node in (await limited.ask("GET", "/map"))["nodes"]} == {"failed"}


async def test_a_rule_is_tried_out_without_sending(root: Tenant) -> None:
    rule = {"attribute": "colour", "type": "string", "matcher": "eq", "value": "red"}
    await root.ask("POST", "/exchanges", {"name": "events"})
    for name, rules in {"all": [], "red": [rule]}.items():
        await root.queue(name)
        await root.ask("PUT", f"/exchanges/events/bindings/{name}", {"rules": rules})

    async def routed(attributes: dict[str, Any]) -> dict[str, Any]:
        answer = await root.ask("POST", "/exchanges/events/route", {"attributes": attributes})
        return {one["queue"]: (one["matches"], one["failed_rule"]) for one in answer["queues"]}

    assert await routed({"colour": "red"}) == {"all": (True, None), "red": (True, None)}
    assert await routed({"colour": "blue"}) == {"all": (True, None), "red": (False, rule)}
    assert (await root.ask("GET", "/counters"))["queues"]["all"]["total_count"] == 0
    sender = await root.with_scopes(("send", ["*"]))
    assert (await sender.refused("POST", "/exchanges/events/route", {}))["status"] == 403


async def test_root_sees_how_the_server_does_and_no_secret(root: Tenant) -> None:
    await (await root.queue("orders")).send()
    found = await root.ask("GET", f"{PREFIX}/server")
    assert (found["version"], found["store"]["kind"]) == (__version__, "sqlite")
    assert found["store"]["commits_per_second"] > 0
    assert found["disk"]["data_bytes"] > 0
    assert "upkeep" in found["nodes"][0]["duties"]
    settings = {one["key"]: one for one in found["settings"]}
    assert settings["root_token"]["value"] == "(hidden)"
    assert settings["console_streams"] == {"key": "console_streams", "value": 64, "source": "default"}
    assert settings["delivery_allow"]["source"] is None
    assert "root-token" not in str(found)
    limited = await root.with_scopes(("manage", ["*"]))
    assert (await limited.refused("GET", f"{PREFIX}/server"))["status"] == 403


def test_a_url_among_settings_has_no_password() -> None:
    shown = shown_setting("store", "postgresql://user:secret@db:5432/courier?password=secret")
    assert shown == "postgresql://db:5432/courier"


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    histogram = Histogram((0.001, 0.01, 0.1))
    assert quantile_ms(histogram, 0.5) is None
    for seconds in (0.0005, 0.0005, 0.005, 0.05):
        histogram.observe(seconds)
    assert (quantile_ms(histogram, 0.5), quantile_ms(histogram, 0.99)) == (1.0, 100.0)
