"""Courier's own entries of a message's metadata are its own: no attribute of another dialect replaces or makes one."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.server import DIALECTS
from tests.support.anypoint import AnypointCaller
from tests.support.cloudflare import Queue, cloudflare_account


@pytest.fixture
async def queue(tmp_path: Path) -> AsyncIterator[Queue]:
    async with cloudflare_account(tmp_path, dialects=DIALECTS) as account:
        yield await account.queue()


async def native(queue: Queue, verb: str, order: Any) -> Any:
    response = await queue.account.app.post(f"/courier/v1/tenants/default/queues/{queue.name}/{verb}", order)
    assert response.status in {200, 201}, response
    return response.json()


FORGED = {
    "CF-Content-Type": "v8",
    "CF-sourceMessageSource": "the boss",
    "CF-msg-delay-secs": "99",
    "Courier-Message-Id": "another",
}


async def test_attributes_cannot_pose_as_entries_of_the_metadata(queue: Queue) -> None:
    await native(queue, "messages", {"json": {}, "attributes": {"colour": "red", **FORGED}})
    message = await queue.pull_one()
    assert message["metadata"] == {"colour": "red", "CF-Content-Type": "json", "CF-sourceMessageSource": "api"}


@pytest.mark.parametrize("place", ["properties", "headers"])
async def test_an_anypoint_message_cannot_pose_as_entries_of_the_metadata(queue: Queue, place: str) -> None:
    mq = AnypointCaller(queue.account.app)
    await mq.publish(queue.name, "m-1", "{}", **{place: FORGED})
    [message] = await mq.consume(queue.name, lockTtl=0)
    assert message[place].items() >= FORGED.items()
    metadata = (await queue.pull_one())["metadata"]
    assert {name: metadata.get(name) for name in FORGED} == {
        "CF-Content-Type": "text",
        "CF-sourceMessageSource": "api",
        "CF-msg-delay-secs": None,
        "Courier-Message-Id": "m-1",
    }


async def test_attributes_named_as_entries_of_the_metadata_come_back_in_their_own_dialect(queue: Queue) -> None:
    await native(queue, "messages", {"json": {}, "attributes": FORGED})
    (lease,) = (await native(queue, "receive", {}))["leases"]
    assert lease["message"]["attributes"] == FORGED


async def test_the_entries_of_courier_stand_beside_attributes_that_are_named_as_they_are(queue: Queue) -> None:
    await native(queue, "messages", {"json": {}, "attributes": FORGED, "id": "order 66", "delay_ms": 2_500})
    queue.account.clock.advance(ms=2_500)
    assert (await queue.pull_one())["metadata"] == {
        "CF-Content-Type": "json",
        "CF-sourceMessageSource": "api",
        "CF-msg-delay-secs": "2.5",
        "Courier-Message-Id": "order 66",
    }
