"""Stages become visible all at once, and a series never publishes a number twice."""

from collections.abc import Sequence
from typing import Protocol

from couriermq.core.errors import StageNotFound
from couriermq.core.lifecycle.needs import Deciding, PublicationOf, StageOf
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import DAY, Publication

STAGE_MS = DAY
"""How long a stage waits to be published, from its first chunk on."""


class Land(Protocol):
    """Sends what a stage holds to the queues with these keys, or sees to it that it will be sent."""

    def __call__(
        self, unit: Unit, target: str, stage: str, keys: set[int], *, now: int, principal: str
    ) -> Deciding[None]: ...


def publish(
    unit: Unit, target: str, *, series: str, number: int, stages: Sequence[str], now: int, principal: str, land: Land
) -> Deciding[Publication]:
    """Publish all that the stages hold, unless the series has come to that number before."""
    known: Publication | None = yield PublicationOf(target, series)
    if known is not None and known.number >= number:
        for stage in stages:
            unit.order("drop_stage", target, stage)
        return known
    count = 0
    for stage in dict.fromkeys(stages):
        found: tuple[int, set[int], int] | None = yield StageOf(target, stage)
        if found is None or found[2] <= now - STAGE_MS:  # of one that is too old, chunks may be gone already
            raise StageNotFound(stage)
        held, keys, _ = found
        yield from land(unit, target, stage, keys, now=now, principal=principal)
        count += held
    unit.order("put_publication", target, series, number, count, now)
    return Publication(series=series, number=number, count=count, published_at=now)
