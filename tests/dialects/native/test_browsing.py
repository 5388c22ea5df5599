"""Looking at messages, and moving or removing those that were looked at, through the native dialect."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.native import Queue, native_tenant


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with native_tenant(tmp_path) as tenant:
        yield await tenant.queue("orders")


async def browse(queue: Queue, query: str = "") -> list[Any]:
    messages: list[Any] = (await queue.ask("GET", f"/messages{query}"))["messages"]
    return messages


async def test_a_browse_shows_messages_and_leases_none(queue: Queue) -> None:
    await queue.send("a")
    await queue.send("b", delay_ms=5_000)
    shown = await browse(queue)
    assert [(message["body"], message["state"], message["attempts"]) for message in shown] == [
        ("a", "ready", 0),
        ("b", "delayed", 0),
    ]
    assert len(await queue.receive(10)) == 1


async def test_pages_follow_each_other_by_a_cursor(queue: Queue) -> None:
    for number in range(5):
        await queue.send(str(number))
    seen, query = [], "?limit=2"
    while True:
        page = await queue.ask("GET", f"/messages{query}")
        seen.append([message["body"] for message in page["messages"]])
        if page["next"] is None:
            break
        query = f"?limit=2&after={page['next']}"
    assert [body for page in seen for body in page] == ["0", "1", "2", "3", "4"]
    assert all(len(page) <= 2 for page in seen)


async def test_a_browse_can_choose_states_id_and_attribute(queue: Queue) -> None:
    await queue.send("leased")
    await queue.receive_one()
    await queue.send("red", attributes={"colour": "red", "size": 5}, id="mine")
    await queue.send("later", delay_ms=5_000)
    assert [m["body"] for m in await browse(queue, "?state=leased&state=delayed")] == ["leased", "later"]
    assert [m["body"] for m in await browse(queue, "?id=mine")] == ["red"]
    assert [m["body"] for m in await browse(queue, "?attribute=colour:red")] == ["red"]
    assert [m["body"] for m in await browse(queue, "?attribute=size:5")] == ["red"]
    assert await browse(queue, "?attribute=colour:blue") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=ten", "limit"),
        ("limit=1&limit=2", "limit"),
        ("state=acked", "state"),
        ("attribute=colour", "attribute"),
        ("after=made-up", "after"),
        ("colour=red", "colour"),
    ],
)
async def test_a_query_that_makes_no_sense_is_refused(queue: Queue, query: str, field: str) -> None:
    problem = await queue.refused("GET", f"/messages?{query}")
    assert (problem["status"], problem["field"]) == (400, field)


async def test_a_message_can_be_read_by_its_id(queue: Queue) -> None:
    sent = await queue.send("a")
    assert (await queue.ask("GET", f"/messages/{sent['id']}"))["body"] == "a"
    problem = await queue.refused("GET", "/messages/nobody")
    assert (problem["status"], problem["type"]) == (404, "urn:courier:problem:message-not-found")


async def test_a_message_that_nobody_has_received_can_be_cancelled(queue: Queue) -> None:
    sent = await queue.send("a", delay_ms=5_000)
    assert (await queue.call("DELETE", f"/messages/{sent['id']}")).status == 204
    assert await browse(queue) == []


async def test_a_message_that_was_received_cannot_be_cancelled(queue: Queue) -> None:
    sent = await queue.send("a")
    await queue.receive_one()
    assert (await queue.refused("DELETE", f"/messages/{sent['id']}"))["field"] == "id"


async def test_a_purge_removes_everything(queue: Queue) -> None:
    for body in "abc":
        await queue.send(body)
    await queue.receive_one()
    assert (await queue.call("GET", "/purge")).status == 404
    now = queue.tenant.clock.now()
    purge = {"count": 3, "started_at": now, "ended_at": now}
    assert await queue.ask("POST", "/purge") == purge
    assert await queue.ask("GET", "/purge") == purge
    assert await browse(queue) == []


async def test_chosen_messages_can_be_removed(queue: Queue) -> None:
    for body in "abc":
        await queue.send(body)
    assert await queue.ask("POST", "/remove", {"seqs": [1, 3, 99]}) == {"seqs": [1, 3]}
    assert await queue.bodies() == ["b"]


@pytest.mark.parametrize("seqs", [[], [0], [2**63], [1.5], ["1"], list(range(1, 1_002))])
async def test_a_choice_that_no_store_could_hold_is_refused(queue: Queue, seqs: object) -> None:
    assert (await queue.refused("POST", "/remove", {"seqs": seqs}))["status"] == 400


async def test_messages_move_to_another_queue(queue: Queue) -> None:
    other = await queue.tenant.queue("other")
    for body in "abc":
        await queue.send(body)
    assert await queue.ask("POST", "/move", {"target": "other", "seqs": [2]}) == {"count": 1}
    assert await queue.ask("POST", "/move", {"target": "other"}) == {"count": 2}
    assert sorted(await other.bodies()) == ["a", "b", "c"]
    assert await queue.bodies() == []


async def test_messages_cannot_move_nowhere(queue: Queue) -> None:
    for target in ("nowhere", "orders"):
        assert (await queue.refused("POST", "/move", {"target": target}))["field"] == "target"


async def test_dead_letters_go_back_to_where_they_died(queue: Queue) -> None:
    dead = await queue.tenant.queue("dead")
    await queue.ask("PATCH", "", {"settings": {"max_attempts": 1, "dead_letter_queue": "dead"}})
    await queue.send("poison")
    await queue.ask("POST", "/release", {"receipt": (await queue.receive_one())["receipt"]})
    assert await dead.ask("POST", "/redrive") == {"count": 1}
    assert await queue.bodies() == ["poison"]


async def test_dead_letters_can_go_to_a_queue_of_choice(queue: Queue) -> None:
    other = await queue.tenant.queue("other")
    await queue.send("a")
    assert await queue.ask("POST", "/redrive", {"target": "other", "seqs": [1]}) == {"count": 1}
    assert await other.bodies() == ["a"]
    assert (await queue.refused("POST", "/redrive", {"target": "nowhere"}))["field"] == "target"


async def test_a_purge_that_takes_long_is_answered_with_202_and_tells_its_end_later(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.ask("POST", "/messages", {"body": "x"})
    broker, ready = queue.tenant.app.services.broker, asyncio.Event()
    purge = broker.purge

    async def slow(*args: Any, **order: Any) -> int:
        await ready.wait()
        return await purge(*args, **order)

    monkeypatch.setattr(broker, "purge", slow)
    monkeypatch.setattr("couriermq.dialects.native.browsing.PURGE_SECONDS", 0.01)
    answer = await queue.call("POST", "/purge")
    assert (answer.status, answer.json()["ended_at"], answer.json()["count"]) == (202, None, 0)
    await queue.ask("POST", "/messages", {"body": "later"})
    ready.set()
    await eventually(lambda: queue.ask("GET", "/purge"), lambda told: told["ended_at"] is not None)
    assert [message["body"] for message in (await queue.ask("GET", "/messages"))["messages"]] == ["later"]
