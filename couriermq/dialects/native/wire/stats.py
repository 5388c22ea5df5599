"""A queue's past on the wire."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core.model import HOUR, MINUTE
from couriermq.core.numbers import Numbers
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.reading import Order
from couriermq.lake.border import Border
from couriermq.lake.stats import Course, Step

Instant = Annotated[int, Meta(ge=0, le=limits.NUMBER)]


class StatsQuery(Order, rename={"start": "from", "end": "to"}):
    """From when, until when (default: the last hour), both epoch milliseconds, in steps of so many milliseconds."""

    start: Instant | UnsetType = UNSET
    end: Instant | UnsetType = UNSET
    step: Annotated[int, Meta(ge=MINUTE, le=366 * 24 * HOUR, multiple_of=MINUTE)] = MINUTE


class Fresh(msgspec.Struct):
    """Before `tables_until` the figures are from the lake's tables (null: there are none), later ones from the journal.

    `tables_offset` is the journal's offset up to which the tables go; only root sees it.
    """

    until: int
    tables_until: int | None
    tables_offset: int | None


class StatsPoint(msgspec.Struct, gc=False):
    """What happened from `at` on until the next point, and how the queue was at the end of it.

    Ages and latencies are known as far as the tables go.
    """

    at: int
    sent: int
    received: int
    acked: int
    released: int
    expired: int
    dead_lettered: int
    discarded: int
    removed: int
    moved_out: int
    arrived: int
    bytes: int
    backlog: int
    oldest_age_ms: int | None
    latency_p50_ms: float | None
    latency_p95_ms: float | None
    latency_p99_ms: float | None


class QueueStats(msgspec.Struct):
    queue: str
    step_ms: int
    fresh: Fresh
    points: list[StatsPoint]


class QueueTotals(msgspec.Struct):
    """What happened in a queue in the whole time."""

    sent: int
    received: int
    acked: int
    released: int
    expired: int
    dead_lettered: int
    discarded: int
    removed: int
    moved_out: int
    arrived: int
    bytes: int


class TenantStatsQuery(Order, rename={"start": "from", "end": "to"}):
    """From when until when (default: the last hour), both epoch milliseconds, to the minute."""

    start: Instant | UnsetType = UNSET
    end: Instant | UnsetType = UNSET


class TenantStats(msgspec.Struct):
    """The totals of every queue that the caller may see the stats of, by name."""

    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    fresh: Fresh
    queues: dict[str, QueueTotals]


class UsageQuery(Order, rename={"start": "from", "end": "to"}):
    """From when until when (default: the last 31 days), both epoch milliseconds, to the day in UTC."""

    start: Instant | UnsetType = UNSET
    end: Instant | UnsetType = UNSET


class UsageDay(msgspec.Struct, kw_only=True):
    """What was used on a day, in UTC; a batch of ten is ten requests, an empty poll none."""

    day: str
    requests: int
    sent: int
    received: int
    traffic_bytes: int
    billable_units: int


class TenantUsage(msgspec.Struct):
    """The days on which something was used, as far as the lake's tables go."""

    start: int = msgspec.field(name="from")
    end: int = msgspec.field(name="to")
    tables_until: int | None
    days: list[UsageDay]


def write_fresh(border: Border | None, now: int, numbers: Numbers) -> Fresh:
    if border is None:
        return Fresh(now, None, None)
    return Fresh(now, border.at, max(border.fresh.offsets.values()) if numbers.is_plain else None)


def write_stats(queue: str, step_ms: int, fresh: Fresh, course: Course) -> QueueStats:
    return QueueStats(queue, step_ms, fresh, [_point(step) for step in course.steps])


def _point(step: Step) -> StatsPoint:
    p50, p95, p99 = step.quantiles
    return StatsPoint(
        at=step.at,
        backlog=step.backlog,
        oldest_age_ms=step.oldest_age_ms,
        latency_p50_ms=p50,
        latency_p95_ms=p95,
        latency_p99_ms=p99,
        **step.counts,
    )
