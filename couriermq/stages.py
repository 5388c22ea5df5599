"""Sending in two steps, exactly once: many bring messages to stages, then one publishes all of them at a stroke.

A publication has a number in a series. Publishing a number again sends nothing and answers as before: so whoever does
not know whether he has published simply does it again.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from couriermq.broker import Broker
from couriermq.clock import Clock
from couriermq.core import limits
from couriermq.core.errors import BatchTooLarge, CourierError, Invalid, PublicationNotFound
from couriermq.core.model import Draft, Exchange, Publication, Queue
from couriermq.storage.base import Chunk, Store
from couriermq.storage.staging import HEAD_BYTES, pack, stored_count

CHUNK = 1_000
"""Messages that are stored in one commit, so that nobody else waits for long; with many copies they are fewer."""

NO_PARTS: Mapping[str, int] = {}

Target = Queue | Exchange


class Stages:
    """Stage, publish, drop. Targets are found, and callers' rights checked, before it is asked."""

    def __init__(self, store: Store, broker: Broker, clock: Clock) -> None:
        self._store = store
        self._broker = broker
        self._clock = clock

    async def stage(self, target: Target, stage: str, part: int, drafts: Sequence[Draft], *, principal: str) -> None:
        """Keep drafts until they are published, all of them or, where one is refused, none; a part is kept once."""
        limits.check_label("stage", stage)
        if not 1 <= len(drafts) <= limits.STAGE_COUNT:
            raise BatchTooLarge(len(drafts), limits.STAGE_COUNT)
        chunks = []
        for chunk in self._chunks(target, drafts, principal):
            chunks.append(chunk)
            await asyncio.sleep(0)  # others have their turn
        size = sum(len(chunk.parcels) for chunk in chunks)
        count = sum(stored_count(chunk.count, chunk.parcels[:HEAD_BYTES]) for chunk in chunks)
        usage = self._broker.usage
        await usage.check_stage(target.tenant, target.id, stage)
        async with self._broker.admission.line_for(size).entered(size), usage.storing(target.tenant, count, size):
            await self._store.stage(target.id, stage=stage, part=part, chunks=chunks, now=self._clock.now())

    def _chunks(self, target: Target, drafts: Sequence[Draft], principal: str) -> Iterator[Chunk]:
        first = 0
        while first < len(drafts):
            some = drafts[first : first + CHUNK]
            some = some[: limits.count_with_copies(some, self._broker.copies_of(target))]
            try:
                parcels, events, refusals = self._broker.address(target, some, principal=principal)
            except Invalid as error:  # only a message that is alone in its chunk is so large
                raise _placed(first, error) from None
            if refusals:
                raise _placed(first + min(refusals), refusals[min(refusals)])
            yield pack(parcels, events, count=len(some))
            first += len(some)

    async def publish(
        self, target: Target, series: str, number: int, stages: Sequence[str], *, principal: str,
        parts: Mapping[str, int] = NO_PARTS,
    ) -> Publication:  # fmt: skip
        """Send what the stages hold; raises StageNotFound for one that was published, dropped or never made, and for
        one that has not as many parts as `parts` says."""
        limits.check_label("series", series)
        limits.check_range("stages", len(stages), 0, limits.PUBLISHED_STAGES)
        if strange := parts.keys() - set(stages):
            raise Invalid(f"{min(strange)!r} is not among the stages", field="parts")
        return await self._store.publish(
            target.id, series=series, number=number, stages=stages, parts=parts, now=self._clock.now(),
            principal=principal,
        )  # fmt: skip

    async def publication(self, target: Target, series: str) -> Publication:
        """The newest of a series; raises PublicationNotFound."""
        found = await self._store.publication(target.id, series=series)
        if found is None:
            raise PublicationNotFound(series)
        return found

    async def drop(self, target: Target, stages: Sequence[str]) -> None:
        """Forget stages; what was published stays."""
        await self._store.drop_stages(target.id, stages=stages)


def _placed(index: int, error: CourierError) -> CourierError:
    """The refusal of a draft, with its place among the others."""
    error.args = (f"message {index}: {error}", *error.args[1:])
    return error
