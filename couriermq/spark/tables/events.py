"""`events`: the journal as it happened, with instants as timestamps."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from couriermq.journal.schema import journal_schema
from couriermq.spark.tables.columns import BYTES, INSTANT, NUMBER, TEXT, struct

SCHEMA = struct(
    offset=NUMBER,
    kind=TEXT,
    at=INSTANT,
    tenant=TEXT,
    queue_id=TEXT,
    queue=TEXT,
    seq=NUMBER,
    message_id=TEXT,
    attempt=NUMBER,
    size=NUMBER,
    principal=TEXT,
    body=BYTES,
    detail=TEXT,
    turn=NUMBER,
    sent_at=INSTANT,
    batch=NUMBER,
)

HIDDEN = "~"
"""How the names of queues begin that belong to listeners: what happens in them are deliveries."""

ENDS = ("acked", "discarded", "purged", "cancelled")
PASSES = ("dead_lettered", "moved", "redriven")
FAILURES = ("released", "lease_expired", "dead_lettered", "discarded")


def of_journal(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Events of the journal as the table has them: instants are timestamps."""
    events = pa.Table.from_batches(batches, schema=journal_schema())
    for name in ("at", "sent_at"):
        instants = events[name].cast(pa.timestamp("ms", "UTC"))
        events = events.set_column(events.column_names.index(name), name, instants)
    return events.select(schema.names).cast(schema)


def is_hidden(rows: pa.Table) -> Any:
    """Which of the rows are about deliveries."""
    return pc.fill_null(pc.starts_with(rows["queue"], HIDDEN), False)
