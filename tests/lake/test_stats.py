"""Stats from tables: with a lake the answers are those that the whole journal would give, and they say how fresh."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest

from couriermq.clock import FakeClock
from couriermq.core.events import Entry
from couriermq.core.model import HOUR, MINUTE, SECOND, Ack, Draft, Queue, QueueSettings, Release
from couriermq.dialects.anypoint.dates import http_date
from couriermq.dialects.discue.history import History
from couriermq.lake.border import Border
from couriermq.lake.recent import Recent
from couriermq.lake.stats import Stats
from couriermq.lake.tables import Lake
from tests.support.inprocess import InProcess, courier_app
from tests.support.lakes import commit, write_lake

pytestmark = pytest.mark.every_engine

NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z
T = "/courier/v1/tenants/default"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, clock=FakeClock(NOON)) as app:
        yield app


async def live(app: InProcess, *, minutes: int, seed: int = 1, purges: bool = True) -> Queue:
    """Random lives of messages in two queues; returns the one that messages are sent to."""
    dice = random.Random(seed)
    catalog, broker, clock = app.services.catalog, app.services.broker, app.clock
    if "orders" not in [queue.name for queue in catalog.queues("default")]:
        dead = await catalog.create_queue("default", "dead", principal="test")
        settings = QueueSettings(dead_letter_queue=dead.id, max_attempts=2, lease_ms=40 * SECOND)
        await catalog.create_queue("default", "orders", settings=settings, principal="test")
    orders = catalog.queue("default", "orders")
    held: list[str] = []
    for _ in range(minutes * 4):
        drafts = [Draft(body=b"x" * dice.randint(1, 300)) for _ in range(dice.randint(1, 4))]
        await broker.send(orders, drafts, principal="test")
        held += [lease.receipt for lease in await broker.receive(orders, limit=2, principal="test")]
        if held and dice.random() < 0.7:
            receipt = held.pop(dice.randrange(len(held)))
            settlement = Ack(receipt) if dice.random() < 0.6 else Release(receipt)
            await broker.settle(orders, [settlement], principal="test")
        if purges and dice.random() < 0.03:
            await broker.purge(orders, principal="test")
        clock.advance(ms=dice.randint(0, 30_000))
    return orders


async def take_in(app: InProcess) -> int:
    """Build the lake from all that the journal has; returns the offset after the last event."""
    broker = app.services.broker
    await broker.counters(app.services.catalog.queue("default", "orders"))
    await app.get(f"{T}/queues/orders/counters")
    entries: list[Entry] = []
    spans = await broker.spans()
    for span in spans.values():
        start = span.oldest
        while start < span.next:
            found = await broker.read_events(start=start, limit=min(5_000, span.next - start))
            entries += found
            start = found[-1].offset + 1
    entries.sort(key=lambda entry: (entry.event.at, entry.event.turn or 0))
    ends = {lane: span.next for lane, span in spans.items()}
    write_lake(app.services.settings.lake_place, entries, ends=ends)
    return max(ends.values())


async def forget(app: InProcess) -> None:
    """Let the journal know no more than the minute that the tables end in: that of the lane that was used least."""
    broker = app.services.broker
    newest = [(await broker.read_events(start=span.next - 1, limit=1))[0] for span in (await broker.spans()).values()]
    last = min(entry.event.at for entry in newest)
    for offset in (await broker.offsets_at(last - last % MINUTE)).values():
        await app.store.trim_events(before=offset)


async def ask(app: InProcess, path: str) -> Any:
    response = await app.get(path)
    assert response.status == 200, response
    return response.json()


# -- native ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [MINUTE, 5 * MINUTE, HOUR])
async def test_tables_and_journal_together_say_what_the_journal_alone_would(app: InProcess, step: int) -> None:
    orders = await live(app, minutes=20)
    end = await take_in(app)
    await live(app, minutes=10, seed=2)
    now = app.clock.now()
    path = f"{T}/queues/orders/stats?from={NOON}&to={now + 1}&step={step}"
    told = await ask(app, path)
    alone = Stats(Lake(Path("/nowhere")), Recent(Lake(Path("/nowhere")), app.services.broker))
    counters = await app.services.broker.counters(orders)
    course = await alone.of(orders, counters, start=NOON, end=now + 1, step=step, now=now)
    assert len(told["points"]) == len(course.steps) > 1 or step == HOUR
    for point, expected in zip(told["points"], course.steps, strict=True):
        assert {name: point[name] for name in expected.counts} == expected.counts, point["at"]
        assert (point["at"], point["backlog"]) == (expected.at, expected.backlog)
    assert told["fresh"]["tables_offset"] == end
    assert NOON < told["fresh"]["tables_until"] <= now
    assert told["fresh"]["until"] == now


@pytest.mark.parametrize("step", [MINUTE, 5 * MINUTE])
@pytest.mark.usefixtures("_one_lane")  # with two, the border may be long before the end of the tables
async def test_the_border_moves_on_with_the_tables(app: InProcess, monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    orders = await live(app, minutes=10)
    await take_in(app)
    path = f"{T}/queues/orders/stats?from={NOON}&step={step}"
    before = (await ask(app, path))["fresh"]
    await live(app, minutes=15, seed=2)
    await ask(app, path)
    end = await take_in(app)
    await live(app, minutes=3, seed=3)
    alone = Stats(Lake(Path("/nowhere")), Recent(Lake(Path("/nowhere")), app.services.broker))
    counters, now = await app.services.broker.counters(orders), app.clock.now()
    course = await alone.of(orders, counters, start=NOON, end=now + 1, step=step, now=now)
    sums, _ = await alone.totals("default", [orders], start=NOON, end=now + 1)
    monkeypatch.setattr("couriermq.lake.recent.KEPT_MINUTES", 8)  # fewer than the journal had before the border moved
    told = await ask(app, f"{path}&to={now + 1}")
    fresh = told["fresh"]
    assert before["tables_until"] < fresh["tables_until"] <= now
    assert fresh["tables_offset"] == end
    for point, expected in zip(told["points"], course.steps, strict=True):
        assert {name: point[name] for name in expected.counts} == expected.counts, point["at"]
        assert (point["at"], point["backlog"]) == (expected.at, expected.backlog)
    newly = [p for p in told["points"] if before["tables_until"] <= p["at"] <= fresh["tables_until"] - step]
    assert any(point["acked"] for point in newly)
    assert all(point["latency_p50_ms"] is not None for point in newly if point["acked"])
    assert (await ask(app, f"{T}/stats?from={NOON}&to={now + 1}"))["queues"]["orders"] == sums["orders"]


async def test_who_reads_while_the_border_moves_on_gets_all_from_the_border_of_before_on(app: InProcess) -> None:
    orders = await live(app, minutes=5)
    await take_in(app)
    recent = Recent(app.services.lake, app.services.broker)
    await recent.catch_up()
    await live(app, minutes=5, seed=2)
    await recent.catch_up()
    old, border = recent.minutes(orders.id), recent.border
    assert border is not None
    counted = {at: dict(counts) for at, counts in old.items()}
    await take_in(app)
    await recent.catch_up()
    assert recent.border is not None
    assert recent.border.at > border.at
    assert old == counted
    assert recent.minutes(orders.id) == {at: old[at] for at in old if at >= recent.border.at}


async def test_tables_that_come_after_the_first_question_are_read(app: InProcess) -> None:
    orders = await live(app, minutes=20)
    broker = app.services.broker
    stats = Stats(app.services.lake, Recent(app.services.lake, broker, scan_count=200))

    async def sent_count() -> tuple[int, Border | None]:
        counters, now = await broker.counters(orders), app.clock.now()
        course = await stats.of(orders, counters, start=NOON, end=now + 1, step=MINUTE, now=now)
        return sum(step.counts["sent"] for step in course.steps), course.border

    before, border = await sent_count()
    assert border is None
    await take_in(app)
    after, border = await sent_count()
    assert border is not None
    whole = Stats(Lake(Path("/nowhere")), Recent(Lake(Path("/nowhere")), broker))
    sums, _ = await whole.totals("default", [orders], start=NOON, end=app.clock.now() + 1)
    assert before < after == sums["orders"]["sent"]


async def test_tables_that_are_rebuilt_do_not_move_the_border_back(app: InProcess) -> None:
    await live(app, minutes=10)
    await take_in(app)
    path = f"{T}/queues/orders/stats?from={NOON}"
    before = (await ask(app, path))["fresh"]["tables_until"]
    commit(app.services.settings.lake_place, 0, {0: 100})
    assert (await ask(app, path))["fresh"]["tables_until"] == before


async def test_the_minutes_of_a_deleted_queue_are_forgotten(app: InProcess) -> None:
    orders = await live(app, minutes=3)
    recent = Recent(app.services.lake, app.services.broker)
    await recent.catch_up()
    assert recent.minutes(orders.id)
    await app.services.catalog.delete_queue(orders, principal="test")
    await recent.catch_up()
    # PostgreSQL removes what was in it afterwards.
    assert {column for counts in recent.minutes(orders.id).values() for column in counts} <= {"removed"}


async def test_ages_and_latencies_are_told_as_far_as_the_tables_go(app: InProcess) -> None:
    await live(app, minutes=15)
    await take_in(app)
    now = app.clock.now()
    for step in (MINUTE, 5 * MINUTE):
        told = await ask(app, f"{T}/queues/orders/stats?from={NOON}&to={now + 1}&step={step}")
        acked = [p for p in told["points"] if p["acked"] and p["at"] + step <= told["fresh"]["tables_until"]]
        assert acked
        assert all(0 <= p["latency_p50_ms"] <= p["latency_p95_ms"] <= p["latency_p99_ms"] for p in acked)
        waiting = [p for p in told["points"] if p["backlog"] and p["at"] + step <= told["fresh"]["tables_until"]]
        assert all(p["oldest_age_ms"] > 0 for p in waiting)


async def test_without_tables_the_journal_answers_and_says_so(app: InProcess) -> None:
    await live(app, minutes=3)
    told = await ask(app, f"{T}/queues/orders/stats?from={NOON}")
    assert (told["fresh"]["tables_until"], told["fresh"]["tables_offset"]) == (None, None)
    assert sum(point["sent"] for point in told["points"]) > 10
    counters = await ask(app, f"{T}/queues/orders/counters")
    assert told["points"][-1]["backlog"] == counters["total_count"]


async def test_a_tenants_totals_are_those_of_its_queues(app: InProcess) -> None:
    await live(app, minutes=10)
    await take_in(app)
    await live(app, minutes=5, seed=3)
    await ask(app, f"{T}/queues/orders/counters")  # leases that have ended have ended before the one look and the other
    span = f"from={NOON}&to={app.clock.now() + 1}"
    told = await ask(app, f"{T}/stats?{span}")
    assert set(told["queues"]) == {"orders", "dead"}
    for name, totals in told["queues"].items():
        points = (await ask(app, f"{T}/queues/{name}/stats?{span}"))["points"]
        assert totals == {column: sum(point[column] for point in points) for column in totals}
    assert told["queues"]["dead"]["arrived"] == told["queues"]["orders"]["dead_lettered"] > 0


@pytest.mark.parametrize(
    "query", ["step=1000", "step=90000", "from=5&to=5", f"from=0&to={NOON}&step={MINUTE}", "since=1", "from=-1"]
)
async def test_a_window_that_makes_no_sense_is_refused(app: InProcess, query: str) -> None:
    await live(app, minutes=1)
    assert (await app.get(f"{T}/queues/orders/stats?{query}")).status == 400


async def test_a_queue_of_the_same_name_from_before_is_another_queue(app: InProcess) -> None:
    orders = await live(app, minutes=5)
    await app.services.catalog.delete_queue(orders, principal="test")
    app.clock.advance(ms=5 * MINUTE)
    await app.services.catalog.create_queue("default", "orders", principal="test")
    await take_in(app)
    points = (await ask(app, f"{T}/queues/orders/stats?from={NOON}"))["points"]
    assert sum(point["sent"] for point in points) == 0
    assert all(point["backlog"] == 0 for point in points)


# -- the other dialects ---------------------------------------------------------------------------------------

ANYPOINT = "/mq/stats/api/v1/organizations/default/environments/default"


def window(start: int, end: int, period: object) -> str:
    return f"startDate={quote_plus(http_date(start))}&endDate={quote_plus(http_date(end))}&period={period}"


@pytest.mark.parametrize("period", [60, 300, 3_600])
async def test_the_history_of_an_anypoint_queue_is_the_same_with_tables(tmp_path: Path, period: int) -> None:
    answers = []
    for kept in (True, False):
        folder = tmp_path / str(kept)
        async with courier_app(folder, clock=FakeClock(NOON), archive_enabled=False) as app:
            await live(app, minutes=20, purges=False)
            if kept:
                await take_in(app)
                await forget(app)
            await live(app, minutes=5, seed=2, purges=False)
            path = f"{ANYPOINT}/regions/us-east-1/queues/orders?{window(NOON, app.clock.now(), period)}"
            response = await app.get(path)
            assert (response.headers["courier-tables-until"] == "none") is not kept
            answers.append(response.json())
    assert answers[0] == answers[1]
    assert sum(point["value"] for point in answers[0]["messagesSent"]) > 100


async def test_an_anypoint_queue_is_told_the_same_once_there_are_tables(tmp_path: Path) -> None:
    answers = []
    for kept in (True, False):
        async with courier_app(tmp_path / str(kept), clock=FakeClock(NOON), archive_enabled=False) as app:
            await live(app, minutes=20, purges=False)
            path = f"{ANYPOINT}/regions/us-east-1/queues/orders?{window(NOON, app.clock.now(), 60)}"
            await ask(app, path)
            if kept:
                await take_in(app)
            else:
                await app.services.broker.counters(app.services.catalog.queue("default", "orders"))
            await live(app, minutes=5, seed=2, purges=False)
            response = await app.get(f"{ANYPOINT}/regions/us-east-1/queues/orders?{window(NOON, app.clock.now(), 60)}")
            assert (response.headers["courier-tables-until"] == "none") is not kept
            answers.append(response.json())
    assert answers[0] == answers[1]


async def test_the_usage_of_an_anypoint_environment_is_the_same_with_tables(tmp_path: Path) -> None:
    answers = []
    for kept in (True, False):
        async with courier_app(tmp_path / str(kept), clock=FakeClock(NOON), archive_enabled=False) as app:
            await live(app, minutes=90)
            if kept:
                await take_in(app)
                await forget(app)
            await live(app, minutes=5, seed=2)
            windows = {period: window(NOON, app.clock.now(), period) for period in ("1hour", "1day", "1month")}
            answers.append({period: await ask(app, f"{ANYPOINT}?{asked}") for period, asked in windows.items()})
    assert answers[0] == answers[1]
    assert min(periods[0]["billableUnitCount"] for periods in answers[0].values()) > 50


async def test_the_last_day_of_a_discue_organization_is_the_same_with_tables(app: InProcess) -> None:
    await live(app, minutes=30)
    services = app.services
    queue = services.catalog.queue("default", "orders")
    await services.catalog.change_queue(queue, name="invoices", principal="test")
    await services.catalog.change_queue(queue, name="orders", principal="test")
    whole = await History(services.broker, services.clock).of("default")
    await take_in(app)
    history = History(services.broker, services.clock, lake=services.lake)
    told = await history.of("default")
    assert history.border is not None
    assert told.counts(NOON) == whole.counts(NOON)
    assert told.counts(NOON)["message_added"] > 100
    assert list(told.happenings(None)) == list(whole.happenings(None))
    assert (told.sent, told.minutes) == (whole.sent, whole.minutes)


async def test_a_discue_organization_is_told_its_whole_day_once_there_are_tables(app: InProcess) -> None:
    await live(app, minutes=30)
    services = app.services
    whole = (await History(services.broker, services.clock).of("default")).counts(NOON)
    history = History(services.broker, services.clock, lake=services.lake, scan_count=400)
    assert (await history.of("default")).counts(NOON) != whole
    await take_in(app)
    assert (await history.of("default")).counts(NOON) == whole
    assert history.border is not None


async def test_a_long_day_is_counted_whole_though_only_its_newest_events_are_kept(
    app: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    await live(app, minutes=30)
    services = app.services
    whole = (await History(services.broker, services.clock).of("default")).counts(NOON)
    await take_in(app)
    monkeypatch.setattr("couriermq.dialects.discue.history.KEPT_COUNT", 5)
    told = await History(services.broker, services.clock, lake=services.lake).of("default")
    assert told.counts(NOON) == whole
    assert len(list(told.happenings("message"))) == 5


async def test_discue_says_where_the_tables_end(app: InProcess) -> None:
    await live(app, minutes=3)
    headers = {"X-API-KEY": "root-token"}
    before = await app.get("/v1/stats/messages", headers=headers, token=None)
    assert before.headers["courier-tables-until"] == "none"
