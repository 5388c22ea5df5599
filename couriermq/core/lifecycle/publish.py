"""Stages become visible all at once, and a series never publishes a number twice."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from couriermq.core.errors import StageNotFound
from couriermq.core.lifecycle.needs import Deciding, HeldStage, PublicationOf, StageOf
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import DAY, HOUR, Publication

STAGE_MS = DAY
"""How long a stage waits to be published, from its first chunk on."""
RENEWED_MS = HOUR
"""From this age on a stage is renewed: a retry of a request that was just made writes nothing."""


class Land(Protocol):
    """Sends what a stage holds to the queues with these keys, or sees to it that it will be sent."""

    def __call__(
        self, unit: Unit, target: str, stage: str, keys: set[int], *, now: int, principal: str
    ) -> Deciding[None]: ...


def bring(unit: Unit, target: str, stage: str, part: int, *, now: int) -> None:
    """Prepare a stage for a part: one that is too old begins anew, and one that has the part is renewed, so that it is
    not forgotten between this part and the next."""
    unit.order("drop_old_stage", target, stage, now - STAGE_MS)
    unit.order("renew_stage", target, stage, part, now, now - RENEWED_MS)


def publish(
    unit: Unit, target: str, *, series: str, number: int, stages: Sequence[str], parts: Mapping[str, int], now: int,
    principal: str, land: Land,
) -> Deciding[Publication]:  # fmt: skip
    """Publish all that the stages hold, unless the series has come to that number before.

    A stage whose number of parts is known is refused with any other number: it was forgotten, and has begun anew.
    """
    known: Publication | None = yield PublicationOf(target, series)
    if known is not None and known.number >= number:
        for stage in stages:
            unit.order("drop_stage", target, stage)
        return known
    count = 0
    for stage in dict.fromkeys(stages):
        found: HeldStage | None = yield StageOf(target, stage)
        if found is None or found.staged_at <= now - STAGE_MS:  # of one that is too old, chunks may be gone already
            raise StageNotFound(stage)
        if (wanted := parts.get(stage, found.part_count)) != found.part_count:
            raise StageNotFound(stage, (found.part_count, wanted))
        yield from land(unit, target, stage, found.keys, now=now, principal=principal)
        count += found.count
    unit.order("put_publication", target, series, number, count, now)
    return Publication(series=series, number=number, count=count, published_at=now)
