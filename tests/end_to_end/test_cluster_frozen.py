"""A node that stands still for longer than its leases and duties live, and then goes on as if nothing had happened:
others have its work by then, and what it still had in hand counts for nothing."""

import asyncio
import contextlib
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import requests

from couriermq.core.duties import DELIVERY
from tests.support.cluster import Freeze, Storm, started_nodes, weather, work_goes_on
from tests.support.eventually import eventually
from tests.support.postgres import shared_cluster
from tests.support.receiver import answer, hang_up, held_until, receiving
from tests.support.server import ServerProcess, start_server
from tests.support.soak import sized

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

FROZEN_SECONDS = 12.0
"""Longer than leases live here, and than it takes the others to end a silent node's session."""
HEAL_SECONDS = 30.0
ALL = {"upkeep": 1.0, "archive": 1.0, "delivery": float(len(DELIVERY))}


async def duties_of(node: ServerProcess) -> dict[str, float]:
    """How many duties of each kind a node says that it holds."""
    answer = await asyncio.to_thread(node.session.get, f"{node.url}/metrics", timeout=HEAL_SECONDS)
    lines = [line for line in answer.text.splitlines() if line.startswith("courier_duties{")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


async def held(nodes: list[ServerProcess]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for node in nodes:
        total.update(await duties_of(node))
    return dict(total)


async def all_duties_are_held(nodes: list[ServerProcess]) -> None:
    await eventually(lambda: held(nodes), ALL.__eq__, seconds=HEAL_SECONDS)


async def takes_part(node: ServerProcess) -> None:
    """It has its share of the deliveries."""
    await eventually(lambda: duties_of(node), lambda duties: duties["delivery"], seconds=HEAL_SECONDS)


@contextlib.asynccontextmanager
async def standing_still(node: ServerProcess) -> AsyncIterator[float]:
    """Since when, in seconds of the wall clock."""
    node.signal(signal.SIGSTOP)
    try:
        await eventually(lambda: Path(f"/proc/{node.pid}/stat").read_text().rpartition(") ")[2][0], "T".__eq__)
        yield time.time()
    finally:
        node.signal(signal.SIGCONT)


async def freeze(frozen: ServerProcess, others: list[ServerProcess], storm: Storm) -> None:
    """Nobody asks it anything new meanwhile, as a balancer would see to; what it was asked before waits in it."""
    await work_goes_on(storm)
    nodes, storm.nodes = storm.nodes, others
    async with standing_still(frozen) as stopped_at:
        news = len(storm.news)
        await eventually(lambda: len(storm.news), lambda count: count >= news + 10, seconds=HEAL_SECONDS)
        await eventually(lambda: time.time() - stopped_at > FROZEN_SECONDS)
        await all_duties_are_held(others)
        # What it had leased for a delivery is free when that lease ends.
        await eventually(
            lambda: {name: set(storm.news[:news]) - set(storm.arrived(name)) for name in storm.receivers},
            lambda missing: not any(missing.values()),
            seconds=HEAL_SECONDS,
        )
        storm.freezes.append(Freeze(stopped_at, time.time()))
    storm.nodes = nodes


async def test_a_node_that_was_frozen_finds_its_work_done_and_takes_part_again(tmp_path: Path) -> None:
    async def chaos(nodes: list[ServerProcess], storm: Storm) -> None:
        for frozen in nodes[: sized(1, 2)]:
            await freeze(frozen, [node for node in nodes if node is not frozen], storm)
            await takes_part(frozen)
            await all_duties_are_held(nodes)
            ready = await asyncio.to_thread(requests.get, f"{frozen.url}/readyz", timeout=HEAL_SECONDS)
            assert ready.status_code == 200
            await work_goes_on(storm)

    await weather(tmp_path, shared_cluster().store_url(tmp_path), chaos)
    shared_cluster().empty(tmp_path)


async def test_a_request_that_a_frozen_node_would_repeat_is_not_sent_when_it_goes_on(tmp_path: Path) -> None:
    """The receiver hangs up on a connection that was kept, which makes a node send the request over another."""
    store, let_go = shared_cluster().store_url(tmp_path), asyncio.Event()
    settings = {"ordered": True, "timeout_ms": 60_000}
    async with receiving(answer(), held_until(let_go, hang_up), answer()) as receiver:
        with started_nodes(tmp_path, store, 1) as (frozen,):
            await ask(frozen, "", {"name": "news"})
            await ask(frozen, "/news/listeners", {"name": "ordered", "url": receiver.url, "settings": settings})
            await ask(frozen, "/news/messages", {"body": "first"})
            await receiver.wait(1)
            await ask(frozen, "/news/messages", {"body": "second"})
            await receiver.wait(2)
            async with standing_still(frozen):
                let_go.set()
                with start_server(
                    tmp_path, data=tmp_path / "other", store=store, delivery_allow="127.0.0.0/8"
                ) as other:
                    await ask(other, "/news/messages", {"body": "third"})
                    await eventually(lambda: receiver.bodies, lambda bodies: b"third" in bodies, seconds=HEAL_SECONDS)
                    assert await asyncio.to_thread(other.stop) == 0
            await takes_part(frozen)
            await ask(frozen, "/news/messages", {"body": "fourth"})
            await eventually(lambda: receiver.bodies, lambda bodies: b"fourth" in bodies)
            assert receiver.bodies == [b"first", b"second", b"second", b"third", b"fourth"]
    shared_cluster().empty(tmp_path)


async def ask(node: ServerProcess, path: str, order: dict[str, Any]) -> None:
    url = f"{node.url}/courier/v1/tenants/default/queues{path}"
    answered = await asyncio.to_thread(node.session.post, url, json=order, timeout=HEAL_SECONDS)
    assert answered.status_code < 300, answered.text
