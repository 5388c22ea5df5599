"""`tenant_usage`: what each tenant used on each day, as it could be charged for."""

import pyarrow as pa
import pyarrow.compute as pc

from couriermq.spark.tables.columns import NUMBER, TEXT, as_rows, columns_of, group, kind_in, struct, sum_of
from couriermq.spark.tables.events import is_hidden

PUBLISHED = "published"
REQUESTS = ("sent", "received", "acked", "released", "extended", PUBLISHED)
"""What somebody asked for. A batch of ten is ten, and an empty poll none: the journal holds no more."""
ADDED = ("requests", "messages", "received", "bytes", "billable_units")

SCHEMA = struct(tenant=TEXT, day=TEXT, **dict.fromkeys(ADDED, NUMBER), batch=NUMBER, month=TEXT)
KEY = ("tenant", "day")


def count(tally: pa.Table) -> pa.Table:
    """Events of messages in queues that people see, and of exchanges."""
    asked = tally.filter(pc.and_not(kind_in(tally, *REQUESTS), is_hidden(tally)))
    return pa.table(
        {
            "tenant": asked["tenant"],
            "day": pc.strftime(asked["minute"], "%Y-%m-%d"),
            # The copies that an exchange makes are told as sent one by one, but nobody asked for each of them.
            "requests": pc.subtract(asked["count"], asked["copies"]),
            "messages": sum_of(asked["count"], kind_in(asked, "sent")),
            "received": sum_of(asked["count"], kind_in(asked, "received")),
            "bytes": sum_of(asked["bytes"], kind_in(asked, "sent", "received")),
            "billable_units": sum_of(asked["units"], kind_in(asked, "received")),
        }
    )


def add(known: pa.Table, counted: pa.Table, *, batch: int) -> pa.Table:
    parts = pa.concat_tables([known.select([*KEY, *ADDED]), counted])
    rows = group(parts, KEY, dict.fromkeys(ADDED, "sum"))
    return as_rows({**columns_of(rows), "batch": batch}, SCHEMA, without=["month"])
