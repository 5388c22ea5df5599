"""Remembers what clients of a queue were told, and checks that it all can be true at once.

In the manner of Jepsen's total-queue: whatever was accepted must come out, whatever was acked must not come back,
nothing may come out that nobody sent. An answer that never came may mean either.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class Delivery(NamedTuple):
    """A message in the hands of a client. `asked` and `answered` are places in one order of all requests."""

    queue: str
    id: str
    attempts: int
    receipt: str
    asked: int
    answered: int
    group: str | None = None
    number: int = 0


@dataclass
class Witness:
    """What was asked and what was answered. Ids are unique over all queues."""

    attempted: set[str] = field(default_factory=set)
    accepted: set[str] = field(default_factory=set)
    deliveries: list[Delivery] = field(default_factory=list)
    settled: list[tuple[str, str]] = field(default_factory=list)
    """(what was done, receipt), each answered with success."""
    acked_at: dict[str, int] = field(default_factory=dict)
    """Id to the place at which its ack was answered with success."""
    ack_asked_at: dict[str, int] = field(default_factory=dict)
    """Id to the place at which its first ack was asked for, answered or not."""
    lost_answers: int = 0
    _ticks: Iterator[int] = field(default_factory=itertools.count)

    def tick(self) -> int:
        """The next place in the order of all requests and answers."""
        return next(self._ticks)

    # -- what must hold ---------------------------------------------------------------------------------------

    def findings(self) -> list[str]:
        """Every broken promise, one sentence each."""
        return [
            *self._lost(),
            *self._unexpected(),
            *self._returned(),
            *self._settled_twice(),
            *self._miscounted(),
            *self._out_of_order(),
        ]

    def _lost(self) -> Iterator[str]:
        seen = {delivery.id for delivery in self.deliveries}
        yield from (f"{each} was accepted and never came out" for each in sorted(self.accepted - seen))

    def _unexpected(self) -> Iterator[str]:
        seen = {delivery.id for delivery in self.deliveries}
        yield from (f"{each} came out and nobody sent it" for each in sorted(seen - self.attempted))

    def _returned(self) -> Iterator[str]:
        for delivery in self.deliveries:
            acked_at = self.acked_at.get(delivery.id)
            if acked_at is not None and delivery.asked > acked_at:
                yield f"{delivery.id} was acked at {acked_at} and came back at {delivery.asked}"

    def _settled_twice(self) -> Iterator[str]:
        counts = Counter(receipt for _, receipt in self.settled)
        yield from (f"receipt {receipt} settled {n} times" for receipt, n in counts.items() if n > 1)
        again = Counter(delivery.receipt for delivery in self.deliveries)
        yield from (f"receipt {receipt} was handed out {n} times" for receipt, n in again.items() if n > 1)

    def _miscounted(self) -> Iterator[str]:
        """Attempts grow with every delivery; they skip a number only where an answer was lost on its way."""
        attempts: dict[tuple[str, str], list[int]] = defaultdict(list)
        for delivery in self.deliveries:
            attempts[delivery.queue, delivery.id].append(delivery.attempts)
        for (queue, id_), seen in attempts.items():
            if sorted(set(seen)) != sorted(seen) or min(seen) < 1:
                yield f"{id_} in {queue} was delivered as attempts {seen}"
            elif max(seen) - len(seen) > self.lost_answers:
                yield f"{id_} in {queue} has {max(seen)} attempts of which only {len(seen)} were seen"

    def _out_of_order(self) -> Iterator[str]:
        """A message of a group comes out only when all before it are done, or came out in the same answer."""
        groups: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in self.deliveries:
            if delivery.group is not None:
                groups[delivery.group].append(delivery)
        for group, deliveries in groups.items():
            ids = {delivery.number: delivery.id for delivery in deliveries}
            for delivery in deliveries:
                together = {d.number for d in deliveries if d.answered == delivery.answered}
                for earlier in range(delivery.number):
                    if earlier not in together and not self._done(ids.get(earlier), delivery.answered):
                        yield f"{group}: number {delivery.number} came out before {earlier} was done"

    def _done(self, id_: str | None, by: int) -> bool:
        return id_ is not None and self.ack_asked_at.get(id_, by) < by
