"""What follows from a batch: for its messages, and for the consumer."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from couriermq.clock import Clock
from couriermq.core.model import Ack, Lease, Release
from couriermq.delivery import health as rules
from couriermq.delivery.batch_lane import BatchLane
from couriermq.delivery.batch_result import settlements
from couriermq.delivery.book import HealthBook
from couriermq.delivery.breaker import CLOSED
from couriermq.delivery.bridge import BridgeAnswer
from couriermq.delivery.lane import Lane
from couriermq.delivery.log import note_of
from couriermq.delivery.model import Answer, DeliveryAttempt, Outcome
from couriermq.delivery.settling import Settler


class BatchJudge:
    """Settles every message of a batch as the handler said.

    A handler that throws uses up an attempt of each message that it did not settle. A bridge that was not reached uses
    up none: the messages wait until it is back.
    """

    def __init__(self, clock: Clock, *, book: HealthBook, settler: Settler) -> None:
        self._clock = clock
        self._book = book
        self._settler = settler

    def judge(self, lane: BatchLane, batch: Sequence[Lease], answer: Answer, *, then: Callable[[Lane], None]) -> None:
        """`then` is called once everything is on disk."""
        now = self._clock.now()
        unreached = isinstance(answer, BridgeAnswer) and answer.unreached
        if unreached:
            lane.hold(now=now)
        else:
            lane.breaker, lane.held_until = CLOSED, 0
        if not lane.retired:
            health = rules.after_delivery(self._book.of(lane.listener), answer, delivered=answer.error is None, now=now)
            self._book.put(lane.listener, health)
        for lease, settlement in zip(batch, _settlements(batch, answer), strict=True):
            attempt = _attempt(lease, settlement, answer, now)
            noted = settlement if unreached else replace(settlement, note=note_of(attempt))
            self._settler.settle(lane, noted, attempt, then=then)


def _settlements(batch: Sequence[Lease], answer: Answer) -> Sequence[Ack | Release]:
    if not isinstance(answer, BridgeAnswer) or (answer.result is None and not answer.unreached):
        return [Release(lease.receipt) for lease in batch]  # nobody knows how far the handler came
    if answer.result is None:
        return [Release(lease.receipt, 0, untried=True) for lease in batch]
    return settlements(answer.result, batch)


def _attempt(lease: Lease, settlement: Ack | Release, answer: Answer, now: int) -> DeliveryAttempt:
    return DeliveryAttempt(
        at=now,
        seq=lease.message.seq,
        message_id=lease.message.id,
        attempt=lease.message.attempts,
        verdict=Outcome.DELIVERED if isinstance(settlement, Ack) else Outcome.RETRY,
        status=answer.status,
        latency_ms=round(answer.latency_ms),
        error=answer.error,
    )
