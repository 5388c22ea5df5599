"""All queues at a glance, and what happens in one of them second by second."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.native import Queue, Tenant, native_tenant


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def names(tenant: Tenant, query: str) -> list[str]:
    return [row["name"] for row in (await tenant.ask("GET", f"/overview?{query}"))["queues"]]


async def test_a_row_has_the_queues_figures_and_rates(root: Tenant) -> None:
    await root.queue("failed")
    orders = await root.queue("orders", dead_letter_queue="failed", paused=False)
    for _ in range(20):
        await orders.send("12345")
    lease = await orders.receive_one()
    await orders.ask("POST", "/ack", {"receipt": lease["receipt"]})
    root.clock.advance(ms=1_000)
    answer = await root.ask("GET", "/overview")
    failed, row = answer["queues"]
    assert (row["name"], row["kind"], row["dead_letter_queue"]) == ("orders", "standard", "failed")
    assert failed["flags"] == ["dead_letters"]
    assert (row["ready_count"], row["leased_count"], row["byte_count"]) == (19, 0, 95)
    assert (row["per_second"]["sent"], row["per_second"]["acked"]) == (2.0, 0.1)
    assert (sum(row["spark"]["sent"]), row["spark"]["backlog"][-1], len(row["spark"]["acked"])) == (20, 19, 60)
    assert answer["totals"]["queue_count"] == 2
    assert answer["totals"]["ready_count"] == 19
    assert answer["totals"]["per_second"]["sent"] == 2.0
    assert sum(answer["totals"]["spark"]["sent"]) == 20


async def test_queues_are_found_sorted_and_paged_by_the_server(root: Tenant) -> None:
    for name, count in {"a-orders": 1, "b-orders": 3, "c-orders": 2, "mail": 9}.items():
        queue = await root.queue(name)
        for _ in range(count):
            await queue.send()
    assert await names(root, "find=ORDER&sort=ready&order=desc") == ["b-orders", "c-orders", "a-orders"]
    assert await names(root, "sort=total") == ["a-orders", "c-orders", "b-orders", "mail"]
    assert await names(root, "order=desc&limit=2") == ["mail", "c-orders"]
    assert await names(root, "queue=mail&queue=a-orders") == ["a-orders", "mail"]
    page = await root.ask("GET", "/overview?limit=3")
    assert (page["next"], page["matched_count"]) == (3, 4)
    assert await names(root, f"skip={page['next']}") == ["mail"]


async def test_the_oldest_message_can_be_sorted_by(root: Tenant) -> None:
    for name in ("first", "second", "empty"):
        queue = await root.queue(name)
        if name != "empty":
            await queue.send()
        root.clock.advance(ms=10)
    assert await names(root, "sort=oldest&order=desc") == ["first", "second", "empty"]


async def test_sparks_can_be_left_out(root: Tenant) -> None:
    await root.queue("orders")
    answer = await root.ask("GET", "/overview?spark=false")
    assert "spark" not in answer["queues"][0]
    assert "spark" not in answer["totals"]


async def test_a_caller_sees_queues_whose_stats_it_may_read(root: Tenant) -> None:
    await root.queue("orders")
    await root.queue("secret")
    limited = await root.with_scopes(("stats", ["orders"]))
    answer = await limited.ask("GET", "/overview")
    assert [row["name"] for row in answer["queues"]] == ["orders"]
    assert answer["totals"]["queue_count"] == 1
    sender = await root.with_scopes(("send", ["*"]))
    assert (await sender.refused("GET", "/overview"))["status"] == 403
    assert (await sender.refused("GET", "/queues/orders/rates"))["status"] == 403


async def rates(queue: Queue, query: str = "seconds=4") -> dict[str, list[int]]:
    found: dict[str, list[int]] = await queue.ask("GET", f"/rates?{query}")
    return found


async def test_rates_tell_each_second(root: Tenant) -> None:
    orders = await root.queue("orders")
    await orders.send()
    await orders.send()
    root.clock.advance(ms=1_000)
    lease = await orders.receive_one()
    root.clock.advance(ms=1_000)
    await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
    found = await rates(orders)
    assert found["sent"] == [0, 2, 0, 0]
    assert found["received"] == [0, 0, 1, 0]
    assert found["released"] == [0, 0, 0, 1]
    assert found["backlog"] == [0, 2, 2, 2]
    assert len((await rates(orders, ""))["sent"]) == 900


async def test_rates_tell_each_minute_of_a_day(root: Tenant) -> None:
    orders = await root.queue("orders")
    await orders.send()
    root.clock.advance(ms=60_000)
    await orders.send()
    found = await rates(orders, "minutes=1440")
    assert found["sent"][-2:] == [1, 1]
    assert found["backlog"][-3:] == [0, 1, 2]
    assert (await orders.refused("GET", "/rates?minutes=5&seconds=5"))["field"] == "minutes"
    assert (await orders.refused("GET", "/rates?seconds=901"))["status"] == 400


async def test_dead_letters_arrive_in_their_queue(root: Tenant) -> None:
    failed = await root.queue("failed")
    orders = await root.queue("orders", dead_letter_queue="failed", max_attempts=1)
    await orders.send()
    lease = await orders.receive_one()
    await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
    assert (await rates(orders))["dead"][-1] == 1
    assert (await rates(failed))["arrived"][-1] == 1
    assert (await rates(failed))["backlog"] == [0, 0, 0, 1]
