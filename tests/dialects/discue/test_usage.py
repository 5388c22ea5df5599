"""Events and stats through the Discue dialect: the last day, as the journal tells it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import DAY, HOUR, MINUTE
from couriermq.dialects.discue import history
from couriermq.dialects.discue.history import TYPES, History
from tests.support.discue import LIVE, Organization, discue_organization, refused
from tests.support.eventually import eventually
from tests.support.receiver import answer, receiving

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("_one_lane")]


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path, delivery_allow=("127.0.0.0/8",)) as organization:
        yield organization


async def stats(org: Organization) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = (await org.get("/stats/messages"))["aggregated_api_usage_events"]
    return counts


def happened(counts: dict[str, int]) -> dict[str, int]:
    return {kind: count for kind, count in counts.items() if count}


async def counted(org: Organization, kind: str) -> None:
    """Until it has happened: sockets take what time they take."""
    await eventually(lambda: stats(org), lambda shown: shown["last_24_hours"][kind])


async def one_of_everything(org: Organization) -> None:
    """Every type of event, once."""
    queue_id = await org.queue("orders")
    listener = await org.listener(queue_id, status="paused")
    key = (await org.post("/api_keys", {"alias": "shop"}))["api_key"]
    await org.add(queue_id, name="request-1")
    await org.put(f"/queues/{queue_id}/listeners/{listener['id']}", {"alias": "till"})
    await org.put(f"/queues/{queue_id}", {"alias": "invoices"})
    await org.put(f"/api_keys/{key['id']}", {"alias": "shop-2"})
    await org.delete(f"/queues/{queue_id}/listeners/{listener['id']}")
    await org.delete(f"/queues/{queue_id}")
    await org.delete(f"/api_keys/{key['id']}")


async def test_stats_have_all_twelve_types_for_three_spans(org: Organization) -> None:
    counts = await stats(org)
    assert list(counts) == ["last_24_hours", "last_1_hours", "today_so_far"]
    assert all(set(span) == set(TYPES) and len(span) == 12 for span in counts.values())
    assert all(happened(span) == {} for span in counts.values())


async def test_what_is_done_is_counted_once(org: Organization) -> None:
    await one_of_everything(org)
    expected = dict.fromkeys(TYPES, 1) | {"message_published_ok": 0, "message_published_not_ok": 0}
    counts = await stats(org)
    assert counts["last_24_hours"] == counts["last_1_hours"] == expected


async def test_deliveries_are_counted_by_how_they_went(org: Organization) -> None:
    async with receiving(answer(500), answer(200)) as receiver:
        queue_id = await org.queue()
        await org.listener(queue_id, notify_url=receiver.url, liveness_url=LIVE)
        message_id = await org.add(queue_id, name="request-1")
        await counted(org, "message_published_not_ok")
        org.clock.advance(ms=MINUTE)
        await counted(org, "message_published_ok")
        counts = happened((await stats(org))["last_24_hours"])
        assert (counts["message_added"], counts["message_published_ok"], counts["message_published_not_ok"]) == (
            1,
            1,
            1,
        )
        events = (await org.get("/events?events=messages"))["events"]
        assert [event["type"] for event in events] == [
            "message_added",
            "message_published_not_ok",
            "message_published_ok",
        ]
        assert all(event["message"]["id"] == message_id for event in events)
        assert all(event["message"]["name"] == "request-1" for event in events)
        assert all(event["queue"]["id"] == queue_id for event in events)
        assert events[2]["listener"]["name"] == "shop"


async def test_what_is_older_than_its_span_is_counted_no_more(org: Organization) -> None:
    await org.queue()
    org.clock.advance(ms=HOUR + MINUTE)
    counts = await stats(org)
    assert (counts["last_24_hours"]["queue_added"], counts["last_1_hours"]["queue_added"]) == (1, 0)
    org.clock.advance(ms=DAY)
    assert happened((await stats(org))["last_24_hours"]) == {}
    assert (await org.get("/events"))["events"] == []


async def test_today_begins_at_midnight_in_utc(org: Organization) -> None:
    org.clock.advance(ms=DAY - org.clock.now() % DAY - MINUTE)
    await org.queue("yesterday")
    org.clock.advance(ms=2 * MINUTE)
    await org.queue("today")
    counts = await stats(org)
    assert (counts["today_so_far"]["queue_added"], counts["last_1_hours"]["queue_added"]) == (1, 2)


async def test_events_say_what_happened_to_what_and_when(org: Organization) -> None:
    queue_id = await org.queue("orders")
    (event,) = (await org.get("/events"))["events"]
    assert event == {
        "id": event["id"],
        "type": "queue_added",
        "stored_at": org.clock.now(),
        "client": {"id": "default"},
        "principal": {"id": "root"},
        "queue": {"id": queue_id, "name": "orders", "alias": "orders"},
    }
    assert len(event["id"]) == 21


@pytest.mark.parametrize(
    ("group", "nouns"),
    [
        ("all", {"api_key", "listener", "message", "queue"}),
        ("api_keys", {"api_key"}),
        ("listeners", {"listener"}),
        ("messages", {"message"}),
        ("queues", {"queue"}),
    ],
)
async def test_events_are_chosen_by_group(org: Organization, group: str, nouns: set[str]) -> None:
    await one_of_everything(org)
    events = (await org.get(f"/events?events={group}"))["events"]
    assert {event["type"].rpartition("_")[0] for event in events} == nouns
    assert all(event[event["type"].rpartition("_")[0]]["id"] for event in events)


async def test_pages_of_events_go_on_after_the_last_one(org: Organization) -> None:
    await one_of_everything(org)
    every = (await org.get("/events"))["events"]
    assert len(every) == 10
    seen: list[Any] = []
    query = "limit=3"
    while page := (await org.get(f"/events?{query}"))["events"]:
        seen += page
        query = f"limit=3&startAfter={page[-1]['stored_at']}&startAfterId={page[-1]['id']}"
    assert seen == every


async def test_one_half_of_a_place_has_no_effect(org: Organization) -> None:
    await org.queue()
    (event,) = (await org.get("/events"))["events"]
    for query in (f"startAfter={event['stored_at']}", f"startAfterId={event['id']}"):
        assert (await org.get(f"/events?{query}"))["events"] == [event]


@pytest.mark.parametrize(
    "query",
    [
        "events=domains",
        "limit=0",
        "limit=1001",
        "limit=x",
        "startAfter=1&startAfterId=x",
        "startAfter=x&startAfterId=1",
    ],
)
async def test_events_that_cannot_be_asked_for_are_refused(org: Organization, query: str) -> None:
    refused(await org.call("GET", f"/events?{query}"), 422)


async def test_tenants_see_their_own_events_and_counts_only(org: Organization) -> None:
    other = await org.tenant("other")
    await org.queue("orders")
    await other.queue("invoices")
    events = (await other.get("/events?events=queues"))["events"]
    assert [event["queue"]["name"] for event in events] == ["invoices"]
    assert (await stats(other))["last_24_hours"]["queue_added"] == 1


async def test_only_the_newest_events_of_a_group_are_kept(org: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "KEPT_COUNT", 3)
    queue_id = await org.queue()
    for number in range(5):
        await org.add(queue_id, name=f"m-{number}")
    events = (await org.get("/events?events=messages"))["events"]
    assert [event["message"]["name"] for event in events] == ["m-2", "m-3", "m-4"]
    assert (await stats(org))["last_24_hours"]["message_added"] == 5


async def test_a_first_question_reads_no_more_of_the_journal_than_it_may(org: Organization) -> None:
    for number in range(5):
        await org.queue(f"queue-{number}")
    services = org.app.services
    past = await History(services.broker, services.clock, scan_count=2).of("default")
    assert past.counts(0)["queue_added"] == 2


async def test_a_journal_that_was_trimmed_is_read_from_where_it_begins(org: Organization) -> None:
    services = org.app.services
    remembered = History(services.broker, services.clock)
    await remembered.of("default")
    for number in range(5):
        await org.queue(f"queue-{number}")
    span = (await services.broker.spans())[0]
    await org.app.store.trim_events(before=span.next - 1)
    assert (await remembered.of("default")).counts(0)["queue_added"] == 1
