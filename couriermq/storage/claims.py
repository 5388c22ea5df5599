"""What a store does for jobs, written once for all engines; `core.lifecycle.claim` has the rules."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from couriermq.core.duties import UPKEEP
from couriermq.core.errors import Fenced
from couriermq.core.incarnations import Identity
from couriermq.core.lifecycle import claim as rules
from couriermq.core.lifecycle.needs import DecidedQueues, Deciding, JobsOf
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import MINUTE, Claim, Job, Queue, Slice
from couriermq.storage.base import Directory


class Claims:
    """The part of a store that jobs use."""

    if TYPE_CHECKING:
        _directory: Directory

        @property
        def identity(self) -> Identity: ...

        async def _on(self, queue: Queue, now: int, decide: Callable[[Unit, Queue], Any]) -> Any: ...

        async def _look(self, order: Callable[[Unit], Any]) -> Any: ...

        def _known(self, queue: Queue) -> Queue: ...

        def holds(self, duty: str) -> bool: ...

    _claims_due = 0

    async def _read(self, decide: Callable[[], Deciding[Any]]) -> Any:
        """Carry out a look that may take long."""
        return await self._look(lambda unit: decide())

    async def open_job(self, queue: Queue, *, job: str, now: int) -> Job:
        step = partial(rules.open_job, name=job, last_epoch=self.identity.last_epoch, now=now)
        opened: Job = await self._on(queue, now, step)
        return opened

    def _check_incarnation(self, job: str, epoch: int) -> None:
        if epoch <= self.identity.last_epoch:
            raise Fenced(job, epoch)

    async def claim(
        self,
        queue: Queue,
        *,
        job: str,
        number: int,
        epoch: int,
        limit: int,
        ready_by: int,
        now: int,
        principal: str,
    ) -> Claim:
        self._check_incarnation(job, epoch)
        step = partial(
            rules.take_part, job=job, number=number, epoch=epoch, limit=limit, ready_by=ready_by, now=now,
            principal=principal,
        )  # fmt: skip
        claim: Claim | None = None
        while claim is None:
            claim = await self._on(queue, now, step)
        return claim

    async def read_claim(self, queue: Queue, *, job: str, number: int, epoch: int, start: int, stop: int) -> Slice:
        self._check_incarnation(job, epoch)
        live = self._known(queue)
        found = await self._look(lambda unit: rules.held_claim(live, job, number, epoch))
        read = partial(rules.read_parts, live, job, number, start=start, stop=stop)
        messages, following = await self._read(read)
        return Slice(found.count, messages, following)

    async def ack_claims(self, queue: Queue, *, job: str, upto: int, epoch: int, now: int, principal: str) -> int:
        self._check_incarnation(job, epoch)
        await self._on(queue, now, lambda unit, live: rules.ack_claims(unit, live, job, upto=upto, epoch=epoch))
        return await self._end_claims(queue, now, principal)

    async def free_job(self, queue: Queue, *, job: str, now: int, principal: str) -> int:
        await self._on(queue, now, lambda unit, live: rules.free_job(unit, live, job))
        return await self._end_claims(queue, now, principal)

    async def _end_claims(self, queue: Queue, now: int, principal: str) -> int:
        """Carry out what was decided about claims of a queue, by whichever caller."""
        step = partial(rules.end_part, queues=self._directory, now=now, principal=principal)
        total = 0
        while (count := await self._on(queue, now, step)) is not None:
            total += count
        return total

    async def _finish_claims(self, now: int) -> None:
        """What a crash has left undone."""
        if self._claims_due > now or not self.holds(UPKEEP):
            return
        self._claims_due = now + MINUTE
        for key in await self._look(lambda unit: _asked(DecidedQueues())):
            queue = self._directory.queue_of_key(key)
            if queue is not None:
                await self._end_claims(queue, now, "courier")

    async def jobs(self, queue: Queue) -> list[Job]:
        found: list[Job] = await self._look(lambda unit: _asked(JobsOf(self._known(queue).key)))
        return found


def _asked(need: object) -> Deciding[Any]:
    return (yield need)
