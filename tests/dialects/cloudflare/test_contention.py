"""Leases under contention: many clients pull, ack and retry at once against a real server."""

import asyncio
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.every_engine

MESSAGES = 20_000
CLIENTS = 32
MAX_RETRIES = 2
LEASE_MS = 600_000
"""Longer than the test: no lease ends by itself, so every delivery is somebody's decision."""


def attempts_wanted(number: int) -> int:
    """How often a message fails before it is acked; one in ten never is, and dies at its last attempt."""
    return MAX_RETRIES + 2 if number % 10 == 0 else 1 + number % 3


class Api:
    """The calls that a client makes on one queue."""

    def __init__(self, session: aiohttp.ClientSession, path: str) -> None:
        self._session = session
        self._path = path

    async def call(self, verb: str, order: Any) -> Any:
        async with self._session.post(self._path + verb, json=order) as response:
            answer = await response.json()
            assert answer["success"], answer
            return answer["result"]


class Ledger:
    """What all clients together saw and did."""

    def __init__(self) -> None:
        self.attempts: dict[int, list[int]] = defaultdict(list)
        self.held: set[int] = set()
        self.acked: Counter[int] = Counter()
        self.warnings: dict[str, str] = {}

    def take(self, number: int, attempt: int) -> None:
        assert number not in self.held, "two clients hold the same message"
        self.held.add(number)
        self.attempts[number].append(attempt)


async def client(api: Api, ledger: Ledger, dice: random.Random) -> None:
    """Pull, decide by the message and its attempt, settle; until nothing is left, held by others included."""
    while True:
        order = {"batch_size": dice.randint(1, 100), "visibility_timeout_ms": LEASE_MS}
        pulled = await api.call("/messages/pull", order)
        if not pulled["messages"]:
            if pulled["message_backlog_count"] == 0:
                return
            await asyncio.sleep(0.01)  # the rest is in the hands of others: the vendor has no long poll
            continue
        await settle(api, ledger, pulled["messages"])


async def settle(api: Api, ledger: Ledger, messages: list[Any]) -> None:
    acks: dict[int, dict[str, str]] = {}
    retries: dict[int, dict[str, str]] = {}
    for message in messages:
        number = msgspec.json.decode(message["body"])["n"]
        ledger.take(number, message["attempts"])
        chosen = acks if message["attempts"] >= attempts_wanted(number) else retries
        chosen[number] = {"lease_id": message["lease_id"]}
    await asyncio.sleep(0)  # let others in while these are held
    ledger.held.difference_update(acks, retries)
    result = await api.call("/messages/ack", {"acks": list(acks.values()), "retries": list(retries.values())})
    assert (result["ackCount"], result["retryCount"]) == (len(acks), len(retries))
    ledger.warnings |= result.get("warnings", {})
    ledger.acked.update(acks.keys())


async def fill(api: Api) -> None:
    numbers = list(range(MESSAGES))
    random.Random(7).shuffle(numbers)
    batches = [numbers[start : start + 100] for start in range(0, MESSAGES, 100)]
    for start in range(0, len(batches), CLIENTS):
        orders = [{"messages": [{"body": {"n": n}} for n in batch]} for batch in batches[start : start + CLIENTS]]
        await asyncio.gather(*[api.call("/messages/batch", order) for order in orders])


async def drain(api: Api) -> list[tuple[int, int]]:
    """Every message of a queue with its attempts, acked."""
    found = []
    while messages := (await api.call("/messages/pull", {"batch_size": 100}))["messages"]:
        found += [(msgspec.json.decode(message["body"])["n"], message["attempts"]) for message in messages]
        await api.call("/messages/ack", {"acks": [{"lease_id": message["lease_id"]} for message in messages]})
    return found


async def contend(server: ServerProcess) -> tuple[Ledger, list[tuple[int, int]]]:
    root = f"{server.url}/client/v4/accounts/default/queues"
    headers = {"Authorization": f"Bearer {server.token}"}
    connector = aiohttp.TCPConnector(limit=CLIENTS)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        for name in ("work", "dead"):
            await Api(session, root).call("", {"queue_name": name})
        work, dead = Api(session, f"{root}/work"), Api(session, f"{root}/dead")
        consumer = {"type": "http_pull", "dead_letter_queue": "dead", "settings": {"max_retries": MAX_RETRIES}}
        await work.call("/consumers", consumer)
        await dead.call("/consumers", {"type": "http_pull"})
        await fill(work)
        ledger = Ledger()
        await asyncio.gather(*[client(work, ledger, random.Random(seed)) for seed in range(CLIENTS)])
        return ledger, await drain(dead)


@pytest.mark.slow
async def test_many_clients_settle_every_message_exactly_once(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        ledger, dead = await contend(server)
    doomed = [number for number in range(MESSAGES) if attempts_wanted(number) > MAX_RETRIES + 1]
    assert list(ledger.warnings.values()) == ["Message has exhausted maxRetries"] * len(doomed)
    assert set(ledger.attempts) == set(range(MESSAGES))
    for number, attempts in ledger.attempts.items():
        assert attempts == list(range(1, min(attempts_wanted(number), MAX_RETRIES + 1) + 1)), number
    assert ledger.acked == Counter(number for number in range(MESSAGES) if number not in set(doomed))
    assert sorted(dead) == [(number, 1) for number in doomed]
