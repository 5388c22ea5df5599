"""Receivers that wait: woken by what becomes ready, in the order in which they came."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterator
from itertools import islice

from couriermq.clock import Clock

Seen = tuple[int, int]
"""How much had become ready when a receiver began to look, and how many had been called for it."""
NOTHING: Seen = 0, 0


class Arrivals:
    """Remembers, for each queue, how much has become ready and who waits for it.

    A receiver notes `seen` before it looks into the store. What arrives between its look and its wait may be its own:
    then the wait ends at once. But for each message only one receiver is called, or all that look at the same time
    would look again and again without ever coming to rest.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[int, Seen] = {}
        self._waiters: dict[int, deque[asyncio.Future[None]]] = {}
        self._closed = False

    def ready(self, queue_key: int, count: int) -> None:
        """Wake as many receivers as there are new messages; the others have nothing to come for."""
        arrived, called = self.seen(queue_key)
        arrived += count
        waiters = self._waiters.get(queue_key)
        while waiters and count:
            future = waiters.popleft()
            if not future.done():
                future.set_result(None)
                count -= 1
                called += 1
        self._seen[queue_key] = arrived, called

    def is_awaited(self, queue_key: int, count: int) -> bool:
        """Whether at least `count` receivers wait; looks at no more of them than that."""
        waiters = self._waiters.get(queue_key, ())
        return len(waiters) >= count and sum(not future.done() for future in islice(waiters, count)) == count

    def waiting_count(self, queue_key: int) -> int:
        """Receivers that wait at this node."""
        return sum(not future.done() for future in self._waiters.get(queue_key, ()))

    def seen(self, queue_key: int) -> Seen:
        return self._seen.get(queue_key, NOTHING)

    def _is_called(self, queue_key: int, since: Seen) -> bool:
        """Whether more has arrived since then than receivers were called for; the one who asks is called, too."""
        arrived, called = self.seen(queue_key)
        if arrived - since[0] <= called - since[1]:
            return False
        self._seen[queue_key] = arrived, called + 1
        return True

    @contextlib.contextmanager
    def looking(self, queue_key: int, *, woken: bool) -> Iterator[None]:
        """While a receiver looks; should it fail or go away meanwhile, what it was woken for is the next one's."""
        try:
            yield
        except BaseException:
            if woken:
                self.ready(queue_key, 1)
            raise

    async def wait(self, queue_key: int, *, seen: Seen, until: int) -> bool:
        """Whether something arrived before `until`."""
        if self._closed:
            return False
        if self._is_called(queue_key, seen):
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

    def gone(self, queue_key: int) -> None:
        """Wake every receiver of a queue that was deleted, so that each finds it gone; its key is never used again."""
        self._seen.pop(queue_key, None)
        for future in self._waiters.pop(queue_key, ()):
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Let everybody who waits go home."""
        self._closed = True
        for waiters in self._waiters.values():
            for future in waiters:
                if not future.done():
                    future.set_result(None)
