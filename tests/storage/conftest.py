"""Every test of this folder runs on every engine, but for those of what one engine alone has."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import ENGINES, Rig, forget
from tests.support.postgres import shared_cluster


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Rig]:
    """A node on PostgreSQL, for what only that engine has."""
    rig = Rig(lambda: PostgresStore(shared_cluster().store_url(tmp_path)))
    await rig.open()
    yield rig
    await rig.close()
    forget(tmp_path)


@pytest.fixture(params=sorted(ENGINES))
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """A broker on an engine, with empty data and a clock moved by hand."""
    rig = Rig(lambda: ENGINES[request.param](tmp_path / "data"))
    await rig.open()
    yield rig
    await rig.close()
    forget(tmp_path / "data")
