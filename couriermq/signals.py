"""What the store tells the rest of a node."""

import asyncio

from couriermq.delivery import Deliveries
from couriermq.journal.followers import Followers
from couriermq.monitor.monitor import Monitor
from couriermq.upkeep.timekeeper import Timekeeper
from couriermq.waiting import Arrivals


class NodeSignals:
    """Passes what the store tells on to those who wait for it."""

    def __init__(
        self,
        arrivals: Arrivals,
        followers: Followers,
        timekeeper: Timekeeper,
        deliveries: Deliveries,
        monitor: Monitor,
    ) -> None:
        self.failing: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Done, with the reason, once the store can commit nothing any more."""
        self.journaled = followers.journaled
        self.due = timekeeper.due
        self.duties_changed = deliveries.duties_changed
        self.happened = monitor.happened
        self._arrivals = arrivals
        self._deliveries = deliveries

    def ready(self, queue_key: int, count: int) -> None:
        self._arrivals.ready(queue_key, count)
        self._deliveries.ready(queue_key, count)

    def is_awaited(self, queue_key: int, count: int) -> bool:
        return self._arrivals.is_awaited(queue_key, count)

    def failed(self, reason: str) -> None:
        if not self.failing.done():
            self.failing.set_result(reason)
