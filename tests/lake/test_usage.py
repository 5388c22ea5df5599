"""What a tenant used, from the table `tenant_usage`."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import DAY, MINUTE
from couriermq.lake.tables import day_of
from tests.support.lakes import commit, put
from tests.support.native import Tenant, native_tenant

pytestmark = pytest.mark.every_engine

TODAY = day_of(FakeClock().now())
YESTERDAY, LAST_MONTH = (day_of(FakeClock().now() - days * DAY) for days in (1, 40))


def used(day: str, tenant: str = "default", requests: int = 9) -> dict[str, Any]:
    counts = {"requests": requests, "messages": 5, "received": 4, "bytes": 2_048, "billable_units": 4}
    return {"tenant": tenant, "day": day, **counts}


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as root:
        orders = await root.queue("orders")
        await orders.send()
        yield root


async def take_in(root: Tenant, *rows: dict[str, Any]) -> None:
    """Tables that hold these rows, and that go up to the end of the journal."""
    place = root.app.services.settings.lake_place
    put(place, "tenant_usage", list(rows))
    commit(place, 0, {lane: span.next for lane, span in (await root.app.services.broker.spans()).items()})


async def test_a_tenants_days_are_told_in_order_as_far_as_the_tables_go(root: Tenant) -> None:
    await take_in(root, used(TODAY, requests=7), used(YESTERDAY), used(LAST_MONTH), used(TODAY, "acme"))
    usage = await root.ask("GET", "/usage")
    now = root.clock.now()
    assert usage["tables_until"] == now - now % MINUTE
    shown = {"sent": 5, "received": 4, "traffic_bytes": 2_048, "billable_units": 4}
    assert usage["days"] == [
        {"day": YESTERDAY, "requests": 9, **shown},
        {"day": TODAY, "requests": 7, **shown},
    ]


async def test_days_are_chosen_by_the_instants_in_them(root: Tenant) -> None:
    await take_in(root, used(TODAY), used(YESTERDAY), used(LAST_MONTH))
    now = root.clock.now()
    begun = now - now % DAY

    async def days(start: int, end: int) -> list[str]:
        return [one["day"] for one in (await root.ask("GET", f"/usage?from={start}&to={end}"))["days"]]

    assert await days(begun, begun + 1) == [TODAY]
    assert await days(begun - 1, begun) == [YESTERDAY]
    assert await days(begun - 1, begun + 1) == [YESTERDAY, TODAY]
    assert await days(now - 41 * DAY, now) == [LAST_MONTH, YESTERDAY, TODAY]
    assert (await root.refused("GET", f"/usage?from={now - 367 * DAY}&to={now}"))["field"] == "from"


async def test_without_tables_nothing_is_known_and_that_is_said(root: Tenant) -> None:
    usage = await root.ask("GET", "/usage")
    assert (usage["tables_until"], usage["days"]) == (None, [])


async def test_usage_is_for_those_who_may_see_the_figures_of_all_queues(root: Tenant) -> None:
    await take_in(root, used(TODAY))
    watcher, limited = [await root.with_scopes(("stats", queues)) for queues in (["*"], ["orders"])]
    assert len((await watcher.ask("GET", "/usage"))["days"]) == 1
    assert (await limited.refused("GET", "/usage"))["status"] == 403
