"""Follows the shards of a store: each has its place in the history and, where there is one, its archive."""

import asyncio
from collections.abc import Callable

from couriermq.clock import Clock
from couriermq.core.model import SECOND
from couriermq.journal.archive import Archive
from couriermq.journal.history import History, Past
from couriermq.storage.base import ShardLog, Store

LOOK_MS = 2 * SECOND

Archiving = Callable[[ShardLog], Archive]


class Pasts:
    """Run it as one task beside the server. The first shard is there from the start; others may come at any time."""

    def __init__(self, store: Store, history: History, clock: Clock, archiving: Archiving | None) -> None:
        self._store = store
        self._history = history
        self._clock = clock
        self._archiving = archiving
        self._known = 1
        self._archives: list[Archive] = []

    def look(self) -> None:
        """See whether there are more shards than before."""
        for log in self._store.journals()[self._known :]:
            archive = self._archiving(log) if self._archiving is not None else None
            self._history.add(Past(log, archive))
            self._known += 1
            if archive is not None:
                self._archives.append(archive)

    async def run(self) -> None:
        tasks: list[asyncio.Task[None]] = []
        try:
            while True:
                self.look()
                tasks += [asyncio.create_task(archive.run()) for archive in self._archives[len(tasks) :]]
                await self._clock.sleep_until(self._clock.now() + LOOK_MS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
