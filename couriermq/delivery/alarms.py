"""Call backs at instants of the clock: one task and one heap for everything that waits."""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable

from couriermq.clock import Clock

log = logging.getLogger(__name__)


class Alarms:
    """`set` may be called at any time; `run` is one task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._sooner = asyncio.Event()

    def set(self, at: int, callback: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (at, next(self._order), callback))
        if self._heap[0][0] == at:
            self._sooner.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            now = self._clock.now()
            while self._heap and self._heap[0][0] <= now:
                self._ring(heapq.heappop(self._heap)[2])
            self._sooner.clear()
            if self._heap:
                await self._sleep(self._heap[0][0])
            else:
                await self._sooner.wait()

    def _ring(self, callback: Callable[[], None]) -> None:
        """One callback that fails keeps no other from being called."""
        try:
            callback()
        except Exception:
            log.exception("what was to be done at this time failed")

    async def _sleep(self, until: int) -> None:
        """Until then, or until something is to be done sooner."""
        alarm = asyncio.ensure_future(self._clock.sleep_until(until))
        sooner = asyncio.ensure_future(self._sooner.wait())
        try:
            await asyncio.wait((alarm, sooner), return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            sooner.cancel()
