"""`dead_letters`: one row for each time that a message died, with what had happened to it until then."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from couriermq.spark.tables.columns import (
    INSTANT,
    NUMBER,
    TEXT,
    arrow_schema,
    as_rows,
    columns_of,
    several,
    struct,
)
from couriermq.spark.tables.messages import DEAD, STEP

HISTORY = struct(**{field.name: field.dataType for field in STEP if field.name != "batch"})

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    message_id=TEXT,
    seq=NUMBER,
    size=NUMBER,
    sent_at=INSTANT,
    died_at=INSTANT,
    reason=TEXT,
    dead_letter_queue=TEXT,
    attempts=NUMBER,
    history=several(HISTORY),
    offset=NUMBER,
    batch=NUMBER,
    day=TEXT,
)


NONE = arrow_schema(SCHEMA, without=["batch", "day"]).empty_table()


def deaths(messages: pa.Table, batch: int) -> pa.Table:
    """Those that the batch brought; `messages` has the rows that it touched."""
    told = messages.filter(pc.and_(pc.is_valid(messages["history"]), pc.equal(messages["changed_batch"], batch)))
    rows = [_death(message, step) for message in told.to_pylist() for step in message["history"] if _died(step, batch)]
    return pa.Table.from_pylist(rows, schema=NONE.schema)


def _died(step: dict[str, Any], batch: int) -> bool:
    return bool(step["batch"] == batch and step["kind"] == DEAD)


def _death(message: dict[str, Any], step: dict[str, Any]) -> dict[str, Any]:
    return {
        **{name: message[name] for name in ("tenant", "message_id", "seq", "size", "sent_at")},
        "queue": step["queue"],
        "died_at": step["at"],
        "reason": step["reason"] or "unknown",
        "dead_letter_queue": step["target"],
        "attempts": step["attempt"],
        "history": [one for one in message["history"] if one["offset"] <= step["offset"]],
        "offset": step["offset"],
    }


def add(known: pa.Table, fresh: pa.Table, *, batch: int) -> pa.Table:
    rows = pa.concat_tables([known.select(fresh.column_names), fresh])
    return as_rows({**columns_of(rows), "batch": batch}, SCHEMA, without=["day"])
