"""`_waiting`: how many messages of each bucket are in which queue, and the oldest of them: all that `queue_minutes`
must know of the messages that a batch does not speak of."""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from couriermq.spark.tables.columns import INSTANT, NUMBER, TEXT, as_rows, columns_of, group, struct
from couriermq.spark.tables.messages import WAITING

SHELF = 1_000
"""So many buckets share a file."""

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    bucket=NUMBER,
    count=NUMBER,
    oldest_at=INSTANT,
    batch=NUMBER,
    queue_id=TEXT,
    shelf=NUMBER,
)


def count(messages: pa.Table, bucket: int) -> pa.Table:
    """What waits of a bucket, of which `messages` has all rows."""
    present = messages.filter(pc.is_in(messages["outcome"], pa.array(WAITING)))
    rows = group(present, ("tenant", "last_queue_id", "last_queue"), {"seq": "count", "entered_at": "min"})
    named = rows.rename_columns(["tenant", "queue_id", "queue", "count", "oldest_at"])
    return as_rows({**columns_of(named), "bucket": bucket}, SCHEMA, without=["batch", "shelf"])


def add(known: pa.Table, counted: pa.Table, buckets: Iterable[int], *, batch: int) -> pa.Table:
    """What waits after a batch, in place of what waited of the buckets that it touched."""
    touched = pc.is_in(known["bucket"], pa.array(sorted(buckets), pa.int64()))
    rows = pa.concat_tables([known.filter(pc.invert(touched)).select(counted.column_names), counted])
    return as_rows({**columns_of(rows), "batch": batch}, SCHEMA, without=["shelf"])


def by_queue(rows: pa.Table) -> pa.Table:
    """By id and name: a queue may have had several names, and older rows have no id."""
    grouped = group(rows, ("tenant", "queue_id", "queue"), {"count": "sum", "oldest_at": "min"})
    return grouped.rename_columns(["tenant", "queue_id", "queue", "waiting", "waiting_since"])
