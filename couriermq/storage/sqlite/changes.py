"""Writes what decisions have come to."""

import sqlite3
from collections.abc import Callable
from typing import Any
from zlib import crc32

from couriermq.core.chronicle import pack_runs
from couriermq.core.lifecycle.rows import encode
from couriermq.core.lifecycle.unit import Changes, GroupChange, JournalRow, Unit
from couriermq.storage.sqlite.checksums import checksum
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import pack_values, single_values

Execute = Callable[..., sqlite3.Cursor]


def write(db: sqlite3.Connection, unit: Unit) -> None:
    """Write the rows that have changed so far."""
    changes = unit.changes
    if changes.is_empty:
        return
    for row in changes.journal:
        write_journal(db, unit, row)
    if changes.new_packs or changes.packs or changes.shrunk_packs or changes.gone_packs:
        _write_packs(db, changes)
    if changes.new_singles or changes.singles or changes.moved_singles or changes.gone_singles:
        _write_singles(db, changes)
    if changes.new_groups or changes.locked_groups or changes.groups:
        _write_groups(db, changes)
    if changes.dedups:
        db.executemany(Q.put_dedup, changes.dedups)
    for name, values in changes.orders:
        db.execute(getattr(Q, name), [_value(value) for value in values])
    changes.clear()


def write_journal(db: sqlite3.Connection, unit: Unit, row: JournalRow) -> None:
    events = pack_runs(row.runs)
    head = (
        row.start, row.count, row.at, unit.next_seq, unit.next_lease, int(row.is_private), row.first_seq, row.last_seq,
        crc32(events),
    )  # fmt: skip
    db.execute(Q.insert_journal, (*head, checksum(head), events))


def _write_packs(db: sqlite3.Connection, changes: Changes) -> None:
    _many(db, Q.insert_pack, [pack_values(pack) for pack in changes.new_packs])
    for pack in changes.packs.values():
        *_, gone, crc = pack_values(pack)
        db.execute(
            Q.change_pack,
            (
                pack.state, pack.due_at, pack.attempts, pack.lease_no, pack.count, pack.remaining, pack.bytes,
                pack.position, pack.turn, gone, crc, pack.last,
            ),
        )  # fmt: skip
    for pack in changes.shrunk_packs.values():
        *_, gone, crc = pack_values(pack)
        values = (pack.count, pack.remaining, pack.bytes, pack.position, pack.turn, gone, crc, pack.last)
        db.execute(Q.shrink_pack, values)
    _many(db, Q.delete_pack, [(last,) for last in changes.gone_packs])


def _write_singles(db: sqlite3.Connection, changes: Changes) -> None:
    _many(
        db, Q.insert_single,
        [(*single_values(s), int(s.discard_at is not None)) for s in changes.new_singles.values()],
    )  # fmt: skip
    _many(db, Q.insert_payload, [(seq, body, crc32(body)) for seq, body in changes.bodies.items()])
    _many(
        db, Q.change_single,
        [
            (s.state, s.due_at, s.attempts, s.lease_no, s.turn, single_values(s)[-1], s.seq)
            for s in changes.singles.values()
        ],
    )  # fmt: skip
    for s in changes.moved_singles.values():
        own = int(s.discard_at is not None)
        moved = (s.queue, s.state, s.due_at, s.attempts, s.lease_no, s.entered_at, s.discard_at, own, s.group, s.death)
        db.execute(Q.move_single, (*moved, s.turn, single_values(s)[-1], s.seq))
    _many(db, Q.delete_single, [(s.seq,) for s in changes.gone_singles])
    _many(db, Q.delete_payload, [(s.seq,) for s in changes.gone_singles if s.start is None])


def _write_groups(db: sqlite3.Connection, changes: Changes) -> None:
    _many(db, Q.add_group, changes.new_groups)
    _many(db, Q.lock_group, changes.locked_groups)
    for change in changes.groups:
        _write_group(db, change)


def _write_group(db: sqlite3.Connection, change: GroupChange) -> None:
    if change.head is None:
        db.execute(Q.delete_group, (change.queue, change.group))
        return
    values = {
        "queue": change.queue, "grp": change.group, "leased": change.leased, "head": change.head,
        "due_at": change.due_at,
    }  # fmt: skip
    db.execute(Q.put_group, values)


def _many(db: sqlite3.Connection, query: str, rows: list[tuple[Any, ...]]) -> None:
    if len(rows) == 1:
        db.execute(query, rows[0])
    elif rows:
        db.executemany(query, rows)


def _value(value: object) -> object:
    """As SQLite takes it: numbers in a list are packed."""
    if isinstance(value, list):
        return encode(value)
    return int(value) if isinstance(value, bool) else value
