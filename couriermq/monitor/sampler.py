"""Rates of a store that several nodes share: what its tables and its journal tell, once a second for each node.

The counters of all queues give what came in, was acked and died, exactly. While somebody watches they are read every
second, and the newest part of the journal with them, which tells the rest and who did it; otherwise every minute.
"""

import logging

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.chronicle import unpack_runs
from couriermq.core.errors import CourierError
from couriermq.core.flows import flows_of
from couriermq.core.lanes import first_of_lane
from couriermq.core.model import MINUTE, SECOND, Counters
from couriermq.monitor.rates import ACKED, ARRIVED, DEAD, LEFT, SENT, Rates
from couriermq.storage.base import ShardLog, Span, Store

TALLIED = frozenset((SENT, ACKED, DEAD, ARRIVED, LEFT))
WATCHED_MS = 5 * MINUTE
"""For so long after the last look somebody counts as watching."""
READ_COUNT = 20_000
"""Events of each lane that one round reads; with more than that in a second, who did what is a sample."""

log = logging.getLogger("couriermq.monitor")


class Sampler:
    """Feeds rates; `run` it as a task."""

    def __init__(self, store: Store, broker: Broker, catalog: Catalog, clock: Clock, rates: Rates) -> None:
        self._store = store
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._rates = rates
        self._watched_at = 0
        self._counters: dict[str, Counters] = {}
        self._next: dict[int, int] = {}
        """The next offset of each lane; empty while nobody watches."""

    def watch(self) -> None:
        """Somebody looks at rates now."""
        self._watched_at = self._clock.now()

    async def run(self) -> None:
        while True:
            now = self._clock.now()
            is_watched = now - self._watched_at < WATCHED_MS
            try:
                await self.sample(with_journal=is_watched)
            except CourierError as error:
                log.warning("rates could not be counted; will try again", extra={"reason": str(error)})
            await self._clock.sleep_until(now + (SECOND if is_watched else MINUTE))

    async def sample(self, *, with_journal: bool) -> None:
        await self._count()
        if not with_journal:
            self._next.clear()
            return
        known = bool(self._next)
        for journal in self._store.journals():
            for lane, span in (await journal.spans()).items():
                start = self._next.get(lane, first_of_lane(lane) if known else span.next)
                self._next[lane] = await self._follow(journal, start, span)

    async def _count(self) -> None:
        queues = self._catalog.all_queues()
        found, second = await self._broker.counters_of(queues), self._clock.now() // 1_000
        present = {queue.id: found[queue.key] for queue in queues if queue.key in found}
        for queue_id, counters in present.items():
            before = self._counters.get(queue_id)
            if before is not None and before is not counters:
                self._note(queue_id, before, counters, second)
        self._counters = present

    def _note(self, queue_id: str, before: Counters, after: Counters, second: int) -> None:
        changes = {
            SENT: after.sent_count - before.sent_count,
            ACKED: after.acked_count - before.acked_count,
            DEAD: after.dead_count - before.dead_count,
        }
        left = changes[SENT] - changes[ACKED] - changes[DEAD] - (after.total_count - before.total_count)
        for measure, count in (*changes.items(), (LEFT, left)):
            if count > 0:
                self._rates.counted(queue_id, measure, second, count)

    async def _follow(self, journal: ShardLog, start: int, span: Span) -> int:
        """Count the events of a lane from `start` on; returns where to go on."""
        start = max(start, span.next - READ_COUNT, span.oldest)
        while start < span.next:
            commits = await journal.read_commits(start=start, limit=READ_COUNT)
            if not commits:
                break
            for commit in commits:
                self._rates.happened(flows_of(unpack_runs(commit.events)), tallied=TALLIED)
            start = commits[-1].start + commits[-1].count
        return max(start, span.next)
