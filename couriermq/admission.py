"""Backpressure for sends: how many bytes the store writes at one time.

The server's limit on request bytes bounds how many bytes wait here.
"""

import asyncio
from collections import deque
from types import TracebackType

from couriermq.core.limits import COMMIT_BYTES

SMALL_BYTES = 64 * 1024
"""Sends up to this size do not wait behind larger ones."""


class Admission:
    """Lets sends go to the store in the order in which they came, each once there is room for its bytes.

    Small and large sends have separate room. All that the store has in hand, and so each of its commits, is bounded.
    """

    def __init__(self, *, at_once: int = COMMIT_BYTES) -> None:
        self._small = _Line(at_once)
        self._large = _Line(at_once)

    def of(self, size: int) -> "Pass":
        """A context in which this number of bytes is written."""
        return Pass(self._small if size <= SMALL_BYTES else self._large, size)


class Pass:
    """One send on its way through."""

    __slots__ = ("_line", "_size")

    def __init__(self, line: "_Line", size: int) -> None:
        self._line = line
        self._size = size

    async def __aenter__(self) -> None:
        if not self._line.enter(self._size):
            await self._line.wait(self._size)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.leave(self._size)


class _Line:
    """Sends that share some room, first come, first served. One that is larger than the room goes alone."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def enter(self, size: int) -> bool:
        """Whether there is room at once."""
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
