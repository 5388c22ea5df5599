"""Live streams: how many there are, when they look, and that they end when the server stops."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Any

from couriermq.clock import Clock
from couriermq.core.errors import Unavailable

BEAT_MS = 250
"""How often streams look."""
RETRY_MS = 5_000
SHARED_COUNT = 256
"""Answers that are kept for streams that ask the same."""


class Streams:
    """One for each node. A single task wakes all streams, so that many cost little; `run` it."""

    def __init__(self, clock: Clock, limit: int) -> None:
        self.is_closed = False
        self.count = 0
        self._clock = clock
        self._limit = limit
        self._beat = asyncio.Event()
        self._shared: dict[Hashable, tuple[int, asyncio.Future[Any]]] = {}

    def check_room(self) -> None:
        """Raises Unavailable where there are as many streams as may be: a page can ask again and again instead."""
        if self.count >= self._limit:
            raise Unavailable(
                f"this node serves {self._limit} live streams already; ask for the overview every few seconds",
                retry_after_ms=RETRY_MS,
            )

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    async def run(self) -> None:
        while True:
            await self._clock.sleep_until((self._clock.now() // BEAT_MS + 1) * BEAT_MS)
            self._wake()

    async def next_beat(self) -> None:
        """Wait for the next look, or the end of the server."""
        if not self.is_closed:
            await self._beat.wait()

    def close(self) -> None:
        """Let every stream say goodbye now."""
        self.is_closed = True
        self._wake()

    def _wake(self) -> None:
        beat, self._beat = self._beat, asyncio.Event()
        beat.set()

    async def shared(self, key: Hashable, make: Callable[[], Awaitable[Any]]) -> Any:
        """What `make` gives, made once a beat for all streams that have the same key."""
        beat = self._clock.now() // BEAT_MS
        known = self._shared.get(key)
        if known is None or known[0] != beat:
            if len(self._shared) >= SHARED_COUNT:
                self._shared.clear()
            known = self._shared[key] = beat, asyncio.ensure_future(make())
        return await asyncio.shield(known[1])
