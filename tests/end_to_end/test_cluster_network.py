"""Nodes cut off from each other, and a node cut off from the database: nobody leases twice, and all heals by itself."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.support.cluster import check, storming, work_goes_on
from tests.support.eventually import eventually
from tests.support.network import HUB, Network, RemoteCluster, remote_nodes
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

CUT_SECONDS = 12.0
"""Longer than it takes the others to notice that a session has fallen silent."""
HEAL_SECONDS = 30.0


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.remove()


@pytest.fixture
def cluster(network: Network) -> Iterator[RemoteCluster]:
    cluster = RemoteCluster(network)
    yield cluster
    cluster.remove()


async def is_ready(node: ServerProcess) -> bool:
    answer = await asyncio.to_thread(requests.get, f"{node.url}/readyz", timeout=HEAL_SECONDS)
    return answer.status_code == 200


def test_nodes_that_cannot_reach_each_other_need_not(network: Network, cluster: RemoteCluster, tmp_path: Path) -> None:
    async def story(nodes: list[ServerProcess]) -> None:
        async with storming(nodes, random.Random(), host=HUB) as storm:
            network.part("node0", "node1")
            await asyncio.sleep(3.0)
            for node in nodes:
                assert await is_ready(node)
            await work_goes_on(storm)
            network.part()
        await check(storm, nodes, cluster.url())

    with remote_nodes(network, tmp_path, cluster.remote_url, 2) as nodes:
        network.run(lambda: story(nodes))


def test_a_node_that_cannot_reach_the_database_says_so_and_comes_back(
    network: Network, cluster: RemoteCluster, tmp_path: Path
) -> None:
    async def story(nodes: list[ServerProcess]) -> None:
        async with storming(nodes, random.Random(), host=HUB) as storm:
            await work_goes_on(storm)
            network.part("node0", "db")
            cut = asyncio.get_running_loop().time()
            await eventually(lambda: is_ready(nodes[0]), lambda ready: not ready, seconds=HEAL_SECONDS)
            assert await is_ready(nodes[1])
            news = len(storm.news)
            # Others accept, and deliver what was the silent node's to deliver.
            await eventually(lambda: len(storm.news), lambda count: count >= news + 10, seconds=HEAL_SECONDS)
            await eventually(lambda: asyncio.get_running_loop().time() >= cut + CUT_SECONDS)
            await eventually(
                lambda: {name: set(storm.news[:news]) - set(storm.arrived(name)) for name in ("plain", "ordered")},
                lambda missing: not any(missing.values()),
                seconds=HEAL_SECONDS,
            )
            network.part()
            await eventually(lambda: is_ready(nodes[0]), seconds=HEAL_SECONDS)
            await work_goes_on(storm)
        assert storm.witness.lost_answers > 0
        await check(storm, nodes, cluster.url())

    with remote_nodes(network, tmp_path, cluster.remote_url, 3) as nodes:
        network.run(lambda: story(nodes))
