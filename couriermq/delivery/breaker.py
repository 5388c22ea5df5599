"""A breaker keeps a listener's queue from running against a receiver that answers nothing but failures.

    closed ── many failures in a row ──> open ── its time is over ──> half open ── a probe succeeds ──> closed
                                          ^                                │
                                          └──── the probe fails: longer ───┘

While it is open messages wait and use up no attempts.
"""

import msgspec

from couriermq.core.model import MINUTE, SECOND
from couriermq.delivery.model import BreakerState

TRIP_COUNT = 10
FIRST_OPEN_MS = 30 * SECOND
LONGEST_OPEN_MS = 15 * MINUTE


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """A value: every event gives the breaker that follows."""

    failure_run: int = 0
    open_ms: int = 0
    """How long it was, or is, open; 0 while closed."""
    opened_at: int = 0

    @property
    def half_opens_at(self) -> int:
        return self.opened_at + self.open_ms

    def state(self, *, now: int) -> BreakerState:
        if not self.open_ms:
            return BreakerState.CLOSED
        return BreakerState.HALF_OPEN if now >= self.half_opens_at else BreakerState.OPEN

    def room(self, concurrency: int, *, now: int) -> int:
        """How many deliveries may be under way: as many as the listener takes, one as a probe, or none."""
        match self.state(now=now):
            case BreakerState.CLOSED:
                return concurrency
            case BreakerState.HALF_OPEN:
                return 1
        return 0

    def after_success(self) -> "Breaker":
        return CLOSED

    def after_failure(self, *, now: int) -> "Breaker":
        """Trip after many failures in a row; a probe that fails opens it for twice as long."""
        run = self.failure_run + 1
        match self.state(now=now):
            case BreakerState.OPEN:  # a delivery that was under way when it tripped
                return msgspec.structs.replace(self, failure_run=run)
            case BreakerState.HALF_OPEN:
                return Breaker(failure_run=run, open_ms=min(self.open_ms * 2, LONGEST_OPEN_MS), opened_at=now)
        if run < TRIP_COUNT:
            return Breaker(failure_run=run)
        return Breaker(failure_run=run, open_ms=FIRST_OPEN_MS, opened_at=now)

    def tripped(self, *, now: int) -> "Breaker":
        """Opened from outside: the receiver is known to be down."""
        if self.open_ms:
            return self
        return Breaker(failure_run=self.failure_run, open_ms=FIRST_OPEN_MS, opened_at=now)

    def probing(self, *, now: int) -> "Breaker":
        """Half open at once: there is reason to believe that the receiver is back."""
        if not self.open_ms:
            return self
        return msgspec.structs.replace(self, opened_at=min(self.opened_at, now - self.open_ms))


CLOSED = Breaker()
