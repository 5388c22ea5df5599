"""Looking at a queue, and taking messages out of it, without a lease."""

import re
import sqlite3
from collections.abc import Sequence
from typing import Any

from couriermq.core.errors import Invalid, MessageNotFound
from couriermq.core.events import EventKind
from couriermq.core.limits import COMMIT_BYTES, Room, weight_of
from couriermq.core.model import Kind, Message, Page, Queue, State
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Directory, Filter, Moved
from couriermq.storage.sqlite.ending import refresh_group, remove, transfer
from couriermq.storage.sqlite.ledger import Tx
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import Row, read_death, to_message

SCAN_COUNT = 10_000

_CURSOR = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)
_LARGEST = 2**63 - 1


def browse(
    db: sqlite3.Connection, queue: Queue, sealer: Sealer, where: Filter, *, limit: int, after: str | None
) -> Page:
    """One page; a filter looks at no more than SCAN_COUNT messages before it answers."""
    if where.id is not None:
        return _browse_id(db, queue, sealer, where, limit=limit, after=after)
    messages: list[Message] = []
    room, cursor = Room(), after
    for looked, row in enumerate(_rows_after(db, queue, after, SCAN_COUNT), 1):
        if row[2] in where.states:
            message = to_message(db, queue, row)
            if _has_attribute(message, where):
                if not room.takes(weight_of(message.body, message.attributes)):
                    return Page(messages=messages, next=cursor)
                messages.append(message)
        cursor = _cursor(row)
        if len(messages) == limit or looked == SCAN_COUNT:
            return Page(messages=messages, next=cursor if _is_more(db, queue, cursor) else None)
    return Page(messages=messages)


def read_message(db: sqlite3.Connection, queue: Queue, sealer: Sealer, message_id: str) -> Message:
    rows = _rows_of_id(db, queue, sealer, message_id, after=0, limit=1)
    if not rows:
        raise MessageNotFound(message_id)
    return to_message(db, queue, rows[0])


def _browse_id(
    db: sqlite3.Connection, queue: Queue, sealer: Sealer, where: Filter, *, limit: int, after: str | None
) -> Page:
    assert where.id is not None
    seq = read_cursor(after)[1] if after else 0
    rows = _rows_of_id(db, queue, sealer, where.id, after=seq, limit=limit + 1)
    matching: list[Message] = []
    room, cursor = Room(), None
    for row in rows[:limit]:
        if row[2] in where.states and _has_attribute(message := to_message(db, queue, row), where):
            if not room.takes(weight_of(message.body, message.attributes)):
                return Page(messages=matching, next=cursor)
            matching.append(message)
        cursor = _cursor(row)
    return Page(messages=matching, next=cursor if len(rows) > limit else None)


def _rows_of_id(
    db: sqlite3.Connection, queue: Queue, sealer: Sealer, message_id: str, *, after: int, limit: int
) -> list[Row]:
    """Messages of one id, oldest first: an id that we minted says where its message is."""
    rows = db.execute(
        Q.given_messages, {"queue": queue.key, "id": message_id, "after": after, "limit": limit}
    ).fetchall()
    seq = sealer.seq_of(message_id)
    if seq is not None and seq > after:
        minted = db.execute(Q.message, (seq, queue.key)).fetchone()
        rows += [minted] if minted and minted not in rows else []
    return sorted(rows)[:limit]


def _has_attribute(message: Message, where: Filter) -> bool:
    if where.attribute is None:
        return True
    name, wanted = where.attribute
    value = message.attributes.get(name)
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


# -- cursors ------------------------------------------------------------------------------------------------------


def _rows_after(db: sqlite3.Connection, queue: Queue, after: str | None, limit: int) -> sqlite3.Cursor:
    entered_at, seq = read_cursor(after) if after else (-1, -1)
    return db.execute(Q.page, {"queue": queue.key, "entered_at": entered_at, "seq": seq, "limit": limit})


def _cursor(row: Row) -> str:
    return f"{row[8]}-{row[0]}"


def read_cursor(after: str) -> tuple[int, int]:
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise Invalid("the cursor is not one that a page ended with", field="after")
    return int(found[1]), int(found[2])


def _is_more(db: sqlite3.Connection, queue: Queue, cursor: str | None) -> bool:
    return _rows_after(db, queue, cursor, 1).fetchone() is not None


# -- taking out ---------------------------------------------------------------------------------------------------


def remove_chosen(tx: Tx, queue: Queue, seqs: Sequence[int], *, kind: EventKind, now: int, principal: str) -> list[int]:
    found = _chosen(tx, queue, seqs)
    for row in found:
        _remove_row(tx, queue, row, kind=kind, now=now, principal=principal)
    return [row[0] for row in found]


def _chosen(tx: Tx, queue: Queue, seqs: Sequence[int]) -> list[Row]:
    """Those of the named messages that are in the queue, each once."""
    possible = [seq for seq in dict.fromkeys(seqs) if 0 < seq <= _LARGEST]
    return [row for seq in possible if (row := tx.execute(Q.message, (seq, queue.key)).fetchone())]


def _step(tx: Tx, queue: Queue, after: str | None, limit: int) -> tuple[list[Row], str | None]:
    """The next messages, as many as the limit and the bytes of a commit allow, and where to go on after them."""
    rows: list[Row] = []
    room = Room(COMMIT_BYTES)
    for row in _rows_after(tx.db, queue, after, limit):
        if not room.takes(row[15]):
            return rows, _cursor(rows[-1])
        rows.append(row)
    return rows, _cursor(rows[-1]) if len(rows) == limit else None


def purge(tx: Tx, queue: Queue, *, upto_seq: int, after: str | None, limit: int, now: int, principal: str) -> Moved:
    rows, following = _step(tx, queue, after, limit)
    gone = [row for row in rows if row[0] <= upto_seq]
    for row in gone:
        _remove_row(tx, queue, row, kind=EventKind.PURGED, now=now, principal=principal)
    return Moved(len(gone), following)


def _remove_row(tx: Tx, queue: Queue, row: Row, *, kind: EventKind, now: int, principal: str) -> None:
    remove(
        tx, queue, seq=row[0], message_id=row[1], state=State(row[2]), attempts=row[6], size=row[15], grp=row[12],
        kind=kind, at=now, principal=principal,
    )  # fmt: skip


def move(
    tx: Tx,
    source: Queue,
    target: Queue | None,
    *,
    directory: Directory,
    seqs: Sequence[int] | None,
    upto_seq: int,
    after: str | None,
    limit: int,
    kind: EventKind,
    now: int,
    principal: str,
) -> Moved:
    """One step of a move or a redrive, oldest first."""
    if seqs is None:
        rows, following = _step(tx, source, after, limit)
    else:
        rows, following = _chosen(tx, source, seqs), None
    count = 0
    for row in rows:
        goal = target or _source_of_death(row, directory)
        if goal is not None and row[0] <= upto_seq and row[2] != State.LEASED:
            _move_row(tx, source, goal, row, kind=kind, now=now, principal=principal)
            count += 1
    return Moved(count, following)


def _source_of_death(row: tuple[Any, ...], directory: Directory) -> Queue | None:
    death = read_death(row[14])
    return directory.queue_of_id(death.source_queue) if death else None


def _move_row(tx: Tx, source: Queue, target: Queue, row: Row, *, kind: EventKind, now: int, principal: str) -> None:
    seq, message_id, state, attempts, grp, size = row[0], row[1], State(row[2]), row[6], row[12], row[15]
    detail = {"target_id": target.id, "target": target.name}
    tx.events.note(kind, now, source, seq, message_id, attempts, size, principal, detail)
    transfer(tx, source, target, seq=seq, state=state, size=size, grp=grp, at=now)


def hasten(tx: Tx, queue: Queue, *, after: str | None, limit: int, now: int) -> Moved:
    """One step of making ready what waits for another attempt, the longest wait first."""
    due_at, seq = read_cursor(after) if after else (_LARGEST, _LARGEST)
    where = {"queue": queue.key, "due_at": due_at, "seq": seq, "limit": limit}
    rows = tx.execute(Q.waiting_again, where).fetchall()
    for row_seq, _, _ in rows:
        tx.execute(Q.put_back, (int(State.READY), now, row_seq))
    if rows:
        tally = tx.tally(queue.key)
        tally.counts[State.DELAYED] -= len(rows)
        tally.counts[State.READY] += len(rows)
        tx.made_ready(queue.key, len(rows))
    if queue.kind is Kind.FIFO:
        for grp in {grp for _, _, grp in rows}:
            refresh_group(tx, queue, grp, leased=0)
    return Moved(len(rows), f"{rows[-1][1]}-{rows[-1][0]}" if len(rows) == limit else None)
