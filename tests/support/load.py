"""Clients that send, receive and settle without pause, against one server or several, and write down what they hear."""

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import aiohttp

from tests.support.server import ServerProcess
from tests.support.witness import Delivery, Witness

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
    """All the clients together. Each request goes to any of the nodes, whichever asked before."""

    def __init__(self, nodes: Sequence[ServerProcess], dice: random.Random) -> None:
        self.nodes = nodes
        self.dice = dice
        self.witness = Witness()
        self.up = asyncio.Event()
        self.sending = True
        self.draining = False

    async def post(self, session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> Any:
        await self.up.wait()
        return await self.ask(session, "POST", f"/queues{path}", body)

    async def ask(self, session: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> Any:
        """What a node answers; raises NoAnswer where nobody can know what became of the request."""
        url = f"{self.dice.choice(self.nodes).url}/courier/v1/tenants/default{path}"
        try:
            async with session.request(method, url, json=body, timeout=QUIET) as response:
                answer = await response.json()
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.02)  # the server is another process: there is no clock of ours to move
            raise NoAnswer from None
        except GONE:
            answer = None
        if answer is None or response.status == 503:
            self.witness.lost_answers += 1
            await asyncio.sleep(0.02)
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
        try:
            figures = (await self.ask(session, "GET", "/counters"))["queues"].values()
        except NoAnswer:
            return False
        return not any(each["total_count"] for each in figures)


def _delivery(queue: str, lease: dict[str, Any], asked: int, answered: int) -> Delivery:
    message = lease["message"]
    group = message.get("group")
    number = int(message["body"]) if group else 0
    return Delivery(
        queue, message["id"], message["attempts"], lease["receipt"], asked, answered, group, number
    )  # fmt: skip


@contextlib.asynccontextmanager
async def clients(token: str) -> AsyncIterator[Iterator[aiohttp.ClientSession]]:
    """As many sessions as wanted, each with connections of its own."""
    async with contextlib.AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {token}"}
        sessions = [await stack.enter_async_context(aiohttp.ClientSession(headers=headers)) for _ in range(16)]
        yield iter(sessions)


async def create_queues(load: Load, session: aiohttp.ClientSession) -> None:
    for queue in (
        {"name": "graves"},
        {"name": "orders", "settings": {"max_attempts": 4, "dead_letter_queue": "graves"}},
        {"name": "line", "kind": "fifo"},
    ):
        await load.post(session, "", queue)
