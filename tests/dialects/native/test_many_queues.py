"""The same change to many queues."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.dialects.native import many_queues
from tests.support.eventually import eventually
from tests.support.native import Tenant, native_tenant

NAMES = ("a-orders", "b-orders", "c-mail", "d-ORDERS")


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as root:
        for name in NAMES:
            queue = await root.queue(name)
            await queue.send()
        yield root


async def change(tenant: Tenant, verb: str, **order: Any) -> dict[str, Any]:
    changed: dict[str, Any] = await tenant.ask("POST", "/queue-changes", {"change": verb, **order})
    return changed


async def paused(root: Tenant) -> list[str]:
    queues = (await root.ask("GET", "/queues"))["queues"]
    return [queue["name"] for queue in queues if queue["settings"]["paused"]]


async def totals(root: Tenant) -> dict[str, int]:
    found = (await root.ask("GET", "/counters"))["queues"]
    return {name: counters["total_count"] for name, counters in found.items()}


async def test_all_queues_that_match_are_paused_and_resumed(root: Tenant) -> None:
    done = await change(root, "pause", find="orders")
    assert done == {"matched_count": 3, "changed_count": 3, "failures": [], "next": None}
    assert await paused(root) == ["a-orders", "b-orders", "d-ORDERS"]
    assert (await change(root, "resume", queues=["b-orders"]))["changed_count"] == 1
    assert await paused(root) == ["a-orders", "d-ORDERS"]


async def test_a_queue_that_is_paused_already_is_not_changed_again(root: Tenant) -> None:
    await change(root, "pause", find="")
    before = (await root.ask("GET", "/queues/c-mail"))["changed_at"]
    root.clock.advance(ms=5_000)
    assert (await change(root, "pause", find=""))["changed_count"] == 4
    assert (await root.ask("GET", "/queues/c-mail"))["changed_at"] == before


async def test_queues_are_purged(root: Tenant) -> None:
    await change(root, "purge", queues=["c-mail", "a-orders"])

    async def left() -> dict[str, int]:
        root.clock.advance(ms=1_000)  # counters of many queues are kept for a moment
        return await totals(root)

    await eventually(left, lambda found: found == {"a-orders": 0, "b-orders": 1, "c-mail": 0, "d-ORDERS": 1})


async def test_a_call_changes_so_many_and_the_next_goes_on(root: Tenant) -> None:
    first = await change(root, "pause", find="orders", limit=2)
    assert (first["changed_count"], first["next"]) == (2, "b-orders")
    assert await paused(root) == ["a-orders", "b-orders"]
    second = await change(root, "pause", find="orders", limit=2, after=first["next"])
    assert (second["changed_count"], second["next"]) == (1, None)
    assert await paused(root) == ["a-orders", "b-orders", "d-ORDERS"]


async def test_a_call_that_takes_long_says_where_to_go_on(root: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_queues, "TURN_MS", 0)
    assert (await change(root, "pause", find=""))["next"] == "a-orders"
    assert await paused(root) == ["a-orders"]


async def test_a_queue_that_cannot_be_changed_does_not_stop_the_others(root: Tenant) -> None:
    manager = await root.with_scopes(("manage", ["a-orders", "c-mail"]))
    done = await change(manager, "pause", queues=["a-orders", "b-orders", "c-mail", "unknown"])
    assert (done["changed_count"], [one["queue"] for one in done["failures"]]) == (2, ["b-orders", "unknown"])
    assert (await change(manager, "resume", find="orders"))["matched_count"] == 1
    assert await paused(root) == ["c-mail"]


async def test_what_is_asked_wrongly_is_refused(root: Tenant) -> None:
    both = {"queues": ["c-mail"], "find": "mail"}
    orders: list[dict[str, Any]] = [{}, both, {"queues": []}, {"find": "mail", "limit": 0}]
    for order in orders:
        assert (await root.refused("POST", "/queue-changes", {"change": "pause", **order}))["status"] == 400
    assert (await root.refused("POST", "/queue-changes", {"change": "eat", "find": ""}))["status"] == 400
    reader = await root.with_scopes(("browse", ["*"]))
    assert (await reader.refused("POST", "/queue-changes", {"change": "purge", "find": ""}))["status"] == 403
