"""Why queues are stuck, through the native dialect."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import HOUR, SECOND
from tests.support.native import Tenant, native_tenant


@pytest.fixture
async def tenant(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def findings(tenant: Tenant, path: str = "/queues/orders/diagnosis") -> dict[str, Any]:
    return {finding["code"]: finding for finding in (await tenant.ask("GET", path))["findings"]}


async def send(tenant: Tenant, count: int = 1, queue: str = "orders") -> None:
    await tenant.ask("POST", f"/queues/{queue}/messages", {"messages": [{"body": "x"}] * count})


async def test_nothing_is_found_in_a_queue_that_works(tenant: Tenant) -> None:
    await tenant.queue("orders")
    await send(tenant)
    assert await findings(tenant) == {}


async def test_a_queue_without_receivers_is_found_until_somebody_receives(tenant: Tenant) -> None:
    await tenant.queue("orders")
    await send(tenant, 3)
    tenant.clock.advance(ms=HOUR)
    assert (await findings(tenant))["no_receivers"]["evidence"]["ready_count"] == 3
    await tenant.ask("POST", "/queues/orders/receive", {"limit": 1})
    assert "no_receivers" not in await findings(tenant)


async def test_leases_that_expire_are_found_and_the_fix_is_a_call_that_works(tenant: Tenant) -> None:
    await tenant.queue("orders", lease_ms=SECOND)
    await send(tenant, 6)
    await tenant.ask("POST", "/queues/orders/receive", {"limit": 6})
    tenant.clock.advance(ms=2 * SECOND)
    assert (await tenant.ask("GET", "/queues/orders/counters"))["ready_count"] == 6
    fix = (await findings(tenant))["leases_expire"]["fix"]
    assert fix["path"] == "/courier/v1/tenants/default/queues/orders"
    changed = await tenant.call(fix["method"], "/queues/orders", fix["body"])
    assert changed.json()["settings"]["lease_ms"] == 2 * SECOND


async def test_a_limit_of_leases_that_is_reached_is_found_and_raised(tenant: Tenant) -> None:
    queue = await tenant.queue("orders", max_leased=2)
    await send(tenant, 5)
    assert await findings(tenant) == {}
    await queue.receive(5)
    finding = (await findings(tenant))["limit_reached"]
    assert finding["evidence"] == {"max_leased": 2, "leased_count": 2, "ready_count": 3}
    await tenant.ask(finding["fix"]["method"], "/queues/orders", finding["fix"]["body"])
    assert len(await queue.receive(5)) == 2


async def test_a_tenant_gets_the_findings_of_its_queues(tenant: Tenant) -> None:
    await tenant.queue("orders", paused=True)
    await tenant.queue("idle")
    await tenant.queue("other")
    await send(tenant, 2)
    await send(tenant, 1, "other")
    tenant.clock.advance(ms=HOUR)
    found = (await tenant.ask("GET", "/diagnosis"))["findings"]
    assert [(one["queue"], one["code"]) for one in found] == [("other", "no_receivers"), ("orders", "paused")]


async def test_looking_leases_nothing(tenant: Tenant) -> None:
    await tenant.queue("orders")
    await send(tenant, 2)
    await findings(tenant)
    counters = await tenant.ask("GET", "/queues/orders/counters")
    assert (counters["ready_count"], counters["leased_count"]) == (2, 0)


async def test_a_listener_that_is_paused_is_found(tenant: Tenant) -> None:
    await tenant.queue("orders")
    made = await tenant.ask("POST", "/queues/orders/listeners", {"name": "shop", "url": "https://shop.example/hook"})
    await tenant.ask("POST", f"/queues/orders/listeners/{made['id']}/pause")
    await send(tenant)
    found = (await findings(tenant))["listener_paused"]
    assert found["evidence"] == {"waiting_count": 1}
    assert (await tenant.call("POST", found["fix"]["path"].partition("default")[2])).json()["state"] == "active"
