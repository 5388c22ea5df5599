"""Verdicts on their way into the store: those of one listener share one call, and tenants take turns."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from couriermq.broker import Broker
from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.model import Settlement
from couriermq.delivery.book import PRINCIPAL
from couriermq.delivery.fairness import FairWork
from couriermq.delivery.lane import Lane
from couriermq.delivery.log import DeliveryLog
from couriermq.delivery.model import DeliveryAttempt
from couriermq.delivery.tasks import Tasks

RETRY_SECONDS = 1.0
SETTLE_COUNT = 100

log = logging.getLogger(__name__)


class Settler:
    """While a lane's settlements are being committed, further ones gather for the next call."""

    def __init__(self, broker: Broker, delivery_log: DeliveryLog, tasks: Tasks, store: FairWork) -> None:
        self._broker = broker
        self._log = delivery_log
        self._tasks = tasks
        self._store = store

    def settle(
        self, lane: Lane, settlement: Settlement, attempt: DeliveryAttempt, *, then: Callable[[Lane], None]
    ) -> None:
        """`then` is called once everything of the lane is settled."""
        lane.unsettled.append((settlement, attempt))
        if not lane.settling:
            lane.settling = True
            self._store.add(lane.listener.tenant, partial(self._settle, lane, then))

    async def _settle(self, lane: Lane, then: Callable[[Lane], None]) -> None:
        """Settle one batch; what is left waits for the tenant's next turn."""
        batch, lane.unsettled = lane.unsettled[:SETTLE_COUNT], lane.unsettled[SETTLE_COUNT:]
        try:
            await self._commit(lane, batch)
        except CourierError as error:
            log.warning("the outcome of %d deliveries waits for the store: %s", len(batch), error)
            lane.unsettled = batch + lane.unsettled
            self._tasks.start(self._settle_later(lane, then))
            return
        except Exception:
            log.exception("the outcome of %d deliveries to listener %s is lost", len(batch), lane.listener.id)
            for settlement, _ in batch:
                lane.leases.pop(settlement.receipt, None)  # their leases end, and they are delivered again
        if lane.unsettled:
            self._store.add(lane.listener.tenant, partial(self._settle, lane, then))
            return
        lane.settling = False
        then(lane)

    async def _settle_later(self, lane: Lane, then: Callable[[Lane], None]) -> None:
        """Until the store takes it: what was delivered must not be delivered again for want of an ack."""
        await asyncio.sleep(RETRY_SECONDS)
        self._store.add(lane.listener.tenant, partial(self._settle, lane, then))

    async def _commit(self, lane: Lane, batch: list[tuple[Settlement, DeliveryAttempt]]) -> None:
        try:
            outcomes = await self._broker.settle(lane.outbox, [item[0] for item in batch], principal=PRINCIPAL)
        except QueueNotFound:
            return  # the listener was deleted meanwhile
        for (settlement, attempt), outcome in zip(batch, outcomes, strict=True):
            lane.leases.pop(settlement.receipt, None)
            if isinstance(outcome, CourierError):
                log.warning("delivery %s of listener %s: %s", attempt.message_id, lane.listener.id, outcome)
            elif not lane.retired:
                self._log.add(lane.listener, attempt)
