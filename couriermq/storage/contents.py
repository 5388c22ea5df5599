"""Contents of journal rows: checked when they are read, and kept in memory for as long as there is room."""

import logging
from collections.abc import Iterable, Iterator
from typing import Any
from zlib import crc32

import msgspec

from couriermq.core.chronicle import Commit, damaged_commits, unpack_runs
from couriermq.core.lifecycle.rows import Content
from couriermq.storage.metrics import Metrics

CACHE_BYTES = 8 * 1024 * 1024
"""Bodies that are kept in memory."""
CACHE_EVENTS = 40_000
"""Events that are kept in memory, because a small one takes more room than its body."""
MOST_HOLES = 100_000
"""Damaged offsets that are counted."""

log = logging.getLogger(__name__)


class Damaged(Exception):
    """Stored bytes are not those that were written.

    Messages of a journal row (`start`), those of a row of `pack` or `message` (`table`, `key`) and one with a body of
    its own (`seq`) can be set aside.
    """

    def __init__(
        self,
        what: str | None = None,
        *,
        start: int | None = None,
        seq: int | None = None,
        table: str | None = None,
        key: int | None = None,
    ) -> None:
        if what is None and start is not None:
            what = f"the journal's row at offset {start}"
        elif what is None and seq is not None:
            what = f"the body of message {seq}"
        super().__init__(f"{what or f'row {key} of table {table}'} is damaged")
        self.start = start
        self.seq = seq
        self.table = table
        self.key = key


class Holes:
    """Events of the journal that are damaged: each is counted and logged once."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def told(self, ranges: Iterable[tuple[int, int]], metrics: Metrics, *, at: int) -> list[Commit]:
        """What readers get for these ranges of offsets."""
        listed = list(ranges)
        found = {offset for first, end in listed for offset in range(first, end)} - self._known
        if found and len(self._known) < MOST_HOLES:
            self._known |= found
            metrics.damaged_events += len(found)
            log.error("the journal is damaged: its events from offset %d up to %d are lost", min(found), max(found) + 1)
        return [commit for first, end in listed for commit in damaged_commits(first, end, at=at)]


class Cache:
    """The rows that were used last, and the last large one: many listeners may get the same large message."""

    def __init__(self) -> None:
        self._rows: dict[int, Content] = {}
        self._rewritten: list[int] = []
        self._large: tuple[int, Content] | None = None
        self._bytes = 0
        self._events = 0

    def get(self, start: int) -> Content | None:
        if self._large is not None and self._large[0] == start:
            return self._large[1]
        content = self._rows.pop(start, None)
        if content is not None:
            self._rows[start] = content  # the newest stands last
        return content

    def items(self) -> Iterator[tuple[int, Content]]:
        yield from self._rows.items()
        if self._large is not None:
            yield self._large

    def put(self, start: int, content: Content, *, bodies: bool = True) -> bool:
        """Whether it is kept; a large one without the need for its bodies is not."""
        if content.weight > CACHE_BYTES // 8:
            if bodies:
                self._large = start, content
            return bodies
        self.forget(start)
        self._rows[start] = content
        self._bytes += content.weight
        self._events += content.count
        while self._bytes > CACHE_BYTES or self._events > CACHE_EVENTS:
            self.forget(next(iter(self._rows)))
        return True

    def rewritten(self, start: int) -> None:
        """The row changes in a transaction; what is cached of it from now on is wrong once that is rolled back."""
        self.forget(start)
        self._rewritten.append(start)

    def commit(self) -> None:
        self._rewritten.clear()

    def roll_back(self, offset: int) -> None:
        """Rows from there on were rolled back, others will have their places; and so were those that were rewritten."""
        for start in self._rewritten:
            self.forget(start)
        self._rewritten.clear()
        large = () if self._large is None else (self._large[0],)
        for start in [start for start in (*large, *self._rows) if start >= offset]:
            self.forget(start)

    def forget(self, start: int) -> None:
        if self._large is not None and self._large[0] == start:
            self._large = None
        content = self._rows.pop(start, None)
        if content is not None:
            self._bytes -= content.weight
            self._events -= content.count


def content_of(start: int, events: bytes | None) -> Content:
    """The runs of a journal row; raises Damaged, also where None says that the row is not there or not sound."""
    if events is None:
        raise Damaged(start=start)
    try:
        return Content(unpack_runs(events), len(events))
    except msgspec.DecodeError as error:
        raise Damaged(start=start) from error


def is_intact(blob: Any, crc: int) -> bool:
    """Whether these are the bytes that the checksum was made of; damage can change the type of a value."""
    return type(blob) is bytes and crc32(blob) == crc


def checked_body(seq: int, row: tuple[bytes, int] | None) -> bytes:
    """A body that was copied out, (body, checksum); raises Damaged."""
    if row is None or not is_intact(*row):
        raise Damaged(seq=seq)
    return row[0]


def kept(cache: Cache | None, start: int, content: Content, *, bodies: bool) -> Content:
    """The content, in the cache if there is room; without `bodies` only the cache keeps them."""
    if cache is not None and cache.put(start, content, bodies=bodies):
        return content
    if not bodies:
        for run in content.runs:
            run.bodies = []
    return content
