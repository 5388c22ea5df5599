"""Messages that wait for their publication, written once for all engines; `core.lifecycle.publish` has the rules."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from couriermq.core.duties import UPKEEP
from couriermq.core.errors import QueueNotFound
from couriermq.core.lifecycle import publish as rules
from couriermq.core.lifecycle import send
from couriermq.core.lifecycle.expire import STEP
from couriermq.core.lifecycle.needs import Deciding, NextChunk, OldStages, PublicationOf, StagedChunk, StagedFor
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import MINUTE, Publication
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Chunk, Directory, Parcel, Staged
from couriermq.storage.group_commit import Apart, Collector
from couriermq.storage.staging import MEMORY_MS, staged_of, unpack

FORGOTTEN_CHUNKS = 100
"""Chunks of stages that nobody has published which one commit removes."""

log = logging.getLogger(__name__)


class Stages:
    """The part of a store for messages that come in two steps.

    A publication sends all that its stages hold in its own transaction; an engine may have it land later instead.
    """

    if TYPE_CHECKING:
        _commit: Collector
        _directory: Directory
        sealer: Sealer

        def _check_send(self) -> None: ...

        async def _look(self, order: Callable[[Unit], Any]) -> Any: ...

        def holds(self, duty: str) -> bool: ...

    _stages_due = 0

    async def stage(self, target: str, *, stage: str, part: int, chunks: Sequence[Chunk], now: int) -> None:
        self._check_send()

        def order(unit: Unit) -> None:
            self._check_target(target)
            rules.bring(unit, target, stage, part, now=now)
            for number, chunk in reversed(list(enumerate(chunks))):  # the first one shows that the part is there
                keys = sorted(chunk.keys)
                unit.order("insert_chunk", target, stage, part, number, chunk.count, now, keys, chunk.parcels)

        await self._commit.submit(order)

    async def publish(
        self, target: str, *, series: str, number: int, stages: Sequence[str], parts: Mapping[str, int], now: int,
        principal: str,
    ) -> Publication:  # fmt: skip
        def order(unit: Unit) -> Deciding[Publication]:
            self._check_target(target)
            return rules.publish(
                unit, target, series=series, number=number, stages=stages, parts=parts, now=now, principal=principal,
                land=self._land_stage,
            )  # fmt: skip

        publication: Publication = await self._commit.submit(Apart(order))
        return publication

    def _land_stage(
        self, unit: Unit, target: str, stage: str, keys: set[int], *, now: int, principal: str
    ) -> Deciding[None]:
        """Send all that a stage holds to the queues with these keys."""
        while (yield from self._send_chunk(unit, target, stage, now=now, principal=principal)):
            pass

    def _send_chunk(self, unit: Unit, target: str, stage: str, *, now: int, principal: str) -> Deciding[bool]:
        """Whether the stage had a chunk left, which is sent now."""
        chunk: StagedChunk | None = yield NextChunk(target, stage)
        if chunk is None:
            return False
        where = (target, stage, chunk.part, chunk.number)
        if chunk.parcels is None:
            log.error("a chunk of stage %s is damaged: its %s messages are lost", stage, chunk.count)
            self._commit.metrics.quarantined += chunk.count
            unit.order("set_chunk_aside", *where, now)
        else:
            parcels, events = unpack(chunk.parcels, self._directory, at=now)
            order = send.Order(parcels, now, principal, events)
            (outcomes,) = yield from send.send(unit, [order], queues=self._directory, sealer=self.sealer)
            self._check_sent(parcels, outcomes)
        unit.order("delete_chunk", *where)
        return True

    def _check_target(self, target: str) -> None:
        """Raise QueueNotFound for a queue that lives on another shard or is about to."""
        queue = self._directory.queue_of_id(target)
        if queue is not None and queue.key < 0:  # a stand-in
            raise QueueNotFound(queue.name)

    def _check_sent(self, parcels: Sequence[Parcel], outcomes: send.Outcomes) -> None:
        """Raise QueueNotFound for a message that a queue on another shard should have got. What was for a queue that is
        gone is gone too."""
        for parcel, outcome in zip(parcels, outcomes, strict=True):
            if isinstance(outcome, QueueNotFound) and self._directory.queue_of_key(parcel.queue.key) is None:
                elsewhere = self._directory.queue_of_key(-parcel.queue.key)
                if elsewhere is not None:
                    raise QueueNotFound(elsewhere.name)

    async def publication(self, target: str, *, series: str) -> Publication | None:
        def order(unit: Unit) -> Deciding[Publication | None]:
            self._check_target(target)
            known: Publication | None = yield PublicationOf(target, series)
            return known

        found: Publication | None = await self._look(order)
        return found

    async def drop_stages(self, target: str, *, stages: Sequence[str]) -> None:
        def order(unit: Unit) -> None:
            self._check_target(target)
            for stage in stages:
                unit.order("drop_stage", target, stage)

        await self._commit.submit(order)

    async def staged(self, targets: Sequence[str]) -> Staged:
        def order(unit: Unit) -> Deciding[Staged]:
            return staged_of((yield StagedFor(targets)))

        found: Staged = await self._look(order)
        return found

    async def _forget_stages(self, now: int) -> None:
        """What nobody has published, and series that ended long ago."""
        # Later than nobody can publish it any more, also where the clock of another node is behind.
        untils = now - rules.STAGE_MS - MINUTE, now - MEMORY_MS

        def order(unit: Unit) -> Deciding[bool]:
            unit.order("forget_stages", untils[0], FORGOTTEN_CHUNKS)
            unit.order("forget_publications", untils[1], STEP)
            more: bool = yield OldStages(*untils)
            return more

        while self._stages_due <= now and self.holds(UPKEEP):
            more = await self._commit.submit(order)
            self._stages_due = now if more else now + MINUTE
