"""From `sent` events to messages: the detail's fields become columns."""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from couriermq.journal.schema import MESSAGE_COLUMNS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = ("sent",)
HIDDEN = "~"
"""The names of queues that belong to listeners begin with it."""

_RENAMED = {"sent_at": "at"}
_FROM_DETAIL = ("content_type", "attributes", "group", "delay_ms", "trace")


class Detail(NamedTuple):
    """What a message's event says beside the columns that every event has."""

    content_type: str | None = None
    attributes: str | None = None
    group: str | None = None
    delay_ms: int | None = None
    trace: str | None = None


def event_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of events that columns of messages are made from."""
    plain = [_RENAMED.get(name, name) for name in columns if name not in _FROM_DETAIL]
    details = ["detail"] if len(plain) < len(columns) else []
    return tuple(dict.fromkeys([*plain, "queue", *details]))


def to_messages(batch: "pa.RecordBatch", columns: tuple[str, ...], *, hidden: bool) -> "pa.RecordBatch":
    """The columns of messages; without `hidden`, those that only wait for their delivery to a listener are left out."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    if not hidden:
        batch = batch.filter(pc.invert(pc.starts_with(batch.column("queue"), HIDDEN)))
    details = _details(batch) if set(columns) & set(_FROM_DETAIL) else []
    schema = arrow_schema(tuple((name, dict(MESSAGE_COLUMNS)[name]) for name in columns))
    arrays = [
        pa.array([getattr(detail, field.name) for detail in details], field.type)
        if field.name in _FROM_DETAIL
        else batch.column(_RENAMED.get(field.name, field.name))
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _details(batch: "pa.RecordBatch") -> list[Detail]:
    return [_detail(text) for text in batch.column("detail").to_pylist()]


@lru_cache(maxsize=4_096)
def _detail(text: str | None) -> Detail:
    """Most messages of a queue have the same few details, so that most are read only once."""
    fields: dict[str, Any] = json.loads(text) if text else {}
    attributes = fields.get("attributes")
    return Detail(
        content_type=fields.get("content_type"),
        attributes=json.dumps(attributes, ensure_ascii=False, separators=(",", ":")) if attributes else None,
        group=fields.get("group"),
        delay_ms=fields.get("delay_ms"),
        trace=fields.get("trace"),
    )
