"""Where a message goes when its lease ends without an ack."""

import msgspec

from couriermq.core.model import Queue, QueueSettings

LAPSES = 10
"""How many leases of a delivery, beyond its attempts, may end without an answer."""


class Again(msgspec.Struct, frozen=True, gc=False):
    """Another attempt from `due_at` on."""

    due_at: int


class Dead(msgspec.Struct, frozen=True, gc=False):
    """No attempt is left."""

    reason: str


class Expired(msgspec.Struct, frozen=True, gc=False):
    """It had become too old before the lease ended."""


EXHAUSTED = Dead("attempts exhausted")
TOO_OLD = "retention"
"""The reason of a message that was discarded because of its age."""


def after_failure(
    settings: QueueSettings, *, attempts: int, ended_at: int, discard_at: int, delay_ms: int | None = None
) -> Again | Dead | Expired:
    """Decide by the instant at which the lease ended, however much later anybody notices."""
    if discard_at < ended_at:
        return Expired()
    if settings.max_attempts is not None and attempts >= settings.max_attempts:
        return EXHAUSTED
    return Again(due_at=ended_at + (settings.retry_delay_ms if delay_ms is None else delay_ms))


def after_lapse(queue: Queue, *, attempts: int, ended_at: int, discard_at: int) -> Again | Dead | Expired:
    """The same for a lease that nobody settled.

    In an outbox that says that a node stopped, perhaps before it sent anything, and nothing of the receiver: only an
    attempt that failed is the last one. A message that makes nodes stop is dead nevertheless after `LAPSES` more.
    """
    spare = LAPSES if queue.owner is not None else 0
    return after_failure(queue.settings, attempts=attempts - spare, ended_at=ended_at, discard_at=discard_at)


def discard_at(settings: QueueSettings, *, entered_at: int, retention_ms: int | None) -> int:
    """When a message is too old to keep: its own retention wins over the queue's."""
    return entered_at + (settings.retention_ms if retention_ms is None else retention_ms)
