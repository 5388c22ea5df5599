"""What a dataset is made of: rows with dimensions and measures, which a query filters, groups, orders and cuts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import DAY, HOUR, MINUTE

Value = str | int
"""Of a dimension: instants are epoch milliseconds."""

INSTANTS = {
    "date": DAY,
    "datetime": MINUTE,
    "datetimeMinute": MINUTE,
    "datetimeFiveMinutes": 5 * MINUTE,
    "datetimeFifteenMinutes": 15 * MINUTE,
    "datetimeHour": HOUR,
}
"""Every dimension of time, and to how many milliseconds it is truncated: no row is shorter than a minute."""

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "": lambda value, wanted: value == wanted,
    "neq": lambda value, wanted: value != wanted,
    "gt": lambda value, wanted: value > wanted,
    "geq": lambda value, wanted: value >= wanted,
    "lt": lambda value, wanted: value < wanted,
    "leq": lambda value, wanted: value <= wanted,
    "in": lambda value, wanted: value in wanted,
    "notin": lambda value, wanted: value not in wanted,
}


class Row(msgspec.Struct, gc=False):
    """One thing that was measured. `weight` is what averages weigh it with; a maximum or average may be unknown."""

    at: int
    words: dict[str, str]
    count: int
    avg: dict[str, float | None] = {}
    sum: dict[str, int] = {}
    max: dict[str, int | None] = {}
    weight: int = 1

    def dimension(self, name: str) -> Value:
        truncated = INSTANTS.get(name)
        return self.words[name] if truncated is None else self.at - self.at % truncated


class Group(msgspec.Struct):
    """Rows that agree in the dimensions of the query."""

    dimensions: dict[str, Value]
    count: int
    avg: dict[str, float | None]
    sum: dict[str, int]
    max: dict[str, int | None]


def read_instant(text: object) -> int:
    """A date or a date and time in RFC 3339, as epoch milliseconds."""
    try:
        at = datetime.fromisoformat(str(text)[:40])
    except ValueError:
        raise Invalid(f"{str(text)[:40]!r} is neither a date nor a time in RFC 3339") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000)


def write_instant(name: str, at: int) -> str:
    moment = datetime.fromtimestamp(at / 1_000, UTC)
    return moment.strftime("%Y-%m-%d" if name == "date" else "%Y-%m-%dT%H:%M:%SZ")


def matches(row: Row, filter_: Mapping[str, Any]) -> bool:
    """Whether a row fits every condition; `AND` and `OR` hold lists of filters."""
    for key, wanted in filter_.items():
        if key == "AND":
            fits = all(matches(row, part) for part in wanted)
        elif key == "OR":
            fits = any(matches(row, part) for part in wanted)
        else:
            name, _, operator = key.partition("_")
            fits = OPERATORS[operator](row.dimension(name), wanted)
        if not fits:
            return False
    return True


def window(filter_: Mapping[str, Any], *, now: int, default_ms: int) -> tuple[int, int]:
    """From when until when rows can match: what all conditions on time allow, or the last `default_ms`."""
    low, high = 0, now + 1
    for key, wanted in filter_.items():
        if key == "AND":
            for part in wanted:
                start, end = window(part, now=now, default_ms=0)
                low, high = max(low, start), min(high, end)
            continue
        name, _, operator = key.partition("_")
        if name not in INSTANTS:
            continue
        if operator in {"", "geq", "gt"}:
            low = max(low, wanted)
        if operator in {"", "leq", "lt"}:
            high = min(high, wanted + INSTANTS[name])
    if not low and default_ms:
        low = max(0, high - default_ms)
    return low, high


def grouped(rows: Iterable[Row], dimensions: Sequence[str]) -> list[Group]:
    found: dict[tuple[Value, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.dimension(name) for name in dimensions), []).append(row)
    return [_group(dict(zip(dimensions, key, strict=True)), members) for key, members in found.items()]


def _group(dimensions: dict[str, Value], rows: Sequence[Row]) -> Group:
    first = rows[0]
    return Group(
        dimensions,
        sum(row.count for row in rows),
        {name: _average(rows, name) for name in first.avg},
        {name: sum(row.sum[name] for row in rows) for name in first.sum},
        {name: max((row.max[name] or 0 for row in rows), default=0) or None for name in first.max},
    )


def _average(rows: Sequence[Row], name: str) -> float | None:
    known = [(row.avg[name], row.weight) for row in rows if row.avg[name] is not None and row.weight]
    weight = sum(share for _, share in known)
    return sum(value * share for value, share in known if value is not None) / weight if weight else None


def ordered(groups: list[Group], orders: Sequence[str]) -> list[Group]:
    """By the first order, then the second…; each is a dimension, `count` or a measure, and `_ASC` or `_DESC`."""
    for order in reversed(orders):
        name, _, direction = order.rpartition("_")
        groups.sort(key=_key(name), reverse=direction == "DESC")
    return groups


def _key(name: str) -> Callable[[Group], Any]:
    kind, _, measure = name.partition("_")
    if measure:
        return lambda group: getattr(group, kind)[measure] or 0
    return (lambda group: group.count) if name == "count" else lambda group: group.dimensions[name]
