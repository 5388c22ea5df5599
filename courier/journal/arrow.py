"""Events as an Arrow IPC stream, which is a head, record batches and an end, each made on its own.

b"".join([head(), batch(entries), batch(more), END])
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from courier.core.events import Entry
from courier.core.model import Json
from courier.journal.schema import journal_schema

if TYPE_CHECKING:
    import pyarrow as pa

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""A continuation marker and a length of zero: nothing follows."""

_encode = msgspec.json.Encoder().encode


def head(columns: Sequence[str] | None = None) -> bytes:
    """The schema, with which every stream begins."""
    return bytes(journal_schema(columns).serialize())


def batch(entries: Sequence[Entry], columns: Sequence[str] | None = None) -> bytes:
    """The entries as one record batch of the stream."""
    whole = record_batch(entries)
    return bytes((whole if columns is None else whole.select(list(columns))).serialize())


def record_batch(entries: Sequence[Entry]) -> "pa.RecordBatch":
    """The entries as columns, in the order of the schema."""
    import pyarrow as pa  # noqa: PLC0415

    events = [entry.event for entry in entries]
    details = [_split(event.detail) for event in events]
    columns = [
        [entry.offset for entry in entries],
        [event.kind for event in events],
        [event.at for event in events],
        [event.tenant for event in events],
        [event.queue_id for event in events],
        [event.queue for event in events],
        [event.seq for event in events],
        [event.message_id for event in events],
        [event.attempt for event in events],
        [event.size for event in events],
        [event.principal for event in events],
        [body for body, _ in details],
        [rest for _, rest in details],
    ]
    schema = journal_schema()
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _split(detail: dict[str, Json] | None) -> tuple[bytes | None, bytes | None]:
    """The body, and the rest as JSON. Every event on its way into the archive comes by here: there is a short way."""
    if detail is None:
        return None, None
    body = detail.get("body")
    if type(body) is not bytes:
        return None, _encode(detail) if detail else None
    if len(detail) == 2 and type(kind := detail.get("content_type")) is str:
        return body, _only_type(kind)
    rest = {name: value for name, value in detail.items() if name != "body"}
    return body, _encode(rest) if rest else None


@lru_cache(maxsize=256)
def _only_type(content_type: str) -> bytes:
    """The rest of the most frequent event of all: a message that came with nothing but a body."""
    return _encode({"content_type": content_type})
