"""`queue_minutes`: what each queue did in each minute in which anything happened to it."""

from collections.abc import Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from couriermq.spark.tables import latency
from couriermq.spark.tables.columns import (
    HOURLY,
    INSTANT,
    MINUTE_MS,
    MS_US,
    NEVER,
    NUMBER,
    TEXT,
    as_rows,
    columns_of,
    group,
    instants,
    kind_in,
    minutes_of,
    struct,
    sum_of,
)
from couriermq.spark.tables.events import is_hidden
from couriermq.spark.tables.latency import SKETCH

COUNTS = {
    "sent": ("sent",),
    "received": ("received",),
    "acked": ("acked",),
    "released": ("released",),
    "expired": ("lease_expired",),
    "dead_lettered": ("dead_lettered",),
    "discarded": ("discarded",),
    "removed": ("purged", "cancelled"),
    "moved_out": ("moved", "redriven"),
}
"""Each column and the kinds of events that it counts."""
ARRIVED = "arrived"
ADDED = (*COUNTS, ARRIVED, "bytes")
"""What is added up from batch to batch; `arrived` are dead letters and moved messages that came into the queue."""
ENTERED = ("sent", ARRIVED)
LEFT = ("acked", "dead_lettered", "discarded", "removed", "moved_out")
LEFT_SINCE = "left_oldest_at"
"""When the one of the messages that left in the minute had come that was there for longest."""

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    minute=INSTANT,
    **dict.fromkeys(ADDED, NUMBER),
    backlog=NUMBER,
    oldest_age_ms=NUMBER,
    **latency.COLUMNS,
    left_oldest_at=INSTANT,
    batch=NUMBER,
    queue_id=TEXT,
    day=TEXT,
    hour=TEXT,
)
KEY = ("tenant", "queue_id", "queue", "minute")
NAMED_AT = "last_at"
"""When something last happened under the name of a row: of several names in a minute the last one is shown."""


def count(tally: pa.Table) -> pa.Table:
    """What happened in each queue and minute; a message that passes on counts in both queues."""
    seen = tally.filter(pc.and_not(pc.is_valid(tally["bucket"]), is_hidden(tally)))
    counted = {name: sum_of(seen["count"], kind_in(seen, *kinds)) for name, kinds in COUNTS.items()}
    here = {**{name: seen[name] for name in (*KEY, NAMED_AT)}, **counted}
    here["bytes"] = sum_of(seen["bytes"], kind_in(seen, "sent"))
    passed = seen.filter(pc.is_valid(seen["target"]))
    there = {
        "tenant": passed["tenant"],
        "queue_id": passed["target_id"],
        "queue": passed["target"],
        "minute": passed["minute"],
        NAMED_AT: passed[NAMED_AT],
        ARRIVED: passed["count"],
    }
    return pa.concat_tables([pa.table(here), pa.table(there)], promote_options="default")


def leave(stays: pa.Table) -> pa.Table:
    """Of the messages that left in each minute, the oldest, and how long those that were acked had taken."""
    named = stays.set_column(stays.column_names.index("left_at"), "minute", minutes_of(stays["left_at"]))
    grouped = group(named, KEY, {"entered_at": "min", "taken_ms": "list"})
    sketches = latency.sketched(grouped["taken_ms"].combine_chunks())
    return pa.table({**{name: grouped[name] for name in KEY}, LEFT_SINCE: grouped["entered_at"], SKETCH: sketches})


def add(known: pa.Table, counted: pa.Table, left: pa.Table) -> pa.Table:
    """All that is known of each minute, with what is new added to it."""
    older = known.select([*KEY, *ADDED, LEFT_SINCE, SKETCH])
    parts = pa.concat_tables([older, left, counted.sort_by(NAMED_AT)], promote_options="default")
    parts = parts.append_column("identity", identities(parts, ids_of(parts)))
    names = {"queue_id": "last", "queue": "last"}
    how = {**names, **dict.fromkeys(ADDED, "sum"), LEFT_SINCE: "min", SKETCH: "list"}
    rows = group(parts, ("tenant", "identity", "minute"), how)
    sums = {name: pc.fill_null(rows[name], 0) for name in ADDED}
    merged = latency.merged(rows[SKETCH].combine_chunks())
    return pa.table({**{name: rows[name] for name in (*KEY, LEFT_SINCE)}, **sums, SKETCH: merged})


Ids = dict[tuple[str, str], str]


def ids_of(*tables: pa.Table) -> Ids:
    """The id that goes with a tenant's queue name, as far as rows tell it."""
    found: Ids = {}
    for rows in tables:
        told = rows.filter(pc.is_valid(rows["queue_id"])).group_by(["tenant", "queue", "queue_id"]).aggregate([])
        found |= {(one["tenant"], one["queue"]): one["queue_id"] for one in told.to_pylist()}
    return found


def identities(rows: pa.Table, ids: Ids) -> pa.ChunkedArray:
    """Which queue each row is about: by its id, or by its name in rows that an earlier version wrote."""
    if not rows["queue_id"].null_count:
        return rows["queue_id"]
    names = zip(rows["tenant"].to_pylist(), rows["queue"].to_pylist(), strict=True)
    return pc.coalesce(rows["queue_id"], pa.array((ids.get(name, name[1]) for name in names), pa.string()))


def complete(minutes: pa.Table, waiting: pa.Table, *, batch: int) -> pa.Table:
    """Rows of the table. `minutes` must go up to the newest, for levels are reckoned back from what waits now:
    at a minute's end there was what is there now, less what came later, and more by what has left since.

    In the same way the oldest message at a minute's end is the one that came first of those that are there now and
    those that left later, if it had come by then.
    """
    ids = ids_of(minutes, waiting)
    minutes = minutes.append_column("identity", identities(minutes, ids))
    waiting = waiting.append_column("identity", identities(waiting, ids))
    newest_first = [("tenant", "ascending"), ("identity", "ascending"), ("minute", "descending")]
    rows = minutes.sort_by(newest_first).combine_chunks()
    change = sum(rows[name].to_numpy() for name in ENTERED) - sum(rows[name].to_numpy() for name in LEFT)
    left_since = instants(rows[LEFT_SINCE])
    backlog, since = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for start, stop, count, oldest in _queues(rows, waiting):
        backlog[start:stop] = count - np.concatenate([[0], np.cumsum(change[start : stop - 1])])
        since[start:stop] = np.minimum.accumulate(np.concatenate([[oldest], left_since[start : stop - 1]]))
    end = instants(rows["minute"]) + MINUTE_MS * MS_US
    age = pa.array((end - since) // MS_US, mask=since >= end)
    fresh = {"backlog": pa.array(backlog), "oldest_age_ms": age, **latency.quantiles(rows[SKETCH].combine_chunks())}
    return as_rows({**columns_of(rows), **fresh, "batch": batch}, SCHEMA, without=HOURLY)


def _queues(rows: pa.Table, waiting: pa.Table) -> Iterator[tuple[int, int, int, int]]:
    """Where each queue's rows are, how many messages wait in it, and since when the first of them."""
    now: dict[tuple[str, str], int] = {}
    oldest: dict[tuple[str, str], int] = {}
    for one, since in zip(waiting.to_pylist(), instants(waiting["waiting_since"]), strict=True):
        name = one["tenant"], one["identity"]
        now[name] = now.get(name, 0) + one["waiting"]
        oldest[name] = min(oldest.get(name, NEVER), int(since))
    names = list(zip(rows["tenant"].to_pylist(), rows["identity"].to_pylist(), strict=True))
    start = 0
    for name, mine in groupby(names):
        stop = start + sum(1 for _ in mine)
        yield start, stop, now.get(name, 0), oldest.get(name, NEVER)
        start = stop
