"""Which engine a whole Courier keeps its data in. Suites that choose to run on every engine, nothing left out."""

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
"""The engine of suites that do not choose."""

SERVED = sorted(set(ENGINES) - {"sharded"}, reverse=True)
"""A server on PostgreSQL always has a store that can be divided, so that is no engine of its own here."""

UNCHOSEN = "unchosen"
"""Of a suite in which every store has to be on an engine that its test was given."""

_chosen = [DEFAULT]
_used: set[Path] = set()


def store_settings(data: Path, engine: str | None = None) -> dict[str, Any]:
    """What to set so that a server with this data directory uses the engine, or else that of the test that runs."""
    if engine is None:
        engine = _chosen[-1]
        _used.add(data)
    assert engine in SERVED, "ask for the fixture `engine`, and say on which engine this store is"
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


def on_every_engine(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each engine, if it is one that can make a store."""
    if "tmp_path" in metafunc.fixturenames:
        metafunc.parametrize("engine", SERVED, indirect=True)


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine of the test that runs."""
    with choosing(getattr(request, "param", DEFAULT)) as chosen:
        yield chosen
    for data in _used:
        forget(data)
    _used.clear()


@contextlib.contextmanager
def choosing(engine: str) -> Iterator[str]:
    _chosen.append(engine)
    try:
        yield engine
    finally:
        _chosen.pop()
