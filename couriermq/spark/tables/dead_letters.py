"""`dead_letters`: one row for each time that a message died, with what had happened to it until then."""

from collections.abc import Iterator
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
    """Those that the batch brought, or brought something new of; `messages` has the rows that it touched."""
    told = messages.filter(pc.and_(pc.is_valid(messages["history"]), pc.equal(messages["changed_batch"], batch)))
    rows = [death for message in told.to_pylist() for death in _deaths(message, batch)]
    return pa.Table.from_pylist(rows, schema=NONE.schema)


def _deaths(message: dict[str, Any], batch: int) -> Iterator[dict[str, Any]]:
    """What came before a death may come after it, from the journal of another shard."""
    steps = message["history"]
    for number, step in enumerate(steps, 1):
        if step["kind"] == DEAD and any(one["batch"] == batch for one in steps[:number]):
            yield _death(message, steps[:number])


def _death(message: dict[str, Any], steps: list[dict[str, Any]]) -> dict[str, Any]:
    step = steps[-1]
    return {
        **{name: message[name] for name in ("tenant", "message_id", "seq", "size", "sent_at")},
        "queue": step["queue"],
        "died_at": step["at"],
        "reason": step["reason"] or "unknown",
        "dead_letter_queue": step["target"],
        "attempts": step["attempt"],
        "history": steps,
        "offset": step["offset"],
    }


def add(known: pa.Table, fresh: pa.Table, *, batch: int) -> pa.Table:
    """What is known of a death already is replaced."""
    stale = pc.is_in(known["offset"], fresh["offset"].combine_chunks())
    rows = pa.concat_tables([known.filter(pc.invert(stale)).select(fresh.column_names), fresh])
    return as_rows({**columns_of(rows), "batch": batch}, SCHEMA, without=["day"])
