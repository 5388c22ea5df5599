"""Every test of this folder runs on every engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.engines import ENGINES, Rig, forget


@pytest.fixture(params=sorted(ENGINES))
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    """A broker on an engine, with empty data and a clock moved by hand."""
    rig = Rig(lambda: ENGINES[request.param](tmp_path / "data"))
    await rig.open()
    yield rig
    await rig.close()
    forget(tmp_path / "data")
