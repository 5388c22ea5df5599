"""An archive for every test of one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.journal.place import LocalPlace
from tests.journal.shelf import Shelf
from tests.support.engines import ENGINES, Rig, forget


@pytest.fixture
async def shelf(engine: str, tmp_path: Path) -> AsyncIterator[Shelf]:
    """An archive of a store."""
    rig = Rig(lambda: ENGINES[engine](tmp_path / "data", hasty=True))
    await rig.open()
    await rig.create("orders")
    yield Shelf(rig, LocalPlace(tmp_path / "archive"))
    await rig.close()
    forget(tmp_path / "data")
