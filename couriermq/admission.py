"""Backpressure for sends: how many bytes the store writes at one time.

The server's limit on request bytes bounds how many bytes wait here.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

from couriermq.core.limits import COMMIT_BYTES

SMALL_BYTES = 64 * 1024
"""Sends up to this size do not wait behind larger ones."""


class Admission:
    """Lets sends go to the store in the order in which they came, each once there is room for its bytes.

    Small and large sends have separate room. All that the store has in hand, and so each of its commits, is bounded.
    """

    def __init__(self, *, at_once: int = COMMIT_BYTES) -> None:
        self._small = Line(at_once)
        self._large = Line(at_once)

    def line_for(self, size: int) -> "Line":
        """Where a send of this size waits. It leaves the line once it is written."""
        return self._small if size <= SMALL_BYTES else self._large


class Line:
    """Sends that share some room, first come, first served. One that is larger than the room goes alone."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def entered(self, size: int) -> AsyncIterator[None]:
        """A context in which this number of bytes is written."""
        if not self.enter(size):
            await self.wait(size)
        try:
            yield
        finally:
            self.leave(size)

    def enter(self, size: int) -> bool:
        """Whether there is room at once; else `wait`."""
        if self._waiting or not self._fits(size):
            return False
        self._used += size
        return True

    async def wait(self, size: int) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(size)  # the turn came in the same moment
            else:
                turn.cancel()
                self._admit()  # the next one may fit
            raise

    def leave(self, size: int) -> None:
        self._used -= size
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(size):
                    return
                self._used += size
                turn.set_result(None)
            self._waiting.popleft()

    def _fits(self, size: int) -> bool:
        return not self._used or self._used + size <= self._room
