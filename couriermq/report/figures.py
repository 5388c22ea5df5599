"""What the report shows, reckoned from the lake's tables with pyarrow alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from couriermq.core.model import DAY, MINUTE
from couriermq.lake.tables import (
    DEAD_LETTERS,
    LISTENER_MINUTES,
    MESSAGES,
    QUEUE_ID,
    QUEUE_MINUTES,
    TENANT_USAGE,
    Freshness,
    Lake,
    Within,
    day_of,
    in_ms,
)
from couriermq.report.scales import step_for

if TYPE_CHECKING:
    import pyarrow as pa

COUNTED = ("sent", "received", "acked", "released", "expired", "dead_lettered")
QUANTILES = (0.5, 0.95, 0.99)
MOST_QUEUES, MOST_ROWS = 12, 8

Key = tuple[str, str]
"""A tenant, and the identity of one of its queues or the id of a listener."""


class Span(NamedTuple):
    """Instants from `start` up to `end`, cut into steps."""

    start: int
    end: int
    step: int

    @property
    def times(self) -> list[int]:
        return list(range(self.start - self.start % self.step, self.end, self.step))


class QueueRow(NamedTuple):
    """One queue over the whole span."""

    tenant: str
    queue: str
    counts: dict[str, int]
    backlog: int
    oldest_age_ms: int | None
    latency_p95_ms: float | None
    sent: list[float]
    """In each step."""


class ListenerRow(NamedTuple):
    tenant: str
    listener: str
    attempts: int
    failed: int
    latency_p95_ms: float


class TenantRow(NamedTuple):
    tenant: str
    messages: int
    requests: int
    bytes: int
    units: int


class Figures(NamedTuple):
    """Everything on the page."""

    span: Span
    fresh: Freshness | None
    totals: dict[str, int]
    steps: dict[str, list[float]]
    """What happened in each step; the last one has only begun."""
    backlog: list[float]
    latency: list[tuple[float, ...] | None]
    """The quantiles of what was acked in each step."""
    overall: tuple[float, ...] | None
    queues: list[QueueRow]
    """The busiest."""
    queue_count: int
    oldest_age_ms: int | None
    """Of all queues."""
    reasons: list[tuple[str, int]]
    listeners: list[ListenerRow]
    tenants: list[TenantRow]


def read_figures(lake: Lake, *, start: int | None = None, end: int) -> Figures:
    """The figures from `start`, or from the beginning, up to `end`."""
    first = _edges(lake)[0] if start is None else start
    span = Span(first, end, step_for(first, end))
    minutes = _minutes(lake, span)
    steps = _steps(minutes, span)
    latency, by_queue, overall = _latencies(lake, span)
    queues = _queues(minutes, span, by_queue)
    return Figures(
        span=span,
        fresh=lake.freshness(),
        totals={name: round(sum(values)) for name, values in steps.items()},
        steps=steps,
        backlog=_backlog(lake, minutes, span),
        latency=latency,
        overall=overall,
        queues=queues[:MOST_QUEUES],
        queue_count=len(queues),
        oldest_age_ms=max((row.oldest_age_ms for row in queues if row.oldest_age_ms is not None), default=None),
        reasons=_reasons(lake, span),
        listeners=_listeners(lake, span),
        tenants=_tenants(lake, span),
    )


# -- time -----------------------------------------------------------------------------------------------------


def newest_minute(lake: Lake) -> int | None:
    """When the newest minute that the tables know of ends; None when they know of none."""
    if not lake.has(QUEUE_MINUTES):
        return None
    return _edges(lake)[1] + MINUTE


def _edges(lake: Lake) -> tuple[int, int]:
    import pyarrow.compute as pc  # noqa: PLC0415

    edges = pc.min_max(in_ms(lake.read(QUEUE_MINUTES, ["minute"]).column("minute")))
    return edges["min"].as_py(), edges["max"].as_py()


def _within(name: str, span: Span) -> Within:
    return Within(name, span.start, span.end)


def _stepped(rows: "pa.Table", instant: str, span: Span) -> "pa.Table":
    """The rows with `step`, the number of the step that each falls into."""
    import pyarrow.compute as pc  # noqa: PLC0415

    since = pc.subtract(in_ms(rows.column(instant)), span.times[0])
    return rows.append_column("step", pc.divide(since, span.step))


# -- queues ---------------------------------------------------------------------------------------------------


def _minutes(lake: Lake, span: Span) -> "pa.Table":
    columns = ["tenant", QUEUE_ID, "queue", "minute", *COUNTED, "bytes", "backlog", "oldest_age_ms"]
    rows = _identified(lake.read(QUEUE_MINUTES, columns, within=_within("minute", span)))
    return _stepped(rows.sort_by("minute"), "minute", span)


def _identified(rows: "pa.Table") -> "pa.Table":
    """The rows with `identity`: the queue's id, which a new name does not change, or its name in older rows."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    return rows.append_column("identity", pc.coalesce(rows[QUEUE_ID].cast(pa.string()), rows["queue"]))


def _steps(minutes: "pa.Table", span: Span) -> dict[str, list[float]]:
    """What happened in each step, in all queues together."""
    summed = minutes.group_by("step").aggregate([(name, "sum") for name in (*COUNTED, "bytes")])
    found = {name: [0.0] * len(span.times) for name in (*COUNTED, "bytes")}
    for row in summed.to_pylist():
        for name, values in found.items():
            values[row["step"]] = float(row[f"{name}_sum"] or 0)
    return found


def _last_by_step(minutes: "pa.Table") -> dict[Key, dict[int, int]]:
    lasts = minutes.group_by(["tenant", "identity", "step"], use_threads=False).aggregate([("backlog", "last")])
    found: dict[Key, dict[int, int]] = {}
    for row in lasts.to_pylist():
        found.setdefault((row["tenant"], row["identity"]), {})[row["step"]] = row["backlog_last"]
    return found


def _backlog(lake: Lake, minutes: "pa.Table", span: Span) -> list[float]:
    """Messages in all queues at the end of each step; a queue where nothing happens keeps what it had."""
    before_it = Within("minute", end=span.start)
    earlier = lake.read(QUEUE_MINUTES, ["tenant", QUEUE_ID, "queue", "minute", "backlog"], within=before_it)
    queues = _identified(earlier).sort_by("minute").group_by(["tenant", "identity"], use_threads=False)
    before = queues.aggregate([("backlog", "last")])
    level = {(row["tenant"], row["identity"]): row["backlog_last"] for row in before.to_pylist()}
    lasts = _last_by_step(minutes)
    backlog = []
    for step in range(len(span.times)):
        level |= {key: known[step] for key, known in lasts.items() if step in known}
        backlog.append(float(sum(level.values())))
    return backlog


def _queues(minutes: "pa.Table", span: Span, latencies: dict[Key, float]) -> list[QueueRow]:
    """Busiest first."""
    sums = [(name, "sum") for name in COUNTED]
    grouped = minutes.group_by(["tenant", "identity"], use_threads=False)
    rows = grouped.aggregate([*sums, ("queue", "last"), ("backlog", "last"), ("oldest_age_ms", "last")]).to_pylist()
    sent = _sent_by_step(minutes, span)
    found = [
        QueueRow(
            row["tenant"],
            row["queue_last"],
            {name: row[f"{name}_sum"] or 0 for name in COUNTED},
            row["backlog_last"] or 0,
            row["oldest_age_ms_last"] if row["backlog_last"] else None,
            latencies.get((row["tenant"], row["identity"])),
            sent[row["tenant"], row["identity"]],
        )
        for row in rows
    ]
    return sorted(found, key=lambda row: (-row.counts["sent"] - row.counts["received"], row.tenant, row.queue))


def _sent_by_step(minutes: "pa.Table", span: Span) -> dict[Key, list[float]]:
    found: dict[Key, list[float]] = {}
    for row in minutes.group_by(["tenant", "identity", "step"]).aggregate([("sent", "sum")]).to_pylist():
        steps = found.setdefault((row["tenant"], row["identity"]), [0.0] * len(span.times))
        steps[row["step"]] = float(row["sent_sum"] or 0)
    return found


def _latencies(
    lake: Lake, span: Span
) -> tuple[list[tuple[float, ...] | None], dict[Key, float], tuple[float, ...] | None]:
    """From sent to acked: the quantiles of each step and of all, and the second of them of each queue."""
    import pyarrow.compute as pc  # noqa: PLC0415

    columns = ["tenant", QUEUE_ID, "queue", "settled_at", "time_to_ack_ms"]
    acked = pc.field("outcome") == "acked"
    rows = lake.read(MESSAGES, columns, where=acked, within=_within("settled_at", span))
    if not rows.num_rows:
        return [None] * len(span.times), {}, None
    rows = _stepped(_identified(rows), "settled_at", span)
    digest = ("time_to_ack_ms", "tdigest", pc.TDigestOptions(list(QUANTILES)))
    by_step: list[tuple[float, ...] | None] = [None] * len(span.times)
    for row in rows.group_by("step").aggregate([digest]).to_pylist():
        by_step[row["step"]] = tuple(row["time_to_ack_ms_tdigest"])
    by_queue = {
        (row["tenant"], row["identity"]): row["time_to_ack_ms_tdigest"][1]
        for row in rows.group_by(["tenant", "identity"]).aggregate([digest]).to_pylist()
    }
    overall = tuple(pc.tdigest(rows.column("time_to_ack_ms"), list(QUANTILES)).to_pylist())
    return by_step, by_queue, overall


# -- the rest -------------------------------------------------------------------------------------------------


def _reasons(lake: Lake, span: Span) -> list[tuple[str, int]]:
    """Why messages died, most often first."""
    if not lake.has(DEAD_LETTERS):
        return []
    rows = lake.read(DEAD_LETTERS, ["reason"], within=_within("died_at", span))
    counted = rows.group_by("reason").aggregate([([], "count_all")]).to_pylist()
    return _most([(row["reason"] or "unknown", row["count_all"]) for row in counted])


def _most(counted: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    ordered = sorted(counted, key=lambda pair: (-pair[1], pair[0]))
    rest = sum(count for _, count in ordered[MOST_ROWS:])
    return [*ordered[:MOST_ROWS], *([("all others", rest)] if rest else [])]


def _listeners(lake: Lake, span: Span) -> list[ListenerRow]:
    """Slowest first, by the worst minute's 95th percentile weighed by its attempts."""
    if not lake.has(LISTENER_MINUTES):
        return []
    columns = ["tenant", "listener", "attempts", "failed", "latency_p95_ms", "minute"]
    rows = lake.read(LISTENER_MINUTES, columns, within=_within("minute", span)).to_pylist()
    found: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["tenant"], row["listener"]), []).append(row)
    listeners = [_listener(key, minutes) for key, minutes in found.items()]
    return sorted(listeners, key=lambda row: -row.latency_p95_ms)[:MOST_ROWS]


def _listener(key: Key, minutes: list[dict[str, Any]]) -> ListenerRow:
    timed = [row for row in minutes if row["latency_p95_ms"] is not None]
    weight = sum(row["attempts"] for row in timed) or 1
    slow = sum(row["latency_p95_ms"] * row["attempts"] for row in timed) / weight
    return ListenerRow(*key, sum(row["attempts"] for row in minutes), sum(row["failed"] for row in minutes), slow)


def _tenants(lake: Lake, span: Span) -> list[TenantRow]:
    """Busiest first; whole days, for that is what the table has."""
    if not lake.has(TENANT_USAGE):
        return []
    rows = lake.read(TENANT_USAGE, ["tenant", "day", "messages", "requests", "bytes", "billable_units"])
    days = {day_of(at) for at in range(span.start - span.start % DAY, span.end, DAY)}
    found: dict[str, list[int]] = {}
    for row in rows.to_pylist():
        if str(row["day"])[:10] in days:
            sums = found.setdefault(row["tenant"], [0, 0, 0, 0])
            for index, name in enumerate(("messages", "requests", "bytes", "billable_units")):
                sums[index] += row[name] or 0
    return sorted((TenantRow(tenant, *sums) for tenant, sums in found.items()), key=lambda row: -row.messages)[
        :MOST_ROWS
    ]
