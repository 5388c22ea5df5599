"""What readers of the journal see: figures with stats, content with browse, of one queue or of all."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.native import ALL, PREFIX, Tenant, native_tenant

EVENTS = f"{PREFIX}/journal/events"
SECRETS = ("top secret", "attribute value", "receiver.example", "header value", "c2VjcmV0", "dG9wIHNlY3JldA")


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path, archive_segment_ms=1_000) as tenant:
        for name in ("orders", "other"):
            queue = await tenant.queue(name)
            url = "https://receiver.example/hook?key=c2VjcmV0"
            headers = {"x-key": "header value"}
            order = {"name": "shop", "url": url, "settings": {"headers": headers}}
            made = await queue.ask("POST", "/listeners", order)
            await queue.ask("PATCH", f"/listeners/{made['id']}", {"liveness_url": url})
            await queue.ask("POST", f"/listeners/{made['id']}/pause")
            await queue.send("top secret", attributes={"name": "attribute value"}, content_type="text/plain")
        yield tenant


async def sealed(tenant: Tenant) -> None:
    """Wait until all that has happened so far can be read only in the archive."""
    end = (await tenant.ask("GET", f"{PREFIX}/journal"))["next"]
    await tenant.queue("later")
    async with asyncio.timeout(30):
        while (await tenant.app.store.spans())[0].oldest < end:
            tenant.clock.advance(ms=1_000)
            await asyncio.sleep(0.001)  # the archive works in threads of its own


async def as_json(reader: Tenant, query: str = "") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = (await reader.ask("GET", f"{EVENTS}?limit=1000{query}"))["events"]
    return listed


async def as_arrow(reader: Tenant, query: str = "") -> list[dict[str, Any]]:
    answer = await reader.call("GET", f"{EVENTS}?limit=1000&format=arrow{query}")
    assert answer.status == 200, answer
    rows: list[dict[str, Any]] = pa.ipc.open_stream(answer.body).read_all().to_pylist()
    return rows


READERS = {"json": as_json, "arrow": as_arrow}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("archived", [False, True], ids=["journal", "archive"])
async def test_figures_are_not_content(root: Tenant, form: str, archived: bool) -> None:
    if archived:
        await sealed(root)
    reader = await root.with_scopes(("stats", ALL))
    listed = await READERS[form](reader)
    assert {event["queue"] for event in listed if event["kind"] == "sent"} >= {"orders", "other"}
    told = repr(listed)
    assert [secret for secret in SECRETS if secret in told] == []
    assert "text/plain" in told
    assert "receive" not in repr([event for event in listed if event["kind"].startswith("credential")])


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("archived", [False, True], ids=["journal", "archive"])
async def test_content_is_shown_of_queues_that_the_reader_may_browse(root: Tenant, form: str, archived: bool) -> None:
    if archived:
        await sealed(root)
    reader = await root.with_scopes(("stats", ALL), ("browse", ("orders",)))
    listed = await READERS[form](reader, "&kind=sent")
    shown = {event["queue"]: "attribute value" in repr(event) for event in listed if not event["queue"].startswith("~")}
    assert shown == {"orders": True, "other": False}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize("archived", [False, True], ids=["journal", "archive"])
async def test_one_queue_can_be_followed(root: Tenant, form: str, archived: bool) -> None:
    if archived:
        await sealed(root)
    for named in ("orders", (await root.ask("GET", "/queues/orders"))["id"]):
        reader = await root.with_scopes(("stats", (named,)))
        listed = await READERS[form](reader)
        kinds = [event["kind"] for event in listed if event["queue"] in (None, "orders")]
        assert kinds == ["queue_added", "listener_added", "listener_changed", "listener_changed", "sent"]
        mine = {queue["id"] for queue in (await root.ask("GET", "/queues"))["queues"] if queue["name"] == "orders"}
        assert {event["queue_id"] for event in listed if not (event["queue"] or "").startswith("~")} == mine
        assert [secret for secret in SECRETS if secret in repr(listed)] == []


async def test_columns_hide_nothing_that_the_reader_may_see_and_show_nothing_else(root: Tenant) -> None:
    await sealed(root)
    reader = await root.with_scopes(("stats", ("orders",)))
    rows = await as_arrow(reader, "&columns=body,offset&kind=sent")
    assert [row["body"] for row in rows if row["body"] is not None] == []
    assert rows
    assert set(rows[0]) == {"body", "offset"}


async def test_a_reader_of_one_queue_follows_the_queue_and_not_its_name(root: Tenant) -> None:
    reader = await root.with_scopes(("stats", ("orders",)))
    await root.ask("PATCH", "/queues/orders", {"name": "archived"})
    assert await as_json(reader) == []
    await root.ask("PATCH", "/queues/other", {"name": "orders"})
    assert {event["queue"] for event in await as_json(reader, "&kind=queue_added")} == {"other"}


async def test_events_of_a_queue_that_is_gone_belong_to_the_readers_of_its_name(root: Tenant) -> None:
    reader, stranger = [await root.with_scopes(("stats", (name,))) for name in ("orders", "other")]
    await root.ask("DELETE", "/queues/orders")
    assert "queue_deleted" in {event["kind"] for event in await as_json(reader)}
    assert "queue_deleted" not in {event["kind"] for event in await as_json(stranger)}


async def test_the_journal_is_closed_to_those_who_read_no_figures(root: Tenant) -> None:
    others = await root.with_scopes(*((action, ALL) for action in ("send", "receive", "browse", "manage")))
    for path in ("", "/events", "/segments"):
        assert (await others.refused("GET", f"{PREFIX}/journal{path}"))["status"] == 403


async def test_listeners_are_shown_to_those_who_browse_or_manage(root: Tenant) -> None:
    counting = await root.with_scopes(("stats", ALL))
    for path in ("/listeners", "/queues/orders/listeners", "/queues/orders/listeners/shop"):
        assert (await counting.refused("GET", path))["status"] == 403
        for action in ("browse", "manage"):
            assert (await (await root.with_scopes((action, ALL))).call("GET", path)).status == 200
