"""How messages that wait for their publication are packed: the same in every engine."""

from collections.abc import Sequence

import msgspec

from couriermq.core.events import Event
from couriermq.core.model import DAY, Attribute, Draft, Queue
from couriermq.storage.base import Chunk, Directory, Parcel

STAGE_MS = DAY
"""How long a stage waits to be published."""
MEMORY_MS = 366 * DAY
"""How long a series is remembered after its newest publication."""


class _Packed(msgspec.Struct, array_like=True, omit_defaults=True, frozen=True, gc=False):
    """A parcel. Stored in this order: append new fields, never reorder."""

    key: int
    body: bytes
    content_type: str
    id: str | None = None
    delay_ms: int | None = None
    group: str | None = None
    attributes: dict[str, Attribute] | None = None
    copy_of: int | None = None
    retention_ms: int | None = None
    dedup_id: str | None = None
    trace: str | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[_Packed], list[Event]]).decode


def pack(parcels: Sequence[Parcel], events: Sequence[Event] = (), *, count: int) -> Chunk:
    packed = [_pack(parcel.queue.key, parcel.draft, parcel.copy_of) for parcel in parcels]
    keys = frozenset(each.key for each in packed)
    return Chunk(count, keys, _encode((packed, events)))


def _pack(key: int, draft: Draft, copy_of: int | None) -> _Packed:
    return _Packed(
        key, draft.body, draft.content_type, draft.id, draft.delay_ms, draft.group, draft.attributes or None, copy_of,
        draft.retention_ms, draft.dedup_id, draft.trace,
    )  # fmt: skip


def unpack(blob: bytes, directory: Directory, *, at: int) -> tuple[list[Parcel], list[Event]]:
    """The parcels for queues as they are now, and the events as of `at`; a queue that is gone is still named."""
    packed, events = _decode(blob)
    queues = {key: directory.queue_of_key(key) or _gone(key) for key in {each.key for each in packed}}
    parcels = [Parcel(queues[each.key], _unpack(each), each.copy_of) for each in packed]
    return parcels, [msgspec.structs.replace(event, at=at) for event in events]


def _unpack(packed: _Packed) -> Draft:
    return Draft(
        body=packed.body,
        content_type=packed.content_type,
        attributes=packed.attributes or {},
        id=packed.id,
        delay_ms=packed.delay_ms,
        retention_ms=packed.retention_ms,
        group=packed.group,
        dedup_id=packed.dedup_id,
        trace=packed.trace,
    )


def _gone(key: int) -> Queue:
    return Queue(key=key, id="", tenant="", name="")
