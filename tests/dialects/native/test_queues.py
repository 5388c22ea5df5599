"""Queues and their counters through the native dialect."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.native import Tenant, native_tenant


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def test_a_new_queue_has_the_settings_it_was_given_and_defaults_for_the_rest(tenant: Tenant) -> None:
    await tenant.queue("dead")
    order = {
        "name": "shop/orders",
        "kind": "fifo",
        "settings": {"lease_ms": 5_000, "max_attempts": 3, "dead_letter_queue": "dead", "late_ack": "accept"},
        "annotations": {"team": "shop"},
    }
    answer = await tenant.call("POST", "/queues", order)
    assert answer.status == 201
    assert answer.headers["location"] == "/courier/v1/tenants/default/queues/shop%2Forders"
    made = answer.json()
    assert made == await tenant.ask("GET", "/queues/shop%2Forders")
    assert made == await tenant.ask("GET", f"/queues/{made['id']}")
    assert made == {
        "id": made["id"],
        "name": "shop/orders",
        "tenant": "default",
        "kind": "fifo",
        "settings": {
            "delay_ms": 0,
            "lease_ms": 5_000,
            "retention_ms": 345_600_000,
            "max_attempts": 3,
            "max_leased": None,
            "retry_delay_ms": 0,
            "dead_letter_queue": "dead",
            "paused": False,
            "max_body_bytes": 10_485_760,
            "late_ack": "accept",
            "archive_bodies": True,
            "keep_delivered": True,
        },
        "annotations": {"team": "shop"},
        "aliases": {},
        "created_at": tenant.clock.now(),
        "changed_at": tenant.clock.now(),
    }


async def test_a_dead_letter_queue_can_be_given_by_id(tenant: Tenant) -> None:
    dead = await tenant.ask("POST", "/queues", {"name": "dead"})
    made = await tenant.ask("POST", "/queues", {"name": "a", "settings": {"dead_letter_queue": dead["id"]}})
    assert made["settings"]["dead_letter_queue"] == "dead"


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "-a"}, "name"),
        ({"name": 5}, "name"),
        ({"name": "a", "kind": "lifo"}, "kind"),
        ({"name": "a", "colour": "red"}, "colour"),
        ({"name": "a", "settings": {"lease_seconds": 5}}, "settings.lease_seconds"),
        ({"name": "a", "settings": {"lease_ms": 1.5}}, "settings.lease_ms"),
        ({"name": "a", "settings": {"lease_ms": -1}}, "settings.lease_ms"),
        ({"name": "a", "settings": {"retention_ms": 0}}, "settings.retention_ms"),
        ({"name": "a", "settings": {"dead_letter_queue": "nowhere"}}, "settings.dead_letter_queue"),
    ],
)
async def test_a_queue_that_cannot_be_is_refused_by_the_field_that_is_wrong(
    tenant: Tenant, order: object, field: str
) -> None:
    problem = await tenant.refused("POST", "/queues", order)
    assert (problem["status"], problem["field"]) == (400, field)
    assert (await tenant.ask("GET", "/queues"))["queues"] == []


async def test_a_name_that_is_taken_is_a_conflict(tenant: Tenant) -> None:
    await tenant.queue("orders")
    await tenant.ask("POST", "/exchanges", {"name": "events"})
    for name in ("orders", "events"):
        problem = await tenant.refused("POST", "/queues", {"name": name})
        assert (problem["status"], problem["type"]) == (409, "urn:courier:problem:already-exists")


async def test_a_change_changes_what_it_names_and_nothing_else(tenant: Tenant) -> None:
    await tenant.queue("orders", lease_ms=5_000, max_attempts=3)
    before = await tenant.ask("GET", "/queues/orders")
    tenant.clock.advance(ms=10)
    after = await tenant.ask("PATCH", "/queues/orders", {"name": "sales", "settings": {"max_attempts": None}})
    assert after == before | {
        "name": "sales",
        "settings": before["settings"] | {"max_attempts": None},
        "changed_at": before["changed_at"] + 10,
    }
    assert after == await tenant.ask("GET", "/queues/sales")
    assert (await tenant.refused("GET", "/queues/orders"))["type"] == "urn:courier:problem:queue-not-found"


async def test_two_changes_at_once_both_count(tenant: Tenant) -> None:
    await tenant.queue("orders")
    changes: list[dict[str, object]] = [{"delay_ms": 1}, {"lease_ms": 2}, {"paused": True}]
    await asyncio.gather(*(tenant.ask("PATCH", "/queues/orders", {"settings": some}) for some in changes))
    settings = (await tenant.ask("GET", "/queues/orders"))["settings"]
    assert (settings["delay_ms"], settings["lease_ms"], settings["paused"]) == (1, 2, True)


async def test_dead_letters_must_not_go_round_in_a_circle(tenant: Tenant) -> None:
    await tenant.queue("a")
    await tenant.queue("b", dead_letter_queue="a")
    problem = await tenant.refused("PATCH", "/queues/a", {"settings": {"dead_letter_queue": "b"}})
    assert (problem["status"], problem["type"]) == (400, "urn:courier:problem:dead-letter-cycle")


async def test_a_queue_that_takes_dead_letters_cannot_be_deleted(tenant: Tenant) -> None:
    await tenant.queue("dead")
    await tenant.queue("orders", dead_letter_queue="dead")
    problem = await tenant.refused("DELETE", "/queues/dead")
    assert (problem["status"], problem["type"]) == (409, "urn:courier:problem:in-use")
    assert (await tenant.call("DELETE", "/queues/orders")).status == 204
    assert (await tenant.call("DELETE", "/queues/dead")).status == 204
    assert (await tenant.ask("GET", "/queues"))["queues"] == []


async def test_queues_are_listed_by_name_a_page_at_a_time(tenant: Tenant) -> None:
    for name in ("b", "a1", "c", "a2"):
        await tenant.queue(name)
    first = await tenant.ask("GET", "/queues?limit=3")
    rest = await tenant.ask("GET", f"/queues?limit=3&after={first['next']}")
    assert [queue["name"] for queue in first["queues"]] == ["a1", "a2", "b"]
    assert [queue["name"] for queue in rest["queues"]] == ["c"]
    assert rest["next"] is None
    some = await tenant.ask("GET", "/queues?prefix=a")
    assert [queue["name"] for queue in some["queues"]] == ["a1", "a2"]


async def test_counters_tell_how_many_and_how_old(tenant: Tenant) -> None:
    queue = await tenant.queue("orders")
    await queue.send("hello")
    await queue.send("later", delay_ms=60_000)
    await queue.send("x")
    await queue.receive_one()
    tenant.clock.advance(ms=500)
    counters = await queue.ask("GET", "/counters")
    assert counters == {
        "ready_count": 1,
        "delayed_count": 1,
        "leased_count": 1,
        "total_count": 3,
        "byte_count": 11,
        "oldest_at": tenant.clock.now() - 500,
        "oldest_age_ms": 500,
        "sent_count": 3,
        "acked_count": 0,
        "dead_count": 0,
    }
    await tenant.queue("empty")
    everything = (await tenant.ask("GET", "/counters"))["queues"]
    assert everything["orders"] == counters
    assert (everything["empty"]["total_count"], everything["empty"]["oldest_age_ms"]) == (0, None)


@pytest.mark.parametrize("annotations", [{"n": 2**64}, {"deep": [{"n": -(2**63) - 1}]}, {"long": "x" * 65_536}])
@pytest.mark.parametrize("path", ["/queues", "/exchanges", "/credentials"])
async def test_annotations_that_no_store_could_hold_are_refused(tenant: Tenant, path: str, annotations: object) -> None:
    problem = await tenant.refused("POST", path, {"name": "a", "annotations": annotations})
    assert (problem["status"], problem["field"]) == (400, "annotations")
