"""How messages that wait for their publication are packed: the same in every engine."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from couriermq.core.events import Event
from couriermq.core.model import DAY, Attribute, Draft, Queue
from couriermq.storage.base import Chunk, Directory, Parcel, Staged

MEMORY_MS = 366 * DAY
"""How long a series is remembered after its newest publication."""


HEAD_BYTES = 6
"""The bytes at the beginning of a chunk that say how many parcels it has; the queries `staged` read as many."""


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


def stored_count(count: int, head: bytes) -> int:
    """How many messages a chunk of `count` becomes, by the first HEAD_BYTES of its parcels.

    Those begin with the header of a pair and of the list of parcels, in which copies count; a message that goes to no
    queue is still held until it is published.
    """
    match head[1]:
        case 0xDC:
            return max(count, int.from_bytes(head[2:4], "big"))
        case 0xDD:
            return max(count, int.from_bytes(head[2:6], "big"))
        case small:
            return max(count, small & 0x0F)


def staged_of(rows: Iterable[Sequence[Any]]) -> Staged:
    """What rows of (target, stage, count, head, number of such chunks, bytes) come to."""
    found = [
        (target, name, each * stored_count(count, bytes(head)), size) for target, name, count, head, each, size in rows
    ]
    return Staged(
        list(dict.fromkeys((target, name) for target, name, _, _ in found)),
        sum(messages for _, _, messages, _ in found),
        sum(size for _, _, _, size in found),
    )


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
