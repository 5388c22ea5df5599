"""When to look at which queue again."""

import heapq

from couriermq.core.lifecycle.tally import NEVER

MOST_STALE = 1_000
"""Entries that others have superseded, besides as many as there are queues."""


class Agenda:
    """What this node knows of the future; what only other nodes know, the leading node asks the database for."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def note(self, key: int, at: int) -> bool:
        """Something will happen to the queue at `at`; whether that is news."""
        if at >= self._next.get(key, NEVER):
            return False
        self._next[key] = at
        heapq.heappush(self._heap, (at, key))
        if len(self._heap) > 2 * len(self._next) + MOST_STALE:
            self._heap = [(at, key) for key, at in self._next.items()]
            heapq.heapify(self._heap)
        return True

    def is_due(self, key: int, now: int) -> bool:
        return self._next.get(key, NEVER) <= now

    def take_off(self, key: int) -> None:
        """Somebody sees to the queue now."""
        self._next.pop(key, None)

    def take(self, now: int, limit: int) -> list[int]:
        """Keys of queues that time has changed by now, taken off the agenda."""
        taken: list[int] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < limit:
            at, key = heapq.heappop(self._heap)
            if self._next.get(key) == at:
                del self._next[key]
                taken.append(key)
        return taken

    def next_at(self) -> int | None:
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
