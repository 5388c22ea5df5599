"""Collects the facts about queues that `core.diagnosis` judges."""

from collections.abc import Sequence

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.claims import Claims
from couriermq.clock import Clock
from couriermq.core.diagnosis import (
    HEAD_COUNT,
    Facts,
    Finding,
    Head,
    HeldByJob,
    Level,
    ListenerFacts,
    diagnose,
    head_count,
)
from couriermq.core.model import HOUR, MINUTE, Counters, Job, Listener, Queue
from couriermq.delivery import BreakerState, Deliveries, Liveness
from couriermq.lake.stats import Course, Stats

QUEUE_COUNT = 200
"""Queues of a tenant that are looked at in one call, those with the oldest messages first."""
FINDING_COUNT = 100


class Diagnosing:
    """Says why queues are stuck. Looking leases nothing."""

    def __init__(
        self, broker: Broker, catalog: Catalog, claims: Claims, deliveries: Deliveries, stats: Stats, clock: Clock
    ) -> None:
        self._broker = broker
        self._catalog = catalog
        self._claims = claims
        self._deliveries = deliveries
        self._stats = stats
        self._clock = clock

    async def of_queue(self, queue: Queue) -> list[Finding]:
        return diagnose(await self._facts(queue, await self._broker.counters(queue), heads=HEAD_COUNT))

    async def of_queues(self, queues: Sequence[Queue]) -> list[tuple[Queue, Finding]]:
        """The worst findings of many queues; those without a message and without a listener have none."""
        counters = await self._broker.counters_of(queues)
        busy = [
            queue
            for queue in queues
            if queue.key in counters and (counters[queue.key].total_count or self._catalog.listeners_of(queue))
        ]
        busy.sort(key=lambda queue: counters[queue.key].oldest_at or self._clock.now())
        found: list[tuple[Queue, Finding]] = []
        for queue in busy[:QUEUE_COUNT]:
            known = counters[queue.key]
            findings = diagnose(await self._facts(queue, known, heads=head_count(known)))
            found += [(queue, finding) for finding in findings]
        levels = list(Level)
        return sorted(found, key=lambda pair: levels.index(pair[1].level))[:FINDING_COUNT]

    async def _facts(self, queue: Queue, counters: Counters, *, heads: int) -> Facts:
        now = self._clock.now()
        course = await self._stats.of(queue, counters, start=now - HOUR, end=now + 1, step=MINUTE, now=now)
        page = await self._broker.browse(queue, limit=heads)
        target = self._dead_letter_queue(queue)
        return Facts(
            now=now,
            kind=queue.kind,
            settings=queue.settings,
            counters=counters,
            hour=_sums(course),
            known_from=course.steps[0].at if course.steps else now,
            last_received_at=_last_received_at(course),
            waiting_count=self._broker.waiting_count(queue),
            heads=[
                Head(one.seq, one.state, one.attempts, one.due_at, one.discard_at, one.group) for one in page.messages
            ],
            jobs=[_held(job) for job in await self._claims.jobs(queue) if job.claims],
            listeners=[await self._listener(listener) for listener in self._catalog.listeners_of(queue)],
            dead_letter_queue=target.name if target else None,
            dead_letter_count=(await self._broker.counters(target)).total_count if target else 0,
        )

    def _dead_letter_queue(self, queue: Queue) -> Queue | None:
        target = queue.settings.dead_letter_queue
        return None if target is None else self._catalog.queue_by_id(queue.tenant, target)

    async def _listener(self, listener: Listener) -> ListenerFacts:
        health = self._deliveries.health(listener)
        outbox, dead = self._catalog.outbox(listener), self._catalog.dead_letters(listener)
        counters = await self._broker.counters_of([outbox, dead])
        status = health.last_failure_status  # not the error's text, which may quote a URL
        return ListenerFacts(
            id=listener.id,
            name=listener.name,
            state=listener.state,
            reason=listener.reason,
            is_open=health.breaker is BreakerState.OPEN,
            is_down=health.liveness is Liveness.DOWN,
            failure_run=health.failure_run,
            failing_since=health.failing_since,
            last_error="the receiver did not answer" if status is None else f"status {status}",
            waiting_count=counters[outbox.key].total_count if outbox.key in counters else 0,
            dead_count=counters[dead.key].total_count if dead.key in counters else 0,
        )


def _sums(course: Course) -> dict[str, int]:
    sums: dict[str, int] = {}
    for step in course.steps:
        for name, count in step.counts.items():
            sums[name] = sums.get(name, 0) + count
    return sums


def _last_received_at(course: Course) -> int | None:
    """To the minute; None where nobody received within the time that is known."""
    return max((step.at for step in course.steps if step.counts.get("received")), default=None)


def _held(job: Job) -> HeldByJob:
    claims = job.claims
    return HeldByJob(job.name, sum(claim.count for claim in claims), min(claim.claimed_at for claim in claims))
