"""How far this node's clock is from the database's: nodes that disagree on the time end each other's leases early."""

import logging
from collections.abc import Awaitable, Callable

from couriermq.core.errors import Unavailable
from couriermq.core.model import SECOND

WARN_MS = SECOND
LOOK_TICKS = 10

log = logging.getLogger(__name__)


class Skew:
    """`reason` says why the node must not serve, if so; without a clock nothing is compared."""

    def __init__(self, now: Callable[[], int] | None, *, limit_ms: int) -> None:
        self._now = now
        self._limit_ms = limit_ms
        self._warned = False
        self.reason: str | None = None

    async def look(self, database_now: Callable[[], Awaitable[int]]) -> None:
        """Compare the clocks; the time that the question takes is in favour of the node."""
        if self._now is None:
            return
        before = self._now()
        there = await database_now()
        after = self._now()
        self.judge(max(before - there, there - after, 0))

    def judge(self, skew_ms: int) -> None:
        if skew_ms > WARN_MS and not self._warned:
            log.warning("this node's clock differs from the database's by %d ms; synchronize both", skew_ms)
        self._warned = skew_ms > WARN_MS
        refuses = skew_ms > self._limit_ms
        if refuses and self.reason is None:
            log.error("this node does not serve: its clock differs from the database's by %d ms", skew_ms)
        elif self.reason is not None and not refuses:
            log.warning("this node serves again: its clock agrees with the database's")
        self.reason = "this node's clock differs too much from the database's; synchronize both" if refuses else None

    def check(self) -> None:
        """Raise Unavailable where the node must not serve."""
        if self.reason is not None:
            raise Unavailable(self.reason)
