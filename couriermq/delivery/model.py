"""The nouns of delivery: what a receiver answered, what follows from it, and how a listener has been doing."""

from enum import StrEnum

import msgspec

from couriermq.core.model import Json


class Answer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one request came to: a status and the beginning of a body, or an error in words."""

    status: int | None = None
    retry_after: str | None = None
    excerpt: str = ""
    error: str | None = None
    latency_ms: float = 0.0


class Delivered(msgspec.Struct, frozen=True, gc=False):
    """The receiver has it."""


class Retry(msgspec.Struct, frozen=True, gc=False):
    """A failed attempt; the next comes after `delay_ms`. `hold_ms` keeps all else from the receiver for so long."""

    delay_ms: int
    hold_ms: int = 0


class Gone(msgspec.Struct, frozen=True, gc=False):
    """The receiver wants no more: the listener is disabled and the message waits for `delay_ms`."""

    delay_ms: int
    reason: str


Verdict = Delivered | Retry | Gone


class Outcome(StrEnum):
    """How an attempt is written down."""

    DELIVERED = "delivered"
    RETRY = "retry"
    GONE = "gone"
    DEAD = "dead"
    """It was the last attempt: the message is a dead letter of the listener."""
    UNKNOWN = "unknown"
    """Courier stopped before it knew; the message was delivered again."""


class DeliveryAttempt(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One line of a listener's delivery log."""

    at: int
    seq: int
    message_id: str
    attempt: int
    verdict: Outcome
    status: int | None = None
    latency_ms: int | None = None
    error: str | None = None
    excerpt: str | None = None
    """How the receiver's answer begins."""
    delay_ms: int | None = None
    """How long the message waits for its next attempt."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands in the log."""
        return self.at, self.seq, self.attempt


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a delivery log, newest first; `next` continues after it and is None at the end."""

    attempts: list[DeliveryAttempt]
    next: str | None = None


class Liveness(StrEnum):
    """What the liveness URL says."""

    UNKNOWN = "unknown"
    STABLE = "stable"
    UNSTABLE = "unstable"
    """The last check failed."""
    DOWN = "down"
    """Several checks in a row failed: deliveries are held back as by an open breaker."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a listener has been doing: what deliveries and liveness checks have come to."""

    liveness: Liveness = Liveness.UNKNOWN
    live_count: int = 0
    """Liveness checks that succeeded; `lifeless_count` those that failed, `lifeless_run` of them since then."""
    lifeless_count: int = 0
    lifeless_run: int = 0
    last_live_at: int | None = None
    last_lifeless_at: int | None = None
    last_lifeless_status: int | None = None
    last_lifeless_error: str | None = None
    breaker: BreakerState = BreakerState.CLOSED
    success_count: int = 0
    failure_count: int = 0
    failure_run: int = 0
    """Failed attempts since the last success, the first of them at `failing_since`."""
    failing_since: int | None = None
    last_success_at: int | None = None
    last_failure_at: int | None = None
    last_failure_status: int | None = None
    last_failure_error: str | None = None


Note = dict[str, Json]
"""What the journal keeps of an attempt beside the message's own facts."""
