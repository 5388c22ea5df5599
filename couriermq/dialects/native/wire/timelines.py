"""The life of one message on the wire."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.events import Event
from couriermq.dialects.native.wire.messages import Message
from couriermq.dialects.native.wire.reading import Order

Role = Literal["queue", "dead_letters", "outbox", "listener_dead_letters"]


class TimelineQuery(Order):
    """Where the message is or was, if that is known, and how far the look has come."""

    queue: str | None = None
    seq: Annotated[int, Meta(ge=0, le=limits.NUMBER)] | None = None
    before: Annotated[str, Meta(max_length=8_000)] | None = None
    bodies: bool = False


class TimelineLane(msgspec.Struct):
    """A queue that the message has been in; `listener` is the name of the listener that it belongs to."""

    queue_id: str
    queue: str | None
    role: Role
    listener: str | None


class Looked(msgspec.Struct):
    """The part of the past that was looked through; only root learns how many events that are."""

    from_at: int | None
    to_at: int
    event_count: int | None


class Timeline(msgspec.Struct, kw_only=True):
    """Events of one message, the oldest first. `next` goes into `before` to look further back.

    `complete` says that there is nothing older to look at. `message` is the message as it is now, its body cut.
    """

    message_id: str
    seq: int | None
    message: Message | None
    lanes: list[TimelineLane]
    events: list[Event]
    looked: Looked
    next: str | None
    complete: bool
