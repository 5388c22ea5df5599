"""Receivers that wait: woken by what becomes ready, in the order in which they came."""

import asyncio
import contextlib
from collections import deque

from courier.clock import Clock


class Arrivals:
    """Remembers, for each queue, how much has become ready and who waits for it.

    A receiver notes `seen` before it looks into the store; should something arrive between its look and its wait,
    the wait ends at once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, int] = {}
        self._waiters: dict[int, deque[asyncio.Future[None]]] = {}
        self._closed = False

    def ready(self, queue_key: int, count: int) -> None:
        """Wake as many receivers as there are new messages; the others have nothing to come for."""
        self._seen[queue_key] = self._seen.get(queue_key, 0) + 1
        waiters = self._waiters.get(queue_key)
        while waiters and count:
            future = waiters.popleft()
            if not future.done():
                future.set_result(None)
                count -= 1

    def seen(self, queue_key: int) -> int:
        return self._seen.get(queue_key, 0)

    async def wait(self, queue_key: int, *, seen: int, until: int) -> bool:
        """Whether something arrived before `until`."""
        if self._closed:
            return False
        if self.seen(queue_key) != seen:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(queue_key, deque())
        waiters.append(future)
        alarm = asyncio.ensure_future(self._clock.sleep_until(until))
        try:
            await asyncio.wait((future, alarm), return_when=asyncio.FIRST_COMPLETED)
            return future.done() and not self._closed
        except asyncio.CancelledError:
            if future.done():
                self.ready(queue_key, 1)  # it was woken and goes away: the wake-up belongs to the next one
            raise
        finally:
            alarm.cancel()
            future.cancel()
            with contextlib.suppress(ValueError):
                waiters.remove(future)
            if not waiters and self._waiters.get(queue_key) is waiters:  # others may have begun a line of their own
                del self._waiters[queue_key]

    def close(self) -> None:
        """Let everybody who waits go home."""
        self._closed = True
        for waiters in self._waiters.values():
            for future in waiters:
                if not future.done():
                    future.set_result(None)
