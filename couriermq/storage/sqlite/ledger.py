"""What the engine knows without asking SQLite, and how to take back what a failed transaction changed in it."""

import heapq
import sqlite3
from collections.abc import Callable

from couriermq.core.chronicle import Chronicle
from couriermq.core.model import Counters, State

NEVER = 2**62

Figures = tuple[int, int, int, int, int, int, int]
"""ready, delayed, leased, bytes, and ever sent, acked, dead."""


class Tally:
    """The exact figures of one queue; `next_due` is no later than the next thing that time does to it."""

    __slots__ = ("acked", "bytes", "counts", "dead", "key", "next_due", "oldest_at", "sent")

    def __init__(self, key: int, *, next_due: int = NEVER) -> None:
        self.key = key
        self.counts = [0, 0, 0]  # by State
        self.bytes = self.sent = self.acked = self.dead = 0
        self.next_due = next_due
        self.oldest_at: int | None = None  # None is unknown; what is sent is never the oldest, what goes may have been

    def shift(self, source: State, target: State) -> None:
        self.counts[source] -= 1
        self.counts[target] += 1

    def add(self, state: State, size: int) -> None:
        self.counts[state] += 1
        self.bytes += size
        self.sent += 1

    def remove(self, state: State, size: int) -> None:
        self.counts[state] -= 1
        self.bytes -= size
        self.oldest_at = None

    @property
    def total(self) -> int:
        return sum(self.counts)

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


class Ledger:
    """Tallies, the next numbers to give out, and an agenda of when to look at which queue again."""

    def __init__(self) -> None:
        self.tallies: dict[int, Tally] = {}
        self.next_seq = 1
        self.next_offset = 0
        self.agenda: list[tuple[int, int]] = []

    def tally(self, key: int) -> Tally:
        found = self.tallies.get(key)
        if found is None:
            found = self.tallies[key] = Tally(key)
        return found

    def note(self, at: int, key: int) -> None:
        heapq.heappush(self.agenda, (at, key))

    def due(self, now: int) -> int | None:
        """The key of a queue that time has changed by now, taken off the agenda."""
        while self.agenda and self.agenda[0][0] <= now:
            _, key = heapq.heappop(self.agenda)
            tally = self.tallies.get(key)
            if tally is not None and tally.next_due <= now:
                return key
        return None

    def next_due(self) -> int | None:
        return self.agenda[0][0] if self.agenda else None


class Tx:
    """One transaction in the making: SQL goes straight to the database, the rest is kept here until the commit."""

    __slots__ = (
        "_before", "_ledger", "db", "dues", "events", "execute", "executemany", "next_seq", "ready", "taken_bytes",
        "touched",
    )  # fmt: skip

    def __init__(self, db: sqlite3.Connection, ledger: Ledger) -> None:
        self.db = db
        self.execute = db.execute
        self.executemany = db.executemany
        self.events = Chronicle()
        self.ready: dict[int, int] = {}
        self.dues: list[tuple[int, int]] = []
        self.touched: dict[int, Tally] = {}
        self.next_seq = ledger.next_seq
        self.taken_bytes = 0
        """Of messages that receivers get; they are in memory until the commit is durable."""
        self._ledger = ledger
        self._before: dict[int, tuple[Figures, int]] = {}

    def tally(self, key: int) -> Tally:
        """A tally to change; it is written with the commit."""
        tally = self.touched.get(key)
        if tally is None:
            tally = self.touched[key] = self._ledger.tally(key)
            self._before[key] = (tally.figures, tally.next_due)
        return tally

    def changed_tallies(self) -> list[tuple[int, ...]]:
        """The queue and its figures, where they differ from what is stored."""
        return [
            (key, *figures) for key, tally in self.touched.items() if (figures := tally.figures) != self._before[key][0]
        ]

    def drop_tally(self, key: int) -> None:
        self.touched.pop(key, None)
        self._ledger.tallies.pop(key, None)

    def due(self, tally: Tally, at: int) -> None:
        """Something will happen to the queue at `at`."""
        if at < tally.next_due:
            tally.next_due = at
            self.dues.append((at, tally.key))

    def made_ready(self, key: int, count: int = 1) -> None:
        self.ready[key] = self.ready.get(key, 0) + count

    def undo(self) -> None:
        """Put the figures back as they were; the database has rolled back by itself."""
        for key, (figures, next_due) in self._before.items():
            tally = self._ledger.tally(key)
            tally.figures, tally.next_due = figures, next_due

    def keep(self) -> None:
        """The commit has happened: what was prepared is now so."""
        self._ledger.next_seq = self.next_seq
        self._ledger.next_offset += len(self.events)
        for at, key in self.dues:
            self._ledger.note(at, key)


Operation = Callable[[Tx], object]
