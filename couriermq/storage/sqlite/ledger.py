"""What the engine knows without asking SQLite: tallies, the next numbers, and when to look at which queue again."""

import heapq

from couriermq.core.lifecycle.tally import NEVER, Tally
from couriermq.core.lifecycle.unit import Unit

MOST_STALE = 1_000
"""Entries of the agenda that others have superseded, besides as many as there are queues."""


class Ledger:
    """Tallies, the next numbers to give out, and an agenda of when to look at which queue again."""

    def __init__(self) -> None:
        self.tallies: dict[int, Tally] = {}
        self.next_seq = 1
        self.next_offset = 0
        self.next_lease = 1
        self.agenda: list[tuple[int, int]] = []

    def tally(self, key: int) -> Tally:
        found = self.tallies.get(key)
        if found is None:
            found = self.tallies[key] = Tally(key)
        return found

    def unit(self) -> Unit:
        """A transaction that goes on from here."""
        return Unit(self.tally, next_seq=self.next_seq, next_offset=self.next_offset, next_lease=self.next_lease)

    def keep(self, unit: Unit) -> None:
        """The unit has been committed."""
        self.next_seq, self.next_offset, self.next_lease = unit.next_seq, unit.next_offset, unit.next_lease
        for at, key in unit.dues:
            self.note(at, key)

    def note(self, at: int, key: int) -> None:
        heapq.heappush(self.agenda, (at, key))
        if len(self.agenda) > 2 * len(self.tallies) + MOST_STALE:
            self.agenda = [(tally.next_due, key) for key, tally in self.tallies.items() if tally.next_due < NEVER]
            heapq.heapify(self.agenda)

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
