"""Offsets as Spark keeps them: a JSON object with one offset for each shard, its keys in the order of the shards.

Spark compares offsets as texts, so that the order of the keys counts. A shard that is missing stands at its beginning.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from couriermq.core.shards import first_of, shard_of
from couriermq.spark.journal import Journal, JournalError, Span

Offsets = dict[str, int]

POSITION = re.compile(r"[A-Za-z0-9_-]{60}", re.ASCII)
"""A position of a tenant's."""
EARLIEST, LATEST = "earliest", "latest"
NOTHING = {"null", "None"}
"""How Spark writes that it has no offsets."""


def offsets_of(by_shard: Mapping[int, int]) -> Offsets:
    return {str(shard): by_shard[shard] for shard in sorted(by_shard)}


def read_offsets(text: str | None) -> Offsets:
    """The offsets in a query's progress; none where Spark has nothing to say."""
    if not text or text in NOTHING:
        return {}
    return offsets_of({int(key): int(at) for key, at in json.loads(text).items()})


def at_of(offsets: Mapping[str, int], shard: int) -> int:
    return offsets.get(str(shard), first_of(shard))


def stretches(start: Mapping[str, int], end: Mapping[str, int]) -> list[tuple[int, int]]:
    """What lies between, as one range of each shard that has any."""
    both = [(at_of(start, int(shard)), stop) for shard, stop in end.items()]
    return [(begin, stop) for begin, stop in both if begin < stop]


def backlog(end: Mapping[str, int], newest: Mapping[str, int]) -> int:
    """How many offsets there are behind `end`."""
    return sum(stop - begin for begin, stop in stretches(end, newest))


def newest_of(spans: Mapping[int, Span]) -> Offsets:
    return offsets_of({shard: span.next for shard, span in spans.items()})


def oldest_of(spans: Mapping[int, Span]) -> Offsets:
    return offsets_of({shard: span.oldest for shard, span in spans.items()})


def advance(start: Mapping[str, int], newest: Mapping[str, int], most: int | None) -> Offsets:
    """As far as `newest`, but at most so many offsets in all; what one shard does not use others may."""
    left = {int(shard): max(0, stop - at_of(start, int(shard))) for shard, stop in newest.items()}
    taken: dict[int, int] = {}
    for index, shard in enumerate(sorted(left, key=lambda shard: left[shard])):
        fair = left[shard] if most is None else -(-(most - sum(taken.values())) // (len(left) - index))
        taken[shard] = min(left[shard], fair)
    known = {int(shard): at for shard, at in start.items()}
    return offsets_of(known | {shard: at_of(start, shard) + count for shard, count in taken.items()})


# -- positions ------------------------------------------------------------------------------------------------


def locate(journal: Journal, position: str, *, others: Callable[[Span], int]) -> Offsets:
    """What a position means now: `earliest`, `latest`, a time, an offset, or a JSON object of offsets by shard.

    Shards that an offset does not speak of stand where `others` says.
    """
    spans = journal.spans()
    if texts(position) is not None:
        raise JournalError("a position is for the tenant that got it; root gives an offset")
    if position == EARLIEST:
        return oldest_of(spans)
    if position == LATEST:
        return newest_of(spans)
    if (given := numbers(position)) is not None:
        return offsets_of({shard: given.get(shard, others(span)) for shard, span in spans.items()})
    return offsets_of(journal.offsets_at(instant(position)))


def numbers(position: str) -> dict[int, int] | None:
    """The offsets that a position names, by shard; none when it is not one of numbers. Raises ValueError."""
    if position.isdecimal():
        return {shard_of(int(position)): int(position)}
    if not position.startswith("{"):
        return None
    return {int(shard): int(offset) for shard, offset in json.loads(position).items()}


def texts(position: str) -> dict[int, str] | None:
    """The positions of a tenant that a text names, by shard; none when it is not of that kind. Raises ValueError."""
    if POSITION.fullmatch(position):
        return {0: position}
    if not position.startswith("{"):
        return None
    given = {int(shard): text for shard, text in json.loads(position).items()}
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
