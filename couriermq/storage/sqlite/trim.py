"""Journal rows that readers no longer need go, unless messages still wait in them.

A row that packs point to is retained until they are gone. Where only single messages are left in a row, and few bytes,
their bodies are copied out and the row goes.
"""

import sqlite3
from zlib import crc32

from couriermq.storage.sqlite.contents import load_contents
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import to_single

STEP = 500
"""Rows that one transaction looks at."""

COPIED_BYTES = 256 * 1024
"""Bodies of one row that are copied out; a row in which more waits stays, as that of a large message."""

OLDEST = "oldest_offset"


def oldest_behind(db: sqlite3.Connection, before: int) -> int | None:
    """The start of the row that holds an offset, or of the newest row; None for an empty journal."""
    row = db.execute(Q.row_holding, (before,)).fetchone()
    if row is None:
        found: int | None = db.execute(Q.row_behind, (-1,)).fetchone()[0]
        return found
    start, count = row
    if before < start + count:
        return int(start)
    behind: int | None = db.execute(Q.row_behind, (start,)).fetchone()[0]
    return int(start) if behind is None else behind


def trim(db: sqlite3.Connection, *, since: int, before: int) -> int | None:
    """One step: remove or retain rows from `since` up to `before`; where the next step begins, None after the last."""
    rows = db.execute(Q.rows_to_trim, {"from": since, "before": before, "limit": STEP}).fetchall()
    for start, first, last in rows:
        if first is None or _is_unused(db, start, first, last):
            db.execute(Q.delete_journal_row, (start,))
        else:
            db.execute(Q.retain, (start, first, last))
    return rows[-1][0] + 1 if len(rows) == STEP else None


def drop_unused(db: sqlite3.Connection, *, after: int) -> int | None:
    """One step through the rows that are retained: remove those in which nothing waits any more."""
    rows = db.execute(Q.retained_rows, (after, STEP)).fetchall()
    for start, first, last in rows:
        if _is_unused(db, start, first, last):
            db.execute(Q.delete_journal_row, (start,))
            db.execute(Q.unretain, (start,))
    return rows[-1][0] if len(rows) == STEP else None


def _is_unused(db: sqlite3.Connection, start: int, first: int, last: int) -> bool:
    """Whether no message points to a row; the bodies of the last single ones are copied out."""
    where = {"start": start, "first": first, "last": last}
    if db.execute(Q.pointing_packs, where).fetchone():
        return False
    singles = [to_single(row) for row in db.execute(Q.pointing_singles, where)]
    if sum(single.size for single in singles) > COPIED_BYTES:
        return False
    if singles:
        contents = load_contents(db, (), singles)
        for single in singles:
            body = contents.body_of(single)
            db.execute(Q.insert_payload, (single.seq, body, crc32(body)))
            db.execute(Q.copied_out, (single.seq,))
    return True
