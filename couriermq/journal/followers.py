"""Readers that have read the whole journal and wait for it to grow."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

from couriermq.clock import Clock
from couriermq.core.errors import TooManyRequests
from couriermq.core.model import SECOND

MOST = 256
"""Readers that may wait at one node at the same time."""
MOST_EACH = 64
"""Of these, readers of one tenant; root counts as a tenant of its own."""
PAUSE_MS = 100
"""Between two looks of a reader that found nothing of its own: others may commit thousands of times a second."""
POLL_MS = SECOND
"""Another node's commit need not be announced here, so a waiting reader looks this often in any case."""
RETRY_MS = SECOND

Look = Callable[[], Awaitable[bool]]
"""Reads on in the journal; whether the reader has what it waits for."""


class Followers:
    """One for each node; the store calls `journaled` after each commit that added events."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[str | None] = Counter()
        self._commits = 0
        self._grown: asyncio.Future[None] | None = None
        self._closed = False

    @property
    def count(self) -> int:
        """How many readers wait."""
        return self._counts.total()

    def journaled(self) -> None:
        """The journal has grown."""
        self._commits += 1
        grown, self._grown = self._grown, None
        if grown is not None and not grown.done():
            grown.set_result(None)

    async def wait(self, look: Look, *, wait_ms: int, tenant: str | None) -> None:
        """Look until there is something, for at most `wait_ms`, or until the server stops; the last look is at the end.

        Raises TooManyRequests when too many wait already.
        """
        deadline = self._clock.now() + wait_ms
        woken = False
        with self._place(tenant):
            while True:
                seen, now = self._commits, self._clock.now()
                if await look() or now >= deadline or self._closed:
                    return
                if woken:  # by a commit that was about something else
                    await self._clock.sleep_until(min(deadline, now + PAUSE_MS))
                woken = await self._growth(seen, until=min(deadline, now + POLL_MS))

    @contextlib.contextmanager
    def _place(self, tenant: str | None) -> Iterator[None]:
        if self.count >= MOST or self._counts[tenant] >= MOST_EACH:
            raise TooManyRequests(RETRY_MS)
        self._counts[tenant] += 1
        try:
            yield
        finally:
            self._counts[tenant] -= 1
            self._counts += Counter()  # forgets tenants without readers

    async def _growth(self, seen: int, *, until: int) -> bool:
        """Whether something was committed after `seen`, before `until`; ends at once when the server stops."""
        if self._commits == seen and not self._closed:
            if self._grown is None:
                self._grown = asyncio.get_running_loop().create_future()
            alarm = asyncio.ensure_future(self._clock.sleep_until(until))
            try:
                await asyncio.wait((self._grown, alarm), return_when=asyncio.FIRST_COMPLETED)
            finally:
                alarm.cancel()
        return self._commits != seen

    def close(self) -> None:
        """Let every reader answer now: the server is going down."""
        self._closed = True
        self.journaled()
