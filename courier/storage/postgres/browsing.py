"""Looking at a queue, and taking messages out of it, without a lease."""

import re
from collections.abc import Sequence

from courier.core.errors import Invalid
from courier.core.events import EventKind
from courier.core.model import Kind, Message, Page, Queue, State
from courier.core.receipts import Sealer
from courier.core.shards import was_sent_by
from courier.storage.base import Directory, Filter, Moved
from courier.storage.postgres.arrays import numbers
from courier.storage.postgres.ending import event, remove, transfer
from courier.storage.postgres.link import Rows, Step
from courier.storage.postgres.pool import Pool
from courier.storage.postgres.queries import Q
from courier.storage.postgres.rows import Row, read, to_message
from courier.storage.postgres.transaction import Transaction

SCAN_COUNT = 10_000
CHUNK = 200
PAGE_BYTES = 16 * 1024 * 1024
"""A page ends early once it holds this much: ten large messages are as heavy as a thousand small ones."""

_CURSOR = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)
_LARGEST = 2**63 - 1


async def browse(pool: Pool, queue: Queue, found: Rows, where: Filter, *, limit: int) -> Page:
    """One page, which starts with what was found; a filter looks at no more than SCAN_COUNT messages."""
    messages: list[Message] = []
    size = looked = 0
    after: str | None = None
    while True:
        for row in _read_all(found):
            if len(messages) == limit or size >= PAGE_BYTES or looked == SCAN_COUNT:
                return Page(messages=messages, next=after)
            after, looked = _cursor(row), looked + 1
            if row.state in where.states and has_attribute(message := to_message(queue, row), where):
                messages.append(message)
                size += row.size
        if len(found) < CHUNK:
            return Page(messages=messages)
        (found,) = await pool.ask(ask_page(queue, after))


def ask_page(queue: Queue, after: str | None) -> Step:
    entered_at, seq = read_cursor(after) if after else (-1, -1)
    return Q.page, {"queue": queue.key, "entered_at": entered_at, "seq": seq, "limit": CHUNK}


def ask_id(queue: Queue, sealer: Sealer, message_id: str, *, after: str | None, limit: int) -> Step:
    """Messages of one id, oldest first: an id that we minted says where its message is."""
    return Q.of_id, {
        "queue": queue.key, "id": message_id.encode(), "limit": limit, "minted": sealer.seq_of(message_id) or 0,
        "after": read_cursor(after)[1] if after else 0,
    }  # fmt: skip


def page_of_id(queue: Queue, found: Rows, where: Filter, *, limit: int) -> Page:
    rows = _read_all(found)
    shown = [to_message(queue, row) for row in rows[:limit] if row.state in where.states]
    matching = [message for message in shown if has_attribute(message, where)]
    return Page(messages=matching, next=_cursor(rows[limit - 1]) if len(rows) > limit else None)


def has_attribute(message: Message, where: Filter) -> bool:
    if where.attribute is None:
        return True
    name, wanted = where.attribute
    value = message.attributes.get(name)
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


# -- cursors ------------------------------------------------------------------------------------------------------


def _read_all(found: Rows) -> list[Row]:
    return [read(facts) for facts in found]


def _cursor(row: Row) -> str:
    return f"{row.entered_at}-{row.seq}"


def read_cursor(after: str) -> tuple[int, int]:
    found = _CURSOR.fullmatch(after)
    if found is None:
        raise Invalid("the cursor is not one that a page ended with", field="after")
    return int(found[1]), int(found[2])


# -- taking out ---------------------------------------------------------------------------------------------------


async def page_of(tx: Transaction, queue: Queue, after: str | None, limit: int) -> tuple[list[Row], str | None]:
    """The next messages of a queue, locked, and where to go on after them."""
    entered_at, seq = read_cursor(after) if after else (-1, -1)
    rows = await tx.load(Q.locked_page, queue=queue.key, entered_at=entered_at, seq=seq, limit=limit)
    return rows, _cursor(rows[-1]) if len(rows) == limit else None


async def chosen(tx: Transaction, queue: Queue, seqs: Sequence[int]) -> list[Row]:
    """Those of the named messages that are in the queue, each once."""
    possible = [seq for seq in dict.fromkeys(seqs) if 0 < seq <= _LARGEST]
    found = {row.seq: row for row in await tx.load(Q.named, seqs=numbers(possible))}
    return [found[seq] for seq in possible if seq in found and found[seq].queue == queue.key]


async def remove_chosen(
    tx: Transaction, queue: Queue, seqs: Sequence[int], *, kind: EventKind, now: int, principal: str
) -> list[int]:
    found = await chosen(tx, queue, seqs)
    for row in found:
        remove(tx, queue, row, kind=kind, at=now, principal=principal)
    return [row.seq for row in found]


async def purge(
    tx: Transaction, queue: Queue, *, upto_seq: int, after: str | None, limit: int, now: int, principal: str
) -> Moved:
    rows, following = await page_of(tx, queue, after, limit)
    gone = [row for row in rows if was_sent_by(row.seq, upto_seq)]
    for row in gone:
        remove(tx, queue, row, kind=EventKind.PURGED, at=now, principal=principal)
    return Moved(len(gone), following)


async def move(
    tx: Transaction,
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
    following = None
    if seqs is None:
        rows, following = await page_of(tx, source, after, limit)
    else:
        rows = await chosen(tx, source, seqs)
    goals = [target or _source_of_death(row, directory) for row in rows]
    await tx.lock(goal.key for goal in goals if goal is not None and goal.kind is Kind.FIFO)
    count = 0
    for row, goal in zip(rows, goals, strict=True):
        if goal is not None and was_sent_by(row.seq, upto_seq) and row.state is not State.LEASED:
            detail = {"target_id": goal.id, "target": goal.name}
            tx.events.append(event(kind, now, source, row, principal, detail))
            transfer(tx, source, goal, row, at=now)
            count += 1
    return Moved(count, following)


def _source_of_death(row: Row, directory: Directory) -> Queue | None:
    death = row.read_death()
    return directory.queue_of_id(death.source_queue) if death else None


async def sweep(tx: Transaction, queue: Queue, *, now: int, limit: int) -> bool:
    """Remove some of the messages of a queue that was deleted; whether none is left."""
    rows, following = await page_of(tx, queue, None, limit)
    for row in rows:
        detail = {"reason": "queue deleted"}
        remove(tx, queue, row, kind=EventKind.PURGED, at=now, detail=detail)
    return following is None
