"""Files with random bit flips and cuts: each is found, no wrong byte is served, and nobody sees a traceback."""

import asyncio
import random
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from couriermq.core.errors import CourierError
from couriermq.core.events import Entry, EventKind
from couriermq.storage.base import CannotOpen
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.damage import damage, fill
from tests.support.engines import Rig
from tests.support.soak import sized

SEEDS = range(sized(20, 100))
"""Of each of two stores."""


class Sound:
    """A store as it was before the damage, killed so that its log is full, and all that may be read from it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bodies, self.events = asyncio.run(self._make())

    async def _make(self) -> tuple[set[bytes], list[Entry]]:
        rig = Rig(lambda: SqliteStore(self.directory / "before", min_free_bytes=0))
        await rig.open()
        bodies = await fill(rig)
        events = await rig.store.read_events(start=(await rig.store.spans())[0].oldest, limit=10**6)
        # In another process: a file that is closed here would drop the locks of the store.
        subprocess.run(["cp", "-r", self.directory / "before", self.directory / "sound"], check=True)
        await rig.close()
        (self.directory / "sound" / "courier.db-shm").unlink()
        return bodies, events


@pytest.fixture(scope="module", params=["log", "database"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Sound, Path]:
    """What is damaged: a store with most of it in the log, and one that was closed."""
    made = Sound(tmp_path_factory.mktemp("sound"))
    return made, made.directory / ("sound" if request.param == "log" else "before")


@pytest.mark.parametrize("seed", SEEDS)
def test_damage_is_found_and_no_wrong_byte_is_served(sound: tuple[Sound, Path], tmp_path: Path, seed: int) -> None:
    made, files = sound
    directory, dice, whole = tmp_path / "data", random.Random(seed), _contents(files, tmp_path / "copy")
    while True:
        shutil.copytree(files, directory)
        done = damage(directory, dice)
        if _contents(directory, tmp_path / "copy") != whole:
            break
        shutil.rmtree(directory)  # what was damaged is nobody's, such as the rest of a page
    found = care.check(directory)
    trouble = asyncio.run(_use(directory, made))
    assert found or trouble, done


def _contents(directory: Path, copy: Path) -> list[str]:
    """All rows as SQLite reads them, whatever their checksums say, and what it finds wrong with the file."""
    shutil.copytree(directory, copy)
    try:
        with closing(sqlite3.connect(copy / "courier.db")) as db:
            db.text_factory = bytes
            tables = [name.decode() for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            rows = [repr(row) for name in tables for row in db.execute(f"SELECT * FROM {name}")]
            return [*rows, *(repr(row) for row in db.execute("PRAGMA integrity_check"))]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    finally:
        shutil.rmtree(copy)


async def _use(directory: Path, made: Sound) -> list[str]:
    """Open the store and read all that it gives: what it refuses, and what it says is damaged."""
    rig = Rig(lambda: SqliteStore(directory, min_free_bytes=0))
    try:
        await rig.open()
    except CannotOpen as error:
        return [str(error)]
    refused: list[str] = []
    try:
        await _read(rig, made, refused)
        assert isinstance(rig.store, SqliteStore)
        if rig.store.metrics.quarantined:
            refused.append("set aside")
        refused += await rig.store.check()
    finally:
        await rig.close()
    return refused


async def _read(rig: Rig, made: Sound, refused: list[str]) -> None:
    known = {entry.offset: entry for entry in made.events}
    span = (await rig.store.spans())[0]
    try:
        for entry in await rig.store.read_events(start=span.oldest, limit=10**6):
            if entry.event.kind == EventKind.DAMAGED:
                refused.append(f"offset {entry.offset}")
            else:
                assert entry == known[entry.offset]
    except CourierError as error:
        refused.append(str(error))
    for queue in list(rig.catalog.all_queues()):
        looks = (rig.browse(queue.name), rig.counters(queue.name), rig.receive(queue.name, limit=1_000))
        for look in looks:
            try:
                found = await look
            except CourierError as error:
                refused.append(str(error))
                continue
            if isinstance(found, list):
                bodies = {one.message.body if hasattr(one, "message") else one.body for one in found}
                assert bodies <= made.bodies
    try:
        await rig.store.advance(now=rig.now + 120_000)
    except CourierError as error:
        refused.append(str(error))
