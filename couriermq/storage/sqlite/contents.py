"""Journal rows as messages point to them."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from couriermq.core.lifecycle.rows import Content, Contents, Pack, Single
from couriermq.storage.contents import Cache, checked_body, content_of, is_intact, kept
from couriermq.storage.sqlite.checksums import checksum
from couriermq.storage.sqlite.queries import Q


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
    return content or kept(cache, start, read_row(db, start), bodies=bodies)


def read_row(db: sqlite3.Connection, start: int) -> Content:
    row = db.execute(Q.journal_row, (start,)).fetchone()
    return content_of(start, row[-1] if row is not None and is_sound(row) else None)


def is_sound(row: Sequence[Any]) -> bool:
    """Whether all columns of a journal row, `events` last, are as they were written."""
    *_, crc, _, events = row
    return has_sound_head(row[:-1]) and is_intact(events, crc)


def has_sound_head(row: Sequence[Any]) -> bool:
    """The same without the events."""
    return bool(checksum(row[:-1]) == row[-1])


def read_payload(db: sqlite3.Connection, seq: int) -> bytes:
    return checked_body(seq, db.execute(Q.read_payload, (seq,)).fetchone())
