"""The conformance suite: every test of this folder runs on every engine.

The folders below hold what one engine alone has. A sharded store is PostgreSQL stores with a router before them: it
runs the histories, and the promises that concern several queues with the queues on two shards (`sharded/`).
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import ENGINES, Rig, forget
from tests.support.postgres import shared_cluster
from tests.support.stores import SERVED


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Rig]:
    """A node on PostgreSQL, for what only that engine has."""
    rig = Rig(lambda: PostgresStore(shared_cluster().store_url(tmp_path)))
    await rig.open()
    yield rig
    await rig.close()
    forget(tmp_path)


@pytest.fixture(params=SERVED)
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """A broker on an engine, with empty data and a clock moved by hand."""
    rig = Rig(lambda: ENGINES[request.param](tmp_path / "data"))
    await rig.open()
    yield rig
    await rig.close()
    forget(tmp_path / "data")
