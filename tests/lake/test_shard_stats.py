"""The past of a queue that lives on another shard than the home: told everywhere as if there were one journal."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.lanes import first_lane
from couriermq.core.model import MINUTE, Ack, Draft, Queue
from couriermq.core.shards import first_of, shard_of
from couriermq.delivery.log import read_cursor
from tests.delivery.conftest import Post
from tests.lake.test_stats import ANYPOINT, NOON, T, window
from tests.support.discue import Organization
from tests.support.eventually import eventually
from tests.support.inprocess import InProcess, courier_app
from tests.support.lakes import write_lake
from tests.support.postgres import shared_cluster
from tests.support.receiver import receiving

pytestmark = pytest.mark.postgres


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    """A store of two shards, of which the second gets every new queue."""
    home, second = (shared_cluster().store_url(tmp_path / name) for name in ("home", "second"))
    settings: dict[str, Any] = {"store": home, "clock": FakeClock(NOON), "delivery_allow": ("127.0.0.0/8",)}
    async with courier_app(tmp_path, **settings) as app:
        shards = app.services.shards
        assert shards is not None
        await app.services.catalog.create_queue("default", "at-home", principal="test")
        await shards.add("second", second, weight=1)
        await shards.change("home", weight=0)

        def two_seconds_later() -> Awaitable[Mapping[int, object]]:
            app.clock.advance(ms=2_000)
            return app.services.broker.spans()

        await eventually(two_seconds_later, lambda spans: first_lane(1) in spans)
        yield app
    for name in ("home", "second"):
        shared_cluster().empty(tmp_path / name)


async def live(app: InProcess) -> Queue:
    """Five orders on the second shard of which two are acked, and one letter at home, all in the same instant."""
    catalog, broker = app.services.catalog, app.services.broker
    if "orders" not in [queue.name for queue in catalog.queues("default")]:
        await catalog.create_queue("default", "orders", principal="test")
    orders, home = catalog.queue("default", "orders"), catalog.queue("default", "at-home")
    sent = await broker.send(orders, [Draft(body=b"x" * 10) for _ in range(5)], principal="test")
    assert {shard_of(one.seq) for one in sent} == {1}  # type: ignore[union-attr]
    leases = await broker.receive(orders, limit=2, principal="test")
    await broker.settle(orders, [Ack(lease.receipt) for lease in leases], principal="test")
    await broker.send(home, [Draft(body=b"y")], principal="test")
    return orders


async def take_in(app: InProcess) -> None:
    """Build a lake from both journals."""
    entries = []
    for span in (await app.services.broker.spans()).values():
        entries += await app.services.broker.read_events(start=span.oldest, limit=10_000)
    entries.sort(key=lambda entry: (entry.event.at, entry.event.turn or 0))
    ends = {lane: span.next for lane, span in (await app.services.broker.spans()).items()}
    write_lake(app.services.settings.lake_place, entries, ends=ends)


async def ask(app: InProcess, path: str) -> Any:
    response = await app.get(path)
    assert response.status == 200, response
    return response.json()


async def sums(app: InProcess) -> dict[str, Any]:
    """What each dialect says of `orders`, and of everything."""
    now = app.clock.now()
    native = await ask(app, f"{T}/queues/orders/stats?from={NOON}&to={now + 1}")
    whole = await ask(app, f"{T}/stats?from={NOON}&to={now + 1}")
    anypoint = await ask(app, f"{ANYPOINT}/regions/us-east-1/queues/orders?{window(NOON, now + MINUTE, 60)}")
    usage = await ask(app, f"{ANYPOINT}?{window(NOON, now, '1day')}")
    discue = (await Organization(app).get("/stats/messages"))["aggregated_api_usage_events"]["last_24_hours"]
    return {
        "native": [sum(point[name] for point in native["points"]) for name in ("sent", "received", "acked")],
        "backlog": native["points"][-1]["backlog"],
        "totals": {name: totals["sent"] for name, totals in whole["queues"].items()},
        "anypoint": [sum(p["value"] for p in anypoint[f"messages{name}"]) for name in ("Sent", "Received", "Acked")],
        "waiting": anypoint["messagesVisible"][-1]["value"],
        "requests": sum(day["apiRequestCount"] for day in usage),
        "discue": discue["message_added"],
    }


async def test_every_dialect_tells_of_queues_on_every_shard(app: InProcess) -> None:
    await live(app)
    once = {
        "native": [5, 2, 2], "backlog": 3, "totals": {"orders": 5, "at-home": 1}, "anypoint": [5, 2, 2], "waiting": 3,
        "requests": 10, "discue": 6,
    }  # fmt: skip
    assert await sums(app) == once
    app.clock.advance(ms=MINUTE)
    await live(app)
    twice = await sums(app)
    assert (twice["native"], twice["backlog"], twice["totals"]) == ([10, 4, 4], 6, {"orders": 10, "at-home": 2})
    assert (twice["anypoint"], twice["waiting"], twice["requests"], twice["discue"]) == ([10, 4, 4], 6, 20, 12)


async def test_tables_and_journals_of_all_shards_add_up(app: InProcess) -> None:
    await live(app)
    await take_in(app)
    app.clock.advance(ms=2 * MINUTE)
    await live(app)
    told = await sums(app)
    assert (told["native"], told["backlog"], told["totals"]) == ([10, 4, 4], 6, {"orders": 10, "at-home": 2})
    assert (told["anypoint"], told["waiting"], told["discue"]) == ([10, 4, 4], 6, 12)
    fresh = (await ask(app, f"{T}/queues/orders/stats?from={NOON}"))["fresh"]
    assert fresh["tables_offset"] > first_of(1)


async def test_events_of_all_shards_come_in_the_order_of_time_and_page_by_page(app: InProcess) -> None:
    await live(app)
    app.clock.advance(ms=MINUTE)
    await live(app)
    whole = (await Organization(app).get("/events?events=messages&limit=100"))["events"]
    assert [event["queue"]["name"] for event in whole] == (["at-home"] + ["orders"] * 5) * 2
    paged: list[Any] = []
    while len(paged) < len(whole):
        after = f"&startAfter={paged[-1]['stored_at']}&startAfterId={paged[-1]['id']}" if paged else ""
        page = (await Organization(app).get(f"/events?events=messages&limit=5{after}"))["events"]
        assert page
        paged += page
    assert paged == whole


async def test_metrics_count_what_every_shard_has_done(app: InProcess) -> None:
    await live(app)
    lines = (await app.get("/metrics")).body.decode().splitlines()
    events = {line.split('"')[1]: float(line.split()[-1]) for line in lines if line.startswith("courier_events_total{")}
    assert (events["sent"], events["received"], events["acked"]) == (6, 2, 2)


async def test_the_delivery_log_and_replays_look_through_all_shards(app: InProcess) -> None:
    post = Post(app)
    async with receiving() as receiver:
        queue = await post.queue("news")
        listener = await post.listen(queue, receiver.url)
        for number in range(5):
            await post.send(queue, b"%d" % number)
            await live(app)
        await eventually(lambda: post.waiting(listener), lambda counters: counters.acked_count == 5)
        post.deliveries._log.forget(listener)  # as after a restart
        whole = (await post.deliveries.log_page(listener, limit=10)).attempts
        first = await post.deliveries.log_page(listener, limit=3)
        assert len(read_cursor(first.next).offsets) >= 2
        rest = await post.deliveries.log_page(listener, limit=3, before=first.next)
        assert first.attempts + rest.attempts == whole
        assert len(whole) == 5
        replayed = await post.deliveries.replay(post.now(listener), since=NOON, principal="test")
        assert replayed.count == 5
