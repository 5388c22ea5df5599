"""Consumption by jobs that must see every message exactly once: claims instead of leases.

A lease ends, and then the message comes back, whether or not a job had written down what it did with it. A claim does
not end by itself: a job that comes back asks for the same number and gets the same messages.
"""

from couriermq.clock import Clock
from couriermq.core import limits
from couriermq.core.model import Claim, Job, Queue, Slice
from couriermq.storage.base import Store

READ_COUNT = 1_000
"""Messages that are read at a time, so that nobody else waits for long."""


class Claims:
    """Open, claim, read, ack, free. Queues are found, and callers' rights checked, before it is asked."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def open(self, queue: Queue, job: str) -> Job:
        """A new epoch for a job; who still acts for an earlier one is Fenced from now on."""
        limits.check_label("job", job)
        return await self._store.open_job(queue, job=job, now=self._clock.now())

    async def claim(
        self,
        queue: Queue,
        job: str,
        number: int,
        *,
        epoch: int,
        limit: int,
        principal: str,
        ready_by: int | None = None,
    ) -> Claim:
        """Hold up to `limit` messages that are ready under a number; whoever asks again gets the same.

        With `ready_by` those that became ready later are left: who takes what there was at an instant comes to an end.
        """
        limits.check_range("limit", limit, 1, limits.CLAIM_COUNT)
        now = self._clock.now()
        return await self._store.claim(
            queue,
            job=job,
            number=number,
            epoch=epoch,
            limit=limit,
            ready_by=now if ready_by is None else min(now, ready_by),
            now=now,
            principal=principal,
        )

    async def read(self, queue: Queue, job: str, number: int, *, epoch: int, start: int, stop: int) -> Slice:
        """Up to READ_COUNT positions from `start` on, below `stop`; messages that are gone are left out."""
        stop = min(stop, start + READ_COUNT)
        return await self._store.read_claim(queue, job=job, number=number, epoch=epoch, start=start, stop=stop)

    async def ack(self, queue: Queue, job: str, *, upto: int, epoch: int, principal: str) -> int:
        """Claims up to a number are done; returns how many messages were left in them."""
        return await self._store.ack_claims(
            queue, job=job, upto=upto, epoch=epoch, now=self._clock.now(), principal=principal
        )

    async def free(self, queue: Queue, job: str, *, principal: str) -> int:
        """Shut the job out and give back all that it holds; returns how many messages."""
        return await self._store.free_job(queue, job=job, now=self._clock.now(), principal=principal)

    async def jobs(self, queue: Queue) -> list[Job]:
        return await self._store.jobs(queue)
