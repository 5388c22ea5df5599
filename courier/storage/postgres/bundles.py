"""Messages that wait just as they came, several in a row of the database.

What was sent together, without a delay or anything else that needs an index, is packed into one row a queue. Whoever
takes a message opens the bundle: what is taken goes to `held` or becomes a row of its own, what is left a smaller
bundle.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from courier.core.model import State
from courier.storage.postgres.arrays import blobs, numbers
from courier.storage.postgres.link import Step
from courier.storage.postgres.queries import Q
from courier.storage.postgres.rows import Row, encode

MOST_MESSAGES = 32
MOST_BYTES = 64 * 1024
MOST_MS = 1_000
"""How far apart the messages of a bundle may have come."""

Entry = tuple[int, str, int, int, bytes | None, Any]
"""seq, id, entered_at, size, group, content; as it is packed."""


class Packed(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """An entry as it is read: the content stays as it is, ready for a row of its own."""

    seq: int
    id: str
    entered_at: int
    size: int
    grp: bytes | None
    content: msgspec.Raw


_unpack = msgspec.msgpack.Decoder(list[Packed]).decode


def unpack(queue: int, content: bytes) -> list[Row]:
    """The messages of a bundle, oldest first."""
    return [
        Row(
            entry.seq, queue, entry.id, State.READY, entry.entered_at, 0, 0, entry.entered_at, None, entry.size,
            entry.grp, None, None, bytes(entry.content),
        )
        for entry in _unpack(content)
    ]  # fmt: skip


def entry_of(row: Row) -> Entry:
    """A message that goes back into a bundle, untouched."""
    assert row.content is not None
    return row.seq, row.id, row.entered_at, row.size, row.grp, msgspec.Raw(row.content)


def insert(waiting: Mapping[int, Sequence[Entry]]) -> Step:
    """Write the messages that wait in each queue."""
    parts = [(key, part) for key, entries in waiting.items() for part in _cut(entries)]
    seqs = [[entry[0] for entry in part] for _, part in parts]
    return Q.insert_bundles, {
        "queues": numbers(key for key, _ in parts),
        "seqs": numbers(map(min, seqs)),
        "lasts": numbers(map(max, seqs)),
        "entered_ats": numbers(part[0][2] for _, part in parts),
        "newest_ats": numbers(part[-1][2] for _, part in parts),
        "counts": numbers(map(len, seqs)),
        "sizes": numbers(sum([entry[3] for entry in part]) for _, part in parts),
        "contents": blobs(encode(part) for _, part in parts),
    }


def _cut(entries: Sequence[Entry]) -> Iterable[Sequence[Entry]]:
    """Into parts of a size that is worth a row."""
    ordered = sorted(entries, key=_age)
    first = 0
    while first < len(ordered):
        part = ordered[first : first + MOST_MESSAGES]
        if part[-1][2] - part[0][2] > MOST_MS or sum([entry[3] for entry in part]) > MOST_BYTES:
            part = part[: _fitting(part)]
        yield part
        first += len(part)


def _fitting(part: Sequence[Entry]) -> int:
    """How many of them, at least one, are not too much for one row, nor too far apart."""
    size = 0
    for count, entry in enumerate(part):
        size += entry[3]
        if count and (size > MOST_BYTES or entry[2] - part[0][2] > MOST_MS):
            return count
    return len(part)


_age = itemgetter(2, 0)


def delete(opened: Mapping[tuple[int, int], int]) -> Step:
    """Remove bundles, by queue and seq, which came at the given instants."""
    return Q.delete_bundles, {
        "queues": numbers(queue for queue, _ in opened),
        "entered_ats": numbers(opened.values()),
        "seqs": numbers(seq for _, seq in opened),
    }
