"""Which engine a whole Courier keeps its data in. Suites that choose to run on every engine, nothing left out."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import ENGINES, forget
from tests.support.postgres import shared_cluster

DEFAULT = os.environ.get("COURIER_TEST_ENGINE", "sqlite")
"""The engine of suites that do not choose: `make test` runs some of them a second time on the other one."""

SERVED = sorted(set(ENGINES) - {"sharded"}, reverse=True)
"""A server on PostgreSQL always has a store that can be divided, so that is no engine of its own here."""

_chosen = [DEFAULT]
_used: set[Path] = set()


def store_settings(data: Path) -> dict[str, Any]:
    """What to set so that a server with this data directory uses the engine of the test that runs."""
    if _chosen[-1] == "sqlite":
        return {}
    _used.add(data)
    return {"store": shared_cluster().store_url(data), "archive": str(data / "archive")}


def on_every_engine(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each engine, if it is one that can make a store."""
    if "tmp_path" in metafunc.fixturenames:
        metafunc.parametrize("engine", SERVED, indirect=True)


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine of the test that runs."""
    _chosen.append(getattr(request, "param", DEFAULT))
    yield _chosen[-1]
    _chosen.pop()
    for data in _used:
        forget(data)
    _used.clear()
