"""Readers of the journal that wait for events, and that want those of one queue without the bodies."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.journal import followers
from tests.support.eventually import eventually
from tests.support.native import PREFIX, Tenant, native_tenant

EVENTS = f"{PREFIX}/journal/events"

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("_one_lane")]


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def end(tenant: Tenant) -> Any:
    """An offset for root, a position for any other caller."""
    return (await tenant.ask("GET", f"{PREFIX}/journal"))["next"]


async def waiting(tenant: Tenant, query: str, *, count: int = 1) -> "asyncio.Task[Any]":
    """A request that has looked and waits."""
    task = asyncio.create_task(tenant.ask("GET", f"{EVENTS}?{query}"))
    await eventually(lambda: tenant.app.services.followers.count, lambda waiting: waiting == count)
    await asyncio.sleep(0.01)  # its first look has the time to end; what comes before that is found by it
    return task


async def test_a_waiting_reader_is_answered_by_the_next_commit(root: Tenant) -> None:
    queue = await root.queue("orders")
    start = await end(root)
    reader = await waiting(root, f"from={start}&wait_ms=20000")
    await queue.send("now")
    page = await reader
    assert [event["kind"] for event in page["events"]] == ["sent"]
    assert page["next"] == start + 1


async def test_a_reader_that_finds_events_does_not_wait(root: Tenant) -> None:
    page = await root.ask("GET", f"{EVENTS}?from=0&wait_ms=20000")
    assert page["events"]


async def test_commits_about_other_queues_do_not_answer_a_reader_of_one_queue(root: Tenant) -> None:
    orders, other = await root.queue("orders"), await root.queue("other")
    start = await end(root)
    reader = await waiting(root, f"from={start}&queue=orders&wait_ms=20000")
    for _ in range(3):
        await other.send("not ours")
        await asyncio.sleep(0.01)
    assert not reader.done()
    await orders.send("ours")
    page = await eventually(lambda: _after(root, reader, ms=followers.PAUSE_MS))
    assert [(event["queue"], event["offset"]) for event in page["events"]] == [("orders", start + 3)]


async def _after(root: Tenant, reader: "asyncio.Task[Any]", *, ms: int) -> Any:
    root.clock.advance(ms=ms)
    await asyncio.sleep(0)
    return await reader if reader.done() else None


async def test_a_wait_that_is_over_is_answered_without_events_and_with_the_place_to_go_on_from(root: Tenant) -> None:
    other = await root.queue("other")
    start = await end(root)
    reader = await waiting(root, f"from={start}&queue=orders&wait_ms=20000")
    await other.send("not ours")
    assert await eventually(lambda: _after(root, reader, ms=1_000)) == {"events": [], "next": start + 1, "at_end": True}


async def test_a_wait_ends_when_limit_offsets_hold_nothing_for_the_reader(root: Tenant) -> None:
    other = await root.queue("other")
    start = await end(root)
    for _ in range(3):
        await other.send("not ours")
    page = await root.ask("GET", f"{EVENTS}?from={start}&queue=orders&limit=2&wait_ms=20000")
    assert page == {"events": [], "next": start + 2, "at_end": False}
    assert await root.ask("GET", f"{EVENTS}?from={start}&queue=orders&to={start + 3}&wait_ms=20000") == {
        "events": [],
        "next": start + 3,
        "at_end": True,
    }


async def test_a_stopping_server_answers_its_readers_at_once(root: Tenant) -> None:
    start = await end(root)
    reader = await waiting(root, f"from={start}&wait_ms=60000")
    root.app.services.followers.close()
    assert await reader == {"events": [], "next": start, "at_end": True}
    assert await root.ask("GET", f"{EVENTS}?from={start}&wait_ms=60000") == {
        "events": [],
        "next": start,
        "at_end": True,
    }


@pytest.mark.parametrize("limit", ["MOST", "MOST_EACH"])
async def test_only_so_many_readers_wait_at_once(root: Tenant, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followers, limit, 2)
    start = await end(root)
    query = f"from={start}&wait_ms=60000"
    readers = [await waiting(root, query, count=number) for number in (1, 2)]
    refused = await root.call("GET", f"{EVENTS}?{query}")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    root.app.services.followers.close()
    assert await asyncio.gather(*readers) == [{"events": [], "next": start, "at_end": True}] * 2


async def test_a_reader_that_goes_away_leaves_its_place(root: Tenant) -> None:
    reader = await waiting(root, f"from={await end(root)}&wait_ms=60000")
    reader.cancel()
    await eventually(lambda: root.app.services.followers.count, lambda count: count == 0)


async def test_a_reader_of_a_queue_sees_what_comes_into_it_by_dying_redrive_and_move(root: Tenant) -> None:
    failed, spare = await root.queue("failed"), await root.queue("spare")
    orders = await root.queue("orders", max_attempts=1, dead_letter_queue="failed")
    start = await end(root)
    await orders.send("dies")
    lease = await orders.receive_one()
    await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
    await failed.ask("POST", "/redrive", {})
    (message,) = (await orders.ask("GET", "/messages"))["messages"]
    await orders.ask("POST", "/move", {"target": "spare", "seqs": [message["seq"]]})

    async def arrivals(queue: str) -> list[tuple[str, str]]:
        query = f"from={start}&queue={queue}&arrivals=true&kind=dead_lettered&kind=redriven&kind=moved"
        found = (await root.ask("GET", f"{EVENTS}?{query}"))["events"]
        return [(event["kind"], event["queue"]) for event in found if event["queue"] != queue]

    assert await arrivals("failed") == [("dead_lettered", "orders")]
    assert await arrivals("orders") == [("redriven", "failed")]
    assert await arrivals("spare") == [("moved", "orders")]
    alone = await root.ask("GET", f"{EVENTS}?from={start}&queue={spare.name}")
    assert alone["events"] == []


async def test_a_credential_of_the_target_sees_the_arrival_but_not_the_queue_it_came_from(root: Tenant) -> None:
    await root.queue("failed")
    orders = await root.queue("orders", max_attempts=1, dead_letter_queue="failed")
    watcher = await root.with_scopes(("stats", ["failed"]))
    position = await end(watcher)
    await orders.send("secret", id="m1")
    lease = await orders.receive_one()
    await orders.ask("POST", "/release", {"receipt": lease["receipt"]})
    found = (await watcher.ask("GET", f"{EVENTS}?from={position}&queue=failed&arrivals=true"))["events"]
    assert [(event["kind"], event["message_id"], event["queue"], event["queue_id"]) for event in found] == [
        ("dead_lettered", "m1", None, None)
    ]
    assert found[0]["detail"]["target"] == "failed"
    assert (await watcher.ask("GET", f"{EVENTS}?from={position}&queue=failed"))["events"] == []
    stranger = await root.with_scopes(("stats", ["other"]))
    assert (await stranger.ask("GET", f"{EVENTS}?arrivals=true"))["events"] == []


async def test_a_reader_may_do_without_bodies(root: Tenant) -> None:
    queue = await root.queue("orders")
    start = await end(root)
    await queue.send("x" * 100_000, attributes={"n": 1})
    answer = await root.call("GET", f"{EVENTS}?from={start}&bodies=false")
    (event,) = answer.json()["events"]
    assert (event["size"], event["detail"]["attributes"]) == (100_000, {"n": 1})
    assert len(answer.body) < 1_000


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("wait_ms=60001", "wait_ms"),
        ("wait_ms=-1", "wait_ms"),
        ("bodies=maybe", "bodies"),
        ("wait_ms=1&format=arrow", "wait_ms"),
        ("arrivals=true&format=arrow", "arrivals"),
        ("bodies=false&format=arrow", "bodies"),
    ],
)
async def test_a_wait_or_a_choice_that_cannot_be_is_refused(root: Tenant, query: str, field: str) -> None:
    problem = await root.refused("GET", f"{EVENTS}?{query}")
    assert (problem["status"], problem["field"]) == (400, field)


async def test_a_tenant_waits_for_its_own_events_and_goes_on_by_position(root: Tenant) -> None:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": "acme"})
    acme = await Tenant(root.app, "acme").with_scopes(("stats", ("*",)), ("manage", ("*",)), ("send", ("*",)))
    orders, other = await acme.queue("orders"), await root.queue("other")
    start = (await acme.ask("GET", f"{PREFIX}/journal"))["next"]
    reader = await waiting(acme, f"from={start}&limit=1&wait_ms=20000")
    await other.send("not ours")
    await asyncio.sleep(0.01)
    assert not reader.done()
    await orders.send("ours")
    page = await eventually(lambda: _after(root, reader, ms=followers.PAUSE_MS))
    assert [event["kind"] for event in page["events"]] == ["sent"]
    again = await waiting(acme, f"from={page['next']}&wait_ms=1000")
    rest = await eventually(lambda: _after(root, again, ms=1_000))
    assert (rest["events"], rest["at_end"]) == ([], True)
