"""The whole life of one message through the native API."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.journal import lookup
from tests.support.native import Tenant, native_tenant


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path, delivery_allow=("127.0.0.0/8",)) as tenant:
        yield tenant


async def timeline(tenant: Tenant, message_id: str, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = await tenant.ask("GET", f"/messages/{message_id}/timeline?{query}")
    return found


def story(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(event["queue"], event["kind"]) for event in found["events"]]


async def test_a_message_is_followed_through_dead_letters_and_back(root: Tenant) -> None:
    failed = await root.queue("failed")
    orders = await root.queue("orders", dead_letter_queue="failed", max_attempts=1)
    sent = await orders.send("hello")
    lease = await orders.receive_one()
    await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
    await failed.ask("POST", "/redrive")
    lease = await orders.receive_one()
    await orders.ask("POST", "/ack", {"receipt": lease["receipt"]})
    found = await timeline(root, sent["id"])
    assert story(found) == [
        ("orders", "sent"),
        ("orders", "received"),
        ("orders", "released"),
        ("orders", "dead_lettered"),
        ("failed", "redriven"),
        ("orders", "received"),
        ("orders", "acked"),
    ]
    assert [(lane["queue"], lane["role"]) for lane in found["lanes"]] == [
        ("orders", "queue"),
        ("failed", "dead_letters"),
    ]
    assert (found["seq"], found["complete"], found["next"]) == (sent["seq"], True, None)
    assert found["message"] is None


async def test_copies_for_listeners_are_lanes_of_the_same_message(root: Tenant) -> None:
    orders = await root.queue("orders")
    await orders.ask("POST", "/listeners", {"name": "crm", "url": "http://127.0.0.1:9/hook"})
    sent = await orders.send("hello")
    lanes = (await timeline(root, sent["id"]))["lanes"]
    assert ("outbox", "crm") in {(lane["role"], lane["listener"]) for lane in lanes}


async def test_the_message_as_it_is_now_needs_its_queue_and_the_right_to_browse(root: Tenant) -> None:
    orders = await root.queue("orders")
    sent = await orders.send("x" * 100_000)
    now = (await timeline(root, sent["id"], "queue=orders"))["message"]
    assert (now["state"], len(now["body"]), now["size"], now["body_truncated"]) == ("ready", 65_536, 100_000, True)
    watcher = await root.with_scopes(("stats", ["*"]))
    found = await timeline(watcher, sent["id"], "queue=orders&bodies=true")
    assert found["message"] is None
    assert story(found) == [("orders", "sent")]
    assert "body_base64" not in found["events"][0]["detail"]
    assert found["looked"]["event_count"] is None
    bodies = await timeline(root, sent["id"], "bodies=true")
    assert "body_base64" in bodies["events"][0]["detail"]


async def test_another_tenants_message_is_not_found(root: Tenant) -> None:
    await root.ask("POST", "/courier/v1/tenants", {"id": "acme"})
    acme = Tenant(root.app, "acme")
    sent = await (await acme.queue("orders")).send()
    assert story(await timeline(root, sent["id"])) == []
    assert len(story(await timeline(acme, sent["id"]))) == 1


async def test_a_queue_that_the_caller_may_not_see_is_left_out(root: Tenant) -> None:
    await root.queue("failed")
    orders = await root.queue("orders", dead_letter_queue="failed", max_attempts=1)
    sent = await orders.send("hello")
    lease = await orders.receive_one()
    await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
    limited = await root.with_scopes(("stats", ["failed"]))
    found = await timeline(limited, sent["id"])
    assert [event["kind"] for event in found["events"]] == ["dead_lettered"]
    assert "orders" not in str(found)


async def test_a_look_that_is_not_over_goes_on(root: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "JOURNAL_COUNT", 4)
    orders = await root.queue("orders")
    sent = await orders.send(id="first")
    for _ in range(6):
        await orders.send()
    for tenant in (root, await root.with_scopes(("stats", ["*"]))):
        page = await timeline(tenant, sent["id"])
        assert (page["complete"], page["events"]) == (False, [])
        events = []
        while page["next"] is not None:
            page = await timeline(tenant, sent["id"], f"before={page['next']}")
            events += page["events"]
        assert [event["kind"] for event in events] == ["sent"]
        assert page["complete"] is True
    assert (await root.refused("GET", "/messages/first/timeline?before=x"))["field"] == "before"
