"""Stages become visible all at once, and a series never publishes a number twice."""

from collections.abc import Sequence

from couriermq.core.errors import StageNotFound
from couriermq.core.lifecycle.needs import Deciding, PublicationOf, StageOf
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Publication


def publish(
    unit: Unit, target: str, *, series: str, number: int, stages: Sequence[str], now: int, principal: str
) -> Deciding[tuple[Publication, set[int]]]:
    """The publication, and the keys of the queues that its messages are on their way to."""
    known: Publication | None = yield PublicationOf(target, series)
    if known is not None and known.number >= number:
        for stage in stages:
            unit.order("drop_stage", target, stage)
        return known, set()
    count, keys = 0, set()
    for stage in dict.fromkeys(stages):
        found: tuple[int, set[int]] | None = yield StageOf(target, stage)
        if found is None:
            raise StageNotFound(stage)
        held, of = found
        unit.order("add_landing", target, stage, now, principal, sorted(of))
        count += held
        keys |= of
    unit.order("put_publication", target, series, number, count, now)
    return Publication(series=series, number=number, count=count, published_at=now), keys
