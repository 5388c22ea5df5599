"""A journal whose lanes appear while it is read, through the native dialect."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq import server
from couriermq.core.lanes import LANE_SIZE, first_of_lane, lane_of
from tests.dialects.native.test_following import waiting
from tests.dialects.native.test_live import next_frame
from tests.support.laned import LanedStore
from tests.support.live import live
from tests.support.native import ALL, PREFIX, Queue, Tenant, native_tenant

JOURNAL = f"{PREFIX}/journal"
EVENTS = f"{JOURNAL}/events"
LANES = ["0", "0.1", "0.2"]


@pytest.fixture
async def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tenant]:
    monkeypatch.setattr(server, "SqliteStore", LanedStore)
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def send(queue: Queue, numbers: range, *, pause_ms: int = 1) -> None:
    for number in numbers:
        queue.tenant.clock.advance(ms=pause_ms)
        await queue.send(str(number))


async def lanes(tenant: Tenant) -> list[str]:
    return [lane["lane"] for lane in (await tenant.ask("GET", JOURNAL))["lanes"]]


async def follow(tenant: Tenant, query: str, place: Any = None) -> tuple[list[str], str]:
    """The bodies of what a merged read finds page by page, and where it ends."""
    found: list[str] = []
    while True:
        start = "" if place is None else f"&from={place}"
        page = await tenant.ask("GET", f"{EVENTS}?merged=true&kind=sent&{query}{start}")
        found += [b64decode(event["detail"]["body_base64"]).decode() for event in page["events"]]
        place = page["next"]
        if page["at_end"]:
            return found, page["next"]


def bodies(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


@pytest.mark.parametrize("limit", [1, 7, 1_000])
async def test_a_merged_read_gives_the_events_of_all_lanes_in_the_order_of_time(root: Tenant, limit: int) -> None:
    await send(await root.queue(), range(80))
    assert await lanes(root) == LANES
    assert (await follow(root, f"limit={limit}"))[0] == bodies(range(80))


async def test_a_merged_read_goes_on_in_lanes_that_have_appeared_since(root: Tenant) -> None:
    queue = await root.queue()
    await send(queue, range(5))
    first, place = await follow(root, "limit=3")
    assert await lanes(root) == ["0"]
    await send(queue, range(5, 80))
    rest, _ = await follow(root, "limit=10", place)
    assert first + rest == bodies(range(80))


async def test_a_tenant_reads_all_lanes_too(root: Tenant) -> None:
    queue = await root.queue()
    acme = await root.with_scopes(("stats", ALL), ("browse", ALL))
    await send(queue, range(5))
    first, place = await follow(acme, "limit=3")
    await send(queue, range(5, 80))
    rest, _ = await follow(acme, "limit=10", place)
    assert first + rest == bodies(range(80))


async def test_a_reader_that_waits_is_answered_by_an_event_in_a_new_lane(root: Tenant) -> None:
    queue = await root.queue()
    store = root.app.store
    assert isinstance(store, LanedStore)
    while (await store.spans()).keys() == {0}:
        place = (await root.ask("GET", JOURNAL))["merged"]
        reader = await waiting(root, f"merged=true&from={place}&wait_ms=20000")
        await queue.send("x")
        found = (await reader)["events"]
        assert [event["kind"] for event in found] == ["sent"]
    assert found[0]["offset"] == first_of_lane(1)


async def test_the_last_events_are_those_of_all_lanes_together(root: Tenant) -> None:
    await send(await root.queue(), range(80))
    for caller in (root, await root.with_scopes(("stats", ALL), ("browse", ALL))):
        place = (await caller.ask("GET", f"{JOURNAL}?last=10"))["merged"]
        found, _ = await follow(caller, "limit=50", place)
        assert found == bodies(range(70, 80))[-len(found) :]
        assert len(found) in {9, 10}  # the credential of the second was added after them


async def test_an_offset_or_an_instant_is_a_place_in_all_lanes(root: Tenant) -> None:
    queue = await root.queue()
    await send(queue, range(60))
    at = root.clock.now() + 1
    await send(queue, range(60, 80))
    place = (await root.ask("GET", f"{JOURNAL}?at={at}"))["merged"]
    assert (await follow(root, "limit=50", place))[0] == bodies(range(60, 80))
    page = await root.ask("GET", f"{EVENTS}?merged=true&kind=sent&from={place}")
    assert {lane_of(event["offset"]) for event in page["events"]} == {0, 1, 2}
    second = page["events"][1]["offset"]
    assert (await follow(root, "limit=50", second))[0] == bodies(range(61, 80))


async def test_what_was_trimmed_is_gone_unless_the_reader_passes_over_it(root: Tenant) -> None:
    queue = await root.queue()
    await send(queue, range(5))
    _, place = await follow(root, "limit=9")
    await send(queue, range(5, 80))
    await root.app.store.trim_events(before=LANE_SIZE + 5)  # of a lane that the reader has not seen yet
    assert (await root.refused("GET", f"{EVENTS}?merged=true&from={place}"))["status"] == 410
    rest, _ = await follow(root, "lossy=true", place)
    assert len(rest) == 75 - 5


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("merged=true&to=9", "merged"),
        ("merged=true&format=arrow", "merged"),
        ("lossy=true", "lossy"),
        ("merged=true&from=x", "from"),
    ],
)
async def test_what_a_merged_read_cannot_do_is_refused(root: Tenant, query: str, field: str) -> None:
    assert (await root.refused("GET", f"{EVENTS}?{query}"))["field"] == field


async def test_a_read_of_one_lane_stays_in_it(root: Tenant) -> None:
    await send(await root.queue(), range(80))
    for lane in (await root.ask("GET", JOURNAL))["lanes"]:
        page = await root.ask("GET", f"{EVENTS}?from={lane['first']}&limit=1000")
        assert [event["offset"] for event in page["events"]] == list(range(lane["oldest"], lane["next"]))
        assert page["next"] == lane["next"]


async def test_audit_events_of_all_lanes_are_read(root: Tenant) -> None:
    for number in range(60):
        root.clock.advance(ms=1)
        await root.queue(f"q{number}")
    assert await lanes(root) == LANES
    found: list[Any] = []
    page = await root.ask("GET", "/audit?kind=queue_added&limit=7")
    while True:
        found += [event["queue"] for event in page["events"]]
        if page["at_end"]:
            break
        page = await root.ask("GET", f"/audit?kind=queue_added&limit=7&from={page['next']}")
    assert found == [f"q{number}" for number in range(60)]


async def test_counts_of_a_queue_are_those_of_all_lanes(root: Tenant) -> None:
    queue = await root.queue()
    at = root.clock.now()
    for number in range(20):
        await send(queue, range(number * 4, number * 4 + 4))
        stats = await queue.ask("GET", f"/stats?from={at}&to={root.clock.now() + 1}")
        assert sum(point["sent"] for point in stats["points"]) == number * 4 + 4
    assert await lanes(root) == LANES


async def test_readers_of_many_pages_meet_no_event_twice_while_others_write(root: Tenant) -> None:
    queue = await root.queue()

    async def write() -> None:
        for start in range(0, 200, 10):
            await asyncio.gather(*(queue.send(str(number)) for number in range(start, start + 10)))

    writing = asyncio.create_task(write())
    offsets: list[int] = []
    place, sent = "", 0
    while sent < 200:
        page = await root.ask("GET", f"{EVENTS}?merged=true&limit=13&wait_ms=1000{place}")
        offsets += [event["offset"] for event in page["events"]]
        sent += sum(event["kind"] == "sent" for event in page["events"])
        place = f"&from={page['next']}"
    await writing
    spans = await root.app.store.spans()
    assert sorted(offsets) == [offset for span in spans.values() for offset in range(span.oldest, span.next)]


async def test_a_live_page_that_was_cut_off_misses_no_lane_that_appeared_meanwhile(root: Tenant) -> None:
    queue = await root.queue()
    async with live(root.app, "topics=events&kind=sent") as page:
        await queue.send(id="first")
        seen = await next_frame(root, page, "event")
    assert await lanes(root) == ["0"]
    names = {f"m{number}" for number in range(60)}
    for name in sorted(names):
        await queue.send(id=name)
    assert await lanes(root) == LANES
    async with live(root.app, f"topics=events&kind=sent&from={seen['id']}") as page:
        told = [(await next_frame(root, page, "event"))["data"]["message_id"] for _ in names]
    assert (len(told), set(told)) == (60, names)
