"""What `queue_minutes` says of one queue."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.model import MINUTE, Queue
from couriermq.lake.tables import MESSAGES, QUEUE_ID, QUEUE_MINUTES, Lake, Within, day_of, in_ms

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

ENTERED = ("sent", "arrived")
LEFT = ("acked", "dead_lettered", "discarded", "removed", "moved_out")
COUNTED = ("sent", "received", "acked", "released", "expired", "dead_lettered", "discarded", "removed", "bytes")
QUANTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}
COLUMNS = ("minute", *COUNTED, "moved_out", "arrived", "backlog", "oldest_age_ms", *QUANTILES)


class Minute(msgspec.Struct, frozen=True, gc=False):
    """A minute in which something happened in a queue; `at` is its start."""

    at: int
    counts: dict[str, int]
    backlog: int
    oldest_age_ms: int | None
    quantiles: tuple[float | None, ...]

    @property
    def change(self) -> int:
        """By how many messages the queue grew."""
        return sum(self.counts[name] for name in ENTERED) - sum(self.counts[name] for name in LEFT)


def queue_minutes(lake: Lake, queue: Queue, *, start: int, end: int) -> list[Minute]:
    """The minutes of a queue from `start` up to `end`, in order."""
    within = Within("minute", start, end)
    rows = lake.read(QUEUE_MINUTES, COLUMNS, where=_of(queue), within=within, since_day=day_of(start))
    return sorted(_minutes(rows), key=lambda minute: minute.at)


def _of(queue: Queue) -> "pc.Expression":
    """Rows of the queue, whatever its name was; those that an earlier version wrote have no id."""
    import pyarrow.compute as pc  # noqa: PLC0415

    is_named = pc.field(QUEUE_ID).is_null() & (pc.field("queue") == queue.name)
    return (pc.field("tenant") == queue.tenant) & ((pc.field(QUEUE_ID) == queue.id) | is_named)


def _minutes(rows: "pa.Table") -> list[Minute]:
    instants = in_ms(rows.column("minute")).to_pylist()
    return [_minute(at, row) for at, row in zip(instants, rows.drop(["minute"]).to_pylist(), strict=True)]


def _minute(at: int, row: dict[str, Any]) -> Minute:
    counts = {name: row[name] or 0 for name in (*COUNTED, "moved_out", "arrived")}
    quantiles = tuple(row[name] for name in QUANTILES)
    return Minute(at, counts, row["backlog"] or 0, row["oldest_age_ms"], quantiles)


def last_minute(lake: Lake, queue: Queue, *, before: int) -> Minute | None:
    """The minute that was a queue's last before an instant: it still holds there."""
    rows = lake.read(QUEUE_MINUTES, COLUMNS, where=_of(queue), within=Within("minute", end=before))
    newest = _minutes(rows.sort_by([("minute", "descending")]).slice(0, 1))
    return newest[0] if newest else None


def totals(lake: Lake, tenant: str, queues: Sequence[Queue], *, start: int, end: int) -> dict[str, dict[str, int]]:
    """What happened in each of a tenant's queues from `start` up to `end`, by the queue's present name."""
    import pyarrow.compute as pc  # noqa: PLC0415

    summed = (*COUNTED, "moved_out", "arrived")
    here = pc.field("tenant") == tenant
    within = Within("minute", start, end)
    columns = [QUEUE_ID, "queue", *summed]
    rows = lake.read(QUEUE_MINUTES, columns, where=here, within=within, since_day=day_of(start))
    grouped = rows.group_by([QUEUE_ID, "queue"]).aggregate([(name, "sum") for name in summed]).to_pylist()
    names = {queue.id: queue.name for queue in queues}
    found: dict[str, dict[str, int]] = {}
    for row in grouped:
        counts = found.setdefault(names.get(row[QUEUE_ID], row["queue"]), dict.fromkeys(summed, 0))
        for name in summed:
            counts[name] += row[f"{name}_sum"] or 0
    return found


def latencies(lake: Lake, queue: Queue, *, start: int, end: int, step: int) -> dict[int, tuple[float, ...]]:
    """From sent to acked, by the start of the step in which it was acked; for steps that are longer than a minute."""
    import pyarrow.compute as pc  # noqa: PLC0415

    here = _of(queue) & (pc.field("outcome") == "acked")
    rows = lake.read(MESSAGES, ["settled_at", "time_to_ack_ms"], where=here, within=Within("settled_at", start, end))
    if not rows.num_rows:
        return {}
    at = in_ms(rows.column("settled_at"))
    rows = rows.append_column("step", pc.multiply(pc.divide(at, step), step))
    digest = ("time_to_ack_ms", "tdigest", pc.TDigestOptions(list(QUANTILES.values())))
    return {
        row["step"]: tuple(row["time_to_ack_ms_tdigest"])
        for row in rows.group_by("step").aggregate([digest]).to_pylist()
    }


def step_of(at: int, step: int = MINUTE) -> int:
    return at - at % step
