"""Claims and staged messages, each where its queue lives."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from couriermq.core.errors import Invalid, QueueNotFound
from couriermq.core.model import Claim, Job, Publication, Queue, Slice
from couriermq.storage.base import Chunk
from couriermq.storage.sharded.carrier import pack as into_outbox
from couriermq.storage.sharded.routing import Routing
from couriermq.storage.sharded.sending import part_of
from couriermq.storage.staging import pack, unpack

PUBLISHER = "courier"
"""Who has sent what was staged for an exchange, as far as its queues can know."""


class Claims:
    """What the store does for jobs."""

    if TYPE_CHECKING:
        routing: Routing

    async def open_job(self, queue: Queue, *, job: str, now: int) -> Job:
        return await self.routing.on(queue, lambda engine: engine.open_job(queue, job=job, now=now))

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
        return await self.routing.on(
            queue,
            lambda engine: engine.claim(
                queue, job=job, number=number, epoch=epoch, limit=limit, ready_by=ready_by, now=now,
                principal=principal,
            ),
        )  # fmt: skip

    async def read_claim(self, queue: Queue, *, job: str, number: int, epoch: int, start: int, stop: int) -> Slice:
        return await self.routing.on(
            queue,
            lambda engine: engine.read_claim(queue, job=job, number=number, epoch=epoch, start=start, stop=stop),
        )

    async def ack_claims(self, queue: Queue, *, job: str, upto: int, epoch: int, now: int, principal: str) -> int:
        return await self.routing.on(
            queue,
            lambda engine: engine.ack_claims(queue, job=job, upto=upto, epoch=epoch, now=now, principal=principal),
        )

    async def free_job(self, queue: Queue, *, job: str, now: int, principal: str) -> int:
        return await self.routing.on(
            queue, lambda engine: engine.free_job(queue, job=job, now=now, principal=principal)
        )

    async def jobs(self, queue: Queue) -> list[Job]:
        return await self.routing.on(queue, lambda engine: engine.jobs(queue))


class Stages:
    """What the store does with messages that come in two steps.

    Those for a queue wait on its shard and are published there. Those for an exchange wait at home; where there are
    several shards, they go through the outbox to wherever their queues are when they are published.
    """

    if TYPE_CHECKING:
        routing: Routing

    async def stage(self, target: str, *, stage: str, part: int, chunks: Sequence[Chunk], now: int) -> None:
        queue = self._queue(target)
        if queue is None and not self.routing.places.is_plain:
            chunks = [self._for_outbox(chunk, now) for chunk in chunks]
        await self.routing.on(
            queue, lambda engine: engine.stage(target, stage=stage, part=part, chunks=chunks, now=now)
        )

    async def publish(
        self, target: str, *, series: str, number: int, stages: Sequence[str], parts: Mapping[str, int], now: int,
        principal: str,
    ) -> Publication:  # fmt: skip
        queue = self._queue(target)
        try:
            return await self.routing.on(
                queue,
                lambda engine: engine.publish(
                    target, series=series, number=number, stages=stages, parts=parts, now=now, principal=principal
                ),
            )
        except QueueNotFound as error:
            if queue is not None:
                raise
            # Staged for queues as they lived when the store had one shard.
            raise Invalid(f"{error}; it has moved since the messages were staged: stage them again") from error

    async def publication(self, target: str, *, series: str) -> Publication | None:
        return await self.routing.on(self._queue(target), lambda engine: engine.publication(target, series=series))

    async def drop_stages(self, target: str, *, stages: Sequence[str]) -> None:
        await self.routing.on(self._queue(target), lambda engine: engine.drop_stages(target, stages=stages))

    def _queue(self, target: str) -> Queue | None:
        return self.routing.catalog.queue_of_id(target)

    def _for_outbox(self, chunk: Chunk, now: int) -> Chunk:
        parcels, events = unpack(chunk.parcels, self.routing.catalog, at=now)
        shards: dict[int, list[int]] = {}
        for index, parcel in enumerate(parcels):
            shards.setdefault(self.routing.places.of(parcel.queue.key), []).append(index)
        bundles = [
            into_outbox(part_of(parcels, indexes), shard, principal=PUBLISHER) for shard, indexes in shards.items()
        ]
        return pack(bundles, events, count=chunk.count)
