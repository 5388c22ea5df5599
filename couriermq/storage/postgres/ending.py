"""How a message leaves a queue without an ack, or comes back into it: decided by `core`, done to a row."""

from collections.abc import Sequence

from couriermq.core.events import EventKind
from couriermq.core.model import Death, Json, Kind, Queue, State
from couriermq.core.retry import Dead, Expired
from couriermq.storage.base import Directory
from couriermq.storage.postgres.held import own_no
from couriermq.storage.postgres.rows import Row, encode
from couriermq.storage.postgres.transaction import Transaction

TOO_OLD = "retention"


def note(
    tx: Transaction,
    kind: EventKind,
    at: int,
    queue: Queue,
    row: Row,
    principal: str | None = None,
    detail: dict[str, Json] | None = None,
) -> None:
    """Something has happened to a message."""
    tx.events.note(kind, at, queue, row.seq, row.id, row.attempts, row.size, principal, detail)


def note_all(
    tx: Transaction,
    kind: EventKind,
    at: int,
    queue: Queue,
    rows: Sequence[Row],
    principal: str | None,
    detail: dict[str, Json] | None = None,
) -> None:
    """The same has happened to all of them."""
    tx.events.note_all(
        kind, at, queue, [row.seq for row in rows], [row.id for row in rows], [row.attempts for row in rows],
        [row.size for row in rows], principal, detail,
    )  # fmt: skip


def remove(
    tx: Transaction,
    queue: Queue,
    row: Row,
    *,
    kind: EventKind,
    at: int,
    principal: str | None = None,
    detail: dict[str, Json] | None = None,
) -> None:
    """Take a message out of the world."""
    tx.delete(row)
    tx.change(queue.key).remove(row.state, row.size)
    if queue.kind is Kind.FIFO:
        _touch(tx, queue, row.grp, row.state)
    note(tx, kind, at, queue, row, principal, detail)


def put_back(tx: Transaction, queue: Queue, row: Row, *, due_at: int, now: int) -> None:
    """A message becomes ready again, or delayed until `due_at`."""
    was, state = row.state, State.READY if due_at <= now else State.DELAYED
    row.state, row.due_at, row.lease_no = state, due_at, own_no(row.lease_no)
    tx.put(row)
    tx.change(queue.key).shift(was, state)
    if state is State.READY:
        tx.made_ready(queue.key)
    else:
        tx.due(queue.key, due_at)
    if queue.kind is Kind.FIFO:
        _touch(tx, queue, row.grp, was)


def bury(tx: Transaction, queue: Queue, directory: Directory, fate: Dead | Expired, row: Row, *, at: int) -> None:
    """A leased message has no attempt left, or has grown too old: to the dead letter queue, or gone."""
    target = dead_letter_queue(queue, directory) if isinstance(fate, Dead) else None
    tx.change(queue.key).dead += isinstance(fate, Dead)
    if target is None:
        reason = fate.reason if isinstance(fate, Dead) else TOO_OLD
        remove(tx, queue, row, kind=EventKind.DISCARDED, at=at, detail={"reason": reason})
        return
    assert isinstance(fate, Dead)
    detail = {"reason": fate.reason, "target_id": target.id, "target": target.name}
    note(tx, EventKind.DEAD_LETTERED, at, queue, row, None, detail)
    death = Death(reason=fate.reason, source_queue=queue.id, attempts=row.attempts, died_at=at)
    transfer(tx, queue, target, row, at=at, death=death)


def dead_letter_queue(queue: Queue, directory: Directory) -> Queue | None:
    target_id = queue.settings.dead_letter_queue
    return directory.queue_of_id(target_id) if target_id else None


def transfer(tx: Transaction, source: Queue, target: Queue, row: Row, *, at: int, death: Death | None = None) -> None:
    """Move a message as it is to another queue, where it starts afresh."""
    tx.change(source.key).remove(row.state, row.size)
    if source.kind is Kind.FIFO:
        _touch(tx, source, row.grp, row.state)
    row.queue, row.state, row.due_at, row.entered_at = target.key, State.READY, at, at
    row.attempts, row.discard_at, row.lease_no = 0, None, own_no(row.lease_no)
    row.grp = (row.grp or b"") if target.kind is Kind.FIFO else (row.grp or None)
    row.death = encode(death) if death else None
    tx.transfer(row)
    tx.change(target.key).add(State.READY, row.size)
    tx.made_ready(target.key)
    tx.due(target.key, at + target.settings.retention_ms)
    if target.kind is Kind.FIFO:
        tx.touch_group(target.key, row.grp)


def _touch(tx: Transaction, queue: Queue, grp: bytes | None, state: State) -> None:
    """A message of a group has left or was given back: the next may be had now; at worst a receiver looks in vain."""
    tx.touch_group(queue.key, grp, leased=-1 if state is State.LEASED else 0)
    tx.made_ready(queue.key)


async def end_delivered(tx: Transaction, directory: Directory, *, at: int, principal: str) -> None:
    """Ack the originals of copies that listeners have got, once no copy of them is left."""
    origins, tx.delivered = sorted(set(tx.delivered)), []
    rows = {row.seq: row for row in await tx.load_named(origins)}  # locked: two last copies may end at two nodes
    queues = {row.queue: directory.queue_of_key(row.queue) for row in rows.values()}
    await tx.lock(key for key, queue in queues.items() if queue and queue.kind is Kind.FIFO)
    held = await tx.having_copies(origins)
    for seq, row in rows.items():
        queue = queues[row.queue]
        if seq in held or queue is None or row.state is State.LEASED:  # whoever holds it will settle it
            continue
        tx.change(queue.key).acked += 1
        remove(tx, queue, row, kind=EventKind.ACKED, at=at, principal=principal, detail={"delivered": True})
