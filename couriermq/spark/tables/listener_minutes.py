"""`listener_minutes`: how deliveries to each listener went in each minute in which one ended."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from couriermq.spark.tables import latency
from couriermq.spark.tables.columns import HOURLY, INSTANT, NUMBER, TEXT, as_rows, columns_of, group, struct, sum_of
from couriermq.spark.tables.events import is_hidden
from couriermq.spark.tables.latency import SKETCH

VERDICTS = ("delivered", "retry", "dead", "gone", "unknown")
ADDED = ("attempts", *VERDICTS, "failed")
ENDS = ("acked", "released", "lease_expired")

SCHEMA = struct(
    tenant=TEXT,
    listener=TEXT,
    minute=INSTANT,
    **dict.fromkeys(ADDED, NUMBER),
    **latency.COLUMNS,
    batch=NUMBER,
    day=TEXT,
    hour=TEXT,
)
KEY = ("tenant", "listener", "minute")


def count(tally: pa.Table) -> pa.Table:
    """Attempts that ended; the queue of a listener is named for it, and an ended lease for an unknown outcome."""
    ended = tally.filter(is_hidden(tally))
    times, verdict = ended["count"], ended["verdict"]
    counted = {name: sum_of(times, pc.equal(verdict, name)) for name in VERDICTS}
    failed = sum_of(times, pc.not_equal(verdict, "delivered"))
    listener = pc.replace_substring_regex(ended["queue"], "^~([^/]*).*$", r"\1")
    keys = {"tenant": ended["tenant"], "listener": listener, "minute": ended["minute"]}
    sketches = latency.sketched(_repeated(ended["latency_ms"], times))
    return pa.table({**keys, "attempts": times, **counted, "failed": failed, SKETCH: sketches})


def _repeated(durations: pa.ChunkedArray, times: pa.ChunkedArray) -> pa.ListArray:
    """Each duration as often as it was measured."""
    counts = times.to_numpy()
    flat = durations.combine_chunks().take(np.repeat(np.arange(len(counts)), counts))
    return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), flat)


def add(known: pa.Table, counted: pa.Table, *, batch: int) -> pa.Table:
    """Rows of the table, with what is new added to what is known."""
    parts = pa.concat_tables([known.select([*KEY, *ADDED, SKETCH]), counted], promote_options="default")
    rows = group(parts, KEY, {**dict.fromkeys(ADDED, "sum"), SKETCH: "list"})
    merged = latency.merged(rows[SKETCH].combine_chunks())
    fresh = {SKETCH: merged, **latency.quantiles(merged), "batch": batch}
    return as_rows({**columns_of(rows), **fresh}, SCHEMA, without=HOURLY)
