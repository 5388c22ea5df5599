"""A node that stands still for longer than its leases and duties live, and then goes on as if nothing had happened:
others have its work by then, and what it still had in hand counts for nothing."""

import asyncio
import signal
from collections import Counter
from pathlib import Path

import pytest
import requests

from couriermq.core.duties import DELIVERY
from tests.support.cluster import Storm, weather, work_goes_on
from tests.support.postgres import shared_cluster
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

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
        total.update(await duties_of(node))  # type: ignore[arg-type]
    return dict(total)


async def all_duties_are_held(nodes: list[ServerProcess]) -> None:
    async with asyncio.timeout(HEAL_SECONDS):
        while await held(nodes) != ALL:
            await asyncio.sleep(0.2)


async def freeze(frozen: ServerProcess, others: list[ServerProcess], storm: Storm) -> None:
    """Nobody asks it anything new meanwhile, as a balancer would see to; what it was asked before waits in it."""
    await work_goes_on(storm)
    nodes, storm.nodes = storm.nodes, others
    frozen.signal(signal.SIGSTOP)
    try:
        began, news = asyncio.get_running_loop().time(), len(storm.news)
        while len(storm.news) < news + 10 or asyncio.get_running_loop().time() < began + FROZEN_SECONDS:
            assert asyncio.get_running_loop().time() < began + HEAL_SECONDS, "the others do not go on"
            await asyncio.sleep(0.1)
        await all_duties_are_held(others)
        async with asyncio.timeout(HEAL_SECONDS):  # what it had leased for a delivery is free when that lease ends
            while not set(storm.news[:news]) <= set(storm.arrived("plain")) & set(storm.arrived("ordered")):
                await asyncio.sleep(0.1)
    finally:
        frozen.signal(signal.SIGCONT)
    storm.nodes = nodes


async def test_a_node_that_was_frozen_finds_its_work_done_and_takes_part_again(tmp_path: Path) -> None:
    async def chaos(nodes: list[ServerProcess], storm: Storm) -> None:
        for frozen in nodes[:2]:
            await freeze(frozen, [node for node in nodes if node is not frozen], storm)
            async with asyncio.timeout(HEAL_SECONDS):
                while not (await duties_of(frozen))["delivery"]:
                    await asyncio.sleep(0.2)  # it has its share again
            await all_duties_are_held(nodes)
            ready = await asyncio.to_thread(requests.get, f"{frozen.url}/readyz", timeout=HEAL_SECONDS)
            assert ready.status_code == 200
            await work_goes_on(storm)

    await weather(tmp_path, shared_cluster().store_url(tmp_path), chaos)
    shared_cluster().empty(tmp_path)
