"""`messages`: one row a message, from all that has happened to it so far."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from couriermq.spark.tables.columns import INSTANT, NUMBER, TEXT, arrow_schema, as_rows, several, struct
from couriermq.spark.tables.events import PASSES

BUCKET = 100_000
"""So many messages, one after the other, share a file."""
LONGEST_HISTORY = 1_000

STEP = struct(offset=NUMBER, at=INSTANT, kind=TEXT, queue=TEXT, attempt=NUMBER, target=TEXT, reason=TEXT, batch=NUMBER)

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    queue_id=TEXT,
    message_id=TEXT,
    seq=NUMBER,
    size=NUMBER,
    sent_at=INSTANT,
    first_received_at=INSTANT,
    settled_at=INSTANT,
    outcome=TEXT,
    attempts=NUMBER,
    released=NUMBER,
    expired=NUMBER,
    time_to_first_receive_ms=NUMBER,
    time_to_ack_ms=NUMBER,
    last_failure=TEXT,
    last_queue=TEXT,
    entered_at=INSTANT,
    history=several(STEP),
    offset=NUMBER,
    changed_batch=NUMBER,
    batch=NUMBER,
    bucket=NUMBER,
)

OPEN, DEAD = "open", "dead_lettered"
WAITING = (OPEN, DEAD)
"""Outcomes of messages that are still in a queue."""

STAY = struct(tenant=TEXT, queue=TEXT, entered_at=INSTANT, left_at=INSTANT, taken_ms=NUMBER)


def bucket_of(seqs: Any) -> Any:
    return pc.divide(seqs, BUCKET)  # of whole numbers that are not negative


def stays_ended(rows: pa.Table, batch: int) -> pa.Table:
    """Each stay in a queue that the batch ended, and how long it took to ack the message, if that is how."""
    changed = rows.filter(pc.equal(rows["changed_batch"], batch))
    gone = changed.filter(pc.invert(pc.is_in(changed["outcome"], pa.array(WAITING))))
    names = {"queue": "last_queue", "left_at": "settled_at", "taken_ms": "time_to_ack_ms"}
    ended = as_rows({name: gone[names.get(name, name)] for name in STAY.names}, STAY)
    return pa.concat_tables([ended, _stays_passed(changed, batch)])


def _stays_passed(changed: pa.Table, batch: int) -> pa.Table:
    """A stay that ended by passing on began with the passage before it, or when the message was sent."""
    told = changed.filter(pc.is_valid(changed["history"])).select(["tenant", "sent_at", "history"])
    stays = [stay for message in told.to_pylist() for stay in _passages(message, batch)]
    return pa.Table.from_pylist(stays, schema=arrow_schema(STAY))


def _passages(message: dict[str, Any], batch: int) -> Iterator[dict[str, Any]]:
    entered_at = message["sent_at"]
    for step in message["history"]:
        if step["kind"] in PASSES:
            if step["batch"] == batch:
                facts = {"queue": step["queue"], "entered_at": entered_at, "left_at": step["at"]}
                yield {"tenant": message["tenant"], **facts, "taken_ms": None}
            entered_at = step["at"]
