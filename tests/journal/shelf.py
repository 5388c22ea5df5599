"""A store with an archive beside it, and what fills it."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from couriermq.core.events import Entry
from couriermq.journal.archive import Archive, Limits
from couriermq.journal.cursors import Cursors
from couriermq.journal.history import History, Past
from couriermq.journal.place import Place
from couriermq.journal.selection import Selection
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig

AGE_MS = 60_000
HOUR = 3_600_000


class Shelf:
    """A store with an archive beside it."""

    def __init__(self, rig: Rig, place: Place, **limits: int) -> None:
        self.rig = rig
        self.place = place
        self._limits = {"segment_bytes": 2**20, "segment_ms": AGE_MS, "age_ms": HOUR, "total_bytes": 2**30} | limits
        self.join()

    @property
    def kept_count(self) -> int:
        """Events that the store keeps though they are sealed: the embedded one, those of its newest commit."""
        return int(isinstance(self.rig.engine, SqliteStore))

    def join(self) -> None:
        self.cursors = Cursors(self.rig.store, self.rig.clock)
        self.archive = Archive(
            self.rig.store, self.rig.clock, self.place, Limits(**self._limits), held=self.cursors.lowest
        )
        self.history = History(Past(self.rig.store, self.archive))

    async def restart(self) -> None:
        await self.rig.restart()
        self.join()
        await self.cursors.load()
        await self.archive.open()

    async def seal(self) -> None:
        """Let so much time pass that all there is gets sealed."""
        self.rig.clock.advance(ms=AGE_MS)
        await self.archive.tend()

    async def everything(self, start: int = 0, limit: int = 3) -> list[Entry]:
        found: list[Entry] = []
        while entries := await self.history.read_events(start=start, limit=limit):
            found += entries
            start = entries[-1].offset + 1
        return found

    async def stream(self, start: int, stop: int, **options: Any) -> list[dict[str, Any]]:
        parts = self.history.stream(start=start, stop=stop, selection=Selection(), **options)
        rows: list[dict[str, Any]] = pa.ipc.open_stream(b"".join([part async for part in parts])).read_all().to_pylist()
        return rows


async def fill(shelf: Shelf, count: int = 5) -> list[Entry]:
    """Send some messages, each in a commit of its own; gives the journal as it is."""
    for number in range(count):
        await shelf.rig.send("orders", b"\xff%d" % number, attributes={"n": number, "s": "ü"})
    span = (await shelf.rig.store.spans())[0]
    return await shelf.rig.store.read_events(start=span.oldest, limit=10_000)


def files(tmp_path: Path) -> list[str]:
    """What is in the archive, but for the note that says whose it is."""
    return sorted(path.name for path in (tmp_path / "archive").iterdir() if path.name != "_store.json")
