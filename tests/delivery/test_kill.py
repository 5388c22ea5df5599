"""The real server, killed under load: everything accepted arrives everywhere, and the log tells the truth."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.eventually import eventually
from tests.support.receiver import Receiver, receiving
from tests.support.server import ServerProcess, start_server
from tests.support.soak import sized

pytestmark = [pytest.mark.slow, pytest.mark.every_engine]

ROUNDS = sized(3, 30)
UP_SECONDS = (0.4, 1.2)
PATIENCE_S = 60.0
QUEUE = "/courier/v1/tenants/default/queues/orders"
SETTINGS = {"timeout_ms": 500, "schedule_ms": [100] * 50, "jitter": 0.0}


class Load:
    """Sends without pause and remembers what was accepted."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.accepted: set[str] = set()
        self.up = asyncio.Event()
        self.stop = False

    async def run(self, session: aiohttp.ClientSession, name: str) -> None:
        number = 0
        while not self.stop:
            await self.up.wait()
            ids = [f"{name}-{number}-{item}" for item in range(5)]
            number += 1
            try:
                results = await self._send(session, ids)
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(0.02)  # another process starts: there is no clock of ours to move
                continue
            self.accepted.update(result["id"] for result in results)

    async def _send(self, session: aiohttp.ClientSession, ids: list[str]) -> list[dict[str, Any]]:
        messages = [{"id": each, "body": each} for each in ids]
        async with session.post(f"{self.server.url}{QUEUE}/messages", json={"messages": messages}) as response:
            results: list[dict[str, Any]] = (await response.json())["results"]
            return results


async def call(session: aiohttp.ClientSession, method: str, url: str, document: Any = None) -> Any:
    async with session.request(method, url, json=document) as response:
        assert response.status < 300, await response.text()
        return await response.json()


async def log_of(session: aiohttp.ClientSession, server: ServerProcess, listener: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    before = ""
    while True:
        url = f"{server.url}{QUEUE}/listeners/{listener}/deliveries?limit=1000{before}"
        page = await call(session, "GET", url)
        lines += page["deliveries"]
        if page["next"] is None:
            return lines
        before = f"&before={page['next']}"


async def whole_log_of(
    session: aiohttp.ClientSession, server: ServerProcess, listener: str, load: Load
) -> list[dict[str, Any]]:
    """The log once it tells of everything: a line follows what it tells of."""
    return await eventually(
        lambda: log_of(session, server, listener),
        lambda log: load.accepted <= {line["message_id"] for line in log if line["verdict"] == "delivered"},
        seconds=PATIENCE_S,
    )


async def drained(session: aiohttp.ClientSession, server: ServerProcess) -> None:
    await eventually(
        lambda: call(session, "GET", f"{server.url}{QUEUE}/listeners"),
        lambda listed: not any(listener["counters"]["waiting_count"] for listener in listed["listeners"]),
        seconds=PATIENCE_S,
    )


async def test_after_kills_under_load_everything_accepted_has_reached_every_listener(tmp_path: Path) -> None:
    dice = random.Random(5)
    headers = {"Authorization": "Bearer root-token"}
    timeout = aiohttp.ClientTimeout(total=10)
    async with (
        receiving() as one,
        receiving() as two,
        aiohttp.ClientSession(headers=headers, timeout=timeout) as session,
    ):
        with start_server(tmp_path, delivery_allow="127.0.0.0/8") as server:
            await call(session, "POST", f"{server.url}{QUEUE.rpartition('/')[0]}", {"name": "orders"})
            for name, receiver in (("one", one), ("two", two)):
                order = {"name": name, "url": receiver.url, "settings": SETTINGS}
                await call(session, "POST", f"{server.url}{QUEUE}/listeners", order)
            load = Load(server)
            load.up.set()
            senders = [asyncio.create_task(load.run(session, f"s{number}")) for number in range(3)]
            for _ in range(ROUNDS):
                await asyncio.sleep(dice.uniform(*UP_SECONDS))  # a kill comes at any moment of real work
                load.up.clear()
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                load.up.set()
            load.stop = True
            await asyncio.gather(*senders)
            await drained(session, server)
            assert len(load.accepted) > 50
            for name, receiver in (("one", one), ("two", two)):
                check(load, receiver, await whole_log_of(session, server, name, load))


def check(load: Load, receiver: Receiver, log: list[dict[str, Any]]) -> None:
    arrived = Counter(request.headers["courier-message-id"] for request in receiver.requests)
    acked = [line["message_id"] for line in log if line["verdict"] == "delivered"]
    assert load.accepted - set(arrived) == set()
    assert load.accepted - set(acked) == set()
    assert len(acked) == len(set(acked)), "a message is delivered once by the log, however often it was tried"
    assert set(acked) - set(arrived) == set(), "nothing is in the log as delivered that did not arrive"
    for message_id, count in arrived.items():
        attempts = [line for line in log if line["message_id"] == message_id]
        assert len(attempts) >= count, "every request that came is in the log, if only as unknown"


async def test_a_server_stopped_in_the_middle_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    headers = {"Authorization": "Bearer root-token"}
    async with receiving() as receiver, aiohttp.ClientSession(headers=headers) as session:
        with start_server(tmp_path, delivery_allow="127.0.0.0/8") as server:
            await call(session, "POST", f"{server.url}{QUEUE.rpartition('/')[0]}", {"name": "orders"})
            await call(session, "POST", f"{server.url}{QUEUE}/listeners", {"name": "one", "url": receiver.url})
            messages = [{"id": f"m{number}", "body": "x"} for number in range(1_000)]
            await call(session, "POST", f"{server.url}{QUEUE}/messages", {"messages": messages})
            await receiver.wait(50)
            assert await asyncio.to_thread(server.stop) == 0
            await asyncio.to_thread(server.start)
            await drained(session, server)
        assert Counter(request.headers["courier-message-id"] for request in receiver.requests) == Counter(
            {f"m{number}": 1 for number in range(1_000)}
        )
