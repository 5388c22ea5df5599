"""Between rows and messages."""

from typing import Any

import msgspec

from couriermq.core.model import Attribute, Counters, Death, Draft, Lease, Message, Queue, State
from couriermq.core.retry import discard_at

_STATES = (State.DELAYED, State.READY, State.LEASED)
_death = msgspec.msgpack.Decoder(Death).decode
encode = msgspec.msgpack.Encoder().encode


class Content(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What of a message never changes. Stored in this order: append new fields, never reorder."""

    body: bytes
    content_type: str
    sent_at: int
    delay_ms: int = 0
    attributes: dict[str, Attribute] = {}
    trace: str | None = None


_content = msgspec.msgpack.Decoder(Content).decode


def content_of(draft: Draft, *, sent_at: int, delay_ms: int) -> Content:
    return Content(draft.body, draft.content_type, sent_at, delay_ms, draft.attributes, draft.trace)


class Row(msgspec.Struct, eq=False, gc=False):
    """A message in the hands of a transaction, as it will stand when that commits."""

    seq: int
    queue: int
    id: str
    state: State
    due_at: int
    attempts: int
    lease_no: int
    entered_at: int
    discard_at: int | None
    """Only where it has its own retention."""
    size: int
    grp: bytes | None
    origin: int | None
    death: bytes | None
    content: bytes | None = None
    loose: bool = False
    """It has left a bundle and has no row of its own yet."""

    def ends_at(self, queue: Queue) -> int:
        """When it is too old to keep."""
        if self.discard_at is not None:
            return self.discard_at
        return discard_at(queue.settings, entered_at=self.entered_at, retention_ms=None)

    def read_death(self) -> Death | None:
        return _death(self.death) if self.death else None


def to_message(queue: Queue, row: Row) -> Message:
    assert row.content is not None
    content = _content(row.content)
    return Message(
        seq=row.seq,
        id=row.id,
        state=row.state,
        body=content.body,
        content_type=content.content_type,
        attributes=content.attributes,
        attempts=row.attempts,
        sent_at=content.sent_at,
        entered_at=row.entered_at,
        due_at=row.due_at,
        discard_at=row.ends_at(queue),
        delay_ms=content.delay_ms,
        retention_ms=None if row.discard_at is None else row.discard_at - row.entered_at,
        group=row.grp.decode() if row.grp else None,
        trace=content.trace,
        death=row.read_death(),
    )


def to_lease(queue: Queue, row: Row, *, receipt: str) -> Lease:
    return Lease(to_message(queue, row), receipt, row.due_at)


def read(facts: tuple[Any, ...]) -> Row:
    """A row of `message` as it was selected: see FACTS and WHOLE."""
    seq, queue, message_id, state, *others = facts
    return Row(seq, queue, message_id.decode(), _STATES[state], *others)


def to_counters(
    ready: int, delayed: int, leased: int, size: int, sent: int, acked: int, dead: int, oldest_at: int | None
) -> Counters:
    return Counters(
        ready_count=ready,
        delayed_count=delayed,
        leased_count=leased,
        byte_count=size,
        oldest_at=oldest_at,
        sent_count=sent,
        acked_count=acked,
        dead_count=dead,
    )
