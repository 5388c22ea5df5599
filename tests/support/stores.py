"""Which engine a whole Courier keeps its data in: the embedded one, or each for a test marked `every_engine`."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.storage.postgres import care as postgres
from couriermq.storage.sqlite import care as sqlite
from tests.support.engines import ENGINES, forget
from tests.support.postgres import shared_cluster

DEFAULT = "sqlite"
"""The engine of every test that is not marked `every_engine`."""

SERVED = sorted(set(ENGINES) - {"sharded"}, reverse=True)
"""A server on PostgreSQL always has a store that can be divided, so that is no engine of its own here."""

_chosen = [DEFAULT]
_used: set[Path] = set()


def store_settings(data: Path, engine: str | None = None) -> dict[str, Any]:
    """What to set so that a server with this data directory uses the engine, or else that of the test that runs."""
    if engine is None:
        engine = _chosen[-1]
        _used.add(data)
    if engine == "sqlite":
        return {}
    return {"store": shared_cluster().store_url(data), "archive": str(data / "archive")}


def check(data: Path, engine: str) -> list[str]:
    """Every sign of damage in the store of a data directory; none means sound."""
    if engine == "sqlite":
        return sqlite.check(data)
    return asyncio.run(_check_postgres(shared_cluster().store_url(data)))


async def _check_postgres(url: str) -> list[str]:
    async with postgres.opened(url) as connection:
        return await postgres.check(connection)


def on_chosen_engines(metafunc: pytest.Metafunc) -> None:
    """Run a test that is marked `every_engine` once for each engine."""
    if metafunc.definition.get_closest_marker("every_engine"):
        metafunc.parametrize("engine", SERVED, indirect=True, scope="session")


@contextlib.contextmanager
def choosing(engine: str) -> Iterator[None]:
    """Have every Courier within the block keep its data in the engine, unless it chooses another; empty its stores."""
    _chosen.append(engine)
    try:
        yield
    finally:
        _chosen.pop()
        for data in _used:
            forget(data)
        _used.clear()
