"""Sending, receiving and settling through the native dialect."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.native import Queue, native_tenant

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with native_tenant(tmp_path) as tenant:
        yield await tenant.queue("orders")


# -- send -----------------------------------------------------------------------------------------------------


async def test_a_message_comes_back_as_it_was_sent(queue: Queue) -> None:
    answer = await queue.call(
        "POST",
        "/messages",
        {"body": "grüße", "attributes": {"n": 1, "f": 0.5, "s": "x", "b": True}, "id": "mine"},
        headers={"traceparent": TRACE},
    )
    assert answer.status == 201
    assert answer.json() == {"seq": 1, "id": "mine", "duplicate": False}
    lease = await queue.receive_one()
    assert lease["message"] | {"receipt": None} == {
        "seq": 1,
        "id": "mine",
        "state": "leased",
        "body": "grüße",
        "content_type": "text/plain; charset=utf-8",
        "attributes": {"n": 1, "f": 0.5, "s": "x", "b": True},
        "attempts": 1,
        "sent_at": queue.tenant.clock.now(),
        "entered_at": queue.tenant.clock.now(),
        "due_at": lease["expires_at"],
        "discard_at": queue.tenant.clock.now() + 4 * 86_400_000,
        "size": 7,
        "trace": TRACE,
        "receipt": None,
    }


async def test_bytes_and_json_come_back_as_they_were_sent(queue: Queue) -> None:
    await queue.ask("POST", "/messages", {"body_base64": "/wD+"})
    await queue.ask("POST", "/messages", body=b'{"json": {"b" : 1.0, "a": 1e3} }')
    raw, json = [lease["message"] for lease in await queue.receive(2)]
    assert (raw["body_base64"], raw["content_type"], raw["size"]) == ("/wD+", "application/octet-stream", 3)
    assert (json["body"], json["content_type"]) == ('{"b" : 1.0, "a": 1e3}', "application/json")


async def test_each_message_of_a_batch_has_its_own_outcome(queue: Queue) -> None:
    batch = [{"body": "a"}, {"body": "b", "json": 1}, {"body": "c", "delay_ms": -1}, {"body_base64": "!"}, {"json": 5}]
    answer = await queue.call("POST", "/messages", {"messages": batch})
    assert answer.status == 200
    results = answer.json()["results"]
    assert [result.get("seq") for result in results] == [1, None, None, None, 2]
    assert [result["error"]["field"] for result in results if "error" in result] == ["body", "delay_ms", "body_base64"]
    assert await queue.bodies() == ["a", "5"]


async def test_a_message_that_is_refused_alone_is_refused_with_its_status(queue: Queue) -> None:
    assert (await queue.refused("POST", "/messages", {"body": "x", "delay_ms": -1}))["field"] == "delay_ms"
    assert (await queue.refused("POST", "/messages", {}))["field"] == "body"
    assert (await queue.refused("POST", "/messages", {"body": "x", "colour": "red"}))["detail"] == (
        "colour is not a field that is known here"
    )
    assert await queue.bodies() == []


async def test_a_body_over_the_queues_limit_is_too_large(queue: Queue) -> None:
    await queue.ask("PATCH", "", {"settings": {"max_body_bytes": 3}})
    problem = await queue.refused("POST", "/messages", {"body": "four"})
    assert (problem["status"], problem["type"]) == (413, "urn:courier:problem:body-too-large")


@pytest.mark.parametrize("count", [0, 1_001])
async def test_a_batch_of_none_or_too_many_is_refused(queue: Queue, count: int) -> None:
    problem = await queue.refused("POST", "/messages", {"messages": [{"body": "x"}] * count})
    assert problem["type"] == "urn:courier:problem:batch-too-large"


async def test_a_fifo_queue_names_the_duplicate(queue: Queue) -> None:
    fifo = await queue.tenant.queue("fifo", kind="fifo")
    first = await fifo.send("a", group="g", dedup_id="once")
    again = await fifo.send("a", group="g", dedup_id="once")
    assert again == first | {"duplicate": True}


# -- receive --------------------------------------------------------------------------------------------------


async def test_a_receive_without_a_body_gets_one_message(queue: Queue) -> None:
    await queue.send("a")
    await queue.send("b")
    leases = (await queue.ask("POST", "/receive"))["leases"]
    assert [lease["message"]["body"] for lease in leases] == ["a"]
    assert leases[0]["expires_at"] == queue.tenant.clock.now() + 30_000


async def test_a_receive_with_nothing_ready_is_empty(queue: Queue) -> None:
    assert await queue.receive() == []


async def test_a_waiting_receive_is_answered_by_a_send(queue: Queue) -> None:
    waiting = asyncio.create_task(queue.receive(wait_ms=20_000))
    while not queue.tenant.app.services.broker._arrivals._waiters:
        await asyncio.sleep(0)
    await queue.send("now")
    assert [lease["message"]["body"] for lease in await waiting] == ["now"]


async def test_a_waiting_receive_ends_with_its_time(queue: Queue) -> None:
    waiting = asyncio.create_task(queue.receive(wait_ms=20_000))
    while not queue.tenant.app.services.broker._arrivals._waiters:
        await asyncio.sleep(0)
    queue.tenant.clock.advance(ms=20_000)
    assert await waiting == []


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 1_001}, "limit"),
        ({"limit": "1"}, "limit"),
        ({"wait_ms": 60_001}, "wait_ms"),
        ({"lease_ms": -1}, "lease_ms"),
        ({"group_limit": 0}, "group_limit"),
        ({"count": 1}, "count"),
    ],
)
async def test_an_order_out_of_range_is_refused(queue: Queue, order: object, field: str) -> None:
    problem = await queue.refused("POST", "/receive", order)
    assert (problem["status"], problem["field"]) == (400, field)


async def test_a_paused_queue_gives_nothing(queue: Queue) -> None:
    await queue.ask("PATCH", "", {"settings": {"paused": True}})
    problem = await queue.refused("POST", "/receive")
    assert (problem["status"], problem["type"]) == (409, "urn:courier:problem:queue-paused")


async def test_a_group_limit_leaves_room_for_other_groups(queue: Queue) -> None:
    fifo = await queue.tenant.queue("fifo", kind="fifo")
    for body, group in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        await fifo.send(body, group=group)
    leases = await fifo.receive(10, group_limit=1)
    assert [(lease["message"]["body"], lease["message"]["group"]) for lease in leases] == [("a1", "a"), ("b1", "b")]


async def test_no_more_is_leased_than_the_queue_allows(queue: Queue) -> None:
    await queue.ask("PATCH", "", {"settings": {"max_leased": 3}})
    for _ in range(5):
        await queue.send()
    first, *_ = await queue.receive(2)
    assert len(await queue.receive(10)) == 1
    assert await queue.receive(10) == []
    waiting = asyncio.create_task(queue.receive(10, wait_ms=20_000))
    await queue.ask("POST", "/ack", {"receipt": first["receipt"]})
    assert len(await waiting) == 1
    counters = await queue.ask("GET", "/counters")
    assert (counters["leased_count"], counters["ready_count"]) == (3, 1)


async def test_a_receiver_that_waits_gets_more_when_the_limit_is_lifted(queue: Queue) -> None:
    await queue.ask("PATCH", "", {"settings": {"max_leased": 1}})
    for _ in range(3):
        await queue.send()
    await queue.receive(10)
    waiting = asyncio.create_task(queue.receive(10, wait_ms=20_000))
    changed = await queue.ask("PATCH", "", {"settings": {"max_leased": None}})
    assert changed["settings"]["max_leased"] is None
    assert len(await waiting) == 2


@pytest.mark.parametrize("most", [0, -1, 1_000_001, 2**70, 1.5, "3", True])
async def test_a_limit_of_leases_that_is_none_is_refused(queue: Queue, most: object) -> None:
    problem = await queue.refused("PATCH", "", {"settings": {"max_leased": most}})
    assert problem["status"] == 400
    assert "max_leased" in problem["field"]
    assert (await queue.tenant.ask("GET", queue.path))["settings"]["max_leased"] is None


# -- settle ---------------------------------------------------------------------------------------------------


async def test_an_acked_message_is_gone(queue: Queue) -> None:
    sent = await queue.send()
    lease = await queue.receive_one()
    assert await queue.ask("POST", "/ack", {"receipt": lease["receipt"]}) == {"seq": 1, "id": sent["id"]}
    assert await queue.bodies() == []


async def test_a_receipt_settles_once(queue: Queue) -> None:
    await queue.send()
    lease = await queue.receive_one()
    await queue.ask("POST", "/ack", {"receipt": lease["receipt"]})
    problem = await queue.refused("POST", "/ack", {"receipt": lease["receipt"]})
    assert (problem["status"], problem["type"]) == (409, "urn:courier:problem:lease-lost")


async def test_a_receipt_that_was_never_handed_out_is_told_from_one_that_has_ended(queue: Queue) -> None:
    problem = await queue.refused("POST", "/ack", {"receipt": "made up"})
    assert (problem["status"], problem["type"]) == (400, "urn:courier:problem:invalid-receipt")


async def test_several_receipts_have_an_outcome_each(queue: Queue) -> None:
    for body in "abc":
        await queue.send(body)
    receipts = [lease["receipt"] for lease in await queue.receive(3)]
    await queue.ask("POST", "/ack", {"receipt": receipts[0]})
    results = (await queue.ask("POST", "/ack", {"receipts": [*receipts, "made up"]}))["results"]
    assert [result.get("seq") for result in results] == [None, 2, 3, None]
    assert [result["error"]["status"] for result in results if "error" in result] == [409, 400]


async def test_a_released_message_waits_for_its_delay(queue: Queue) -> None:
    await queue.send()
    lease = await queue.receive_one()
    assert await queue.ask("POST", "/release", {"receipt": lease["receipt"], "delay_ms": 5_000}) == {
        "seq": 1,
        "id": lease["message"]["id"],
    }
    assert await queue.receive() == []
    queue.tenant.clock.advance(ms=5_000)
    assert (await queue.receive_one())["message"]["attempts"] == 2


async def test_the_last_release_says_that_the_message_is_dead(queue: Queue) -> None:
    dead = await queue.tenant.queue("dead")
    await queue.ask("PATCH", "", {"settings": {"max_attempts": 1, "dead_letter_queue": "dead"}})
    await queue.send("poison")
    lease = await queue.receive_one()
    assert (await queue.ask("POST", "/release", {"receipt": lease["receipt"]}))["dead"] is True
    (letter,) = (await dead.ask("GET", "/messages"))["messages"]
    assert letter["body"] == "poison"
    assert letter["death"]["reason"] == "attempts exhausted"
    assert letter["death"]["source_queue"] == "orders"


async def test_an_extended_lease_lasts_longer(queue: Queue) -> None:
    await queue.send()
    lease = await queue.receive_one(lease_ms=1_000)
    settled = await queue.ask("POST", "/extend", {"receipt": lease["receipt"], "lease_ms": 60_000})
    assert settled["expires_at"] == queue.tenant.clock.now() + 60_000
    queue.tenant.clock.advance(ms=59_999)
    assert await queue.receive() == []
    queue.tenant.clock.advance(ms=1)
    assert len(await queue.receive()) == 1


async def test_acks_releases_and_extensions_go_together(queue: Queue) -> None:
    for body in "abc":
        await queue.send(body)
    first, second, third = [lease["receipt"] for lease in await queue.receive(3)]
    mixed = [
        {"do": "ack", "receipt": first},
        {"do": "release", "receipt": second, "delay_ms": 0},
        {"do": "extend", "receipt": third, "lease_ms": 60_000},
        {"do": "extend", "receipt": first, "lease_ms": -1},
    ]
    results = (await queue.ask("POST", "/settle", {"settlements": mixed}))["results"]
    assert [result.get("seq") for result in results] == [1, 2, 3, None]
    assert results[3]["error"]["field"] == "lease_ms"
    assert [lease["message"]["body"] for lease in await queue.receive(3)] == ["b"]


@pytest.mark.parametrize("path", ["/ack", "/release", "/extend", "/settle"])
async def test_a_settlement_without_a_receipt_is_refused(queue: Queue, path: str) -> None:
    assert (await queue.refused("POST", path, {}))["status"] == 400
