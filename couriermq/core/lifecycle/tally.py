"""The exact figures of a queue, and when time will next change it."""

from couriermq.core.model import Counters, State

NEVER = 2**62

Figures = tuple[int, int, int, int, int, int, int]
"""ready, delayed, leased, bytes, and ever sent, acked, dead."""


class Tally:
    """`next_due` is no later than the next thing that time does to the queue.

    A partial tally has what one of several writers has added, and may be negative: only the sum of all is exact.
    """

    __slots__ = ("acked", "bytes", "counts", "dead", "is_partial", "key", "next_due", "oldest_at", "sent")

    def __init__(self, key: int, *, next_due: int = NEVER, is_partial: bool = False) -> None:
        self.key = key
        self.is_partial = is_partial
        self.counts = [0, 0, 0]  # by State
        self.bytes = self.sent = self.acked = self.dead = 0
        self.next_due = next_due
        self.oldest_at: int | None = None  # None is unknown; what is sent is never the oldest, what goes may have been

    def shift(self, source: int, target: int, count: int = 1) -> None:
        self.counts[source] -= count
        self.counts[target] += count

    def add(self, state: int, size: int, count: int = 1) -> None:
        self.counts[state] += count
        self.bytes += size
        self.sent += count

    def remove(self, state: int, size: int, count: int = 1) -> None:
        self.counts[state] -= count
        self.bytes -= size
        self.oldest_at = None

    @property
    def total(self) -> int:
        return sum(self.counts)

    def may_have(self, *states: int) -> bool:
        """Whether the queue can have messages of these states, or of any."""
        return self.is_partial or any(self.counts[state] for state in states or (0, 1, 2))

    @property
    def counters(self) -> Counters:
        return Counters(
            ready_count=self.counts[State.READY],
            delayed_count=self.counts[State.DELAYED],
            leased_count=self.counts[State.LEASED],
            byte_count=self.bytes,
            oldest_at=self.oldest_at,
            sent_count=self.sent,
            acked_count=self.acked,
            dead_count=self.dead,
        )

    @property
    def figures(self) -> Figures:
        """What is stored of it."""
        delayed, ready, leased = self.counts
        return ready, delayed, leased, self.bytes, self.sent, self.acked, self.dead

    @figures.setter
    def figures(self, figures: Figures) -> None:
        ready, delayed, leased, self.bytes, self.sent, self.acked, self.dead = figures
        self.counts = [delayed, ready, leased]
        self.oldest_at = None
