"""Journal rows that readers no longer need go, unless messages still wait in them.

A row that packs point to is retained until they are gone, and one whose head is damaged for good. Where only single
messages are left in a row, and few bytes, their bodies are copied out and the row goes.
"""

import sqlite3
from zlib import crc32

from couriermq.core.chronicle import keep_bodies
from couriermq.storage.contents import Cache
from couriermq.storage.sqlite.checksums import checksum
from couriermq.storage.sqlite.contents import has_sound_head, is_sound, load_contents
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import single_values, to_pack, to_single
from couriermq.storage.trimming import STEP, is_copied

WRITTEN_BYTES = 1024 * 1024
"""Of bodies that one transaction copies out, and of rows that it rewrites."""

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
    written = 0
    for row in rows:
        start, first, last = row[0], row[6], row[7]
        copied = _copied_out(db, start, first, last) if has_sound_head(row) else None
        if copied is None:
            db.execute(Q.retain, (start,))
        else:
            db.execute(Q.delete_journal_row, (start,))
            written += copied
        if written > WRITTEN_BYTES:
            return int(start) + 1
    return rows[-1][0] + 1 if len(rows) == STEP else None


def drop_unused(db: sqlite3.Connection, cache: Cache, *, after: int) -> tuple[int | None, int]:
    """One step through the rows that are retained: remove those in which nothing waits any more.

    Where fewer messages wait than there are bodies, the others are blanked: what was removed is then gone for good.
    Returns where the next step begins, None after the last, and how many rows have gone.
    """
    rows = db.execute(Q.retained_rows, (after, STEP)).fetchall()
    written = removed = 0
    for *row, kept in rows:
        start, count, first, last = row[0], row[1], row[6], row[7]
        if count is None:  # the row has gone already
            db.execute(Q.unretain, (start,))
        elif not has_sound_head(row):
            continue
        elif (copied := _copied_out(db, start, first, last)) is not None:
            db.execute(Q.delete_journal_row, (start,))
            db.execute(Q.unretain, (start,))
            cache.forget(start)
            written += copied
            removed += 1
        else:
            written += _blank(db, start, first, last, kept, cache)
        if written > WRITTEN_BYTES:
            return int(start), removed
    return rows[-1][0] if len(rows) == STEP else None, removed


def _blank(db: sqlite3.Connection, start: int, first: int, last: int, kept: int | None, cache: Cache) -> int:
    """Rewrite a row without the bodies of messages that are gone, if there are any; how many bytes were written."""
    where = {"start": start, "first": first, "last": last}
    positions = {to_single(row).position for row in db.execute(Q.pointing_singles, where)}
    for row in db.execute(Q.pointing_packs, where):
        pack = to_pack(row)
        positions.update(pack.position + index for index in pack.indexes())
    if len(positions) >= (last - first + 1 if kept is None else kept):
        return 0
    row = db.execute(Q.journal_row, (start,)).fetchone()
    if not is_sound(row):
        return 0  # whoever receives its messages sets them aside
    *head, _, _, events = row
    events, kept = keep_bodies(events, positions)
    head.append(crc32(events))
    db.execute("PRAGMA secure_delete = ON")
    db.execute(Q.rewrite_journal, (head[-1], checksum(head), events, start))
    db.execute("PRAGMA secure_delete = FAST")
    db.execute(Q.keep_bodies, (kept, start))
    cache.rewritten(start)
    return len(events)


def _copied_out(db: sqlite3.Connection, start: int, first: int | None, last: int) -> int | None:
    """Let go of a row: how many bytes of bodies of its last single messages were copied out. None where too many
    messages point to it."""
    if first is None:
        return 0
    where = {"start": start, "first": first, "last": last}
    has_packs = db.execute(Q.pointing_packs, where).fetchone() is not None
    singles = [to_single(row) for row in db.execute(Q.pointing_singles, where)]
    size = sum(single.size for single in singles)
    if not is_copied(has_packs=has_packs, single_bytes=size):
        return None
    if singles:
        contents = load_contents(db, (), singles)
        for single, body in [(single, contents.body_of(single)) for single in singles]:
            db.execute(Q.insert_payload, (single.seq, body, crc32(body)))
            single.start = None
            db.execute(Q.copied_out, (single_values(single)[-1], single.seq))
    return size
