"""Live streams: figures by level, events without loss, and an end when the server stops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.dialects.native import tailing
from couriermq.monitor.streams import BEAT_MS
from tests.support.eventually import eventually
from tests.support.live import LivePage, live
from tests.support.native import Tenant, native_tenant


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path, console_streams=2) as tenant:
        yield tenant


async def next_frame(tenant: Tenant, page: LivePage, *wanted: str, step_ms: int = BEAT_MS) -> dict[str, Any]:
    """The next frame of a kind, while time goes on."""
    waiting = asyncio.ensure_future(page.next(*wanted))
    while not waiting.done():
        tenant.clock.advance(ms=step_ms)
        await asyncio.sleep(0.001)
    return await waiting


async def test_a_page_gets_a_snapshot_and_then_what_changes(root: Tenant) -> None:
    await root.queue("mail")
    orders = await root.queue("orders")
    async with live(root.app, "topics=overview") as page:
        assert page.headers["content-type"].startswith("text/event-stream")
        assert page.headers["cache-control"] == "no-store"
        first = (await next_frame(root, page, "snapshot"))["data"]
        assert [row["name"] for row in first["queues"]] == ["mail", "orders"]
        await orders.send()
        ready, total = 0, 0
        while not (ready and total):
            news = (await next_frame(root, page, "rates"))["data"]
            assert {row["name"] for row in news["queues"]} <= {"orders"}
            ready = news["queues"][0]["ready_count"] if news["queues"] else ready
            total = news["totals"]["ready_count"]
        assert (ready, total) == (1, 1)
        await root.queue("new")
        again = (await next_frame(root, page, "snapshot"))["data"]
        assert [row["name"] for row in again["queues"]] == ["mail", "new", "orders"]


async def test_a_page_that_shows_one_queue_hears_of_each_second(root: Tenant) -> None:
    orders = await root.queue("orders")
    async with live(root.app, "topics=rates&queue=orders") as page:
        await next_frame(root, page, "rates")
        await orders.send()
        ticks = [(await next_frame(root, page, "rates"))["data"]["series"]["orders"] for _ in range(3)]
        assert sum(tick["sent"] for tick in ticks) == 1
        assert ticks[-1]["backlog"] == 1


@pytest.mark.parametrize("past_ms", [0, 250, 500, 750, 999])
async def test_a_message_is_told_within_a_second_and_a_half(root: Tenant, past_ms: int) -> None:
    """Wherever in a second it is sent, and though somebody has read the figures just before."""
    orders = await root.queue("orders")
    async with live(root.app, "topics=overview&queue=orders") as page:
        await next_frame(root, page, "snapshot")
        await beats(root, -root.clock.now() % 1_000 + past_ms)
        await root.ask("GET", "/overview")
        await orders.send()
        await beats(root, 1_500)
        ready = 0
        while not ready:
            news = await page.next("rates")  # time stands still: no more comes than was told by now
            ready = sum(row["ready_count"] for row in news["data"].get("queues", ()))
        assert ready == 1


async def beats(tenant: Tenant, ms: int) -> None:
    """Let so much time pass; the stream looks at each of its beats."""
    until = tenant.clock.now() + ms
    while (now := tenant.clock.now()) < until:
        await pass_time(tenant, min(until, (now // BEAT_MS + 1) * BEAT_MS) - now)


async def pass_time(tenant: Tenant, ms: int) -> None:
    """Returns when the stream has looked, if that was due."""
    streams = tenant.app.node.services.monitor.streams
    before = streams._beat
    tenant.clock.advance(ms=ms)
    if tenant.clock.now() % BEAT_MS == 0:
        await eventually(lambda: streams._beat is not before and bool(streams._beat._waiters))


async def test_events_are_told_as_they_happen_in_the_queue_they_arrive_in(root: Tenant) -> None:
    await root.queue("failed")
    orders = await root.queue("orders", dead_letter_queue="failed", max_attempts=1)
    await orders.send("before")
    async with live(root.app, "topics=events&queue=failed") as page:
        lease = await orders.receive_one()
        await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
        told = (await next_frame(root, page, "event"))["data"]
        assert (told["kind"], told["queue"], told["detail"]["target"]) == ("dead_lettered", "orders", "failed")


@pytest.mark.parametrize("way", ["header", "from"])
async def test_a_page_that_was_cut_off_goes_on_where_it_was(root: Tenant, way: str) -> None:
    for tenant in (root, await root.with_scopes(("stats", ["*"]), ("send", ["*"]))):
        orders = (await root.queue(f"orders-{tenant is root}")).of(tenant)
        options: dict[str, Any] = {} if tenant is root else {"token": tenant._options["token"]}
        async with live(root.app, "topics=events&kind=sent", **options) as page:
            await orders.send(id="one")
            seen = await next_frame(root, page, "event")
        await orders.send(id="two")
        await orders.send(id="three")
        query = "topics=events&kind=sent" + ("" if way == "header" else f"&from={seen['id']}")
        headers = {"last_event_id": seen["id"]} if way == "header" else {}
        async with live(root.app, query, **options, **headers) as page:
            told = [(await next_frame(root, page, "event"))["data"]["message_id"] for _ in range(2)]
        assert told == ["two", "three"]


async def test_of_too_many_events_the_number_and_the_place_are_told(root: Tenant) -> None:
    orders = await root.queue("orders")
    async with live(root.app, "topics=events&kind=sent&max_per_second=5") as page:
        await orders.ask("POST", "/messages", {"messages": [{"body": str(n)} for n in range(50)]})
        shown = []
        while (frame := await next_frame(root, page, "event", "skipped"))["event"] == "event":
            shown.append(frame["data"]["offset"])
        skipped = frame["data"]
        assert (len(shown), skipped["count"]) == (5, 45)
        missed = await root.ask(
            "GET", f"/courier/v1/journal/events?from={skipped['from']}&to={skipped['to']}&kind=sent"
        )
        offsets = [event["offset"] for event in missed["events"]]
        assert shown + offsets == sorted(set(shown + offsets))
        assert len(offsets) == 45


async def test_a_reader_that_is_far_behind_is_told_that_it_jumps(root: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = await root.queue("orders")
    async with live(root.app, "topics=events") as page:
        monkeypatch.setattr(tailing, "READ_COUNT", 10)
        await orders.ask("POST", "/messages", {"messages": [{"body": str(n)} for n in range(50)]})
        assert (await next_frame(root, page, "skipped"))["data"]["count"] is None
        await orders.send(id="after")
        assert (await next_frame(root, page, "event"))["data"]["message_id"] == "after"


async def test_bodies_need_to_be_asked_for_and_a_right(root: Tenant) -> None:
    orders = await root.queue("orders")
    watcher = await root.with_scopes(("stats", ["*"]))
    for token, bodies, expected in (("root-token", "false", False), ("root-token", "true", True)):
        async with live(root.app, f"topics=events&bodies={bodies}", token=token) as page:
            await orders.send("secret words")
            assert ("body_base64" in (await next_frame(root, page, "event"))["data"]["detail"]) is expected
    async with live(root.app, "topics=events&bodies=true", token=watcher._options["token"]) as page:
        await orders.send("secret words", attributes={"name": "secret"})
        await next_frame(root, page, "event")
        assert b"secret" not in page.body


async def test_a_caller_hears_only_of_queues_whose_stats_it_may_read(root: Tenant) -> None:
    await root.queue("orders")
    hidden = await root.queue("hidden")
    limited = await root.with_scopes(("stats", ["orders"]))
    async with live(root.app, "topics=overview,events", token=limited._options["token"]) as page:
        first = (await next_frame(root, page, "snapshot"))["data"]
        assert [row["name"] for row in first["queues"]] == ["orders"]
        await hidden.send()
        await (await root.queue("other")).send()
        await root.ask("POST", "/queues/orders/messages", {"body": "x"})
        assert (await next_frame(root, page, "event"))["data"]["queue"] == "orders"
        assert b"hidden" not in page.body
    sender = await root.with_scopes(("send", ["*"]))
    assert (await sender.refused("GET", "/live"))["status"] == 403


async def test_attention_is_the_diagnosis_when_it_changes(root: Tenant) -> None:
    orders = await root.queue("orders", paused=True)
    await orders.send()
    async with live(root.app, "topics=attention") as page:
        found = (await next_frame(root, page, "attention"))["data"]["findings"]
        assert "paused" in {finding["code"] for finding in found}
        await root.ask("PATCH", "/queues/orders", {"settings": {"paused": False}})
        later = (await next_frame(root, page, "attention", step_ms=2_500))["data"]["findings"]
        assert "paused" not in {finding["code"] for finding in later}


async def test_pages_that_may_see_the_same_share_one_diagnosis(tmp_path: Path) -> None:
    async with native_tenant(tmp_path, console_streams=12) as root, contextlib.AsyncExitStack() as pages:
        orders = await root.queue("orders", paused=True)
        await root.queue("mail", paused=True)
        await orders.send("x" * 200_000)
        browse, looked = root.app.services.broker.browse, []

        async def counting(queue: Any, **order: Any) -> Any:
            looked.append((queue.name, order["limit"]))
            return await browse(queue, **order)

        root.app.services.broker.browse = counting  # type: ignore[method-assign]
        limited = await root.with_scopes(("stats", ["mail"]))
        for token in (None, None, limited._options["token"]):
            options = {} if token is None else {"token": token}
            page = await pages.enter_async_context(live(root.app, "topics=attention", **options))
            found = {one["queue"] for one in (await page.next("attention"))["data"]["findings"]}
            assert found == ({"orders"} if token is None else set())
        assert looked == [("orders", 1)]


async def test_a_quiet_stream_has_a_heartbeat(root: Tenant) -> None:
    async with live(root.app, "topics=events") as page:
        assert (await page.next())["retry"] == "1000"
        assert (await next_frame(root, page, step_ms=5_000))["comment"] is True


async def test_a_stream_ends_with_its_credential(root: Tenant) -> None:
    watcher = await root.with_scopes(("stats", ["*"]))
    async with live(root.app, "topics=events", token=watcher._options["token"]) as page:
        (made,) = (await root.ask("GET", "/credentials"))["credentials"]
        await root.ask("DELETE", f"/credentials/{made['id']}")
        assert (await next_frame(root, page, "gone", step_ms=20_000))["data"] == {"reason": "credential"}


async def test_a_stream_ends_at_once_when_its_credential_is_deleted(root: Tenant) -> None:
    watcher = await root.with_scopes(("stats", ["*"]))
    async with live(root.app, "topics=events", token=watcher._options["token"]) as page:
        await page.next()
        (made,) = (await root.ask("GET", "/credentials"))["credentials"]
        await root.ask("DELETE", f"/credentials/{made['id']}")
        started = root.clock.now()
        assert (await next_frame(root, page, "gone", step_ms=1))["data"] == {"reason": "credential"}
        assert root.clock.now() - started < 5_000


async def test_wrong_tokens_do_not_keep_the_stream_of_a_credential_that_has_ended(root: Tenant) -> None:
    watcher = await root.with_scopes(("stats", ["*"]))
    token = watcher._options["token"]
    async with live(root.app, "topics=events", token=token) as page:
        (made,) = (await root.ask("GET", "/credentials"))["credentials"]
        await root.ask("DELETE", f"/credentials/{made['id']}")
        root.clock.advance(ms=59_000)
        answers = [await root.app.get("/courier/v1/whoami", token=f"{token[:8]}-wrong") for _ in range(25)]
        assert answers[-1].status == 429
        root.clock.advance(ms=1_000)
        ended = asyncio.ensure_future(page.next("gone"))
        for _ in range(20):
            root.clock.advance(ms=1)
            await asyncio.sleep(0.001)
        assert ended.done()


async def test_a_stream_ends_with_the_right_to_it(root: Tenant) -> None:
    watcher = await root.with_scopes(("stats", ["*"]))
    async with live(root.app, "topics=events", token=watcher._options["token"]) as page:
        (made,) = (await root.ask("GET", "/credentials"))["credentials"]
        await root.ask("PATCH", f"/credentials/{made['id']}", {"scopes": [{"action": "send", "queues": ["*"]}]})
        frame = await asyncio.wait_for(next_frame(root, page, "gone", step_ms=20_000), 10)
        assert frame["data"] == {"reason": "credential"}


async def test_a_server_that_stops_ends_its_streams_at_once(root: Tenant) -> None:
    async with live(root.app, "topics=overview") as page:
        await page.next("snapshot")
        root.app.services.monitor.close()
        assert (await page.next("gone"))["data"] == {"reason": "stopping"}
        with pytest.raises(EOFError):
            await page.next()


async def test_there_is_room_for_so_many_streams(root: Tenant) -> None:
    streams = root.app.services.monitor.streams
    async with live(root.app) as one, live(root.app) as other:
        assert (await one.status, await other.status) == (200, 200)
        await eventually(lambda: streams.count == 2)
        refused = await root.call("GET", "/live")
        assert (refused.status, int(refused.headers["retry-after"])) == (503, 5)
    await eventually(lambda: streams.count == 0)


async def test_one_credential_has_a_quarter_of_the_streams(tmp_path: Path) -> None:
    async with native_tenant(tmp_path, console_streams=8) as root, contextlib.AsyncExitStack() as pages:
        streams = root.app.services.monitor.streams
        greedy, modest = [await root.with_scopes(("stats", ["*"])) for _ in range(2)]
        for _ in range(2):
            await pages.enter_async_context(live(root.app, token=greedy._options["token"]))
        refused = await greedy.refused("GET", "/live")
        assert (refused["status"], "2 live streams" in refused["detail"]) == (503, True)
        for tenant in (root, root, root, modest):
            options = {name: value for name, value in tenant._options.items() if name == "token"}
            assert await (await pages.enter_async_context(live(root.app, **options))).status == 200
        await pages.aclose()
        await eventually(lambda: streams.count == 0)
        async with live(root.app, token=greedy._options["token"]) as page:
            assert await page.status == 200


async def test_streams_that_are_asked_for_at_the_same_time_share_the_same_room(root: Tenant) -> None:
    async with contextlib.AsyncExitStack() as pages:
        asked = [live(root.app) for _ in range(5)]
        opened = await asyncio.gather(*map(pages.enter_async_context, asked))
        assert sorted([await page.status for page in opened]) == [200, 200, 503, 503, 503]


async def test_what_is_asked_wrongly_is_refused(root: Tenant) -> None:
    assert (await root.refused("GET", "/live?topics=weather"))["field"] == "topics"
    assert (await root.refused("GET", "/live?topics=events&from=nonsense"))["field"] == "from"
    assert (await root.refused("GET", "/live?max_per_second=201"))["status"] == 400
