"""The journal on the wire as JSON: the event's own fields, and bytes inside `detail` as base64."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core.events import Entry
from couriermq.core.limits import RESPONSE_BYTES, WAIT_MS
from couriermq.core.model import Json
from couriermq.core.surrogates import json_attributes
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.reading import Order

Offset = Annotated[int, Meta(ge=0, le=limits.NUMBER)]
Position = Annotated[
    str,
    Meta(
        extra_json_schema={"anyOf": [{"type": "integer", "minimum": 0, "maximum": limits.NUMBER}, {"type": "string"}]}
    ),
]
"""In a query: an offset of root's, or a position as a tenant got it."""


class JournalQuery(Order):
    """With `at` or `last`, the answer also has the position of an event.

    That is the first event of that instant or later, or the last event but so many.
    """

    at: Annotated[int, Meta(ge=0, le=limits.NUMBER)] | UnsetType = UNSET
    last: Annotated[int, Meta(ge=1, le=limits.JSON_SCAN_COUNT)] | UnsetType = UNSET


class SegmentsQuery(Order, rename={"start": "from", "stop": "to"}):
    """Of which offsets; they are of one lane, that of `from`."""

    start: Position | UnsetType = UNSET
    stop: Position | UnsetType = UNSET


class RangeQuery(Order, rename={"start": "from", "stop": "to", "queues": "queue", "kinds": "kind"}):
    """Which part of the journal, and which of its events."""

    start: Position | UnsetType = UNSET
    stop: Position | UnsetType = UNSET
    tenant: str | None = None
    queues: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


class PlanQuery(RangeQuery):
    """Which part of the journal to divide, and how many events a partition has."""

    rows: Annotated[int, Meta(ge=1, le=limits.NUMBER)] = limits.ARROW_EVENT_COUNT
    limit: Annotated[int, Meta(ge=1, le=limits.PARTITION_COUNT)] = limits.PARTITION_COUNT


class EventsQuery(RangeQuery):
    """Which part of the journal to read, for whom, and how to write it."""

    limit: Annotated[int, Meta(ge=1, le=limits.ARROW_EVENT_COUNT)] = limits.EVENT_COUNT
    format: Literal["json", "arrow"] | None = None
    columns: str | None = None
    """Names with commas between them; for Arrow only."""
    arrivals: bool = False
    bodies: bool = True
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS)] = 0
    principal: str | None = None
    message: str | None = None
    seq: Annotated[int, Meta(ge=0, le=limits.NUMBER)] | None = None
    order: Literal["oldest", "newest"] = "oldest"
    max_bytes: Annotated[int, Meta(ge=1, le=RESPONSE_BYTES)] = RESPONSE_BYTES
    merged: bool = False
    lossy: bool = False
    """From `arrivals` on they are for JSON only; `lossy` is for a merged read."""


class AuditQuery(Order, rename={"start": "from", "kinds": "kind"}):
    """From which position on, how many events at most, and of which kinds."""

    start: Position | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=limits.EVENT_COUNT)] = limits.EVENT_COUNT
    kinds: tuple[str, ...] = ()


class Lane(msgspec.Struct):
    """Positions `oldest` up to, not including, `next` can be read of this lane, which began with `first`."""

    lane: str
    first: int | str
    oldest: int | str
    next: int | str
    offset: int | str | UnsetType = UNSET


class Jump(msgspec.Struct):
    """No event has an offset from `end` up to, not including, `next`: a new incarnation began with `next`."""

    end: int
    next: int


class Journal(msgspec.Struct):
    """Positions `oldest` up to, not including, `next` can be read of the first lane."""

    oldest: int | str
    next: int | str
    lanes: list[Lane]
    merged: str
    store: str
    incarnation: str
    jumps: list[Jump] | UnsetType = UNSET
    offset: int | str | UnsetType = UNSET


class Partition(msgspec.Struct, rename={"start": "from", "stop": "to"}):
    """A part of the journal that has `count` of the events that were asked for."""

    start: int | str
    stop: int | str
    count: int


class Plan(msgspec.Struct):
    """Partitions that follow each other. `next` goes into `from`; `at_end` says that nothing is left to divide."""

    partitions: list[Partition]
    next: int | str
    at_end: bool


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
    turn: int | None
    sent_at: int | None
    detail: dict[str, Json] | None


class Events(msgspec.Struct):
    """The events that were asked for. `next` goes into `from`; `at_end` says that nothing newer is there now."""

    events: list[Event]
    next: int | str
    at_end: bool


class EventPage(msgspec.Struct):
    """The same as `Events`, with each event encoded already."""

    events: list[msgspec.Raw]
    next: int | str
    at_end: bool


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
        event.turn,
        event.sent_at,
        _write_detail(event.detail),
    )


def _write_detail(detail: dict[str, Json] | None) -> dict[str, Json] | None:
    if detail and isinstance(attributes := detail.get("attributes"), dict):
        detail = {**detail, "attributes": json_attributes(attributes)}
    if not detail or not any(type(value) is bytes for value in detail.values()):
        return detail
    return {f"{name}_base64" if type(value) is bytes else name: value for name, value in detail.items()}
