"""Messages that wait just as they came, several in a row of the database.

What was sent together, without a delay or anything else that needs an index, is packed into one row a queue. Whoever
takes a message opens the bundle: what is taken goes to `held` or becomes a row of its own, what is left a smaller
bundle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from couriermq.core.model import State
from couriermq.storage.postgres import strips
from couriermq.storage.postgres.arrays import blobs, numbers
from couriermq.storage.postgres.link import Step
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row

MOST_MESSAGES = 32
MOST_BYTES = 64 * 1024
MOST_MS = 1_000
"""How far apart the messages of a bundle may have come."""

_WRITERS = dict.fromkeys(("queue", "first", "last", "entered_at", "newest_at", "message_count", "byte_count"), numbers)


def unpack(queue: int, _: int, seqs: bytes, ids: bytes, ats: bytes, sizes: bytes, contents: bytes) -> list[Row]:
    """The messages of a bundle, oldest first."""
    numbered = strips.read_longs(seqs)
    return [
        Row(seq, queue, id_, State.READY, at, 0, 0, at, None, size, None, None, None, content)
        for seq, id_, at, size, content in zip(
            numbered, strips.read_ids(ids), strips.read_longs(ats), strips.read_shorts(sizes),
            strips.pieces(len(numbered), contents), strict=True,
        )
    ]  # fmt: skip


class Packed(NamedTuple):
    """A row of `bundle`, in the order of its columns."""

    queue: int
    first: int
    last: int
    entered_at: int
    newest_at: int
    message_count: int
    byte_count: int
    seqs: bytes
    ids: bytes
    ats: bytes
    sizes: bytes
    contents: bytes


class Waiting:
    """Messages of one queue that are to be bundled; columns, because nobody looks at a single one."""

    __slots__ = ("_ats", "_contents", "_ids", "_seqs", "_sizes")

    def __init__(self) -> None:
        self._seqs: list[int] = []
        self._ids: list[str] = []
        self._ats: list[int] = []
        self._sizes: list[int] = []
        self._contents: list[object] = []

    def add(
        self,
        seqs: Iterable[int],
        ids: Iterable[str],
        ats: Iterable[int],
        sizes: Iterable[int],
        contents: Iterable[object],
    ) -> None:
        self._seqs += seqs
        self._ids += ids
        self._ats += ats
        self._sizes += sizes
        self._contents += contents

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Messages that go back into a bundle, untouched."""
        self.add(
            [row.seq for row in rows], [row.id for row in rows], [row.entered_at for row in rows],
            [row.size for row in rows], [msgspec.Raw(row.content or b"") for row in rows],
        )  # fmt: skip

    def packed(self, queue: int) -> Iterator[Packed]:
        """As rows, oldest first."""
        self._sort()
        first = 0
        while first < len(self._seqs):
            last = self._end(first)
            seqs, ats, sizes = self._seqs[first:last], self._ats[first:last], self._sizes[first:last]
            yield Packed(
                queue, seqs[0], seqs[-1], ats[0], ats[-1], len(seqs), sum(sizes), strips.longs(seqs),
                strips.ids(self._ids[first:last]), strips.longs(ats), strips.shorts(sizes),
                strips.items(self._contents[first:last]),
            )  # fmt: skip
            first = last

    def _sort(self) -> None:
        """By age; mostly they are."""
        if self._ats == sorted(self._ats) and self._seqs == sorted(self._seqs):
            return
        ages = list(zip(self._ats, self._seqs, strict=True))
        order = sorted(range(len(ages)), key=ages.__getitem__)
        for name in self.__slots__:
            column = getattr(self, name)
            setattr(self, name, [column[place] for place in order])

    def _end(self, first: int) -> int:
        """Where a row of those from `first` on ends: with at least one, not too much, not too far apart, and not out of
        their order; two senders of the same moment may have got their numbers the other way round."""
        last = min(first + MOST_MESSAGES, len(self._seqs))
        seqs, ats, sizes = self._seqs, self._ats, self._sizes
        if ats[first] == ats[last - 1] and sum(sizes[first:last]) <= MOST_BYTES:
            return last
        size = sizes[first]
        for place in range(first + 1, last):
            size += sizes[place]
            if size > MOST_BYTES or ats[place] - ats[first] > MOST_MS or seqs[place] < seqs[place - 1]:
                return place
        return last


def insert(waiting: Mapping[int, Waiting]) -> Step:
    """Write the messages that wait in each queue."""
    return insert_packed([row for key, some in waiting.items() for row in some.packed(key)])


def insert_packed(rows: Sequence[Packed]) -> Step:
    columns = dict(zip(Packed._fields, zip(*rows, strict=True), strict=True))
    return Q.insert_bundles, {name: _WRITERS.get(name, blobs)(column) for name, column in columns.items()}


def delete(opened: Mapping[tuple[int, int], int]) -> Step:
    """Remove bundles, by queue and seq, which came at the given instants."""
    return Q.delete_bundles, {
        "queues": numbers(queue for queue, _ in opened),
        "entered_ats": numbers(opened.values()),
        "seqs": numbers(seq for _, seq in opened),
    }
