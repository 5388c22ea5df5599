"""Queues through the Cloudflare dialect: list, create, read, change, delete, purge."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.hex_ids import HEX_ID, hex_of
from couriermq.core.model import DAY, Action, Kind, LateAck, QueueSettings
from tests.support.cloudflare import Account, cloudflare_account, refused
from tests.support.eventually import eventually


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Account]:
    async with cloudflare_account(tmp_path) as account:
        yield account


async def test_a_new_queue_has_the_shape_and_the_defaults_of_the_vendor(account: Account) -> None:
    made = await account.result("POST", "/queues", {"queue_name": "orders"})
    queue_id = made.pop("queue_id")
    assert HEX_ID.fullmatch(queue_id)
    assert made == {
        "queue_name": "orders",
        "created_on": "2023-11-14T22:13:20.000000Z",
        "modified_on": "2023-11-14T22:13:20.000000Z",
        "producers": [],
        "producers_total_count": 0,
        "consumers": [],
        "consumers_total_count": 0,
        "settings": {"delivery_delay": 0, "delivery_paused": False, "message_retention_period": 345_600},
    }
    settings = account.app.services.catalog.queue("default", "orders").settings
    assert settings == QueueSettings(late_ack=LateAck.ACCEPT, retention_ms=4 * DAY, max_body_bytes=128_000)


async def test_settings_and_jurisdiction_are_kept_from_the_start(account: Account) -> None:
    order = {
        "queue_name": "orders",
        "jurisdiction": "eu",
        "settings": {"delivery_delay": 5, "delivery_paused": True, "message_retention_period": 60.0},
    }
    made = await account.result("POST", "/queues", order)
    assert (made["settings"], made["jurisdiction"]) == (order["settings"], "eu")
    assert await account.result("GET", f"/queues/{made['queue_id']}") == made


async def test_put_replaces_everything_and_patch_only_what_it_names(account: Account) -> None:
    queue = await account.queue(pull=False)
    patched = await queue.result("PATCH", "", {"settings": {"delivery_delay": 7}})
    assert patched["settings"] == {"delivery_delay": 7, "delivery_paused": False, "message_retention_period": 345_600}
    patched = await queue.result("PATCH", "", {"queue_name": "renamed", "settings": {"delivery_paused": True}})
    assert (patched["queue_name"], patched["settings"]["delivery_delay"]) == ("renamed", 7)
    replaced = await queue.result("PUT", "", {"queue_name": "renamed", "settings": {"message_retention_period": 60}})
    assert replaced["settings"] == {"delivery_delay": 0, "delivery_paused": False, "message_retention_period": 60}
    assert (await queue.result("PUT", "", {}))["queue_name"] == "renamed"


async def test_a_change_leaves_the_consumer_alone_and_moves_modified_on(account: Account) -> None:
    queue = await account.queue(max_retries=9)
    account.clock.advance(ms=1_500)
    changed = await queue.result("PUT", "", {"queue_name": "orders"})
    assert changed["consumers"][0]["settings"]["max_retries"] == 9
    assert (changed["created_on"], changed["modified_on"]) == (
        "2023-11-14T22:13:20.000000Z",
        "2023-11-14T22:13:21.500000Z",
    )


async def test_a_deleted_queue_is_gone_and_its_name_is_free(account: Account) -> None:
    queue = await account.queue()
    await queue.push({"n": 1})
    headers = {"content-type": "application/json", "content-length": "0"}  # as the Python SDK deletes
    response = await queue.call("DELETE", "", body=b"", headers=headers)
    assert (response.status, response.json()) == (
        200,
        {"success": True, "errors": [], "messages": [], "result": None},
    )
    assert refused(await queue.call("GET", ""))[:2] == (404, 11000)
    assert await (await account.queue()).count() == 0


async def test_a_list_holds_everything_on_its_first_page(account: Account) -> None:
    names = [f"q-{number:03d}" for number in range(130)]
    for name in names:
        await account.queue(name, pull=False)
    response = await account.call("GET", "/queues")
    answer = response.json()
    assert [queue["queue_name"] for queue in answer["result"]] == names
    info = answer["result_info"]
    assert (info["page"], info["count"], info["total_count"], info["total_pages"]) == (1, 130, 130, 1)
    assert info["page"] * info["per_page"] >= info["total_count"]
    assert await account.result("GET", "/queues?page=2") == []


async def test_a_list_may_be_cut_into_pages(account: Account) -> None:
    for name in ("a", "b", "c"):
        await account.queue(name, pull=False)
    response = await account.call("GET", "/queues?page=2&per_page=2")
    assert [queue["queue_name"] for queue in response.json()["result"]] == ["c"]
    assert response.json()["result_info"] == {
        "page": 2,
        "per_page": 2,
        "count": 1,
        "total_count": 3,
        "total_pages": 2,
    }


async def test_a_list_can_be_asked_for_exact_names(account: Account) -> None:
    for name in ("order", "orders", "orders-2"):
        await account.queue(name, pull=False)

    async def named(query: str) -> list[str]:
        return [queue["queue_name"] for queue in await account.result("GET", f"/queues?{query}")]

    assert await named("page=1&name=orders") == ["orders"]
    assert await named("name=orders&name=order&name=none") == ["order", "orders"]
    assert await named("name=none") == []


async def test_the_legacy_path_lists_the_same(account: Account) -> None:
    await account.queue()
    assert await account.result("GET", "/workers/queues") == await account.result("GET", "/queues")


async def test_queues_of_other_dialects_are_listed_and_used_too(account: Account) -> None:
    catalog = account.app.services.catalog
    made = await catalog.create_queue("default", "Team.A/Orders_1", kind=Kind.FIFO, principal="test")
    (listed,) = await account.result("GET", "/queues")
    assert (listed["queue_id"], listed["queue_name"]) == (hex_of(made.id), "Team.A/Orders_1")
    await account.result("POST", f"/queues/{made.id}/consumers", {"type": "http_pull"})
    await account.result("POST", "/queues/Team.A%2FOrders_1/messages", {"body": {"n": 1}})
    pulled = await account.result("POST", f"/queues/{made.id}/messages/pull", {})
    assert pulled["messages"][0]["body"] == '{"n":1}'
    edited = await account.result(
        "PUT", f"/queues/{made.id}", {"queue_name": made.name, "settings": {"delivery_delay": 1}}
    )
    assert edited["settings"]["delivery_delay"] == 1


async def test_a_purge_removes_every_message_whatever_its_state(account: Account) -> None:
    queue = await account.queue()
    assert await queue.result("GET", "/purge") == {}
    await queue.push_batch(*[{"body": {"n": n}, "delay_seconds": n % 2} for n in range(20)])
    held = await queue.pull_one(batch_size=1)
    started_at = account.clock.now()
    account.clock.advance(ms=10)
    answer = await queue.result("POST", "/purge", {"delete_messages_permanently": True})
    assert answer["queue_id"] == queue.id
    assert await queue.result("GET", "/purge") == {"completed": "true", "started_at": "2023-11-14T22:13:20.010000Z"}
    assert started_at == 1_700_000_000_000
    assert await queue.count() == 0
    late = await queue.ack(held["lease_id"])
    assert late["warnings"]


async def test_a_deleted_queue_takes_its_subscriptions_and_its_purge_along(account: Account) -> None:
    queue, other = await account.queue(), await account.queue("other")
    for target in (queue, other):
        await target.result("POST", "/purge", {"delete_messages_permanently": True})
        await account.result(
            "POST",
            "/event_subscriptions/subscriptions",
            {
                "name": target.name,
                "source": {"type": "r2"},
                "destination": {"type": "queues.queue", "queue_id": target.id},
                "events": ["bucket.created"],
            },
        )
    await queue.result("DELETE", "")
    left = await account.result("GET", "/event_subscriptions/subscriptions")
    assert [subscription["name"] for subscription in left] == ["other"]
    catalog = account.app.services.catalog
    assert [r.id for r in catalog.records("purge", "default")] == [catalog.queue("default", other.id).id]


async def test_everything_outlives_a_restart(tmp_path: Path) -> None:
    async with cloudflare_account(tmp_path / "store") as account:
        queue = await account.queue(max_retries=7, dead_letter_queue="dead")
        before = await account.result("GET", "/queues")
    async with cloudflare_account(tmp_path / "store") as account:
        assert await account.result("GET", "/queues") == before
        assert (await account.result("GET", queue.path))["consumers"][0]["dead_letter_queue"] == "dead"


async def test_the_status_of_a_purge_tells_whether_it_still_runs(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await account.queue()
    await queue.push({"order": 1})
    broker, ready = account.app.services.broker, asyncio.Event()
    purge = broker.purge

    async def slow(*args: Any, **order: Any) -> int:
        await ready.wait()
        return await purge(*args, **order)

    monkeypatch.setattr(broker, "purge", slow)
    monkeypatch.setattr("couriermq.dialects.cloudflare.purges.PATIENCE_SECONDS", 0.01)
    await queue.result("POST", "/purge", {"delete_messages_permanently": True})
    assert (await queue.result("GET", "/purge"))["completed"] == "false"
    ready.set()
    await eventually(lambda: queue.result("GET", "/purge"), lambda told: told["completed"] == "true")
    assert await queue.count() == 0


async def test_a_queue_takes_no_name_that_its_manager_has_no_right_to(account: Account) -> None:
    for name in ("mine", "other"):
        await account.queue(name, pull=False)
    manager = await account.with_scopes(Action.MANAGE, queues=("mine",))
    for method in ("PUT", "PATCH"):
        for name in ("other", "free"):
            assert (await manager.call(method, "/queues/mine", {"queue_name": name})).status == 403
        await manager.result(method, "/queues/mine", {"queue_name": "mine"})
