"""FIFO queues: order inside a group, one consumer a group, duplicates dropped."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import MINUTE
from tests.support.anypoint import AnypointCaller, good
from tests.support.inprocess import courier_app


@pytest.fixture
async def mq(tmp_path: Path) -> AsyncIterator[AnypointCaller]:
    async with courier_app(tmp_path, clock=FakeClock()) as app:
        caller = AnypointCaller(app)
        await caller.queue("ordered", fifo=True)
        yield caller


async def publish(mq: AnypointCaller, message_id: str, group: str | None) -> None:
    headers = {} if group is None else {"messageGroupId": group}
    assert (await mq.publish("ordered", message_id, headers=headers)).status == 201


async def ids(mq: AnypointCaller, count: int = 10, **arguments: int) -> list[str]:
    return [one["headers"]["messageId"] for one in await mq.consume("ordered", count, **arguments)]


async def test_a_get_takes_as_many_of_a_group_as_it_can(mq: AnypointCaller) -> None:
    for n in range(5):
        await publish(mq, f"a{n}", "a")
        await publish(mq, f"b{n}", "b")
    assert await ids(mq, 5) == [f"a{n}" for n in range(5)]


async def test_a_group_in_flight_is_closed_to_others_and_other_groups_are_not(mq: AnypointCaller) -> None:
    for message_id, group in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        await publish(mq, message_id, group)
    [first] = await mq.consume("ordered")
    assert first["headers"]["messageId"] == "a1"
    assert await ids(mq) == ["b1"]
    await mq.ack("ordered", first)
    assert await ids(mq) == ["a2"]


async def test_a_nacked_message_comes_back_before_the_rest_of_its_group(mq: AnypointCaller) -> None:
    for n in range(3):
        await publish(mq, f"a{n}", "a")
    [first] = await mq.consume("ordered")
    await mq.nack("ordered", first)
    assert await ids(mq) == ["a0", "a1", "a2"]


async def test_an_expired_lock_gives_its_group_free(mq: AnypointCaller) -> None:
    for n in range(2):
        await publish(mq, f"a{n}", "a")
    await mq.consume("ordered", lockTtl=1_000)
    assert await ids(mq) == []
    mq.app.clock.advance(ms=1_000)
    assert await ids(mq) == ["a0", "a1"]


async def test_messages_without_a_group_are_one_group(mq: AnypointCaller) -> None:
    for n in range(2):
        await publish(mq, f"m{n}", None)
    await publish(mq, "g", "g")
    assert await ids(mq, 1) == ["m0"]
    assert await ids(mq) == ["g"]


async def test_the_same_id_within_5_minutes_is_dropped_in_silence(mq: AnypointCaller) -> None:
    await publish(mq, "m", "a")
    await publish(mq, "m", "b")
    mq.app.clock.advance(ms=5 * MINUTE + 1)
    await publish(mq, "m", "c")
    taken = await mq.consume("ordered", 10)
    assert [one["headers"]["messageGroupId"] for one in taken] == ["a", "c"]


async def test_a_standard_queue_keeps_messages_of_the_same_id(mq: AnypointCaller) -> None:
    await mq.queue("orders")
    for _ in range(2):
        await mq.publish("orders", "m")
    assert len(await mq.consume("orders", 10)) == 2


async def test_a_message_of_a_fifo_queue_has_no_delay_of_its_own(mq: AnypointCaller) -> None:
    response = await mq.publish("ordered", "m-1", headers={"deliveryDelay": 1})
    assert response.status == 400
    assert "FIFO" in response.json()["statusMessage"]
    assert (await mq.publish("ordered", "m-2", headers={"deliveryDelay": 0})).status == 201


async def test_the_delay_of_a_fifo_queue_is_for_all_its_messages(mq: AnypointCaller) -> None:
    await mq.queue("ordered", defaultDeliveryDelay=1_000)
    await publish(mq, "m-1", "a")
    assert await ids(mq) == []
    mq.app.clock.advance(ms=1_000)
    assert await ids(mq) == ["m-1"]


async def test_the_dead_letters_of_a_fifo_queue_go_to_a_fifo_queue(mq: AnypointCaller) -> None:
    await mq.queue("failed", fifo=True)
    await mq.queue("ordered", deadLetterQueueId="failed", maxDeliveries=1)
    await publish(mq, "m-1", "a")
    [message] = await mq.consume("ordered")
    await mq.nack("ordered", message)
    [dead] = await mq.consume("failed")
    assert dead["headers"]["messageGroupId"] == "a"


@pytest.mark.parametrize("group", ["g" * 129, "a b", "é", "a\tb"])
async def test_a_group_has_letters_digits_and_punctuation(mq: AnypointCaller, group: str) -> None:
    response = await mq.publish("ordered", "m-1", headers={"messageGroupId": group})
    assert response.status == 400
    assert "messageGroupId" in response.json()["statusMessage"]


async def test_a_queue_says_that_it_is_fifo(mq: AnypointCaller) -> None:
    assert good(await mq.admin("GET", "/destinations/queues/ordered"))["fifo"] is True
