"""Looking at a queue, and taking messages out of it, without a lease."""

import re
from collections.abc import Sequence
from itertools import takewhile

from couriermq.core.errors import Invalid
from couriermq.core.events import EventKind
from couriermq.core.limits import COMMIT_BYTES, Room, weight_of
from couriermq.core.model import Kind, Message, Page, Queue, State
from couriermq.core.receipts import Sealer
from couriermq.core.shards import was_sent_by
from couriermq.storage.base import Directory, Filter, Moved
from couriermq.storage.postgres import bundles, held
from couriermq.storage.postgres.arrays import numbers
from couriermq.storage.postgres.ending import note, remove, transfer
from couriermq.storage.postgres.link import Rows, Step
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row, read, to_message
from couriermq.storage.postgres.transaction import Transaction

SCAN_COUNT = 10_000
CHUNK = 200
PACKS = 25
"""How many rows of several messages are read at a time."""
LOOKS = 2
"""What somebody takes out of a bundle in the very moment in which it is looked for is found with the second look."""

Pack = tuple[tuple[int, int], list[Row]]
"""Messages that share a row, and the age that the row is found by: no younger than any of them."""

_CURSOR = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)
_LARGEST = 2**63 - 1


async def browse(
    pool: Pool, queue: Queue, found: Sequence[Rows], where: Filter, *, after: str | None, limit: int
) -> Page:
    """One page, which starts with what was found; a filter looks at no more than SCAN_COUNT messages."""
    messages: list[Message] = []
    room, looked = Room(), 0
    while True:
        bundled, leased, own = found
        packs = [
            [((entered_at, packed[1]), bundles.unpack(*packed)) for entered_at, *packed in bundled],
            [((entered_at, seq), held.unpack(*facts)) for seq, entered_at, *facts in leased],
        ]
        whole = [row for row in _read_all(own) if row.content is not None]
        rows, is_end = merge(whole, packs, after, len(whole) if len(whole) < len(own) else CHUNK)
        for row in rows:
            if len(messages) == limit or looked == SCAN_COUNT:
                return Page(messages=messages, next=after)
            if row.state in where.states and has_attribute(message := to_message(queue, row), where):
                if not room.takes(weight_of(message.body, message.attributes)):
                    return Page(messages=messages, next=after)
                messages.append(message)
            after, looked = _cursor(row), looked + 1
        if is_end:
            return Page(messages=messages)
        found = await pool.ask(*ask_page(queue, after))


def ask_page(queue: Queue, after: str | None) -> tuple[Step, Step, Step]:
    """The questions for the next messages of a queue: bundles, what was leased together, and those of their own.

    In this order, because messages go that way.
    """
    where = _page(queue, after)
    return (
        (Q.bundle_page, {**where, "span": bundles.MOST_MS, "limit": PACKS}),
        (Q.held_page, {**where, "limit": PACKS}),
        (Q.page, {**where, "limit": CHUNK, "budget": COMMIT_BYTES}),
    )


def _page(queue: Queue, after: str | None) -> dict[str, int]:
    entered_at, seq = read_cursor(after) if after else (-1, -1)
    return {"queue": queue.key, "entered_at": entered_at, "seq": seq}


def merge(rows: list[Row], packs: Sequence[list[Pack]], after: str | None, limit: int) -> tuple[list[Row], bool]:
    """The messages that come next, and whether they are the last; of no kind more than is known of the others."""
    start = read_cursor(after) if after else (-1, -1)
    ends: list[tuple[int, int]] = []
    if len(rows) >= limit:
        ends.append(_age(rows[-1]))
    fresh: list[Row] = []
    for kind in packs:
        later = [row for _, some in kind for row in some if _age(row) > start]
        if len(kind) >= PACKS:
            ends.append(max(kind[-1][0], min(map(_age, later))))
        fresh += later
    end = min(ends, default=None)
    # What has moved on between two questions is there twice; where it was found last is where it is.
    newest = {row.seq: row for row in (*fresh, *rows)}
    merged = sorted((row for row in newest.values() if end is None or _age(row) <= end), key=_age)
    return merged, end is None


def _age(row: Row) -> tuple[int, int]:
    return row.entered_at, row.seq


def ask_id(queue: Queue, sealer: Sealer, message_id: str, *, after: str | None, limit: int) -> tuple[Step, Step, Step]:
    """Messages of one id, oldest first: an id that we minted says where its message is."""
    minted = sealer.seq_of(message_id) or 0
    past = read_cursor(after)[1] if after else 0
    where = {"queue": queue.key, "seqs": numbers([minted] if minted > past else [])}
    of_id = Q.of_id, {
        "queue": queue.key, "id": message_id.encode(), "limit": limit, "minted": minted, "after": past,
    }  # fmt: skip
    return (Q.bundles_of, where), (Q.held_of, where), of_id


def of_id(found: Sequence[Rows], message_id: str) -> list[Row]:
    """What the answers hold of that id."""
    bundled, leased, own = found
    packed = [row for facts in bundled for row in bundles.unpack(*facts)]
    packed += [row for facts in leased for row in held.unpack(*facts)]
    rows = {row.seq: row for row in (*packed, *_read_all(own)) if row.id == message_id}
    return [rows[seq] for seq in sorted(rows)]


def page_of_id(queue: Queue, rows: list[Row], where: Filter, *, limit: int) -> Page:
    matching: list[Message] = []
    room, cursor = Room(), None
    for row in rows[:limit]:
        if row.state in where.states and has_attribute(message := to_message(queue, row), where):
            if not room.takes(weight_of(message.body, message.attributes)):
                return Page(messages=matching, next=cursor)
            matching.append(message)
        cursor = _cursor(row)
    return Page(messages=matching, next=cursor if len(rows) > limit else None)


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
    """The next messages of a queue, locked, within the bytes of a commit, and where to go on after them."""
    where = _page(queue, after)
    bundled, leased, own = await tx.ask(
        (Q.locked_bundle_page, {**where, "span": bundles.MOST_MS, "limit": PACKS}),
        (Q.locked_held_page, {**where, "limit": PACKS}),
        (Q.locked_page, {**where, "limit": limit}),
    )
    packs = [
        [((entered_at, packed[1]), tx.open_bundles([tuple(packed)])) for entered_at, *packed in bundled],
        [((entered_at, seq), tx.open_hands([tuple(facts)])) for seq, entered_at, *facts in leased],
    ]
    rows, is_end = merge(tx.adopt(own), packs, after, limit)
    room = Room(COMMIT_BYTES)
    fitting = list(takewhile(lambda row: room.takes(row.size), rows[:limit]))
    is_end = is_end and len(fitting) == len(rows)
    return fitting, None if is_end else _cursor(fitting[-1])


async def chosen(tx: Transaction, queue: Queue, seqs: Sequence[int]) -> list[Row]:
    """Those of the named messages that are in the queue, each once."""
    possible = [seq for seq in dict.fromkeys(seqs) if 0 < seq <= _LARGEST]
    wanted = set(possible)
    found: dict[int, Row] = {}
    for _ in range(LOOKS):
        missing = numbers(seq for seq in possible if seq not in found)
        where = {"queue": queue.key, "seqs": missing}
        bundled, leased, own = await tx.ask(
            (Q.locked_bundles_of, where), (Q.locked_held_of, where), (Q.named, {"seqs": missing})
        )
        rows = (*tx.open_bundles(bundled), *tx.open_hands(leased), *tx.adopt(own))
        found.update((row.seq, row) for row in rows if row.seq in wanted)
        if len(found) == len(possible):
            break
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
            note(tx, kind, now, source, row, principal, detail)
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


async def hasten(tx: Transaction, queue: Queue, *, after: str | None, limit: int, now: int) -> Moved:
    """One step of making ready what waits for another attempt, the longest wait first."""
    due_at, seq = read_cursor(after) if after else (_LARGEST, _LARGEST)
    if queue.kind is Kind.FIFO:
        await tx.lock([queue.key])
    rows = await tx.load(Q.waiting_again, queue=queue.key, due_at=due_at, seq=seq, limit=limit)
    following = f"{rows[-1].due_at}-{rows[-1].seq}" if len(rows) == limit else None
    for row in rows:
        row.state, row.due_at = State.READY, now
        tx.put(row)
        tx.change(queue.key).shift(State.DELAYED, State.READY)
        tx.made_ready(queue.key)
        if queue.kind is Kind.FIFO:
            tx.touch_group(queue.key, row.grp, leased=0)
    return Moved(len(rows), following)
