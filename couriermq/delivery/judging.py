"""What follows from a receiver's answer: for the message, for the listener, for the log."""

import asyncio
import logging
from collections.abc import Callable

from msgspec.structs import replace

from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.errors import CourierError, NotFound
from couriermq.core.model import SECOND, Ack, Lease, Listener, ListenerState, Release
from couriermq.delivery import health as rules
from couriermq.delivery.book import PRINCIPAL, HealthBook
from couriermq.delivery.lane import Lane
from couriermq.delivery.log import note_of
from couriermq.delivery.model import Answer, Delivered, DeliveryAttempt, Gone, Outcome, Retry, Verdict
from couriermq.delivery.schedule import verdict
from couriermq.delivery.settling import Settler
from couriermq.delivery.tasks import Tasks

STORE_RETRY_MS = SECOND

log = logging.getLogger(__name__)


class Judge:
    """Decides by the rules of `schedule`, `breaker` and `health`, and has the decision written down."""

    def __init__(
        self, catalog: Catalog, clock: Clock, *, book: HealthBook, settler: Settler, tasks: Tasks, disable_ms: int
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._book = book
        self._settler = settler
        self._tasks = tasks
        self._disable_ms = disable_ms

    def judge(self, lane: Lane, lease: Lease, answer: Answer, *, outdated: bool, then: Callable[[Lane], None]) -> None:
        """Ack or release; `then` is called once that is on disk.

        A failure is outdated where the listener is called otherwise since: it says nothing of the listener, uses up no
        attempt, and the message is tried again at once.
        """
        now, settings, message = self._clock.now(), lane.listener.settings, lease.message
        decided = verdict(answer, settings, attempt=message.attempts, now=now, dice=self._dice(answer))
        is_void = outdated and not isinstance(decided, Delivered)
        if is_void:
            decided = Retry(0)
        else:
            self._remember(lane, answer, decided, now)
        attempt = DeliveryAttempt(
            at=now,
            seq=message.seq,
            message_id=message.id,
            attempt=message.attempts,
            verdict=_outcome(decided, last=not is_void and message.attempts > len(settings.schedule_ms)),
            status=answer.status,
            latency_ms=round(answer.latency_ms),
            error=answer.error,
            excerpt=answer.excerpt or None,
            delay_ms=None if isinstance(decided, Delivered) else decided.delay_ms,
        )
        note = note_of(attempt)
        if isinstance(decided, Delivered):
            self._settler.settle(lane, Ack(lease.receipt, note), attempt, then=then)
        else:
            order = Release(lease.receipt, decided.delay_ms, note, untried=is_void)
            self._settler.settle(lane, order, attempt, then=then)

    def _dice(self, answer: Answer) -> float:
        if answer.status is not None and 200 <= answer.status <= 299:
            return 0.5  # nothing to be spread
        return int.from_bytes(self._clock.random_bytes(4), "big") / 2**32

    def _remember(self, lane: Lane, answer: Answer, decided: Verdict, now: int) -> None:
        """What the attempt says of the listener as a whole, if there still is one."""
        if lane.retired:
            return
        lane.learn(answer)
        delivered = isinstance(decided, Delivered)
        lane.breaker = lane.breaker.after_success() if delivered else lane.breaker.after_failure(now=now)
        health = rules.after_delivery(self._book.of(lane.listener), answer, delivered=delivered, now=now)
        health = replace(health, breaker=lane.breaker.state(now=now))
        self._book.put(lane.listener, health)
        if isinstance(decided, Retry) and decided.hold_ms:
            lane.held_until = max(lane.held_until, now + decided.hold_ms)
        reason = decided.reason if isinstance(decided, Gone) else None
        if not delivered and (reason or (reason := rules.hopeless(health, disable_ms=self._disable_ms, now=now))):
            self._disable(lane, reason)

    def _disable(self, lane: Lane, reason: str) -> None:
        """At once in memory, so that nothing more goes out, then for good."""
        listener = lane.listener
        if listener.state is ListenerState.ACTIVE:
            lane.renew(replace(listener, state=ListenerState.DISABLED, reason=reason), lane.outbox)
            log.warning("listener %s is disabled: %s", listener.id, reason)
            self._tasks.start(self._store_disabled(listener, reason))

    async def _store_disabled(self, listener: Listener, reason: str) -> None:
        while True:
            try:
                await self._catalog.change_listener(
                    listener, state=ListenerState.DISABLED, reason=reason, principal=PRINCIPAL
                )
                return
            except NotFound:
                return
            except CourierError as error:
                log.warning("listener %s could not be disabled yet: %s", listener.id, error)
                await asyncio.sleep(STORE_RETRY_MS / SECOND)


def _outcome(decided: Verdict, *, last: bool) -> Outcome:
    if isinstance(decided, Delivered):
        return Outcome.DELIVERED
    if last:
        return Outcome.DEAD
    return Outcome.GONE if isinstance(decided, Gone) else Outcome.RETRY
