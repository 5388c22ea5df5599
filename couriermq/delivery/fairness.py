"""Work of many tenants on one event loop: in turn, bounded, and begun in small steps.

First come, first served would let a queue with a thousand listeners fill the loop and the store for everybody. Here
each tenant has a line of its own, the lines are served round robin, and after a few beginnings the loop gets its turn.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from typing import Any

from couriermq.delivery.tasks import Tasks

Work = Callable[[], Coroutine[Any, Any, None]]


class FairWork:
    """At most `total` pieces of work under way, `each` of one tenant, and `burst` begun in one turn of the loop."""

    def __init__(self, tasks: Tasks, *, total: int, each: int, burst: int) -> None:
        self._tasks = tasks
        self._total = total
        self._each = each
        self._burst = burst
        self._lines: OrderedDict[str, deque[Work]] = OrderedDict()
        self._active: dict[str, int] = {}
        self._active_count = 0
        self._begun = 0
        self._next_turn: asyncio.Handle | None = None
        self._all_begun = asyncio.Event()
        self._all_begun.set()

    def add(self, tenant: str, work: Work) -> None:
        """Begin the work when it is the tenant's turn."""
        line = self._lines.get(tenant)
        if line is None:
            line = self._lines[tenant] = deque()
        line.append(work)
        self._all_begun.clear()
        self._begin()

    async def finish(self, *, seconds: float) -> None:
        """Wait until nothing waits to begin; what has begun is for its tasks to wait for."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._all_begun.wait(), seconds)

    def _begin(self) -> None:
        """Begin what may begin, one piece a tenant at a time."""
        while self._begun < self._burst and (tenant := self._next_tenant()) is not None:
            line = self._lines[tenant]
            work = line.popleft()
            if line:
                self._lines.move_to_end(tenant)
            else:
                del self._lines[tenant]
            self._begun += 1
            self._active[tenant] = self._active.get(tenant, 0) + 1
            self._active_count += 1
            self._tasks.start(self._run(tenant, work))
        if not self._lines:
            self._all_begun.set()
        if self._begun and self._next_turn is None:
            self._next_turn = asyncio.get_running_loop().call_soon(self._turn)

    def _next_tenant(self) -> str | None:
        """The tenant that has waited longest of those that may have more under way."""
        if self._active_count >= self._total:
            return None
        return next((tenant for tenant in self._lines if self._active.get(tenant, 0) < self._each), None)

    def _turn(self) -> None:
        self._next_turn = None
        self._begun = 0
        self._begin()

    async def _run(self, tenant: str, work: Work) -> None:
        try:
            await work()
        finally:
            self._active_count -= 1
            self._active[tenant] -= 1
            if not self._active[tenant]:
                del self._active[tenant]
            self._begin()
