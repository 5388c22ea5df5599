"""Numbers for the messages to come, fetched together with something else a moment before they are needed."""

from collections import deque
from collections.abc import Callable, Sequence

KEPT_SECONDS = 0.2
"""So long may a number wait: a purge that begins now takes nothing that is sent later, or not much later."""
AHEAD = 4


class Seqs:
    """The numbers that this node has in stock; shared by its transactions."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._stock: deque[int] = deque()
        self._fetched_at = 0.0
        self._highest = 0

    def take(self, count: int) -> list[int]:
        """Up to so many; none that has grown old."""
        if self._clock() - self._fetched_at > KEPT_SECONDS:
            self._stock.clear()
        taken = [self._stock.popleft() for _ in range(min(count, len(self._stock)))]
        self.given(taken)
        return taken

    def given(self, seqs: Sequence[int]) -> None:
        """Messages get these: whoever comes after them at this node gets a higher one, wherever those came from."""
        self._highest = max([self._highest, *seqs[-1:]])
        while self._stock and self._stock[0] <= self._highest:
            self._stock.popleft()

    def clear(self) -> None:
        """From now on every number is higher than all that were fetched before."""
        self._stock.clear()

    def ahead(self, count: int) -> int:
        """How many to fetch for `count` that are needed now: more where others have been needed a moment ago."""
        return count if self._clock() - self._fetched_at > KEPT_SECONDS else AHEAD * count

    def add(self, spare: Sequence[int]) -> None:
        """Put in stock what is higher than all that was given; two transactions may come back in any order."""
        self._fetched_at = self._clock()
        self._stock = deque(sorted([*self._stock, *(seq for seq in spare if seq > self._highest)]))

    def newest(self, fetched: int) -> int:
        """The newest that a message has, `fetched` being the newest that any node has fetched."""
        return self._stock[0] - 1 if self._stock and self._stock[-1] == fetched else fetched
