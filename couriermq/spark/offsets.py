"""Offsets as Spark keeps them: a JSON object with one offset for each lane, by name, in the order of the lanes.

Spark compares offsets as texts, so that the order of the keys counts. A lane that is missing stands at its beginning:
it was added later. Checkpoints from before there were lanes have the same keys, see `core.lanes`.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from couriermq.core import jumps as across
from couriermq.core.jumps import Jump
from couriermq.core.lanes import first_of_lane, lane_name, lane_named, lane_of
from couriermq.spark.journal import Journal, JournalError, Span

T = TypeVar("T")
Offsets = dict[str, int]

POSITION = re.compile(r"[A-Za-z0-9_-]{60}", re.ASCII)
"""A position of a tenant's."""
EARLIEST, LATEST = "earliest", "latest"
NOTHING = {"null", "None"}
"""How Spark writes that it has no offsets."""


def by_name(by_lane: Mapping[int, T]) -> dict[str, T]:
    """What there is for each lane, as Spark keeps it."""
    return {lane_name(lane): by_lane[lane] for lane in sorted(by_lane)}


def by_lane(by_name: Mapping[str, T]) -> dict[int, T]:
    return {lane_named(name): one for name, one in by_name.items()}


def read_offsets(text: str | None) -> Offsets:
    """The offsets in a query's progress; none where Spark has nothing to say."""
    if not text or text in NOTHING:
        return {}
    kept = {name: at for name, at in json.loads(text).items() if name != "store"}
    return by_name({lane: int(at) for lane, at in by_lane(kept).items()})


def read_source(text: str | None) -> dict[str, Any]:
    """What a query's progress says of a source; empty where it says nothing, or not in the way of Courier's sources."""
    try:
        told = json.loads(text or "{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def at_of(offsets: Mapping[str, int], name: str) -> int:
    """Where a lane stands."""
    return offsets.get(name, first_of_lane(lane_named(name)))


def stretches(start: Mapping[str, int], end: Mapping[str, int], jumps: Sequence[Jump] = ()) -> list[tuple[int, int]]:
    """What lies between, as ranges of each lane that has any: one, or one more for each jump."""
    both = [(at_of(start, name), stop) for name, stop in end.items()]
    return [piece for begin, stop in both for piece in across.stretches(jumps, begin, stop)]


def backlog(end: Mapping[str, int], newest: Mapping[str, int], jumps: Sequence[Jump] = ()) -> int:
    """How many offsets there are behind `end`."""
    return sum(stop - begin for begin, stop in stretches(end, newest, jumps))


def newest_of(spans: Mapping[int, Span]) -> Offsets:
    return by_name({lane: span.next for lane, span in spans.items()})


def oldest_of(spans: Mapping[int, Span]) -> Offsets:
    return by_name({lane: span.oldest for lane, span in spans.items()})


def advance(
    start: Mapping[str, int], newest: Mapping[str, int], most: int | None, jumps: Sequence[Jump] = ()
) -> Offsets:
    """As far as `newest`, but at most so many offsets in all; what one lane does not use others may."""
    left = {name: across.count(jumps, at_of(start, name), stop) for name, stop in newest.items()}
    taken: Offsets = {}
    for index, name in enumerate(sorted(left, key=lambda name: left[name])):
        fair = left[name] if most is None else -(-(most - sum(taken.values())) // (len(left) - index))
        taken[name] = min(left[name], fair)
    reached = {name: across.forward(jumps, at_of(start, name), count) for name, count in taken.items()}
    return by_name(by_lane({**start, **reached}))


# -- positions ------------------------------------------------------------------------------------------------


def locate(journal: Journal, position: str, *, others: Callable[[Span], int]) -> Offsets:
    """What a position means now: `earliest`, `latest`, a time, an offset, or a JSON object of offsets by lane.

    Lanes that an offset does not speak of stand where `others` says.
    """
    spans = journal.spans()
    if texts(position) is not None:
        raise JournalError("a position is for the tenant that got it; root gives an offset")
    if position == EARLIEST:
        return oldest_of(spans)
    if position == LATEST:
        return newest_of(spans)
    if (given := numbers(position)) is not None:
        return by_name({lane: given.get(lane, others(span)) for lane, span in spans.items()})
    return by_name(journal.offsets_at(instant(position)))


def numbers(position: str) -> dict[int, int] | None:
    """The offsets that a position names, by lane; none when it is not one of numbers. Raises ValueError."""
    if position.isdecimal():
        return {lane_of(int(position)): int(position)}
    if not position.startswith("{"):
        return None
    return {lane: int(offset) for lane, offset in by_lane(json.loads(position)).items()}


def texts(position: str) -> dict[int, str] | None:
    """The positions of a tenant that a text names, by lane; none when it is not of that kind. Raises ValueError."""
    if POSITION.fullmatch(position):
        return {0: position}
    if not position.startswith("{"):
        return None
    given: dict[int, str] = by_lane(json.loads(position))
    if not given or not all(isinstance(text, str) and POSITION.fullmatch(text) for text in given.values()):
        return None
    return given


def check_position(position: str) -> None:
    """Raises ValueError when it means nothing."""
    if position not in {EARLIEST, LATEST} and texts(position) is None and numbers(position) is None:
        instant(position)


def instant(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 time; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
