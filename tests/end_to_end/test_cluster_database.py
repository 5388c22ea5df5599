"""The database restarted, its sessions ended, its primary killed, all under load: clients wait, and lose nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Standby, Storm, kill_server, url_of_either, weather, work_goes_on
from tests.support.eventually import eventually
from tests.support.postgres import Cluster
from tests.support.server import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that keeps what it has committed, unlike the one that tests usually share."""
    cluster = Cluster()
    yield cluster
    cluster.remove()


async def test_a_database_that_restarts_loses_nothing_that_was_accepted(tmp_path: Path, cluster: Cluster) -> None:
    async def chaos(nodes: list[ServerProcess], storm: Storm) -> None:
        for mode in ("fast", "immediate"):
            await work_goes_on(storm)
            await asyncio.to_thread(cluster.restart, mode)
            await work_goes_on(storm)

    storm = await weather(tmp_path, cluster.url(), chaos)
    assert storm.witness.lost_answers > 0


async def test_sessions_that_the_database_ends_are_made_anew(tmp_path: Path, cluster: Cluster) -> None:
    ended: list[tuple[object, ...]] = []

    async def chaos(nodes: list[ServerProcess], storm: Storm) -> None:
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'courier %'"
        for _ in range(5):
            await work_goes_on(storm)
            ended.extend(await asyncio.to_thread(cluster.execute, sql))
        await work_goes_on(storm)

    await weather(tmp_path, cluster.url(), chaos)
    assert len(ended) > 5 * 3


async def test_a_standby_that_takes_over_has_everything_that_was_accepted(tmp_path: Path) -> None:
    primary = Cluster(synchronous_standby_names="", wal_level="replica")
    try:
        standby = Standby(primary)
        try:
            await fail_over(tmp_path, primary, standby)
        finally:
            standby.remove()
    finally:
        primary.remove()


async def readiness(node: ServerProcess) -> int:
    return (await asyncio.to_thread(node.session.get, f"{node.url}/readyz")).status_code


async def fail_over(tmp_path: Path, primary: Cluster, standby: Standby) -> None:
    primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.execute("SELECT pg_reload_conf()")

    async def chaos(nodes: list[ServerProcess], storm: Storm) -> None:
        await work_goes_on(storm)
        assert primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)]
        kill_server(primary)
        await eventually(lambda: readiness(nodes[0]), (503).__eq__)
        await asyncio.to_thread(standby.promote)
        await work_goes_on(storm)

    storm = await weather(tmp_path, url_of_either(primary, standby), chaos)
    assert storm.witness.lost_answers > 0
