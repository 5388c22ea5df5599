"""Many consumers at once on a real server: short locks, extensions, nacks and crashes.

What the consumers saw is checked against the journal, which tells the life of every message step by step.
"""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

BROKER = "/api/v1/organizations/default/environments/default/destinations"
ADMIN = "/mq/admin/api/v1/organizations/default/environments/default/regions/us-east-1/destinations/queues"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path) as server:
        yield server


class Client:
    """One queue, and everything that all its consumers saw and did."""

    def __init__(self, session: aiohttp.ClientSession, url: str, queue: str) -> None:
        self._session = session
        self._url = f"{url}{BROKER}/{queue}/messages"
        self.acked: dict[str, str] = {}
        """Message id to the delivery count under which its ack was accepted."""
        self.seen: set[tuple[str, str]] = set()

    async def _call(self, method: str, tail: str = "", **options: Any) -> tuple[int, Any]:
        async with self._session.request(method, self._url + tail, **options) as response:
            return response.status, await response.json() if response.status != 204 else None

    async def publish(self, messages: list[dict[str, Any]]) -> None:
        for start in range(0, len(messages), 10):
            status, outcomes = await self._call("PUT", json=messages[start : start + 10])
            assert status == 200
            assert {outcome["status"] for outcome in outcomes} == {"successful"}

    async def consume(self, *, count: int, lock_ms: int) -> list[dict[str, str]]:
        """The headers of what came; a message may have none for us."""
        status, messages = await self._call("GET", f"?batchSize={count}&lockTtl={lock_ms}&pollingTime=500")
        assert status in {200, 204}
        headers = [message["headers"] for message in messages or ()]
        for one in headers:
            delivery = (one["messageId"], one["deliveryCount"])
            assert delivery not in self.seen, "the same delivery was given to two consumers"
            self.seen.add(delivery)
        return headers

    async def ack(self, headers: dict[str, str]) -> bool:
        status, body = await self._call("DELETE", f"/{headers['messageId']}", json={"lockId": headers["lockId"]})
        if status == 200:
            self._note_ack(headers)
            return True
        assert (status, "is expired" in body["statusMessage"]) == (400, True)
        return False

    async def ack_all(self, batch: list[dict[str, str]]) -> None:
        locks = [{"messageId": one["messageId"], "lockId": one["lockId"]} for one in batch]
        status, outcomes = await self._call("DELETE", json=locks)
        assert status == 200
        for headers, outcome in zip(batch, outcomes, strict=True):
            if outcome["status"] == "successful":
                self._note_ack(headers)

    def _note_ack(self, headers: dict[str, str]) -> None:
        assert headers["messageId"] not in self.acked, "a message was acknowledged twice"
        self.acked[headers["messageId"]] = headers["deliveryCount"]

    async def nack(self, headers: dict[str, str]) -> bool:
        return (await self._call("DELETE", f"/{headers['messageId']}/locks/{headers['lockId']}"))[0] == 200

    async def extend(self, headers: dict[str, str], *, seconds: int) -> bool:
        path = f"/{headers['messageId']}/locks/{headers['lockId']}"
        return (await self._call("PATCH", path, json={"ttl": seconds}))[0] == 200


@contextlib.asynccontextmanager
async def clients(server: ServerProcess, queue: str, **settings: Any) -> Any:
    headers = {"Authorization": f"Bearer {server.token}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        async with session.put(f"{server.url}{ADMIN}/{queue}", json=settings) as response:
            assert response.status == 200
        yield Client(session, server.url, queue)


def lives(server: ServerProcess) -> dict[str, list[tuple[str, int]]]:
    """Every message's life as the journal tells it: what happened, and in which attempt."""
    session, found, offset = server.session, defaultdict(list), 0
    while True:
        page = session.get(f"{server.url}/courier/v1/journal/events?from={offset}&limit=1000", timeout=60).json()
        for event in page["events"]:
            if event["message_id"] is not None:
                is_untried = bool((event["detail"] or {}).get("untried"))
                found[event["message_id"]].append((UNTRIED if is_untried else event["kind"], event["attempt"]))
        if not page["events"]:
            return found
        offset = page["next"]


UNTRIED = "untried"
"""How a life tells that a message was given back because its client had left before the answer was written."""


def check_life(life: list[tuple[str, int]]) -> int:
    """One attempt after the other, each ended before the next began, the last by an ack; returns which that was."""
    assert life[0] == ("sent", 0)
    attempt, leased = 0, False
    for kind, number in life[1:]:
        if kind == "received":
            assert not leased, "leased to two at once"
            assert number == attempt + 1, "a delivery was not counted, or counted twice"
            attempt, leased = number, True
        else:
            assert leased, "settled by a dead lock"
            assert number == attempt, "settled by the lock of another delivery"
            leased = kind == "extended"
            attempt -= kind == UNTRIED
    assert life[-1][0] == "acked"
    return attempt


# -- 200 consumers on one queue -------------------------------------------------------------------------------

CONSUMERS = 200
MESSAGES = 3_000
LOCK_MS = 1_000
PAST_LOCK_SECONDS = LOCK_MS / 1_000 + 0.2
UNLUCKY = 3
"""In how many deliveries of a message something may go wrong by dice: each time it may cost the length of a lock."""


async def consumer(client: Client, dice: random.Random) -> None:
    while len(client.acked) < MESSAGES:
        take = client.consume(count=dice.randint(1, 10), lock_ms=LOCK_MS)
        try:
            if dice.random() < 0.05:  # it dies while it waits: what was on its way to it must come back
                batch = await asyncio.wait_for(take, dice.random() / 20)
            else:
                batch = await take
        except TimeoutError:
            continue
        await dispose(client, batch, dice)


async def dispose(client: Client, batch: list[dict[str, str]], dice: random.Random) -> None:
    if batch and dice.random() < 0.3:
        await client.ack_all(batch)
        return
    for headers in batch:
        weights = (70, 12, 8, 2, 8) if int(headers["deliveryCount"]) <= UNLUCKY else (1, 0, 0, 0, 0)
        match dice.choices(("ack", "nack", "extend", "late", "crash"), weights)[0]:
            case "ack":
                await client.ack(headers)
            case "nack":
                await client.nack(headers)
            case "extend":
                if await client.extend(headers, seconds=60):
                    await asyncio.sleep(PAST_LOCK_SECONDS)  # longer than the first lock would have lasted
                    assert await client.ack(headers)
            case "late":
                await asyncio.sleep(PAST_LOCK_SECONDS)
                assert not await client.ack(headers)
            case "crash":
                return


async def test_no_message_is_lost_or_settled_by_a_dead_lock(server: ServerProcess) -> None:
    async with clients(server, "contended") as client:
        await client.publish([{"headers": {"messageId": f"m-{n}"}, "body": str(n)} for n in range(MESSAGES)])
        await asyncio.gather(*(consumer(client, random.Random(n)) for n in range(CONSUMERS)))
    told = lives(server)
    assert len(told) == MESSAGES
    assert {message_id: str(check_life(life)) for message_id, life in told.items()} == client.acked
    received = {(message_id, str(n)) for message_id, life in told.items() for kind, n in life if kind == "received"}
    assert client.seen <= received
    assert sum(len(life) > 3 for life in told.values()) > MESSAGES // 20, "too little went wrong to prove anything"


# -- FIFO -----------------------------------------------------------------------------------------------------

GROUPS = 50
GROUP_MESSAGES = 20
FIFO_CONSUMERS = 20
FIFO_LOCK_MS = 1_000


async def ordered_consumer(client: Client, order: dict[str, list[int]], dice: random.Random) -> None:
    while len(client.acked) < GROUPS * GROUP_MESSAGES:
        batch = await client.consume(count=dice.randint(1, 10), lock_ms=FIFO_LOCK_MS)
        groups: dict[str, list[dict[str, str]]] = defaultdict(list)
        for headers in batch:
            groups[headers["messageGroupId"]].append(headers)
        for group, run in groups.items():
            numbers = [int(headers["messageId"].partition("-")[2]) for headers in run]
            assert numbers == list(range(numbers[0], numbers[0] + len(run))), "a group came out of order"
            await work_through(client, group, run, order, dice)


async def work_through(
    client: Client, group: str, run: list[dict[str, str]], order: dict[str, list[int]], dice: random.Random
) -> None:
    """Acknowledge in order until something goes wrong; then the rest must not be acknowledged either."""
    for index, headers in enumerate(run):
        luck = dice.random()
        if luck < 0.08:  # give everything back that is left
            for rest in run[index:]:
                await client.nack(rest)
            return
        if luck < 0.11:  # crash: the locks run out by themselves
            return
        if not await client.ack(headers):
            return
        order[group].append(int(headers["messageId"].partition("-")[2]))


async def test_the_order_of_every_group_holds_through_nacks_and_expiry(server: ServerProcess) -> None:
    order: dict[str, list[int]] = defaultdict(list)
    async with clients(server, "ordered", fifo=True) as client:
        messages = [
            {"headers": {"messageId": f"g{group}-{n}", "messageGroupId": f"g{group}"}, "body": str(n)}
            for n in range(GROUP_MESSAGES)
            for group in range(GROUPS)
        ]
        await client.publish(messages)
        await asyncio.gather(*(ordered_consumer(client, order, random.Random(n)) for n in range(FIFO_CONSUMERS)))
    assert order == {f"g{group}": list(range(GROUP_MESSAGES)) for group in range(GROUPS)}
    told = lives(server)
    assert {message_id: str(check_life(life)) for message_id, life in told.items()} == client.acked
    assert sum(len(life) > 3 for life in told.values()) > GROUPS, "too little went wrong to prove anything"
