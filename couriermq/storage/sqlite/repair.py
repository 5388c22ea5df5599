"""What is done about a damaged row of `pack` or `message`: it goes, and what depends on it is made anew."""

import sqlite3
from collections.abc import Iterable

from couriermq.core.lifecycle.unit import Unit
from couriermq.storage.contents import Damaged
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import Row, to_pack, to_single

COUNTS = (
    "SELECT queue, sum(state = 0), sum(state = 1), sum(state = 2), sum(size) FROM message GROUP BY queue",
    "SELECT queue, sum((state = 0) * remaining), sum((state = 1) * remaining), sum((state = 2) * remaining), sum(bytes)"
    " FROM pack GROUP BY queue",
)
"""By queue: delayed, ready, leased, bytes."""
MOST_IN_A_PACK = 1_000


def set_aside_row(
    db: sqlite3.Connection, unit: Unit, damaged: Damaged, *, queues: Iterable[int], fifo: Iterable[int], at: int
) -> int:
    """Remove a damaged row, and have indexes, figures and groups agree with what is left; how many messages it had.

    Where the row is sound, its entry in an index was not, and the index alone is made anew: 0. No event tells of the
    messages, because nobody knows which they were.
    """
    assert damaged.table is not None
    db.execute(f"REINDEX {damaged.table}")  # a row whose entries in the indexes are missing cannot be deleted
    is_pack = damaged.table == "pack"
    row = db.execute(Q.pack_row if is_pack else Q.single_row, (damaged.key,)).fetchone()
    if row is None or _is_sound(row, is_pack=is_pack):
        return 0
    queue, count = row[1], row[7] if is_pack else 1
    count = count if isinstance(count, int) and 0 < count <= MOST_IN_A_PACK else 1
    db.execute(Q.delete_pack if is_pack else Q.delete_single, (damaged.key,))
    db.execute(Q.set_aside, (damaged.key, queue if isinstance(queue, int) else 0, count, None, at))
    recount(db, unit, queues)
    for key in fifo:
        db.execute(Q.delete_groups, (key,))
        db.execute(Q.regroup, (key,))
    return count


def _is_sound(row: Row, *, is_pack: bool) -> bool:
    try:
        to_pack(row) if is_pack else to_single(row)
    except Damaged:
        return False
    return True


def recount(db: sqlite3.Connection, unit: Unit, queues: Iterable[int]) -> None:
    """Count the messages of queues anew; what they have had in all stays as it is."""
    counted = {key: [0, 0, 0, 0] for key in queues}
    for query in COUNTS:
        for key, *figures in db.execute(query):
            if key in counted:
                counted[key] = [one + int(other or 0) for one, other in zip(counted[key], figures, strict=True)]
    for key, (delayed, ready, leased, size) in counted.items():
        tally = unit.tally(key)
        *_, sent, acked, dead = tally.figures
        tally.figures = (ready, delayed, leased, size, sent, acked, dead)
