"""Quotas: what one tenant may have and hold, in every dialect's own words."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.config import QuotaSettings
from couriermq.core.quotas import Quotas, with_defaults
from tests.support.eventually import eventually
from tests.support.inprocess import courier_app
from tests.support.native import PREFIX, Tenant

RECEIVER = "https://example.com/hook"


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with courier_app(tmp_path, quotas=QuotaSettings(max_listeners=1, max_stages=2)) as app:
        yield Tenant(app)


async def limit(root: Tenant, **quotas: float) -> Tenant:
    await root.ask("PATCH", f"{PREFIX}/tenants/default", {"quotas": quotas})
    return root


async def used(tenant: Tenant) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = (await tenant.ask("GET", "/quotas"))["quotas"]
    return found


def test_a_tenants_own_quota_replaces_the_servers_and_the_rest_stays() -> None:
    defaults = Quotas(max_queues=10, max_messages=5)
    assert with_defaults(Quotas(max_queues=3, max_stages=0), defaults) == Quotas(
        max_queues=3, max_messages=5, max_stages=0
    )


async def test_queues_and_exchanges_share_a_quota_and_a_deleted_one_makes_room(root: Tenant) -> None:
    await limit(root, max_queues=2)
    await root.queue("a")
    await root.ask("POST", "/exchanges", {"name": "x"})
    for path in ("/queues", "/exchanges"):
        problem = await root.refused("POST", path, {"name": "b"})
        assert (problem["status"], problem["type"]) == (403, "urn:courier:problem:quota-exceeded")
        assert problem["detail"].startswith("the tenant's quota allows 2 queues;")
    await root.ask("PATCH", "/queues/a", {"name": "renamed"})
    await root.ask("DELETE", "/exchanges/x")
    await root.queue("b")
    assert (await root.refused("POST", "/queues", {"name": "c"}))["status"] == 403


async def test_queues_of_listeners_do_not_count_as_queues(root: Tenant) -> None:
    await limit(root, max_queues=1)
    queue = await root.queue()
    await queue.ask("POST", "/listeners", {"name": "one", "url": RECEIVER})
    problem = await queue.refused("POST", "/listeners", {"name": "two", "url": RECEIVER})
    assert (problem["status"], problem["detail"].split(";")[0]) == (403, "the tenant's quota allows 1 listeners")
    usage = await used(root)
    assert (usage["max_queues"], usage["max_listeners"]) == ({"used": 1, "limit": 1}, {"used": 1, "limit": 1})


@pytest.mark.every_engine
async def test_messages_are_refused_beyond_the_quota_and_acks_make_room(root: Tenant) -> None:
    await limit(root, max_messages=3)
    queue = await root.queue()
    other = await root.queue("other")
    await queue.send("1")
    await queue.send("2")
    await other.send("3")
    refused = await queue.call("POST", "/messages", {"body": "4"})
    assert (refused.status, refused.json()["type"]) == (429, "urn:courier:problem:storage-exceeded")
    assert refused.headers["retry-after"] == "1"
    lease = await queue.receive_one()
    await queue.ask("POST", "/settle", {"settlements": [{"do": "ack", "receipt": lease["receipt"]}]})
    root.clock.advance(ms=1_000)
    await queue.send("4")
    assert (await root.refused("POST", f"{other.path}/messages", {"body": "5"}))["status"] == 429
    root.clock.advance(ms=1_000)
    assert (await used(root))["max_messages"] == {"used": 3, "limit": 3}


async def test_bytes_of_bodies_are_limited_and_a_refused_batch_stores_nothing(root: Tenant) -> None:
    await limit(root, max_message_bytes=10)
    queue = await root.queue()
    await queue.send("12345")
    assert (await queue.call("POST", "/messages", {"messages": [{"body": "123"}] * 2})).status == 429
    await queue.send("12345")
    root.clock.advance(ms=1_000)
    assert (await used(root))["max_message_bytes"] == {"used": 10, "limit": 10}


async def test_concurrent_sends_do_not_exceed_a_quota_together(root: Tenant) -> None:
    await limit(root, max_messages=5)
    queue = await root.queue()
    answers = await asyncio.gather(*(queue.call("POST", "/messages", {"body": "x"}) for _ in range(20)))
    assert sorted(answer.status for answer in answers) == [201] * 5 + [429] * 15


async def test_copies_for_listeners_count(root: Tenant) -> None:
    await limit(root, max_messages=3)
    queue = await root.queue()
    listener = await queue.ask("POST", "/listeners", {"name": "one", "url": RECEIVER})
    await queue.ask("POST", f"/listeners/{listener['id']}/pause")
    await queue.send("1")
    assert (await queue.call("POST", "/messages", {"body": "2"})).status == 429


@pytest.mark.every_engine
async def test_staged_messages_count_with_all_the_copies_that_they_become(root: Tenant) -> None:
    await limit(root, max_messages=50)
    await root.ask("POST", "/exchanges", {"name": "all"})
    for name in ("a", "b", "c", "d"):
        await root.queue(name)
        await root.ask("PUT", f"/exchanges/all/bindings/{name}", {})
    body = {"messages": [{"body": "x"}] * 6}
    await root.ask("PUT", "/exchanges/all/stages/one/0", body)
    await root.ask("PUT", "/exchanges/all/stages/two/0", body)
    root.clock.advance(ms=1_000)
    assert (await used(root))["max_messages"]["used"] == 48
    assert (await root.refused("PUT", "/exchanges/all/stages/two/1", {"messages": [{"body": "x"}]}))["status"] == 429
    await root.ask("PUT", "/exchanges/all/publications/series", {"number": 1, "stages": ["one", "two"]})
    root.clock.advance(ms=1_000)
    assert (await used(root))["max_messages"]["used"] == 48


@pytest.mark.every_engine
async def test_stages_are_limited_until_they_are_published(root: Tenant) -> None:
    queue = await root.queue()
    body = {"messages": [{"body": "x"}]}
    for name in ("a", "b", "a"):
        await queue.ask("PUT", f"/stages/{name}/0", body)
    assert (await queue.refused("PUT", "/stages/c/0", body))["type"] == "urn:courier:problem:quota-exceeded"
    await queue.ask("PUT", "/publications/series", {"number": 1, "stages": ["a", "b"]})
    root.clock.advance(ms=1_000)
    await queue.ask("PUT", "/stages/c/0", body)
    root.clock.advance(ms=1_000)
    usage = await used(root)
    assert (usage["max_stages"], usage["max_messages"]["used"]) == ({"used": 1, "limit": 2}, 3)


async def test_receivers_that_wait_are_limited(root: Tenant) -> None:
    await limit(root, max_waiting_receivers=1)
    queue = await root.queue()
    first = asyncio.ensure_future(queue.ask("POST", "/receive", {"wait_ms": 10_000}))
    await eventually(lambda: root.app.services.broker.usage.waiting_count("default") == 1)
    assert (await queue.call("POST", "/receive", {"wait_ms": 10_000})).status == 429
    assert (await queue.ask("POST", "/receive", {}))["leases"] == []
    await queue.send("x")
    assert len((await first)["leases"]) == 1
    assert root.app.services.broker.usage.waiting_count("default") == 0


async def test_requests_of_all_credentials_of_a_tenant_share_a_rate(root: Tenant) -> None:
    await root.queue()
    one, two = [await root.with_scopes(("stats", ["*"])) for _ in range(2)]
    await limit(root, requests_per_second=2)
    statuses = [(await caller.call("GET", "/counters")).status for caller in (one, two, one, two)]
    assert statuses == [200, 200, 429, 429]
    assert (await root.call("GET", "/counters")).status == 200, "root belongs to no tenant"
    root.clock.advance(ms=500)
    assert (await two.call("GET", "/counters")).status == 200


async def test_each_dialect_says_it_in_its_own_words(root: Tenant) -> None:
    await limit(root, max_queues=1, max_messages=0)
    await root.queue("orders")
    cloudflare, anypoint = "/client/v4/accounts/default/queues", "organizations/default/environments/default"
    admin = f"/mq/admin/api/v1/{anypoint}/regions/us-east-1/destinations/queues"
    key = {"headers": {"x-api-key": "root-token"}, "token": None}
    app = root.app
    queue_id = app.services.catalog.queue("default", "orders").id
    calls = {
        "cloudflare queue": await app.post(cloudflare, {"queue_name": "more"}),
        "cloudflare push": await app.post(f"{cloudflare}/{queue_id}/messages", {"body": "x", "content_type": "text"}),
        "anypoint queue": await app.request("PUT", f"{admin}/more", json={}),
        "anypoint publish": await app.request(
            "PUT", f"/api/v1/{anypoint}/destinations/orders/messages/m1", json={"body": "x"}
        ),
        "discue queue": await app.post("/v1/queues", {"alias": "more"}, **key),
        "discue message": await app.post(f"/v1/queues/{queue_id}/messages", {"name": "x", "data": '{"a": 1}'}, **key),
    }
    assert {name: answer.status for name, answer in calls.items()} == {
        "cloudflare queue": 403,
        "cloudflare push": 429,
        "anypoint queue": 429,
        "anypoint publish": 429,
        "discue queue": 403,
        "discue message": 429,
    }
    assert calls["cloudflare push"].json()["errors"][0]["code"] == 10251
    assert "quota" in calls["anypoint publish"].json()["statusMessage"]


async def test_only_root_sets_quotas_and_a_tenant_sees_what_it_uses(root: Tenant) -> None:
    await limit(root, max_messages=7)
    manager = await root.with_scopes(("manage", ["*"]), ("stats", ["*"]))
    assert (await manager.refused("PATCH", f"{PREFIX}/tenants/default", {"quotas": {}}))["status"] == 403
    usage = await manager.ask("GET", "/quotas")
    assert (usage["quotas"]["max_messages"], usage["requests_per_second"]) == ({"used": 0, "limit": 7}, None)
    assert "quotas" not in await manager.ask("GET", f"{PREFIX}/tenants/default")


@pytest.mark.parametrize(
    "quotas", [{"max_messages": -1}, {"max_messages": 1.5}, {"requests_per_second": 0}, {"colour": 1}]
)
async def test_a_quota_that_cannot_be_is_refused(root: Tenant, quotas: dict[str, float]) -> None:
    assert (await root.refused("PATCH", f"{PREFIX}/tenants/default", {"quotas": quotas}))["status"] == 400
