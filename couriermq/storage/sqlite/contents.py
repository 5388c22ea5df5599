"""Journal rows as messages point to them: read, checked, and kept in memory for as long as there is room."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

import msgspec

from couriermq.core.chronicle import unpack_runs
from couriermq.core.lifecycle.rows import Content, Contents, Pack, Single
from couriermq.storage.sqlite.checksums import Damaged, checksum
from couriermq.storage.sqlite.queries import Q

CACHE_BYTES = 8 * 1024 * 1024
"""Bodies that are kept in memory."""
CACHE_EVENTS = 40_000
"""Events that are kept in memory, because a small one takes more room than its body."""


class Cache:
    """The rows that were used last, and the last large one: many listeners may get the same large message."""

    def __init__(self) -> None:
        self._rows: dict[int, Content] = {}
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

    def forget_from(self, offset: int) -> None:
        """Rows from there on were rolled back; others will have their places."""
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


def load_contents(
    db: sqlite3.Connection,
    packs: Iterable[Pack],
    singles: Iterable[Single],
    cache: Cache | None = None,
    *,
    bodies: bool = True,
) -> Contents:
    """What the rows point to; raises Damaged. Without `bodies` only those are in memory that the cache keeps anyway."""
    rows: dict[int, Content] = {}
    payloads: dict[int, bytes] = {}
    for pack in packs:
        if pack.start not in rows:
            rows[pack.start] = _read(db, pack.start, cache, bodies=bodies)
    for single in singles:
        if single.start is None:
            payloads[single.seq] = read_payload(db, single.seq)
        elif single.start not in rows:
            rows[single.start] = _read(db, single.start, cache, bodies=True)
    return Contents(rows, payloads)


def _read(db: sqlite3.Connection, start: int, cache: Cache | None, *, bodies: bool) -> Content:
    content = cache.get(start) if cache is not None else None
    if content is not None:
        return content
    content = read_row(db, start)
    if cache is not None and cache.put(start, content, bodies=bodies):
        return content
    if not bodies:
        for run in content.runs:
            run.bodies = []
    return content


def read_row(db: sqlite3.Connection, start: int) -> Content:
    row = db.execute(Q.journal_row, (start,)).fetchone()
    if row is None or not is_sound(row):
        raise Damaged(start=start)
    try:
        return Content(unpack_runs(row[-1]), len(row[-1]))
    except msgspec.DecodeError as error:
        raise Damaged(start=start) from error


def is_sound(row: Sequence[Any]) -> bool:
    """Whether all columns of a journal row, `events` last, are as they were written."""
    *_, crc, _, events = row
    return has_sound_head(row[:-1]) and type(events) is bytes and crc32(events) == crc


def has_sound_head(row: Sequence[Any]) -> bool:
    """The same without the events."""
    return bool(checksum(row[:-1]) == row[-1])


def read_payload(db: sqlite3.Connection, seq: int) -> bytes:
    row = db.execute(Q.read_payload, (seq,)).fetchone()
    if row is None or type(row[0]) is not bytes or crc32(row[0]) != row[1]:
        raise Damaged(seq=seq)
    return row[0]
