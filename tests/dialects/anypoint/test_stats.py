"""The stats API: live figures, and a past that is never invented and never empty."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND, Ack, Draft, Extend, Release, Settlement
from couriermq.dialects.anypoint.dates import http_date, month_start, next_month
from couriermq.dialects.anypoint.history import Window
from couriermq.dialects.anypoint.journal_history import JournalHistory
from tests.support.anypoint import AnypointCaller, good
from tests.support.inprocess import courier_app

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("_one_lane")]

NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z


@pytest.fixture
async def mq(tmp_path: Path) -> AsyncIterator[AnypointCaller]:
    async with courier_app(tmp_path, clock=FakeClock(NOON), archive_enabled=False) as app:
        caller = AnypointCaller(app)
        await caller.queue("orders")
        yield caller


def window(start: int, end: int, period: object) -> str:
    return f"startDate={quote_plus(http_date(start))}&endDate={quote_plus(http_date(end))}&period={period}"


async def history(mq: AnypointCaller, start: int, end: int, period: int) -> dict[str, Any]:
    told: dict[str, Any] = good(await mq.stats(f"/queues/orders?{window(start, end, period)}"))
    return told


def values(series: list[dict[str, Any]]) -> list[int]:
    return [point["value"] for point in series]


# -- live -----------------------------------------------------------------------------------------------------


async def test_live_figures_are_those_of_the_moment(mq: AnypointCaller) -> None:
    await mq.queue("empty")
    for n in range(3):
        await mq.publish("orders", str(n))
    await mq.publish("orders", "late", headers={"deliveryDelay": MINUTE})
    await mq.consume("orders", lockTtl=1_000)
    path = "/queues?destinationIds=orders,empty,nowhere,orders"
    assert good(await mq.stats(path)) == [
        {"destination": "orders", "messages": 3, "inflightMessages": 1},
        {"destination": "empty", "messages": 0, "inflightMessages": 0},
    ]
    repeated = "/queues?destinationIds=orders&destinationIds=empty,nowhere&destinationIds=orders"
    assert good(await mq.stats(repeated)) == good(await mq.stats(path))
    mq.app.clock.advance(ms=1_000)
    assert good(await mq.stats(path))[0] == {"destination": "orders", "messages": 4, "inflightMessages": 0}


async def test_live_figures_need_names(mq: AnypointCaller) -> None:
    assert (await mq.stats("/queues")).status == 400
    assert good(await mq.stats("/queues?destinationIds=")) == []


# -- queues ---------------------------------------------------------------------------------------------------


async def test_history_tells_what_happened_in_every_step(mq: AnypointCaller) -> None:
    for n in range(4):
        await mq.publish("orders", str(n))
    mq.app.clock.advance(ms=MINUTE)
    first, second, _ = await mq.consume("orders", 3, lockTtl=90 * SECOND)
    mq.app.clock.advance(ms=MINUTE)
    await mq.ack("orders", first)
    await mq.nack("orders", second)
    mq.app.clock.advance(ms=MINUTE)  # the third lock has expired
    told = await history(mq, NOON, NOON + 3 * MINUTE + 1_000, 60)
    assert told["destination"] == "orders"
    assert [point["date"] for point in told["messages"]] == [f"2023-11-15T12:0{n}:00.000+0000" for n in range(4)]
    assert values(told["messages"]) == values(told["messagesVisible"]) == [4, 1, 3, 3]
    assert values(told["inflightMessages"]) == [0, 3, 0, 0]
    assert values(told["messagesSent"]) == [4, 0, 0, 0]
    assert values(told["messagesReceived"]) == [0, 3, 0, 0]
    assert values(told["messagesAcked"]) == [0, 0, 1, 0]


async def test_levels_follow_dead_letters_purges_moves_and_expiry(mq: AnypointCaller) -> None:
    await mq.queue("failed")
    await mq.queue("orders", deadLetterQueueId="failed", maxDeliveries=1)
    for n in range(4):
        await mq.publish("orders", str(n), headers={"ttl": 10 * MINUTE})
    mq.app.clock.advance(ms=MINUTE)
    [message] = await mq.consume("orders")
    await mq.nack("orders", message)
    mq.app.clock.advance(ms=MINUTE)
    await mq.consume("orders")
    mq.app.clock.advance(ms=10 * MINUTE)
    good(await mq.stats("/queues?destinationIds=orders"))
    await mq.publish("orders", "last")
    await mq.consume("orders")
    mq.app.clock.advance(ms=MINUTE)
    await mq.admin("DELETE", "/destinations/queues/orders/messages")
    now = mq.app.clock.now()
    told = await history(mq, NOON, now + 1_000, 60)
    assert values(told["messages"])[:3] == [4, 3, 2]
    assert values(told["inflightMessages"])[:3] == [0, 0, 1]
    assert values(told["messages"])[-2:] == [0, 0]
    assert values(told["inflightMessages"])[-2:] == [1, 0]
    failed = good(await mq.stats(f"/queues/failed?{window(NOON, now + 1_000, 60)}"))
    assert values(failed["messages"])[0] == 0
    assert values(failed["messages"])[1] == 1


async def test_a_window_of_one_period_has_one_point_which_begins_with_it(mq: AnypointCaller) -> None:
    """The PyPI client asks for a day up to now, in steps of a day, and reads the first point."""
    await mq.publish("orders", "m-1")
    [message] = await mq.consume("orders")
    await mq.ack("orders", message)
    mq.app.clock.advance(ms=5 * HOUR + 17 * MINUTE + 3 * SECOND)
    await mq.publish("orders", "m-2")
    mq.app.clock.advance(ms=SECOND)
    now = mq.app.clock.now()
    told = await history(mq, now - DAY, now, 86_400)
    assert [point["date"] for point in told["messages"]] == ["2023-11-14T17:17:04.000+0000"]
    assert values(told["messages"]) == [1]
    assert (values(told["messagesSent"]), values(told["messagesAcked"])) == ([2], [1])


async def test_a_step_ends_where_the_window_ends(mq: AnypointCaller) -> None:
    for _ in range(4):
        await mq.publish("orders", "m")
        mq.app.clock.advance(ms=40 * SECOND)
    told = await history(mq, NOON + 10 * SECOND, NOON + 100 * SECOND, 60)
    assert [point["date"] for point in told["messages"]] == [
        "2023-11-15T12:00:10.000+0000",
        "2023-11-15T12:01:10.000+0000",
    ]
    assert (values(told["messagesSent"]), values(told["messages"])) == ([1, 1], [2, 3])


async def test_steps_of_seconds_are_kept_for_3_hours(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    mq.app.clock.advance(ms=2 * SECOND)
    told = await history(mq, NOON, NOON + 3 * SECOND, 1)
    assert values(told["messagesSent"]) == [1, 0, 0]
    mq.app.clock.advance(ms=3 * HOUR)
    told = await history(mq, NOON, NOON + 3 * SECOND, 1)
    assert values(told["messagesSent"]) == [0]
    assert values(told["messages"]) == [1]
    assert values((await history(mq, NOON, NOON + MINUTE, 60))["messagesSent"]) == [1]


@pytest.mark.parametrize(("start", "end"), [(NOON, NOON), (NOON + DAY, NOON + 2 * DAY), (NOON - DAY, NOON - HOUR)])
async def test_history_is_never_empty(mq: AnypointCaller, start: int, end: int) -> None:
    for name in ("orders", "news"):
        kind = "exchanges" if name == "news" else "queues"
        await mq.exchange("news")
        told = good(await mq.stats(f"/{kind}/{name}?{window(start, end, 60)}"))
        assert all(told[series] for series in told if series != "destination")


async def test_history_does_not_reach_into_the_future(mq: AnypointCaller) -> None:
    told = await history(mq, NOON - MINUTE, NOON + DAY, 60)
    assert [point["date"] for point in told["messages"]][-1] == "2023-11-15T12:00:00.000+0000"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "startDate=yesterday&endDate=today&period=60",
        window(NOON, NOON - 1_000, 60),
        window(NOON, NOON, 0),
        window(NOON, NOON, 86_401),
        window(NOON, NOON, "1day"),
        window(NOON, NOON, ""),
    ],
)
async def test_a_window_that_makes_no_sense_is_400(mq: AnypointCaller, query: str) -> None:
    await mq.exchange("news")
    for path in (f"/queues/orders?{query}", f"/exchanges/news?{query}"):
        response = await mq.stats(path)
        assert (response.status, set(response.json())) == (400, {"message"})


async def test_history_of_nothing_is_404(mq: AnypointCaller) -> None:
    query = window(NOON, NOON, 60)
    assert (await mq.stats(f"/queues/nowhere?{query}")).json() == {"message": "queue not found"}
    assert (await mq.stats(f"/exchanges/nowhere?{query}")).json() == {"message": "exchange not found"}


async def test_a_trimmed_journal_shortens_history_and_falsifies_nothing(mq: AnypointCaller) -> None:
    for n in range(3):
        await mq.publish("orders", str(n))
    mq.app.clock.advance(ms=HOUR)
    span = (await mq.app.services.broker.spans())[0]
    [message] = await mq.consume("orders")
    await mq.ack("orders", message)
    await mq.app.store.trim_events(before=span.next)
    told = await history(mq, NOON, NOON + HOUR + 1, 60)
    assert values(told["messages"]) == [2]
    assert values(told["messagesSent"]) == [0]
    mq.app.clock.advance(ms=MINUTE)
    await mq.publish("orders", "x")
    assert values((await history(mq, NOON, NOON + 2 * HOUR, 60))["messages"]) == [2, 3]


async def test_a_trim_behind_our_back_makes_history_start_anew(mq: AnypointCaller) -> None:
    await mq.publish("orders", "1")
    assert values((await history(mq, NOON, NOON + SECOND, 60))["messagesSent"]) == [1]
    mq.app.clock.advance(ms=MINUTE)
    await mq.publish("orders", "2")
    span = (await mq.app.services.broker.spans())[0]
    mq.app.clock.advance(ms=MINUTE)
    await mq.publish("orders", "3")
    await mq.app.store.trim_events(before=span.next)
    assert values((await history(mq, NOON, NOON + 3 * MINUTE, 60))["messages"]) == [3]


async def test_a_first_question_reads_no_more_than_it_may(mq: AnypointCaller) -> None:
    for n in range(50):
        await mq.publish("orders", str(n))
        mq.app.clock.advance(ms=MINUTE)
    services = mq.app.services
    short = JournalHistory(services.broker, services.clock, scan=10)
    queue = services.catalog.queue("default", "orders")
    points = await short.of_queue(queue, Window(start=NOON, end=NOON + DAY, step_ms=MINUTE))
    assert [point.sent_count for point in points] == [1] * 10 + [0]
    assert [point.waiting_count for point in points] == [*range(41, 51), 50]


@pytest.mark.parametrize("seed", range(12))
async def test_levels_are_those_that_were_there(mq: AnypointCaller, seed: int) -> None:
    """Random lives of messages for half an hour; each minute's end is looked at, and history must say the same."""
    dice = random.Random(seed)
    broker, catalog, clock = mq.app.services.broker, mq.app.services.catalog, mq.app.clock
    await mq.queue("failed", fifo=seed % 2 == 1)
    await mq.queue("tried", fifo=seed % 2 == 1, deadLetterQueueId="failed", maxDeliveries=2, defaultTtl=10 * MINUTE)
    queues = [catalog.queue("default", name) for name in ("tried", "failed")]
    receipts: list[str] = []

    async def step() -> None:
        tried, failed = queues
        match dice.choice(("send", "send", "receive", "ack", "release", "extend", "redrive", "purge", "wait")):
            case "send":
                drafts = [Draft(body=b"x", group=str(dice.randint(0, 3))) for _ in range(dice.randint(1, 4))]
                await broker.send(tried, drafts, principal="test")
            case "receive":
                lease_ms = dice.choice((1_000, 50_000, 5 * MINUTE))
                leases = await broker.receive(tried, limit=3, lease_ms=lease_ms, principal="test")
                receipts.extend(lease.receipt for lease in leases)
            case "ack" | "release" | "extend" as verb if receipts:
                receipt = receipts.pop(dice.randrange(len(receipts)))
                settlements: dict[str, Settlement] = {
                    "ack": Ack(receipt), "release": Release(receipt), "extend": Extend(receipt, MINUTE)
                }  # fmt: skip
                await broker.settle(tried, [settlements[verb]], principal="test")
            case "redrive":
                await broker.redrive(failed, principal="test")
            case "purge" if dice.random() < 0.1:
                await broker.purge(tried, principal="test")

    levels: dict[str, list[tuple[int, int]]] = {queue.name: [] for queue in queues}
    for _ in range(30):
        for _ in range(4):
            await step()
            clock.advance(ms=dice.randint(0, 14_999))
        clock.advance(ms=MINUTE - 1 - clock.now() % MINUTE)
        for queue in queues:
            counters = await broker.counters(queue)
            levels[queue.name].append((counters.total_count - counters.leased_count, counters.leased_count))
        clock.advance(ms=1)
    for name, expected in levels.items():
        told = good(await mq.stats(f"/queues/{name}?{window(NOON, NOON + 30 * MINUTE, 60)}"))
        assert list(zip(values(told["messages"]), values(told["inflightMessages"]), strict=True)) == expected


# -- exchanges ------------------------------------------------------------------------------------------------


async def test_the_history_of_an_exchange_counts_messages_and_copies(mq: AnypointCaller) -> None:
    await mq.queue("audit")
    await mq.exchange("news", "orders", "audit")
    await mq.publish("news", "m-1")
    mq.app.clock.advance(ms=MINUTE)
    for n in range(2):
        await mq.publish("news", f"n-{n}")
    told = good(await mq.stats(f"/exchanges/news?{window(NOON, NOON + MINUTE + 1_000, 60)}"))
    assert (values(told["messagesPublished"]), values(told["messagesDelivered"])) == ([1, 2], [2, 4])


# -- usage ----------------------------------------------------------------------------------------------------


async def usage(mq: AnypointCaller, path: str, start: int, end: int, period: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = good(await mq.app.get(f"/mq/stats/api/v1{path}?{window(start, end, period)}"))
    return told


async def test_usage_adds_up_what_the_journal_holds(mq: AnypointCaller) -> None:
    await mq.queue("audit")
    await mq.exchange("news", "orders", "audit")
    await mq.publish("orders", "m-1", "x" * 100)
    await mq.publish("news", "m-2", "x" * (100 * 1024 + 1))
    [first, second] = await mq.consume("orders", 2)
    await mq.ack("orders", first)
    await mq.nack("orders", second)
    [row] = await usage(mq, mq.environment, NOON, NOON + 1_000, "1hour")
    assert row == {
        "timestamp": "2023-11-15T12:00Z",
        "apiRequestCount": 6,
        "messageReceiptCount": 2,
        "billableUnitCount": 3,
        "messageByteCount": 2 * 100 + 3 * (100 * 1024 + 1),
    }


async def test_usage_comes_by_hour_day_and_month(mq: AnypointCaller) -> None:
    await mq.publish("orders", "m-1")
    mq.app.clock.advance(ms=HOUR)
    await mq.publish("orders", "m-2")
    end = NOON + 2 * HOUR
    by_hour = await usage(mq, mq.environment, NOON, end, "1hour")
    assert [row["apiRequestCount"] for row in by_hour] == [1, 1]
    [by_day] = await usage(mq, mq.environment, NOON, end, "1day")
    assert (by_day["timestamp"], by_day["apiRequestCount"]) == ("2023-11-15T00:00Z", 2)
    [by_month] = await usage(mq, mq.environment, NOON, end, "1MONTH")
    assert (by_month["timestamp"], by_month["apiRequestCount"]) == ("2023-11-01T00:00Z", 2)
    since_october = await usage(mq, mq.environment, NOON - 20 * DAY, end, "1month")
    assert [(row["timestamp"], row["apiRequestCount"]) for row in since_october] == [
        ("2023-10-01T00:00Z", 0),
        ("2023-11-01T00:00Z", 2),
    ]


async def test_usage_counts_what_is_inside_the_window(mq: AnypointCaller) -> None:
    for _ in range(3):
        await mq.publish("orders", "m")
        mq.app.clock.advance(ms=HOUR)
    for period in ("1hour", "1day", "1month"):
        rows = await usage(mq, mq.environment, NOON + HOUR, NOON + 2 * HOUR, period)
        assert [row["apiRequestCount"] for row in rows] == [1]


async def test_usage_counts_from_the_beginning_of_an_hour(mq: AnypointCaller) -> None:
    mq.app.clock.advance(ms=10 * MINUTE)
    await mq.publish("orders", "m-1")
    now = NOON + 30 * MINUTE
    mq.app.clock.advance(ms=20 * MINUTE)
    [row] = await usage(mq, mq.environment, now - 15 * MINUTE, now, "1hour")
    assert (row["timestamp"], row["apiRequestCount"]) == ("2023-11-15T12:00Z", 1)


async def test_the_usage_of_an_organization_is_that_of_all_its_environments(mq: AnypointCaller) -> None:
    catalog = mq.app.services.catalog
    for tenant, alias in [("prod", "acme/production"), ("test", "acme/sandbox")]:
        await catalog.create_tenant(tenant, aliases={"anypoint": alias}, principal="test")
        caller = AnypointCaller(mq.app, organization="acme", environment=alias.partition("/")[2])
        await caller.queue("orders")
        await caller.publish("orders", "m-1")
    [row] = await usage(mq, "/organizations/acme", NOON, NOON + 1_000, "1day")
    assert row["apiRequestCount"] == 2
    [row] = await usage(mq, "/organizations/acme/environments/sandbox", NOON, NOON + 1_000, "1day")
    assert row["apiRequestCount"] == 1


async def test_usage_of_a_period_that_is_none_is_400(mq: AnypointCaller) -> None:
    response = await mq.app.get(f"/mq/stats/api/v1{mq.environment}?{window(NOON, NOON, '1week')}")
    assert response.status == 400


@pytest.mark.parametrize(
    ("at", "start", "following"),
    [(NOON, 1_698_796_800_000, 1_701_388_800_000), (1_703_980_800_000, 1_701_388_800_000, 1_704_067_200_000)],
)
def test_months_begin_on_the_first(at: int, start: int, following: int) -> None:
    assert (month_start(at), next_month(at)) == (start, following)
