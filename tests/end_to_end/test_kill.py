"""The real server, killed at random moments under load and started again, keeps every promise that it made."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from courier.core.events import EventKind
from courier.storage.sqlite import care
from tests.support.engines import ENGINES, Rig
from tests.support.replay import replay
from tests.support.server import ServerProcess, start_server
from tests.support.witness import Delivery, Witness

pytestmark = pytest.mark.slow

ROUNDS = 14
UP_SECONDS = (0.3, 1.8)
LEASE_MS = 1_500
GROUPS = 4
BACKLOG = 500
QUEUES = ("orders", "graves", "line")
QUIET = aiohttp.ClientTimeout(total=20)

GONE = (aiohttp.ClientError, asyncio.TimeoutError, ConnectionError)
"""No answer, or half of one: the server may or may not have done what it was asked."""


class NoAnswer(Exception):
    """The server died before it could answer."""


class Load:
    """Clients that send, receive and settle without pause, and write down what they were told."""

    def __init__(self, server: ServerProcess, dice: random.Random) -> None:
        self.server = server
        self.dice = dice
        self.witness = Witness()
        self.up = asyncio.Event()
        self.sending = True
        self.draining = False

    async def post(self, session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> Any:
        await self.up.wait()
        url = f"{self.server.url}/courier/v1/tenants/default/queues{path}"
        try:
            async with session.post(url, json=body, timeout=QUIET) as response:
                answer = await response.json()
        except GONE:
            self.witness.lost_answers += 1
            await asyncio.sleep(0.02)  # the server is another process: there is no clock of ours to move
            raise NoAnswer from None
        assert response.status < 300, (path, body, answer)
        return answer

    async def until_wanted(self) -> None:
        """Hold back while the receivers are far behind, so that draining does not take for ever."""
        while len(self.witness.accepted) - len(self.witness.acked_at) > BACKLOG:
            await asyncio.sleep(0.02)

    # -- senders ----------------------------------------------------------------------------------------------

    async def send_orders(self, session: aiohttp.ClientSession, name: str) -> None:
        """Messages in batches of any size, each sent once: an answer that does not come leaves it open."""
        for n in itertools.count():
            if not self.sending:
                return
            await self.until_wanted()
            ids = [f"{name}-{n}-{i}" for i in range(self.dice.choice((1, 1, 3, 20)))]
            self.witness.attempted.update(ids)
            messages = [{"id": each, "body": "x" * self.dice.choice((10, 100, 5_000))} for each in ids]
            with contextlib.suppress(NoAnswer):
                answer = await self.post(session, "/orders/messages", {"messages": messages})
                self.witness.accepted.update(result["id"] for result in answer["results"])

    async def send_line(self, session: aiohttp.ClientSession, group: str) -> None:
        """A FIFO group, one after the other; a message is sent until it is answered, and taken once."""
        for n in itertools.count():
            if not self.sending:
                return
            await self.until_wanted()
            await self.send_until_answered(session, {"id": f"{group}-{n}", "group": group, "body": str(n)})

    async def send_until_answered(self, session: aiohttp.ClientSession, message: dict[str, Any]) -> None:
        self.witness.attempted.add(message["id"])
        while True:
            with contextlib.suppress(NoAnswer):
                answer = await self.post(session, "/line/messages", message)
                assert answer["id"] == message["id"]
                self.witness.accepted.add(message["id"])
                return

    # -- receivers --------------------------------------------------------------------------------------------

    async def consume(self, session: aiohttp.ClientSession) -> None:
        """Receive from all queues in turn and settle as a moody consumer does."""
        for queue in itertools.cycle(QUEUES):
            if self.draining and await self.empty(session):
                return
            with contextlib.suppress(NoAnswer):
                await self.settle_all(session, queue, await self.receive(session, queue))

    async def receive(self, session: aiohttp.ClientSession, queue: str) -> list[Delivery]:
        asked = self.witness.tick()
        order = {"limit": self.dice.choice((1, 5, 20)), "lease_ms": LEASE_MS, "wait_ms": self.dice.choice((0, 0, 100))}
        answer = await self.post(session, f"/{queue}/receive", order)
        answered = self.witness.tick()
        deliveries = [_delivery(queue, lease, asked, answered) for lease in answer["leases"]]
        self.witness.deliveries += deliveries
        return deliveries

    async def settle_all(self, session: aiohttp.ClientSession, queue: str, deliveries: list[Delivery]) -> None:
        """Most are acked; some are released, some held for longer and then acked, some forgotten."""
        moods = ("ack",) if self.draining else ("ack",) * 12 + ("release", "extend", "forget")
        chosen: dict[str, list[Delivery]] = {mood: [] for mood in moods}
        for delivery in deliveries:
            chosen[self.dice.choice(moods)].append(delivery)
        if held := chosen.get("extend"):
            await self.settle(session, queue, "extend", held, {"lease_ms": LEASE_MS})
        await self.ack(session, queue, chosen["ack"] + (held or []))
        if returned := chosen.get("release"):
            await self.settle(session, queue, "release", returned, {"delay_ms": self.dice.choice((0, 50))})

    async def ack(self, session: aiohttp.ClientSession, queue: str, deliveries: list[Delivery]) -> None:
        asked = self.witness.tick()
        for delivery in deliveries:
            self.witness.ack_asked_at.setdefault(delivery.id, asked)
        done = await self.settle(session, queue, "ack", deliveries, {}) if deliveries else []
        answered = self.witness.tick()
        for delivery in done:
            self.witness.acked_at.setdefault(delivery.id, answered)

    async def settle(
        self, session: aiohttp.ClientSession, queue: str, do: str, deliveries: list[Delivery], how: dict[str, Any]
    ) -> list[Delivery]:
        """Those whose settlement was answered with success; a lease may be lost while the server is down."""
        body = {"receipts": [delivery.receipt for delivery in deliveries], **how}
        results = (await self.post(session, f"/{queue}/{do}", body))["results"]
        assert all(result["error"]["status"] == 409 for result in results if "error" in result), results
        done = [d for d, result in zip(deliveries, results, strict=True) if "error" not in result]
        if do != "extend":
            self.witness.settled += [(do, delivery.receipt) for delivery in done]
        return done

    async def empty(self, session: aiohttp.ClientSession) -> bool:
        url = f"{self.server.url}/courier/v1/tenants/default/counters"
        async with session.get(url, timeout=QUIET) as response:
            figures = (await response.json())["queues"].values()
        return not any(each["total_count"] for each in figures)


def _delivery(queue: str, lease: dict[str, Any], asked: int, answered: int) -> Delivery:
    message = lease["message"]
    group = message.get("group")
    number = int(message["body"]) if group else 0
    return Delivery(
        queue, message["id"], message["attempts"], lease["receipt"], asked, answered, group, number
    )  # fmt: skip


@contextlib.asynccontextmanager
async def clients(server: ServerProcess) -> AsyncIterator[Iterator[aiohttp.ClientSession]]:
    """As many sessions as wanted, each with connections of its own."""
    async with contextlib.AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {server.token}"}
        sessions = [await stack.enter_async_context(aiohttp.ClientSession(headers=headers)) for _ in range(16)]
        yield iter(sessions)


async def create_queues(load: Load, session: aiohttp.ClientSession) -> None:
    for queue in (
        {"name": "graves"},
        {"name": "orders", "settings": {"max_attempts": 4, "dead_letter_queue": "graves"}},
        {"name": "line", "kind": "fifo"},
    ):
        await load.post(session, "", queue)


async def kill_and_restart(load: Load) -> None:
    await asyncio.sleep(load.dice.uniform(*UP_SECONDS))
    load.up.clear()
    await asyncio.to_thread(load.server.kill)
    assert await asyncio.to_thread(care.check, load.server.data) == []
    await asyncio.to_thread(load.server.start)
    load.up.set()


async def storm(server: ServerProcess, dice: random.Random) -> Witness:
    load = Load(server, dice)
    load.up.set()
    async with clients(server) as sessions:
        await create_queues(load, next(sessions))
        senders = [asyncio.create_task(load.send_orders(next(sessions), f"s{n}")) for n in range(3)]
        senders += [asyncio.create_task(load.send_line(next(sessions), f"g{n}")) for n in range(GROUPS)]
        consumers = [asyncio.create_task(load.consume(next(sessions))) for _ in range(5)]
        for _ in range(ROUNDS):
            await kill_and_restart(load)
        load.sending = False
        await asyncio.gather(*senders)
        load.draining = True
        await asyncio.gather(*consumers)
    return load.witness


async def test_nothing_accepted_is_lost_and_nothing_acked_returns(tmp_path: Path) -> None:
    dice = random.Random()
    with start_server(tmp_path) as server:
        witness = await storm(server, dice)
        assert server.stop() == 0
    assert witness.findings() == []
    assert len(witness.accepted) > 100
    assert witness.lost_answers > 0
    await compare_with_journal(tmp_path / "data", witness)


async def compare_with_journal(data: Path, witness: Witness) -> None:
    """The journal tells the same story, without a gap, and its end is an empty house."""
    rig = Rig(lambda: ENGINES["sqlite"](data))
    await rig.open()
    try:
        span = await rig.store.span()
        entries = await rig.store.read_events(start=0, limit=span.next)
        while len(entries) < span.next:
            entries += await rig.store.read_events(start=len(entries), limit=span.next)
    finally:
        await rig.close()
    assert [entry.offset for entry in entries] == list(range(span.next))
    events = [entry.event for entry in entries]
    sent = {event.message_id for event in events if event.kind == EventKind.SENT}
    acked = {event.message_id for event in events if event.kind == EventKind.ACKED}
    assert witness.accepted <= sent <= witness.attempted
    assert set(witness.acked_at) <= acked
    assert replay(events) == {}
    assert care.check(data) == []
