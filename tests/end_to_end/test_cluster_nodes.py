"""Three nodes under load, one of them killed every second: nothing is lost, repeated out of order, or left lying."""

from pathlib import Path

import pytest

from tests.support.cluster import Storm, kill_nodes, weather
from tests.support.postgres import shared_cluster
from tests.support.server import ServerProcess
from tests.support.soak import sized

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

SECONDS = sized(15, 60)


async def test_a_node_killed_every_second_costs_nothing(tmp_path: Path) -> None:
    killed: list[int] = []

    async def chaos(nodes: list[ServerProcess], storm: Storm) -> None:
        killed.append(await kill_nodes(nodes, storm.dice, seconds=SECONDS))

    storm = await weather(tmp_path, shared_cluster().store_url(tmp_path), chaos)
    assert killed[0] >= 3  # one a second, where the machine is quick enough to start them again
    assert storm.witness.lost_answers > 0
    shared_cluster().empty(tmp_path)
