"""Leases of deliveries are short and made longer while they are needed, so that those of a node that dies end soon."""

import logging
from functools import partial

from couriermq.broker import Broker
from couriermq.clock import Clock
from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.limits import BATCH_COUNT
from couriermq.core.model import SECOND, Extend, Lease
from couriermq.delivery.alarms import Alarms
from couriermq.delivery.book import PRINCIPAL
from couriermq.delivery.fairness import FairWork
from couriermq.delivery.lane import LEASE_SPARE_MS, Lane

RETRY_MS = SECOND

log = logging.getLogger(__name__)


class Renewals:
    """`hold` what was leased; what is settled or given back is dropped from the lane's `leases` by whoever does it."""

    def __init__(self, broker: Broker, clock: Clock, alarms: Alarms, store: FairWork) -> None:
        self._broker = broker
        self._clock = clock
        self._alarms = alarms
        self._store = store

    def hold(self, lane: Lane, leases: list[Lease]) -> None:
        for lease in leases:
            lane.leases[lease.receipt] = lease.expires_at
        if leases:
            self._watch_end(lane, min([lease.expires_at for lease in leases]))
            if not lane.renewing:
                lane.renewing = True
                self._ring(lane, lane.lease_ms // 2)

    def _ring(self, lane: Lane, wait_ms: int) -> None:
        self._alarms.set(self._clock.now() + wait_ms, lambda: self._due(lane))

    def _due(self, lane: Lane) -> None:
        if lane.leases:
            self._store.add(lane.listener.tenant, partial(self._renew, lane))
        else:
            lane.renewing = False

    async def _renew(self, lane: Lane) -> None:
        """Make longer what would have less than a quarter left at the next ring, which is half a lease from now."""
        span, now = lane.lease_ms, self._clock.now()
        wait_ms = span // 2
        old = [receipt for receipt, expires_at in lane.leases.items() if expires_at - now <= span * 3 // 4]
        try:
            for start in range(0, len(old), BATCH_COUNT):
                if not await self._extend(lane, old[start : start + BATCH_COUNT], span):
                    wait_ms = min(wait_ms, RETRY_MS)
        except Exception:
            log.exception("deliveries to listener %s are not renewed", lane.listener.id)
            wait_ms = min(wait_ms, RETRY_MS)
        self._ring(lane, wait_ms)

    async def _extend(self, lane: Lane, receipts: list[str], span: int) -> bool:
        orders = [Extend(receipt, span) for receipt in receipts]
        try:
            outcomes = await self._broker.settle(lane.outbox, orders, principal=PRINCIPAL)
        except QueueNotFound:
            lane.leases.clear()
            return True
        except CourierError as error:
            log.warning("%d deliveries to listener %s are not renewed: %s", len(orders), lane.listener.id, error)
            return False
        for receipt, outcome in zip(receipts, outcomes, strict=True):
            if isinstance(outcome, CourierError):
                lane.lose(receipt)
            elif receipt in lane.leases and outcome.expires_at is not None:
                lane.leases[receipt] = outcome.expires_at
                self._watch_end(lane, outcome.expires_at)
        return True

    def _watch_end(self, lane: Lane, expires_at: int) -> None:
        """Be woken when a lease of the lane has too little time left, whether or not the store answers until then."""
        at = expires_at - LEASE_SPARE_MS + 1
        if lane.lose_at is None or at < lane.lose_at:
            lane.lose_at = at
            self._alarms.set(at, lambda: self._lose_ended(lane, at))

    def _lose_ended(self, lane: Lane, at: int) -> None:
        """Stop deliveries whose leases could not be made longer in time, before another node begins with them."""
        if lane.lose_at != at:
            return  # an earlier alarm was set after this one, and has taken over
        lane.lose_at, now = None, self._clock.now()
        for receipt in [each for each in lane.requests if not lane.holds(each, now=now)]:
            lane.lose(receipt)
        ends = [expires_at for receipt, expires_at in lane.leases.items() if lane.holds(receipt, now=now)]
        if ends:
            self._watch_end(lane, min(ends))
