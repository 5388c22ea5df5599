"""Between rows and messages."""

import sqlite3
from typing import Any

import msgspec

from couriermq.core.model import Death, Lease, Message, Queue, State
from couriermq.core.retry import discard_at
from couriermq.storage.sqlite.queries import Q

INLINE_BYTES = 2_048
"""A larger body stands in its own row: a lease rewrites the message's row, and must not rewrite megabytes."""

_STATES = (State.DELAYED, State.READY, State.LEASED)
_attributes = msgspec.msgpack.Decoder(dict[str, str | int | float | bool]).decode
_death = msgspec.msgpack.Decoder(Death).decode
encode = msgspec.msgpack.Encoder().encode

Row = tuple[Any, ...]
"""seq, id, state, body, content_type, attributes, attempts, sent_at, entered_at, due_at, discard_at, delay_ms, grp,
trace, death, size, lease_no: what the queries that end in a message select, in this order."""


def to_message(db: sqlite3.Connection, queue: Queue, row: Row) -> Message:
    seq, id_, state, body, type_, attributes, attempts, sent_at, entered_at, due_at, own, delay_ms = row[:12]
    grp, trace, death = row[12:15]
    return Message(
        seq=seq,
        id=id_,
        state=_STATES[state],
        body=body if body is not None else read_payload(db, seq),
        content_type=type_,
        attributes=_attributes(attributes) if attributes else {},
        attempts=attempts,
        sent_at=sent_at,
        entered_at=entered_at,
        due_at=due_at,
        discard_at=own if own is not None else discard_at(queue.settings, entered_at=entered_at, retention_ms=None),
        delay_ms=delay_ms,
        retention_ms=None if own is None else own - entered_at,
        group=grp or None,
        trace=trace,
        death=_death(death) if death else None,
    )


def to_lease(db: sqlite3.Connection, queue: Queue, row: Row, *, expires_at: int, receipt: str) -> Lease:
    """The message as its row will stand once the lease is written."""
    message = to_message(db, queue, row)
    message.state = State.LEASED
    message.attempts += 1
    message.due_at = expires_at
    return Lease(message, receipt, expires_at)


def read_payload(db: sqlite3.Connection, seq: int) -> bytes:
    row = db.execute(Q.read_payload, (seq,)).fetchone()
    return bytes(row[0])


def read_death(blob: bytes | None) -> Death | None:
    return _death(blob) if blob else None
