"""Live streams: how many there are, when they look, and that they end when the server stops."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator
from typing import Any

from couriermq.clock import Clock
from couriermq.core.errors import Unavailable

BEAT_MS = 250
"""How often streams look."""
RETRY_MS = 5_000
SHARE = 4
"""One credential has at most this fraction (1/SHARE) of the streams."""
SHARED_COUNT = 256
"""Answers that are kept for streams that ask the same."""


class Streams:
    """One for each node. A single task wakes all streams, so that many cost little; `run` it."""

    def __init__(self, clock: Clock, limit: int) -> None:
        self.is_closed = False
        self.count = 0
        self._clock = clock
        self._limit = limit
        self._limit_of_one = max(1, limit // SHARE)
        self._held: Counter[str | None] = Counter()
        self._beat = asyncio.Event()
        self._shared: dict[Hashable, tuple[int, asyncio.Future[Any]]] = {}

    @contextlib.contextmanager
    def place(self, credential: str | None) -> Iterator[None]:
        """One stream of a credential, None for root, who may have all; raises Unavailable where there is none left.

        A page can ask again and again instead.
        """
        self._check_room(credential)
        self.count += 1
        self._held[credential] += 1
        try:
            yield
        finally:
            self.count -= 1
            self._held -= Counter([credential])  # which forgets those that have none left

    def _check_room(self, credential: str | None) -> None:
        if self.count >= self._limit:
            held = f"this node serves {self._limit} live streams already"
        elif credential is not None and self._held[credential] >= self._limit_of_one:
            held = f"this credential has {self._limit_of_one} live streams of this node already"
        else:
            return
        raise Unavailable(f"{held}; ask for the overview every few seconds", retry_after_ms=RETRY_MS)

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

    async def shared(self, key: Hashable, make: Callable[[], Awaitable[Any]], *, every_ms: int = BEAT_MS) -> Any:
        """What `make` gives, made once a beat, or each `every_ms`, for all streams that have the same key."""
        turn = self._clock.now() // every_ms
        known = self._shared.get(key)
        if known is None or known[0] != turn:
            if len(self._shared) >= SHARED_COUNT:
                self._shared.clear()
            known = self._shared[key] = turn, asyncio.ensure_future(make())
        return await asyncio.shield(known[1])
