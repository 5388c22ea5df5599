"""How a message leaves a queue without an ack: dead, discarded, removed or moved; and what its group makes of it."""

from couriermq.core.events import EventKind
from couriermq.core.model import Death, Json, Kind, Queue, State
from couriermq.core.retry import Dead, Expired
from couriermq.storage.base import Directory
from couriermq.storage.sqlite.ledger import Tx
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import INLINE_BYTES, encode

TOO_OLD = "retention"


def drop_payload(tx: Tx, seq: int, size: int) -> None:
    if size > INLINE_BYTES:
        tx.execute(Q.delete_payload, (seq,))


def refresh_group(tx: Tx, queue: Queue, grp: str | None, *, leased: int) -> None:
    """Bring a FIFO group up to date after a change of its messages, `leased` of them more (or fewer) leased."""
    head = tx.execute(Q.group_head, (queue.key, grp)).fetchone()
    if head is None:
        tx.execute(Q.delete_group, (queue.key, grp))
        return
    seq, due_at = head
    tx.execute(Q.put_group, {"queue": queue.key, "grp": grp, "leased": leased, "head": seq, "due_at": due_at})
    tx.made_ready(queue.key)  # at worst a receiver looks in vain


def remove(
    tx: Tx,
    queue: Queue,
    *,
    seq: int,
    message_id: str,
    state: State,
    attempts: int,
    size: int,
    grp: str | None,
    kind: EventKind,
    at: int,
    principal: str | None = None,
    detail: dict[str, Json] | None = None,
) -> None:
    """Take a message out of the world."""
    tx.execute(Q.delete_message, (seq,))
    drop_payload(tx, seq, size)
    tx.tally(queue.key).remove(state, size)
    if queue.kind is Kind.FIFO:
        refresh_group(tx, queue, grp, leased=-1 if state is State.LEASED else 0)
    tx.events.note(kind, at, queue, seq, message_id, attempts, size, principal, detail)


def end_delivered(tx: Tx, directory: Directory, seq: int, *, at: int, principal: str) -> None:
    """Ack the original of a copy that a listener has got, once no copy of it is left."""
    if tx.execute(Q.has_copies, (seq,)).fetchone():
        return
    row = tx.execute(Q.original, (seq,)).fetchone()
    queue = directory.queue_of_key(row[0]) if row else None
    if queue is None or row[2] == State.LEASED:  # whoever holds it will settle it
        return
    _, message_id, state, attempts, size, grp = row
    tx.tally(queue.key).acked += 1
    remove(
        tx, queue, seq=seq, message_id=message_id, state=State(state), attempts=attempts, size=size, grp=grp,
        kind=EventKind.ACKED, at=at, principal=principal, detail={"delivered": True},
    )  # fmt: skip


def bury(
    tx: Tx,
    queue: Queue,
    directory: Directory,
    fate: Dead | Expired,
    *,
    seq: int,
    message_id: str,
    attempts: int,
    size: int,
    grp: str | None,
    at: int,
) -> None:
    """A leased message has no attempt left, or has grown too old: to the dead letter queue, or gone."""
    target_id = queue.settings.dead_letter_queue
    target = directory.queue_of_id(target_id) if target_id and isinstance(fate, Dead) else None
    if target is None:
        tx.tally(queue.key).dead += isinstance(fate, Dead)
        reason = fate.reason if isinstance(fate, Dead) else TOO_OLD
        remove(
            tx, queue, seq=seq, message_id=message_id, state=State.LEASED, attempts=attempts, size=size, grp=grp,
            kind=EventKind.DISCARDED, at=at, detail={"reason": reason},
        )  # fmt: skip
        return
    assert isinstance(fate, Dead)
    tx.tally(queue.key).dead += 1
    death = Death(reason=fate.reason, source_queue=queue.id, attempts=attempts, died_at=at)
    detail = {"reason": fate.reason, "target_id": target.id, "target": target.name}
    tx.events.note(EventKind.DEAD_LETTERED, at, queue, seq, message_id, attempts, size, None, detail)
    transfer(tx, queue, target, seq=seq, state=State.LEASED, size=size, grp=grp, at=at, death=death)


def transfer(
    tx: Tx,
    source: Queue,
    target: Queue,
    *,
    seq: int,
    state: State,
    size: int,
    grp: str | None,
    at: int,
    death: Death | None = None,
) -> None:
    """Move a message as it is to another queue, where it starts afresh."""
    new_grp = (grp or "") if target.kind is Kind.FIFO else (grp or None)
    tx.execute(
        Q.transfer,
        {"queue": target.key, "at": at, "grp": new_grp, "death": encode(death) if death else None, "seq": seq},
    )
    tx.tally(source.key).remove(state, size)
    tally = tx.tally(target.key)
    tally.add(State.READY, size)
    tally.oldest_at = None  # what died counts from then, however much later anybody noticed
    tx.made_ready(target.key)
    tx.due(tally, at + target.settings.retention_ms)
    if source.kind is Kind.FIFO:
        refresh_group(tx, source, grp, leased=-1 if state is State.LEASED else 0)
    if target.kind is Kind.FIFO:
        refresh_group(tx, target, new_grp, leased=0)
