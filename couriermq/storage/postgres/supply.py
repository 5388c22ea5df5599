"""Bundles that were taken out of the database, to be cut into what each receiver gets."""

import itertools
from collections import deque
from typing import NamedTuple

from couriermq.core.limits import Room
from couriermq.storage.postgres import bundles, held, strips
from couriermq.storage.postgres.strips import ID, LONG, SHORT


class Cut(NamedTuple):
    """Messages that follow each other."""

    message_count: int
    byte_count: int
    seqs: bytes
    ids: bytes
    ats: bytes
    sizes: bytes
    contents: bytes
    span: tuple[int, int, int, int]
    """The lowest and the highest seq, the oldest and the newest instant."""

    def held(self, queue: int, lease_no: int, due_at: int) -> held.Packed:
        """As a row, leased until `due_at`."""
        return held.Packed(
            queue, lease_no, due_at, *self.span, self.message_count, self.byte_count, self.seqs, self.ids, self.ats,
            self.sizes, self.contents,
        )  # fmt: skip


class Supply:
    """What of one queue was taken out, oldest first."""

    def __init__(self, queue: int) -> None:
        self._queue = queue
        self._packs: deque[_Pack] = deque()
        self.oldest: int | None = None
        """When the first of them came."""
        self.is_spoilt = False
        """There is more, but not to be had in this way."""

    def add(self, count: int, seqs: bytes, ids: bytes, ats: bytes, sizes: bytes, contents: bytes) -> None:
        if self.oldest is None:
            self.oldest = strips.first_long(ats)
        self._packs.append(_Pack(count, seqs, ids, ats, sizes, contents))

    @property
    def is_empty(self) -> bool:
        return not self._packs

    def take(self, most: int, room: Room) -> Cut | None:
        """The next messages, as many as there are up to `most` and as fit; None where there are none."""
        cuts: list[Cut] = []
        while most and self._packs:
            pack = self._packs[0]
            count = pack.fitting(min(most, pack.left), room)
            if not count:
                break
            cut = pack.cut(count)
            most -= cut.message_count
            cuts.append(cut)
            if not pack.left:
                self._packs.popleft()
        return _joined(cuts) if cuts else None

    def rests(self) -> list[bundles.Packed]:
        """What nobody has got, as smaller bundles."""
        return [pack.rest(self._queue) for pack in self._packs]


class _Pack:
    """A bundle, of which the first `_used` messages are gone."""

    def __init__(self, count: int, seqs: bytes, ids: bytes, ats: bytes, sizes: bytes, contents: bytes) -> None:
        self._strips = seqs, ids, ats, sizes
        self._sizes = strips.read_shorts(sizes)
        self._contents = strips.pieces(count, contents)
        self._used = 0
        self.left = count

    def fitting(self, most: int, room: Room) -> int:
        """How many of the next messages fit."""
        pieces = self._contents[self._used : self._used + most]
        return sum(1 for _ in itertools.takewhile(lambda piece: room.takes(len(piece)), pieces))

    def cut(self, count: int) -> Cut:
        first, last = self._used, self._used + count
        seqs, ids, ats, sizes = (
            strip[first * width : last * width]
            for strip, width in zip(self._strips, (LONG, ID, LONG, SHORT), strict=True)
        )
        contents, size = b"".join(self._contents[first:last]), sum(self._sizes[first:last])
        self._used, self.left = last, self.left - count
        span = strips.first_long(seqs), strips.last_long(seqs), strips.first_long(ats), strips.last_long(ats)
        return Cut(count, size, seqs, ids, ats, sizes, contents, span)

    def rest(self, queue: int) -> bundles.Packed:
        rest = self.cut(self.left)
        return bundles.Packed(
            queue, *rest.span, rest.message_count, rest.byte_count, rest.seqs, rest.ids, rest.ats, rest.sizes,
            rest.contents,
        )  # fmt: skip


def _joined(cuts: list[Cut]) -> Cut:
    if len(cuts) == 1:
        return cuts[0]
    counts, sums, seqs, ids, ats, sizes, contents, spans = zip(*cuts, strict=True)
    firsts, lasts, oldest, newest = zip(*spans, strict=True)
    return Cut(
        sum(counts), sum(sums), b"".join(seqs), b"".join(ids), b"".join(ats), b"".join(sizes), b"".join(contents),
        (min(firsts), max(lasts), min(oldest), max(newest)),
    )  # fmt: skip
