"""The journal on the wire as JSON: the event's own fields, and bytes inside `detail` as base64."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core.events import Entry
from couriermq.core.limits import WAIT_MS
from couriermq.core.model import Json
from couriermq.core.surrogates import json_attributes
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.reading import Order

Offset = Annotated[int, Meta(ge=0, le=limits.NUMBER)]


class JournalQuery(Order):
    """With an instant, the answer has the offset of the first event of that instant or later."""

    at: Annotated[int, Meta(ge=0, le=limits.NUMBER)] | UnsetType = UNSET


class SegmentsQuery(Order, rename={"start": "from", "stop": "to"}):
    """Of which offsets; they are of one shard, that of `from`."""

    start: Offset | UnsetType = UNSET
    stop: Offset | UnsetType = UNSET


class EventsQuery(Order, rename={"start": "from", "stop": "to", "queues": "queue", "kinds": "kind"}):
    """Which offsets to read, for whom, and how to write them."""

    start: Offset | UnsetType = UNSET
    stop: Offset | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.ARROW_EVENT_COUNT)] = limits.EVENT_COUNT
    tenant: str | None = None
    format: Literal["json", "arrow"] | None = None
    queues: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    columns: str | None = None
    """Names with commas between them; for Arrow only."""
    arrivals: bool = False
    bodies: bool = True
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS)] = 0
    """These three are for JSON only."""


class AuditQuery(Order, rename={"start": "from", "kinds": "kind"}):
    """From which offset on, how many events at most, and of which kinds."""

    start: Offset | None = None
    limit: Annotated[int, Meta(ge=1, le=limits.EVENT_COUNT)] = limits.EVENT_COUNT
    kinds: tuple[str, ...] = ()


class Shard(msgspec.Struct):
    """Offsets `oldest` up to, not including, `next` can be read of this shard."""

    shard: int
    oldest: int
    next: int
    offset: int | UnsetType = UNSET


class Journal(msgspec.Struct):
    """Offsets `oldest` up to, not including, `next` can be read; of a divided store these are the first shard's."""

    oldest: int
    next: int
    shards: list[Shard]
    offset: int | UnsetType = UNSET


class Segment(msgspec.Struct):
    """A file of the archive with the events of offsets `start` up to, not including, `end`."""

    start: int
    end: int


class SegmentList(msgspec.Struct):
    segments: list[Segment]


class CursorOrder(Order):
    offset: Offset


class Cursor(msgspec.Struct):
    """Everything below `offset` has been read; the journal keeps what is above."""

    name: str
    offset: int
    changed_at: int


class CursorList(msgspec.Struct):
    cursors: list[Cursor]


class Event(msgspec.Struct, gc=False):
    offset: int
    kind: str
    at: int
    tenant: str
    queue_id: str | None
    queue: str | None
    seq: int | None
    message_id: str | None
    attempt: int | None
    size: int | None
    principal: str | None
    detail: dict[str, Json] | None


class Events(msgspec.Struct):
    """The events that were asked for. `next` goes into `from`; who gets his own `from` back has read everything."""

    events: list[Event]
    next: int


class EventPage(msgspec.Struct):
    """The same as `Events`, with each event encoded already."""

    events: list[msgspec.Raw]
    next: int


def write_event(entry: Entry) -> Event:
    event = entry.event
    return Event(
        entry.offset,
        event.kind,
        event.at,
        event.tenant,
        event.queue_id,
        event.queue,
        event.seq,
        event.message_id,
        event.attempt,
        event.size,
        event.principal,
        _write_detail(event.detail),
    )


def _write_detail(detail: dict[str, Json] | None) -> dict[str, Json] | None:
    if detail and isinstance(attributes := detail.get("attributes"), dict):
        detail = {**detail, "attributes": json_attributes(attributes)}
    if not detail or not any(type(value) is bytes for value in detail.values()):
        return detail
    return {f"{name}_base64" if type(value) is bytes else name: value for name, value in detail.items()}
