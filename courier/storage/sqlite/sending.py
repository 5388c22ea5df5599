"""Messages on their way in."""

from collections.abc import Sequence

from courier.core.errors import CourierError, QueueNotFound
from courier.core.events import Event, EventKind
from courier.core.model import DEDUP_MS, Draft, Json, Kind, Queue, Sent, State
from courier.core.receipts import Sealer
from courier.storage.base import Directory, Parcel
from courier.storage.sqlite.ledger import Tx
from courier.storage.sqlite.queries import Q
from courier.storage.sqlite.rows import INLINE_BYTES, encode


def send(
    tx: Tx, parcels: Sequence[Parcel], *, directory: Directory, sealer: Sealer, now: int, principal: str
) -> list[Sent | CourierError]:
    """Store each parcel; one for a queue that was deleted meanwhile is refused alone."""
    outcomes: list[Sent | CourierError] = []
    rows: list[tuple[object, ...]] = []
    for parcel in parcels:
        queue = directory.queue_of_key(parcel.queue.key)
        if queue is None:
            outcomes.append(QueueNotFound(parcel.queue.name))
        elif queue.kind is Kind.FIFO and (kept := _kept_duplicate(tx, queue, parcel.draft, now)):
            outcomes.append(kept)
        else:
            outcomes.append(_accept(tx, queue, parcel.draft, rows, sealer, now, principal))
    if len(rows) == 1:
        tx.execute(Q.insert_message, rows[0])
    elif rows:
        tx.executemany(Q.insert_message, rows)
    return outcomes


def _accept(
    tx: Tx, queue: Queue, draft: Draft, rows: list[tuple[object, ...]], sealer: Sealer, now: int, principal: str
) -> Sent:
    """Write everything about one message but its row, which joins `rows`."""
    seq = tx.next_seq
    tx.next_seq = seq + 1
    message_id = draft.id if draft.id is not None else sealer.message_id(seq)
    settings = queue.settings
    delay_ms = settings.delay_ms if draft.delay_ms is None else draft.delay_ms
    size = len(draft.body)
    group = (draft.group or "") if queue.kind is Kind.FIFO else draft.group
    own_end = None if draft.retention_ms is None else now + draft.retention_ms
    state, due_at = (State.DELAYED, now + delay_ms) if delay_ms else (State.READY, now)
    inline = size <= INLINE_BYTES
    rows.append((
        seq, queue.key, int(state), due_at, now, own_end is not None, own_end, now, delay_ms, size,
        draft.id is not None, message_id, draft.content_type, encode(draft.attributes) if draft.attributes else None,
        group, draft.trace, draft.body if inline else None,
    ))  # fmt: skip
    if not inline:
        tx.execute(Q.insert_payload, (seq, draft.body))
    tally = tx.tally(queue.key)
    tally.add(state, size)
    if state is State.READY:
        tx.made_ready(queue.key)
    else:
        tx.due(tally, due_at)
    tx.due(tally, own_end if own_end is not None else now + settings.retention_ms)
    if queue.kind is Kind.FIFO:
        tx.execute(Q.add_group, (queue.key, group, seq, due_at))
        _remember_for_dedup(tx, queue, draft, seq, message_id, now)
    tx.events.append(
        Event(
            EventKind.SENT, now, queue.tenant, queue.id, queue.name, seq, message_id, 0, size, principal,
            _detail(draft, queue, delay_ms),
        )
    )  # fmt: skip
    return Sent(seq, message_id)


def _detail(draft: Draft, queue: Queue, delay_ms: int) -> dict[str, Json]:
    detail: dict[str, Json] = {"content_type": draft.content_type}
    if delay_ms:
        detail["delay_ms"] = delay_ms
    if draft.group is not None:
        detail["group"] = draft.group
    if draft.trace is not None:
        detail["trace"] = draft.trace
    if queue.settings.archive_bodies:
        detail["body"] = draft.body
        if draft.attributes:
            detail["attributes"] = draft.attributes
    return detail


def _kept_duplicate(tx: Tx, queue: Queue, draft: Draft, now: int) -> Sent | None:
    dedup_id = draft.dedup_id or draft.id
    if dedup_id is None:
        return None
    row = tx.execute(Q.read_dedup, (queue.key, dedup_id, now)).fetchone()
    return Sent(row[0], row[1], duplicate=True) if row else None


def _remember_for_dedup(tx: Tx, queue: Queue, draft: Draft, seq: int, message_id: str, now: int) -> None:
    dedup_id = draft.dedup_id or draft.id
    if dedup_id is not None:
        tx.execute(Q.put_dedup, (queue.key, dedup_id, now + DEDUP_MS, seq, message_id))
