"""What an operator's tools see: health, readiness, metrics."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import Counters, Draft, Queue
from couriermq.dialects.front import links_among
from couriermq.storage.sqlite.store import SqliteStore
from couriermq.telemetry import metrics
from couriermq.web.call import Call, Reply, Route
from tests.support.inprocess import InProcess, courier_app


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, dialects=()) as app:
        yield app


async def samples(app: InProcess, **options: Any) -> dict[str, float]:
    """Every sample of /metrics by its name and labels."""
    text = (await app.get("/metrics", **options)).body.decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def test_health_needs_no_credential(app: InProcess) -> None:
    response = await app.get("/healthz", token=None)
    assert (response.status, response.json()["status"]) == (200, "ok")


async def test_a_server_that_takes_writes_is_ready(app: InProcess) -> None:
    response = await app.get("/readyz", token=None)
    assert (response.status, response.json()) == (200, {"status": "ready"})


async def test_a_server_that_takes_no_writes_says_why_and_is_not_restarted_for_it(
    app: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqliteStore, "unavailable_reason", property(lambda store: "the disk is full"))
    response = await app.get("/readyz", token=None)
    assert (response.status, response.json()) == (503, {"status": "unavailable", "reason": "the disk is full"})
    assert int(response.headers["retry-after"]) >= 1
    assert (await app.get("/healthz", token=None)).status == 200
    assert (await samples(app))["courier_ready"] == 0


async def test_metrics_count_requests_and_their_time_by_route(app: InProcess) -> None:
    for _ in range(3):
        await app.get("/healthz")
    found = await samples(app)
    assert found['courier_requests_total{dialect="courier",method="GET",route="/healthz",status="2xx"}'] == 3
    assert found['courier_request_seconds_count{dialect="courier",method="GET",route="/healthz"}'] == 3
    assert found['courier_request_seconds_bucket{dialect="courier",le="+Inf",method="GET",route="/healthz"}'] == 3


async def test_metrics_tell_how_commits_are_shared_and_what_the_disk_costs(app: InProcess) -> None:
    queue = await app.services.catalog.create_queue("default", "orders", principal="root")
    await app.services.broker.send(queue, [Draft(body=b"x")], principal="root")
    found = await samples(app)
    commits = found["courier_commits_total"]
    assert 0 < commits <= found["courier_operations_total"]
    assert (found["courier_commit_size_count"], found["courier_sync_seconds_count"]) == (commits, commits)


async def test_metrics_count_what_happens_to_messages(app: InProcess) -> None:
    queue = await app.services.catalog.create_queue("default", "orders", principal="root")
    await app.services.broker.send(queue, [Draft(body=b"x")] * 3, principal="root")
    (lease,) = await app.services.broker.receive(queue, principal="root")
    await app.services.broker.ack(queue, lease.receipt, principal="root")
    found = await samples(app)
    counts = {kind: found[f'courier_events_total{{kind="{kind}"}}'] for kind in ("sent", "received", "acked", "purged")}
    assert counts == {"sent": 3, "received": 1, "acked": 1, "purged": 0}


async def test_metrics_show_the_depth_and_age_of_every_queue_to_root(app: InProcess) -> None:
    queue = await app.services.catalog.create_queue("default", "orders", principal="root")
    drafts = [Draft(body=b"four"), Draft(body=b"four"), Draft(body=b"four", delay_ms=60_000)]
    await app.services.broker.send(queue, drafts, principal="root")
    await app.services.broker.receive(queue, principal="root")
    app.clock.advance(ms=2_500)
    found = await samples(app)
    orders = {name.replace('queue="orders",', "").replace('tenant="default"', ""): n for name, n in found.items()}
    assert [orders[f'courier_queue_messages{{state="{state}",}}'] for state in ("ready", "delayed", "leased")] == [
        1
    ] * 3
    assert orders["courier_queue_bytes{}"] == 12
    assert orders["courier_queue_oldest_age_seconds{}"] == 2.5


async def test_strangers_and_tenants_learn_nothing_of_queues(app: InProcess) -> None:
    catalog = app.services.catalog
    await catalog.create_queue("default", "orders", principal="root")
    _, secret = await catalog.create_credential("default", "reader", principal="root")
    assert not [name for name in await samples(app, token=None) if "orders" in name]
    assert (await app.get("/metrics", token=secret)).status == 403
    assert (await app.get("/metrics", token="wrong-token")).status == 401


async def test_an_operator_may_open_the_metrics_to_all(tmp_path: Path) -> None:
    async with courier_app(tmp_path, dialects=(), metrics_public=True) as app:
        await app.services.catalog.create_queue("default", "orders", principal="root")
        assert [name for name in await samples(app, token=None) if "orders" in name]


async def test_a_queue_cannot_break_the_format_with_its_name(app: InProcess) -> None:
    await app.services.catalog.create_queue("default", "a.b/c-d_e", principal="root")
    text = (await app.get("/metrics")).body.decode()
    assert all(re.fullmatch(r"#.*|[a-z_]+(\{[^{}]*\})? [-+.\deE]+(Inf|NaN)?", line) for line in text.splitlines())


async def test_scrapers_within_a_second_share_the_figures_of_queues(app: InProcess) -> None:
    queue = await app.services.catalog.create_queue("default", "orders", principal="root")
    ready = 'courier_queue_messages{queue="orders",state="ready",tenant="default"}'
    assert (await samples(app))[ready] == 0
    await app.services.broker.send(queue, [Draft(body=b"x")], principal="root")
    assert (await samples(app))[ready] == 0
    app.clock.advance(ms=1_000)
    assert (await samples(app))[ready] == 1


async def test_more_queues_than_an_operator_wants_are_counted_and_not_listed(tmp_path: Path) -> None:
    async with courier_app(tmp_path, dialects=(), metrics_per_queue=2) as app:
        for name in ("first", "second"):
            await app.services.catalog.create_queue("default", name, principal="root")
        assert [name for name in await samples(app) if "first" in name]
        await app.services.catalog.create_queue("default", "third", principal="root")
        found = await samples(app)
        assert [name for name in found if name.startswith("courier_queue_")] == []
        assert found["courier_queues"] == 3
        assert "courier_queues" not in await samples(app, token=None)


async def test_other_tasks_get_a_turn_while_many_queues_are_written() -> None:
    queue = Queue(id="q", tenant="default", name='a"b\\c\n', key=1, created_at=0)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    text = await metrics.queue_text([metrics.Depth(queue, Counters())] * 2_000, FakeClock())
    counting.cancel()
    assert turns >= 2_000 // metrics.SLICE
    assert text.count(b"\n") == 5 * 2_000 + 6
    assert rb'queue="a\"b\\c\n"' in text


async def test_the_documentation_is_served_to_everybody(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        assert (await app.get("/docs", token=None)).status == 200
        assert (await app.get("/openapi/native.json", token=None)).json()["openapi"].startswith("3.")


async def test_the_front_page_links_what_the_server_has_and_nothing_else(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        page = await app.get("/", token=None)
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        links = re.findall(r'href="([^"]+)"', page.body.decode())
        assert "/docs" in links
        for link in links:
            assert (await app.get(link)).status == 200


def test_the_front_page_links_a_page_as_soon_as_it_is_served() -> None:
    async def nothing(call: Call) -> Reply:
        return Reply(204, b"")

    served = [Route("GET", path, nothing, public=True) for path in ("/docs", "/other", "/console")]
    assert [link.path for link in links_among(served)] == ["/console", "/docs"]
    assert [link.path for link in links_among(served[:1])] == ["/docs"]


async def test_the_front_page_works_below_the_path_prefix_of_a_proxy(tmp_path: Path) -> None:
    async with courier_app(tmp_path, trusted_proxies=("127.0.0.1",)) as app:
        headers = {"x-forwarded-for": "203.0.113.9", "x-forwarded-prefix": "/queue"}
        page = await app.get("/", token=None, headers=headers)
        assert 'href="/queue/docs"' in page.body.decode()
