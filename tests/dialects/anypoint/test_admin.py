"""The admin API: destinations, queues, exchanges, bindings, client apps, regions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import DAY, HOUR, MINUTE
from tests.support.anypoint import AnypointCaller, good
from tests.support.inprocess import courier_app

NEW_QUEUE = {
    "type": "queue",
    "queueId": "orders",
    "fifo": False,
    "encrypted": False,
    "isFallback": False,
    "defaultTtl": 7 * DAY,
    "defaultLockTtl": 2 * MINUTE,
    "defaultDeliveryDelay": 0,
}


@pytest.fixture
async def mq(tmp_path: Path) -> AsyncIterator[AnypointCaller]:
    async with courier_app(tmp_path, clock=FakeClock()) as app:
        yield AnypointCaller(app)


async def read(mq: AnypointCaller, queue: str) -> dict[str, Any]:
    shown: dict[str, Any] = good(await mq.admin("GET", f"/destinations/queues/{queue}"))
    return shown


async def patch(mq: AnypointCaller, queue: str, version: str = "v1", **settings: Any) -> dict[str, Any]:
    path = f"/destinations/queues/{queue}"
    changed: dict[str, Any] = good(await mq.admin("PATCH", path, version=version, json=settings))
    return changed


# -- queues ---------------------------------------------------------------------------------------------------


async def test_a_new_queue_has_the_vendors_defaults(mq: AnypointCaller) -> None:
    response = await mq.admin("PUT", "/destinations/queues/orders")
    assert (response.status, response.json()) == (200, NEW_QUEUE)
    assert await read(mq, "orders") == NEW_QUEUE


async def test_a_queue_keeps_every_setting(mq: AnypointCaller) -> None:
    await mq.queue("failed")
    settings = {
        "defaultTtl": 14 * DAY,
        "defaultLockTtl": 12 * HOUR,
        "defaultDeliveryDelay": 15 * MINUTE,
        "encrypted": True,
        "deadLetterQueueId": "failed",
        "maxDeliveries": 3,
    }
    assert (await mq.queue("orders", **settings)).items() >= settings.items()
    assert (await read(mq, "failed"))["deadLetterSources"] == ["orders"]


async def test_creating_a_queue_again_keeps_what_it_is(mq: AnypointCaller) -> None:
    await mq.queue("orders", defaultTtl=HOUR, encrypted=True)
    await mq.publish("orders", "m-1")
    again = await mq.queue("orders", defaultLockTtl=MINUTE)
    assert again == NEW_QUEUE | {"defaultTtl": HOUR, "encrypted": True, "defaultLockTtl": MINUTE}
    assert len(await mq.consume("orders")) == 1


async def test_two_who_create_the_same_thing_at_once_both_get_it(mq: AnypointCaller) -> None:
    for path in ("/destinations/queues/orders", "/destinations/exchanges/news"):
        answers = await asyncio.gather(*(mq.admin("PUT", path, json={"encrypted": True}) for _ in range(5)))
        assert {(answer.status, answer.body) for answer in answers} == {(200, answers[0].body)}


async def test_numbers_may_be_strings_and_nulls_are_nothing(mq: AnypointCaller) -> None:
    body = b'{"defaultTtl": "3600000", "defaultLockTtl": null, "maxDeliveries": null, "fifo": "false", "type": "queue"}'
    assert good(await mq.admin("PUT", "/destinations/queues/orders", body=body)) == NEW_QUEUE | {"defaultTtl": HOUR}


async def test_a_zero_stands_for_a_setting_that_is_not_given(mq: AnypointCaller) -> None:
    zeros = {"defaultTtl": 0, "defaultLockTtl": 0, "defaultDeliveryDelay": 0}
    assert await mq.queue("orders", **zeros) == NEW_QUEUE
    await mq.queue("orders", defaultTtl=HOUR, defaultLockTtl=MINUTE, defaultDeliveryDelay=5)
    changed = good(await mq.admin("PATCH", "/destinations/queues/orders", json=zeros))
    assert changed == NEW_QUEUE | {"defaultTtl": HOUR, "defaultLockTtl": MINUTE, "defaultDeliveryDelay": 0}


@pytest.mark.parametrize(
    "settings",
    [
        {"defaultTtl": 14 * DAY + 1},
        {"defaultTtl": 1},
        {"defaultTtl": "long"},
        {"defaultLockTtl": 12 * HOUR + 1},
        {"defaultLockTtl": -1},
        {"defaultDeliveryDelay": 15 * MINUTE + 1},
        {"deadLetterQueueId": "failed", "maxDeliveries": 0},
        {"deadLetterQueueId": "failed", "maxDeliveries": 1001},
        {"deadLetterQueueId": "nowhere", "maxDeliveries": 1},
        {"deadLetterQueueId": "ordered", "maxDeliveries": 1},
        {"deadLetterQueueId": 5},
        {"fifo": "maybe"},
        {"encrypted": 1.5},
    ],
)
async def test_a_setting_out_of_range_is_400_and_creates_nothing(mq: AnypointCaller, settings: dict[str, Any]) -> None:
    await mq.queue("failed")
    await mq.queue("ordered", fifo=True)
    response = await mq.admin("PUT", "/destinations/queues/orders", json=settings)
    assert response.status == 400
    assert list(response.json()) == ["message"]
    assert (await mq.admin("GET", "/destinations/queues/orders")).status == 404


@pytest.mark.parametrize("name", ["a%20b", "a%2Fb", "%C3%A9", "a" * 128, "-a", "a:b"])
async def test_a_name_has_letters_digits_hyphens_and_periods(mq: AnypointCaller, name: str) -> None:
    for kind in ("queues", "exchanges"):
        response = await mq.admin("PUT", f"/destinations/{kind}/{name}", json={})
        assert response.status == 400
        assert "1 to 127 letters" in response.json()["message"]


async def test_a_name_may_have_127_characters(mq: AnypointCaller) -> None:
    assert (await mq.queue("a" * 127))["queueId"] == "a" * 127


async def test_a_queue_that_is_not_there_is_404_with_the_vendors_words(mq: AnypointCaller) -> None:
    for method, tail in [("GET", ""), ("PATCH", ""), ("DELETE", ""), ("DELETE", "/messages"), ("PUT", "/fallback")]:
        response = await mq.admin(method, f"/destinations/queues/nowhere{tail}", json={"fallbackEnabled": True})
        assert (response.status, response.json()) == (404, {"message": "queue not found"})


async def test_patch_v1_drops_dead_letters_that_it_does_not_mention(mq: AnypointCaller) -> None:
    await mq.queue("failed")
    await mq.queue("orders", deadLetterQueueId="failed", maxDeliveries=3, encrypted=True)
    changed = await patch(mq, "orders", defaultTtl=HOUR)
    assert changed == NEW_QUEUE | {"defaultTtl": HOUR, "encrypted": True}


async def test_patch_v2_changes_only_what_it_mentions(mq: AnypointCaller) -> None:
    await mq.queue("failed")
    await mq.queue("orders", deadLetterQueueId="failed", maxDeliveries=3)
    changed = await patch(mq, "orders", "v2", defaultTtl=HOUR)
    assert (changed["deadLetterQueueId"], changed["maxDeliveries"], changed["defaultTtl"]) == ("failed", 3, HOUR)
    assert (await patch(mq, "orders", "v2", maxDeliveries=5))["maxDeliveries"] == 5
    assert (await patch(mq, "orders", "v2", deadLetterQueueId=None)) == NEW_QUEUE | {"defaultTtl": HOUR}


async def test_a_dead_letter_queue_alone_means_10_deliveries(mq: AnypointCaller) -> None:
    await mq.queue("failed")
    await mq.queue("orders")
    assert (await patch(mq, "orders", deadLetterQueueId="failed"))["maxDeliveries"] == 10


async def test_deliveries_without_a_dead_letter_queue_lose_no_message(mq: AnypointCaller) -> None:
    assert await mq.queue("orders", maxDeliveries=1) == NEW_QUEUE
    await mq.publish("orders", "m-1")
    for count in range(1, 20):
        [message] = await mq.consume("orders")
        assert message["headers"]["deliveryCount"] == str(count)
        await mq.nack("orders", message)


async def test_a_queue_cannot_become_fifo(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    response = await mq.admin("PATCH", "/destinations/queues/orders", json={"fifo": True})
    assert response.status == 400
    assert "fifo" in response.json()["message"]


async def test_dead_letters_cannot_come_back_to_where_they_died(mq: AnypointCaller) -> None:
    await mq.queue("a")
    await mq.queue("b", deadLetterQueueId="a")
    response = await mq.admin("PATCH", "/destinations/queues/a", json={"deadLetterQueueId": "b"})
    assert response.status == 400


async def test_deleting_a_queue_is_204_and_it_is_gone(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    response = await mq.admin("DELETE", "/destinations/queues/orders")
    assert (response.status, response.body) == (204, b"")
    assert (await mq.publish("orders", "m-1")).status == 404


async def test_a_queue_that_takes_dead_letters_cannot_be_deleted(mq: AnypointCaller) -> None:
    await mq.queue("failed")
    await mq.queue("orders", deadLetterQueueId="failed")
    response = await mq.admin("DELETE", "/destinations/queues/failed")
    assert response.status == 409
    assert "orders" in response.json()["message"]


async def test_a_purge_empties_the_queue(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    for n in range(3):
        await mq.publish("orders", str(n))
    await mq.consume("orders")
    response = await mq.admin("DELETE", "/destinations/queues/orders/messages")
    assert (response.status, response.body) == (204, b"")
    mq.app.clock.advance(ms=HOUR)
    assert await mq.consume("orders", 10) == []


async def test_messages_die_after_max_deliveries_and_keep_what_they_are(mq: AnypointCaller) -> None:
    await mq.queue("failed")
    await mq.queue("orders", deadLetterQueueId="failed", maxDeliveries=2, defaultLockTtl=1_000)
    await mq.publish("orders", "m-1", "precious", properties={"n": 1})
    [message] = await mq.consume("orders")
    await mq.nack("orders", message)
    assert len(await mq.consume("orders")) == 1
    mq.app.clock.advance(ms=1_000)
    assert await mq.consume("orders") == []
    [dead] = await mq.consume("failed")
    assert (dead["body"], dead["properties"], dead["headers"]["deliveryCount"]) == ("precious", {"n": 1}, "1")


# -- list -----------------------------------------------------------------------------------------------------


async def test_destinations_are_listed_by_name_in_pages(mq: AnypointCaller) -> None:
    for n in range(25):
        await mq.queue(f"q-{n:02}")
    await mq.exchange("q-00x")
    names = [one.get("queueId") or one["exchangeId"] for one in good(await mq.admin("GET", "/destinations"))]
    assert names == ["q-00", "q-00x", *(f"q-{n:02}" for n in range(1, 19))]
    rest = good(await mq.admin("GET", "/destinations?offset=20&limit=100"))
    assert [one["queueId"] for one in rest] == [f"q-{n:02}" for n in range(19, 25)]


async def test_destinations_are_listed_by_kind_prefix_and_ids(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.queue("others")
    await mq.exchange("organs")

    async def listed(query: str) -> list[str]:
        found = good(await mq.admin("GET", f"/destinations?{query}"))
        return [one.get("queueId") or one["exchangeId"] for one in found]

    assert await listed("destinationType=queue") == ["orders", "others"]
    assert await listed("destinationType=exchange") == ["organs"]
    assert await listed("destinationType=all&startsWith=or") == ["orders", "organs"]
    assert await listed("destinationIds=others,organs") == ["organs", "others"]
    assert await listed("destinationIds=others&destinationIds=organs") == ["organs", "others"]
    assert await listed("destinationIds=others&destinationIds=orders,%20nowhere&destinationIds=") == [
        "orders",
        "others",
    ]


async def test_the_case_of_a_choice_does_not_matter(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.exchange("news", "orders")
    [listed] = good(await mq.admin("GET", "/destinations?destinationType=QUEUE&inclusion=ALL"))
    assert listed == NEW_QUEUE
    assert "defaultTtl" not in good(await mq.admin("GET", "/destinations?inclusion=Minimal"))[1]
    binding = good(await mq.admin("GET", "/bindings/exchanges/news/queues/orders?inclusion=ALL"))
    assert binding["routingRules"] == []
    assert (await mq.queue("fifo", fifo="True"))["fifo"] is True


async def test_a_minimal_list_has_only_names_and_types(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.exchange("news")
    assert good(await mq.admin("GET", "/destinations?inclusion=minimal")) == [
        {"type": "exchange", "exchangeId": "news"},
        {"type": "queue", "queueId": "orders", "fifo": False},
    ]


@pytest.mark.parametrize("query", ["destinationType=topic", "inclusion=some", "offset=-1", "limit=x"])
async def test_a_list_that_cannot_be_is_400(mq: AnypointCaller, query: str) -> None:
    assert (await mq.admin("GET", f"/destinations?{query}")).status == 400


# -- exchanges and bindings -----------------------------------------------------------------------------------


async def test_an_exchange_lives_and_dies(mq: AnypointCaller) -> None:
    path = "/destinations/exchanges/news"
    assert good(await mq.admin("PUT", path, json={"encrypted": True})) == {
        "type": "exchange",
        "exchangeId": "news",
        "encrypted": True,
    }
    assert good(await mq.admin("PUT", path))["encrypted"] is True
    assert good(await mq.admin("PATCH", path, json={"encrypted": False}))["encrypted"] is False
    assert good(await mq.admin("GET", path))["encrypted"] is False
    assert (await mq.admin("DELETE", path)).status == 204
    for method in ("GET", "PATCH", "DELETE"):
        response = await mq.admin(method, path)
        assert (response.status, response.json()) == (404, {"message": "exchange not found"})


async def test_a_queue_and_an_exchange_cannot_share_a_name(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    assert (await mq.admin("PUT", "/destinations/exchanges/orders")).status == 409
    await mq.exchange("news")
    assert (await mq.admin("PUT", "/destinations/queues/news")).status == 409


async def test_a_binding_lives_and_dies(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.exchange("news")
    path = "/bindings/exchanges/news/queues/orders"
    binding = {"queueId": "orders", "exchangeId": "news", "fifo": False}
    assert (await mq.admin("GET", path)).json() == {"message": "binding not found"}
    assert good(await mq.admin("PUT", path)) == binding | {"routingRules": []}
    assert good(await mq.admin("GET", path)) == binding
    assert good(await mq.admin("GET", "/bindings/exchanges/news")) == [binding]
    assert good(await mq.admin("GET", "/bindings/queues/orders?startsWith=n")) == [binding]
    assert good(await mq.admin("GET", "/bindings/queues/orders?startsWith=x")) == []
    assert (await mq.admin("DELETE", path)).status == 204
    assert (await mq.admin("DELETE", path)).status == 404
    assert good(await mq.admin("GET", "/bindings/exchanges/news")) == []


async def test_a_rule_lives_and_dies(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.exchange("news", "orders")
    rule = {"propertyName": "Order Number", "propertyType": "NUMERIC", "matcherType": "GT", "value": 1009}
    response = await mq.rule("news", "orders", rule)
    assert response.status == 201
    assert response.json()["routingRules"] == [rule]
    [listed] = good(await mq.admin("GET", "/bindings/exchanges/news?inclusion=all"))
    assert listed["routingRules"] == [rule]
    good(await mq.admin("PUT", "/bindings/exchanges/news/queues/orders"))
    path = "/bindings/exchanges/news/queues/orders"
    assert good(await mq.admin("GET", f"{path}?inclusion=all"))["routingRules"] == [rule]
    for _ in range(2):
        assert (await mq.admin("DELETE", f"{path}/rules/routing")).status == 204
    assert good(await mq.admin("GET", f"{path}?inclusion=all"))["routingRules"] == []


async def test_a_rule_needs_a_binding(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.exchange("news")
    rule = {"propertyName": "n", "propertyType": "NUMERIC", "matcherType": "GT", "value": 1}
    response = await mq.rule("news", "orders", rule)
    assert (response.status, response.json()) == (404, {"message": "binding not found"})


async def test_a_binding_has_at_most_one_rule(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.exchange("news", "orders")
    rule = {"propertyName": "n", "propertyType": "NUMERIC", "matcherType": "GT", "value": 1}
    assert (await mq.rule("news", "orders", rule, rule)).status == 400


async def test_a_fifo_queue_cannot_be_bound(mq: AnypointCaller) -> None:
    await mq.queue("ordered", fifo=True)
    await mq.exchange("news")
    response = await mq.admin("PUT", "/bindings/exchanges/news/queues/ordered")
    assert response.status == 400
    assert "FIFO" in response.json()["message"]


async def test_an_exchange_with_a_rule_serves_10_queues(mq: AnypointCaller) -> None:
    names = [f"q-{n}" for n in range(11)]
    for name in names:
        await mq.queue(name)
    rule = {"propertyName": "n", "propertyType": "NUMERIC", "matcherType": "GT", "value": 1}
    await mq.exchange("news", *names)
    assert (await mq.rule("news", "q-0", rule)).status == 400
    assert (await mq.admin("DELETE", "/bindings/exchanges/news/queues/q-10")).status == 204
    assert (await mq.rule("news", "q-0", rule)).status == 201
    assert (await mq.admin("PUT", "/bindings/exchanges/news/queues/q-10")).status == 400


async def test_an_exchange_without_rules_serves_450_queues(mq: AnypointCaller) -> None:
    catalog = mq.app.services.catalog
    await mq.exchange("news")
    exchange = catalog.exchange("default", "news")
    for n in range(450):
        queue = await catalog.create_queue("default", f"q-{n}", principal="test")
        await catalog.bind(exchange, queue, principal="test")
    await mq.queue("one-more")
    response = await mq.admin("PUT", "/bindings/exchanges/news/queues/one-more")
    assert response.status == 400
    assert "450" in response.json()["message"]


# -- failover -------------------------------------------------------------------------------------------------


async def test_failover_makes_a_second_queue_and_closes_it_again(mq: AnypointCaller) -> None:
    await mq.queue("orders", defaultTtl=HOUR)
    response = await mq.admin("PUT", "/destinations/queues/orders/fallback", json={"fallbackEnabled": True})
    link = {"enabled": True, "linkedQueueName": "orders_fb", "linkedQueueRegion": "us-east-1"}
    assert response.status == 201
    assert response.json() == {"queueId": "orders", "isFallback": False, "fallbackConfig": link}
    second = await read(mq, "orders_fb")
    assert (second["isFallback"], second["defaultTtl"]) == (True, HOUR)
    assert (await mq.publish("orders_fb", "m-1")).status == 201
    await mq.admin("PUT", "/destinations/queues/orders/fallback", json={"fallbackEnabled": False})
    assert (await read(mq, "orders"))["fallbackConfig"]["enabled"] is False
    assert (await mq.publish("orders_fb", "m-2")).json()["statusMessage"] == "Destination not found"
    assert [one["headers"]["messageId"] for one in await mq.consume("orders_fb", 10)] == ["m-1"]
    await mq.admin("PUT", "/destinations/queues/orders/fallback", json={"fallbackEnabled": True})
    assert (await mq.publish("orders_fb", "m-3")).status == 201


async def test_failover_is_not_for_fifo_queues(mq: AnypointCaller) -> None:
    await mq.queue("ordered", fifo=True)
    assert (
        await mq.admin("PUT", "/destinations/queues/ordered/fallback", json={"fallbackEnabled": True})
    ).status == 400
    await mq.queue("orders")
    assert (await mq.admin("PUT", "/destinations/queues/orders/fallback", json={})).status == 400


# -- client apps ----------------------------------------------------------------------------------------------


async def test_a_client_app_lives_and_dies(mq: AnypointCaller) -> None:
    made = good(await mq.manage("PUT", "/clients", json={"name": "billing"}))
    assert set(made) == {"name", "clientId", "clientSecret"}
    assert good(await mq.manage("GET", "/clients")) == [{"name": "billing", "clientId": made["clientId"]}]
    assert (await mq.manage("PUT", "/clients", json={"name": "billing"})).status == 409
    again = good(await mq.manage("POST", f"/clients/{made['clientId']}"))
    assert again["clientSecret"] != made["clientSecret"]
    assert (await mq.manage("DELETE", f"/clients/{made['clientId']}")).status == 200
    response = await mq.manage("DELETE", f"/clients/{made['clientId']}")
    assert (response.status, response.json()) == (404, {"message": "client not found"})
    assert good(await mq.manage("GET", "/clients")) == []


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": 5}, {"name": "n" * 257}])
async def test_a_client_app_needs_a_name(mq: AnypointCaller, body: dict[str, Any]) -> None:
    assert (await mq.manage("PUT", "/clients", json=body)).status == 400


async def test_other_credentials_are_not_client_apps(mq: AnypointCaller) -> None:
    credential, _ = await mq.app.services.catalog.create_credential("default", "cli", principal="test")
    assert good(await mq.manage("GET", "/clients")) == []
    assert (await mq.manage("DELETE", f"/clients/{credential.id}")).status == 404


# -- regions and environments ---------------------------------------------------------------------------------


async def test_a_region_has_the_fields_of_both_documents(mq: AnypointCaller) -> None:
    region = {
        "id": "us-east-1",
        "name": "US East (N. Virginia)",
        "type": "region",
        "regionId": "us-east-1",
        "serviceUrl": "http://mq.example:8080/api/v1",
        "fallbackRegion": "us-east-1",
    }
    headers = {"host": "mq.example:8080"}
    assert good(await mq.manage("GET", "/regions", headers=headers)) == [region]
    assert good(await mq.manage("GET", "/regions/us-east-1", headers=headers)) == region


async def test_deleting_an_environment_empties_it(mq: AnypointCaller) -> None:
    await mq.queue("worse")
    await mq.queue("bad", deadLetterQueueId="worse")
    await mq.queue("a", deadLetterQueueId="bad")
    await mq.exchange("news", "a")
    await mq.manage("PUT", "/clients", json={"name": "billing"})
    assert (await mq.manage("DELETE", "")).status == 204
    assert good(await mq.admin("GET", "/destinations")) == []
    assert good(await mq.manage("GET", "/clients")) == []
    await mq.queue("a")


async def test_deleting_an_organization_empties_all_its_environments(mq: AnypointCaller) -> None:
    catalog = mq.app.services.catalog
    for tenant, alias in [("prod", "acme/production"), ("test", "acme/sandbox"), ("other", "umbrella/production")]:
        await catalog.create_tenant(tenant, aliases={"anypoint": alias}, principal="test")
        await catalog.create_queue(tenant, "orders", principal="test")
    response = await mq.app.request("DELETE", "/mq/admin/api/v1/organizations/acme")
    assert response.status == 204
    assert [len(catalog.queues(tenant)) for tenant in ("prod", "test", "other")] == [0, 0, 1]


async def test_a_collision_names_what_has_the_name(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    await mq.exchange("news")
    response = await mq.admin("PUT", "/destinations/queues/news", json={})
    assert response.status == 409
    assert response.json() == {"message": "an exchange named 'news' exists already; choose another name"}
    response = await mq.admin("PUT", "/destinations/exchanges/orders", json={})
    assert response.status == 409
    assert response.json() == {"message": "a queue named 'orders' exists already; choose another name"}
