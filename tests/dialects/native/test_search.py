"""Looking for messages in a queue: filters, either order, previews, and how far was looked."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.monitor import search
from tests.support.native import Queue, Tenant, native_tenant


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


@pytest.fixture
async def orders(root: Tenant) -> AsyncIterator[Queue]:
    yield await root.queue("orders")  # noqa: PT022 - the loop runs fixtures that yield


async def browse(queue: Queue, query: str) -> dict[str, Any]:
    page: dict[str, Any] = await queue.ask("GET", f"/messages?{query}")
    return page


async def ids(queue: Queue, query: str) -> list[str]:
    return [message["id"] for message in (await browse(queue, query))["messages"]]


async def test_messages_are_found_by_text_in_body_id_or_attribute(orders: Queue) -> None:
    await orders.send("a needle in hay", id="one")
    await orders.send("hay", id="needle-two")
    await orders.send("hay", id="three", attributes={"note": "needle"})
    await orders.send("hay", id="four", attributes={"needle": "name only"})
    found = await browse(orders, "contains=needle")
    assert [message["id"] for message in found["messages"]] == ["one", "needle-two", "three"]
    assert (found["looked_count"], found["next"]) == (4, None)


async def test_every_attribute_that_is_given_must_hold(orders: Queue) -> None:
    await orders.send(id="both", attributes={"a": "x", "n": 5})
    await orders.send(id="one", attributes={"a": "x", "n": 6})
    assert await ids(orders, "attribute=a:x&attribute=n:5") == ["both"]
    assert await ids(orders, "attribute=a:x") == ["both", "one"]


async def test_messages_are_found_by_attempts(orders: Queue) -> None:
    await orders.send(id="tried")
    lease = await orders.receive_one()
    await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
    await orders.send(id="fresh")
    assert await ids(orders, "attempts_min=1") == ["tried"]


async def test_messages_are_found_by_group(root: Tenant) -> None:
    fifo = await root.queue("fifo", kind="fifo")
    await fifo.send(id="a", group="one")
    await fifo.send(id="b", group="two")
    assert await ids(fifo, "group=two") == ["b"]


async def test_a_search_says_how_far_it_has_looked(orders: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LOOK_COUNT", 3)
    for number in range(5):
        await orders.send("hay", id=str(number))
    await orders.send("needle", id="found")
    first = await browse(orders, "contains=needle")
    assert (first["messages"], first["looked_count"]) == ([], 3)
    rest = await browse(orders, f"contains=needle&after={first['next']}")
    assert [message["id"] for message in rest["messages"]] == ["found"]
    assert rest["next"] is None


@pytest.mark.parametrize("gap_ms", [0, 1, 700, 3_600_000])
async def test_the_newest_can_come_first(orders: Queue, gap_ms: int) -> None:
    for number in range(7):
        await orders.send(id=str(number))
        orders.tenant.clock.advance(ms=gap_ms)
    assert await ids(orders, "order=newest") == ["6", "5", "4", "3", "2", "1", "0"]
    page = await browse(orders, "order=newest&limit=3")
    assert [message["id"] for message in page["messages"]] == ["6", "5", "4"]
    rest = await browse(orders, f"order=newest&limit=9&after={page['next']}")
    assert [message["id"] for message in rest["messages"]] == ["3", "2", "1", "0"]


@pytest.mark.parametrize("gap_ms", [0, 2])
async def test_the_newest_come_first_among_very_many(
    orders: Queue, gap_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "STEP", 4)
    monkeypatch.setattr(search, "WINDOW_COUNT", 6)
    for _ in range(10):
        await orders.ask("POST", "/messages", {"messages": [{"body": "x"} for _ in range(5)]})
        orders.tenant.clock.advance(ms=gap_ms)
    oldest_first = await ids(orders, "limit=100")
    assert await ids(orders, "order=newest&limit=100") == oldest_first[::-1]


async def test_tenants_go_on_with_sealed_cursors(root: Tenant, orders: Queue) -> None:
    for number in range(4):
        await orders.send(id=str(number))
    limited = orders.of(await root.with_scopes(("browse", ["*"])))
    page = await browse(limited, "order=newest&limit=2")
    assert await ids(limited, f"order=newest&after={page['next']}") == ["1", "0"]
    assert (await limited.refused("GET", "/messages?order=newest&after=1-2"))["field"] == "after"


async def test_bodies_are_previewed_or_left_out(orders: Queue) -> None:
    await orders.send("äöü" * 100)
    await orders.ask("POST", "/messages", {"body_base64": "/////w=="})
    text, binary = (await browse(orders, "preview_bytes=3"))["messages"]
    assert (text["body"], text["size"], text["body_truncated"]) == ("ä", 600, True)
    assert (binary["body_base64"], binary["size"], binary["body_truncated"]) == ("////", 4, True)
    whole, _ = (await browse(orders, "preview_bytes=600"))["messages"]
    assert "body_truncated" not in whole
    for message in (await browse(orders, "bodies=false"))["messages"]:
        assert not {"body", "body_base64"} & set(message)


async def test_a_body_is_downloaded_and_never_shown(orders: Queue) -> None:
    sent = await orders.send("<script>alert(1)</script>", content_type="text/html")
    answer = await orders.call("GET", f"/messages/{sent['id']}?download=true")
    assert answer.body == b"<script>alert(1)</script>"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_dead_letters_are_grouped_by_source_reason_and_type(root: Tenant) -> None:
    failed = await root.queue("failed")
    for name, count in (("orders", 3), ("mail", 1)):
        queue = await root.queue(name, dead_letter_queue="failed", max_attempts=1)
        for _ in range(count):
            await queue.send()
            lease = await queue.receive_one()
            await queue.ask("POST", "/release", {"receipt": lease["receipt"]})
        root.clock.advance(ms=3_600_000)
    summary = await failed.ask("GET", "/dead-letters/summary")
    assert [(group["source_queue"], group["count"]) for group in summary["groups"]] == [("orders", 3), ("mail", 1)]
    first = summary["groups"][0]
    assert (first["hours"][-3], sum(first["hours"]), len(first["examples"])) == (3, 3, 3)
    assert first["reason"]
    assert (summary["looked_count"], summary["total_count"], summary["complete"]) == (4, 4, True)
    assert len(await ids(failed, "source_queue=orders")) == 3
    assert len(await ids(failed, f"reason={first['reason'].replace(' ', '+')}")) == 4
    watcher = failed.of(await root.with_scopes(("stats", ["*"])))
    assert (await watcher.refused("GET", "/dead-letters/summary"))["status"] == 403
