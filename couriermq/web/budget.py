"""The memory that request bodies of all connections share."""

import asyncio
from collections import deque

LARGE_BYTES = 64 * 1024
"""A body beyond this must find room before it is read."""
ROOM_SECONDS = 30.0
"""How long a large body waits for room, and stays with its sender, before the sender is told to come back."""


class Budget:
    """Counts the request bytes in memory.

    Large bodies may fill three quarters of the limit. The last quarter stays for small requests, so that a few clients
    with large bodies do not lock out everybody else.
    """

    def __init__(self, limit: int, *, room_seconds: float = ROOM_SECONDS) -> None:
        self.limit = limit
        self.room_seconds = room_seconds
        self.largest = largest_body(limit)
        self.used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, count: int, *, large: bool = False) -> bool:
        """Count these bytes as held; False when there is no room for them."""
        if self.used + count > (self.largest if large else self.limit):
            return False
        self.used += count
        return True

    async def reserve(self, count: int) -> bool:
        """Take room for a large body, in order of arrival; False when none became free in time."""
        if not self._waiting and self.take(count, large=True):
            return True
        room = asyncio.get_running_loop().create_future()
        self._waiting.append((count, room))
        try:
            await asyncio.wait((room,), timeout=self.room_seconds)
        except asyncio.CancelledError:
            if not room.cancel():
                self.give(count)
            raise
        return not room.cancel()

    def give(self, count: int) -> None:
        """These bytes are no longer held: admit those who waited for room."""
        self.used -= count
        while self._waiting:
            wanted, room = self._waiting[0]
            if not room.done():
                if not self.take(wanted, large=True):
                    return
                room.set_result(None)
            self._waiting.popleft()


def largest_body(limit: int) -> int:
    """How large a single body may be under a limit for all."""
    return limit - limit // 4
