"""Listeners through the Discue dialect."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import Action, Counters, Queue
from tests.support.discue import LIVE, NOTIFY, Organization, discue_organization, refused
from tests.support.eventually import eventually
from tests.support.receiver import answer, receiving

LIVENESS = {
    "state", "success_count", "failure_count", "last_success_at", "last_failure_at", "last_failure_status",
    "last_failure_msg",
}  # fmt: skip
MESSAGES = {
    "acknowledged_count", "missed", "missed_count", "pending_count", "last_success_at", "last_failure_at",
    "last_failure_status", "last_failure_msg",
}  # fmt: skip


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path, delivery_allow=("127.0.0.0/8",)) as organization:
        yield organization


async def counted(org: Organization, queue_id: str, listener_id: str, **counts: int) -> dict[str, Any]:
    """The listener once its figures are these."""
    shown: dict[str, dict[str, Any]] = await eventually(
        lambda: org.get(f"/queues/{queue_id}/listeners/{listener_id}"),
        lambda shown: counts.items() <= shown["listener"]["messages"].items(),
    )
    return shown["listener"]


async def test_a_listener_shows_the_fields_of_both_generations(org: Organization) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id, "myapp.io/listener")
    assert (listener["name"], listener["alias"], listener["status"]) == ("myapp.io/listener",) * 2 + ("active",)
    assert (listener["notify_url"], listener["liveness_url"]) == (NOTIFY, LIVE)
    assert (set(listener["liveness"]), set(listener["messages"])) == (LIVENESS, MESSAGES)
    assert listener["messages"]["missed"] == []
    assert listener["secret"].startswith("whsec_")
    shown = await org.get(f"/queues/{queue_id}/listeners/{listener['id']}")
    assert shown["_links"]["self"]["href"].endswith(f"/queues/{queue_id}/listeners/{listener['id']}")


async def test_a_secret_is_shown_when_it_is_made_or_asked_for(org: Organization) -> None:
    queue_id = await org.queue()
    order = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE}
    made = await org.call("POST", f"/queues/{queue_id}/listeners", order)
    listener = made.json()["listener"]
    assert made.headers["cache-control"] == "no-store"
    path = f"/queues/{queue_id}/listeners/{listener['id']}"
    changed = await org.call("PUT", path, {"name": "store"})
    for response in (await org.call("GET", path), await org.call("GET", "/listeners"), changed):
        assert response.status == 200
        assert listener["secret"].encode() not in response.body
    revealed = await org.call("GET", f"{path}?reveal=true")
    assert revealed.json()["listener"]["secret"] == listener["secret"]
    assert revealed.headers["cache-control"] == "no-store"
    refused(await org.call("GET", f"{path}?reveal=maybe"), 422)
    watcher = await org.with_scopes(Action.STATS)
    refused(await watcher.call("GET", f"{path}?reveal=true"), 403)


async def test_each_listener_has_a_secret_of_its_own(org: Organization) -> None:
    queue_id = await org.queue()
    assert (await org.listener(queue_id, "a"))["secret"] != (await org.listener(queue_id, "b"))["secret"]


async def test_listeners_are_listed_by_queue_and_over_all_queues(org: Organization) -> None:
    orders, invoices = await org.queue("orders"), await org.queue("invoices")
    shop, books = await org.listener(orders, "shop"), await org.listener(invoices, "books")
    one, both = await org.get(f"/queues/{orders}/listeners"), await org.get("/listeners")
    assert [listener["id"] for listener in one["listeners"]] == [shop["id"]]
    assert {listener["id"] for listener in both["listeners"]} == {shop["id"], books["id"]}
    assert both["_links"]["books"]["href"].endswith(f"/queues/{invoices}/listeners/{books['id']}")
    assert (await org.get(f"/queues/{orders}"))["_links"]["shop"]["href"].endswith(shop["id"])


async def test_a_listener_is_changed_a_field_at_a_time(org: Organization) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id)
    path = f"/queues/{queue_id}/listeners/{listener['id']}"
    changed = (await org.put(path, {"alias": "till"}))["listener"]
    assert (changed["name"], changed["notify_url"], changed["liveness_url"]) == ("till", NOTIFY, LIVE)
    changed = (await org.put(path, {"notify_url": "https://example.com/other"}))["listener"]
    assert (changed["name"], changed["notify_url"]) == ("till", "https://example.com/other")
    assert (await org.put(path))["listener"]["name"] == "till"


async def test_a_listener_is_paused_and_resumed_by_its_status(org: Organization) -> None:
    queue_id = await org.queue()
    path = f"/queues/{queue_id}/listeners/{(await org.listener(queue_id))['id']}"
    assert (await org.put(path, {"status": "disabled"}))["listener"]["status"] == "paused"
    assert (await org.put(path, {"status": "active"}))["listener"]["status"] == "active"
    refused(await org.call("PUT", path, {"status": "asleep"}), 422)


async def test_a_listener_is_deleted(org: Organization) -> None:
    queue_id = await org.queue()
    path = f"/queues/{queue_id}/listeners/{(await org.listener(queue_id))['id']}"
    assert list(await org.delete(path)) == ["_links"]
    refused(await org.call("GET", path), 404)
    refused(await org.call("DELETE", path), 404)


@pytest.mark.parametrize("absent", ["name", "notify_url", "liveness_url"])
async def test_a_listener_needs_all_three(org: Organization, absent: str) -> None:
    queue_id = await org.queue()
    order = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE}
    del order[absent]
    assert "needs" in refused(await org.call("POST", f"/queues/{queue_id}/listeners", order), 422)


@pytest.mark.parametrize(
    "url", ["ftp://example.com", "https://user:pass@example.com/", "/relative", "https://", "http://10.0.0.1/", "x"]
)
@pytest.mark.parametrize("field", ["notify_url", "liveness_url"])
async def test_a_url_that_cannot_be_called_is_refused(org: Organization, field: str, url: str) -> None:
    queue_id = await org.queue()
    order = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE, field: url}
    assert refused(await org.call("POST", f"/queues/{queue_id}/listeners", order), 422)
    assert (await org.get("/listeners"))["listeners"] == []


async def test_two_listeners_of_a_queue_cannot_share_a_name(org: Organization) -> None:
    queue_id = await org.queue()
    await org.listener(queue_id, "shop")
    order = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE}
    refused(await org.call("POST", f"/queues/{queue_id}/listeners", order), 422)


async def test_the_secret_is_for_those_who_may_change_the_listener(org: Organization) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id)
    watcher = await org.with_scopes(Action.BROWSE)
    shown = (await watcher.get(f"/queues/{queue_id}/listeners/{listener['id']}"))["listener"]
    assert "secret" not in shown
    assert shown["name"] == "shop"
    refused(await watcher.call("PUT", f"/queues/{queue_id}/listeners/{listener['id']}", {"name": "mine"}), 403)


async def test_a_listener_counts_what_it_has_acknowledged(org: Organization) -> None:
    async with receiving() as receiver:
        queue_id = await org.queue()
        listener = await org.listener(queue_id, notify_url=receiver.url, liveness_url=receiver.url)
        for number in range(3):
            await org.add(queue_id, str(number))
        shown = await counted(org, queue_id, listener["id"], acknowledged_count=3, pending_count=0)
        assert (shown["messages"]["missed_count"], shown["messages"]["last_failure_at"]) == (0, None)


async def test_a_listener_names_the_messages_that_it_missed(org: Organization) -> None:
    async with receiving(answer(500)) as receiver:
        queue_id = await org.queue()
        listener = await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
        found = org.app.services.catalog.listeners("default")[0]
        settings = type(found.settings)(schedule_ms=())
        await org.app.services.catalog.change_listener(found, settings=settings, principal="test")
        message_id = await org.add(queue_id, "never mind")
        shown = await counted(org, queue_id, listener["id"], missed_count=1)
        assert shown["messages"]["missed"] == [message_id]
        assert shown["messages"]["last_failure_status"] == 500
        message = (await org.get(f"/queues/{queue_id}/messages/{message_id}"))["message"]
        assert [(one["state"], one["attempts"]) for one in message["deliveries"]] == [("missed", 1)]


async def test_what_was_counted_is_also_told_of(org: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delivery that ends while its traces are being counted."""
    services = org.app.services
    count = services.broker.counters

    async def count_late(queue: Queue) -> Counters:
        await eventually(lambda: count(services.catalog.dead_letters(found)), lambda dead: dead.total_count)
        return await count(queue)

    async with receiving(answer(500)) as receiver:
        queue_id = await org.queue()
        listener = await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
        found = services.catalog.listeners("default")[0]
        settings = type(found.settings)(schedule_ms=())
        found = await services.catalog.change_listener(found, settings=settings, principal="test")
        monkeypatch.setattr(services.broker, "counters", count_late)
        await org.add(queue_id, "never mind")
        shown = (await org.get(f"/queues/{queue_id}/listeners/{listener['id']}"))["listener"]["messages"]
        assert (shown["missed_count"], shown["last_failure_status"]) == (1, 500)


async def test_what_waits_is_delivered_at_once_when_a_listener_is_resumed_or_its_url_is_corrected(
    org: Organization,
) -> None:
    async with receiving(answer(500)) as broken, receiving() as good:
        queue_id = await org.queue()
        listener = await org.listener(queue_id, notify_url=broken.url)
        path = f"/queues/{queue_id}/listeners/{listener['id']}"
        await org.add(queue_id, "1")
        await broken.wait(1)
        await org.put(path, {"notify_url": good.url})
        await good.wait(1)
        await org.put(path, {"notify_url": broken.url})
        await org.add(queue_id, "2")
        await broken.wait(2)
        broken.behave(answer())
        await org.put(path, {"status": "paused"})
        await org.put(path, {"status": "active"})
        await broken.wait(3)
        assert (good.bodies, broken.bodies) == ([b"1"], [b"1", b"2", b"2"])


async def test_messages_are_delivered_again(org: Organization) -> None:
    async with receiving() as receiver:
        queue_id = await org.queue()
        listener = await org.listener(queue_id, notify_url=receiver.url)
        path = f"/queues/{queue_id}/listeners/{listener['id']}/replay"
        start = org.clock.now()
        ids = [await org.add(queue_id, str(n)) for n in range(2)]
        await counted(org, queue_id, listener["id"], acknowledged_count=2)
        replayed = await org.post(path, {"message_ids": [ids[1], "unknown"]})
        assert replayed["replay"] == {"count": 1, "missing": ["unknown"], "next_since": None}
        assert replayed["_links"]["self"]["href"].endswith(path)
        await counted(org, queue_id, listener["id"], acknowledged_count=3)
        assert (await org.post(path, {"since": start}))["replay"]["count"] == 2
        await counted(org, queue_id, listener["id"], acknowledged_count=5)
        assert sorted(receiver.bodies) == [b"0", b"0", b"1", b"1", b"1"]
        assert (await org.post(path, {"missed": True}))["replay"]["count"] == 0


@pytest.mark.parametrize(
    "order", [{}, {"missed": True, "since": 0}, {"message_ids": []}, {"since": -1}, {"since": 2**60}, {"until": "now"}]
)
async def test_a_replay_of_nothing_in_particular_is_422(org: Organization, order: dict[str, Any]) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id)
    refused(await org.call("POST", f"/queues/{queue_id}/listeners/{listener['id']}/replay", order), 422)


async def test_only_those_who_may_change_a_listener_replay(org: Organization) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id)
    reader = await org.with_scopes(Action.BROWSE, Action.STATS)
    refused(await reader.call("POST", f"/queues/{queue_id}/listeners/{listener['id']}/replay", {"missed": True}), 403)


class Inside:
    """A name server for which every name is inside."""

    async def resolve(self, host: str, port: int, *, tenant: str = "") -> list[str]:
        return ["10.9.8.7"]


async def test_a_name_that_points_inside_is_refused_when_a_listener_is_made_or_changed(
    org: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_id = await org.queue()
    listener = await org.listener(queue_id)
    monkeypatch.setattr(org.app.services.deliveries.guard, "_resolver", Inside())
    order = {"name": "two", "notify_url": "https://in.example", "liveness_url": "https://93.184.216.34/"}
    for response in (
        await org.call("POST", f"/queues/{queue_id}/listeners", order),
        await org.call("PUT", f"/queues/{queue_id}/listeners/{listener['id']}", {"liveness_url": "https://in.example"}),
    ):
        detail = refused(response, 422)
        assert detail.startswith("in.example resolves to an address that is not allowed")
        assert "10.9" not in detail
