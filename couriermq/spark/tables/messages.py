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

STEP = struct(
    offset=NUMBER,
    at=INSTANT,
    kind=TEXT,
    queue=TEXT,
    attempt=NUMBER,
    target=TEXT,
    reason=TEXT,
    batch=NUMBER,
    turn=NUMBER,
    queue_id=TEXT,
    target_id=TEXT,
)

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
    turn=NUMBER,
    first_turn=NUMBER,
    last_queue_id=TEXT,
    settled_batch=NUMBER,
    bucket=NUMBER,
)

OPEN, DEAD = "open", "dead_lettered"
WAITING = (OPEN, DEAD)
"""Outcomes of messages that are still in a queue."""

STAY = struct(tenant=TEXT, queue_id=TEXT, queue=TEXT, entered_at=INSTANT, left_at=INSTANT, taken_ms=NUMBER)


def bucket_of(seqs: Any) -> Any:
    return pc.divide(seqs, BUCKET)  # of whole numbers that are not negative


def stays_ended(rows: pa.Table, batch: int) -> pa.Table:
    """Each stay in a queue that the batch ended, and how long it took to ack the message, if that is how.

    A stay whose begin the batch brought, after its end, is told once more, without that duration.
    """
    changed = rows.filter(pc.equal(rows["changed_batch"], batch))
    gone = changed.filter(pc.invert(pc.is_in(changed["outcome"], pa.array(WAITING))))
    names = {"queue": "last_queue", "queue_id": "last_queue_id", "left_at": "settled_at"}
    ends_now = pc.fill_null(pc.equal(gone["settled_batch"], batch), False)
    taken = pc.if_else(ends_now, gone["time_to_ack_ms"], pa.scalar(None, pa.int64()))
    columns = {name: gone[names.get(name, name)] for name in STAY.names if name != "taken_ms"}
    ended = as_rows({**columns, "taken_ms": taken}, STAY)
    return pa.concat_tables([ended, _stays_passed(changed, batch)])


def _stays_passed(changed: pa.Table, batch: int) -> pa.Table:
    """A stay that ended by passing on began with the passage before it, or when the message was sent."""
    told = changed.filter(pc.is_valid(changed["history"])).select(
        ["tenant", "queue_id", "sent_at", "first_turn", "history"]
    )
    stays = [stay for message in told.to_pylist() for stay in _passages(message, batch)]
    return pa.Table.from_pylist(stays, schema=arrow_schema(STAY))


def _passages(message: dict[str, Any], batch: int) -> Iterator[dict[str, Any]]:
    """A stay is told when its end or its begin is new. Where a passage in between is not known yet, neither is when
    the stay began."""
    is_begun = (message["first_turn"] or 0) <= 1
    entered_at, entered_id, is_new = message["sent_at"] if is_begun else None, message["queue_id"], True
    for step in message["history"]:
        if step["kind"] in PASSES:
            if step["batch"] == batch or is_new:
                is_here = None in (entered_id, step["queue_id"]) or entered_id == step["queue_id"]
                began = entered_at if is_here else None
                facts = {"queue_id": step["queue_id"], "queue": step["queue"], "entered_at": began}
                yield {"tenant": message["tenant"], **facts, "left_at": step["at"], "taken_ms": None}
            entered_at, entered_id, is_new = step["at"], step["target_id"], step["batch"] == batch
