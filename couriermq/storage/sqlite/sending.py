"""Messages on their way in."""

from collections.abc import Sequence

from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.events import EventKind, sent_detail
from couriermq.core.model import DEDUP_MS, Kind, Queue, Sent, State
from couriermq.core.receipts import Sealer
from couriermq.storage.base import Directory, Parcel
from couriermq.storage.sqlite.ledger import Tx
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import INLINE_BYTES, encode

SENT = EventKind.SENT.value


def send(
    tx: Tx, parcels: Sequence[Parcel], *, directory: Directory, sealer: Sealer, now: int, principal: str
) -> list[Sent | CourierError]:
    """Store each parcel; one for a queue that was deleted meanwhile is refused alone."""
    intakes: dict[int, _Intake | None] = {}
    outcomes: list[Sent | CourierError] = []
    for parcel in parcels:
        original = None if parcel.copy_of is None else outcomes[parcel.copy_of]
        if original is not None and (isinstance(original, CourierError) or original.duplicate):
            outcomes.append(original)
            continue
        key = parcel.queue.key
        if key not in intakes:
            live = directory.queue_of_key(key)
            intakes[key] = _Intake(tx, live, sealer, now, principal) if live else None
        intake = intakes[key]
        if intake is None:
            outcomes.append(QueueNotFound(parcel.queue.name))
        elif original is None or parcels[parcel.copy_of or 0].queue.settings.keep_delivered:
            outcomes.append(intake.take(parcel))
        else:
            outcomes.append(intake.take(parcel, origin=original.seq))
    for intake in intakes.values():
        if intake:
            intake.flush()
    return outcomes


class _Intake:
    """Takes the drafts of one call into one queue; the rows are written together."""

    def __init__(self, tx: Tx, queue: Queue, sealer: Sealer, now: int, principal: str) -> None:
        self._tx = tx
        self._queue = queue
        self._sealer = sealer
        self._now = now
        self._principal = principal
        self._fifo = queue.kind is Kind.FIFO
        self._tally = tx.tally(queue.key)
        self._rows: list[tuple[object, ...]] = []
        self._plain_rows: list[tuple[object, ...]] = []
        self._due_at = now + queue.settings.retention_ms
        self._ready_count = 0

    def take(self, parcel: Parcel, *, origin: int | None = None) -> Sent:
        draft, dedup = parcel.draft, self._dedup_key(parcel)
        if dedup is not None and (kept := self._kept_duplicate(dedup)):
            return kept
        queue, now, size = self._queue, self._now, len(draft.body)
        seq = self._tx.next_seq
        self._tx.next_seq = seq + 1
        message_id = self._sealer.message_id(seq) if draft.id is None else draft.id
        delay_ms = queue.settings.delay_ms if draft.delay_ms is None else draft.delay_ms
        due_at = now + delay_ms
        group = (draft.group or "") if self._fifo else draft.group
        discard_at = None if draft.retention_ms is None else now + draft.retention_ms
        state, given = 0 if delay_ms else 1, 0 if draft.id is None else 1
        bare = group is None and discard_at is None and origin is None and draft.trace is None and not draft.attributes
        if bare and size <= INLINE_BYTES:
            self._plain_rows.append((
                seq, queue.key, state, due_at, now, now, delay_ms, size, given, message_id, draft.content_type,
                draft.body,
            ))  # fmt: skip
        else:
            self._rows.append((
                seq, queue.key, state, due_at, now, 0 if discard_at is None else 1, discard_at, now, delay_ms, size,
                given, message_id, draft.content_type, encode(draft.attributes) if draft.attributes else None, group,
                draft.trace, origin, draft.body if size <= INLINE_BYTES else None,
            ))  # fmt: skip
        self._count(size, due_at, discard_at)
        if size > INLINE_BYTES:
            self._tx.execute(Q.insert_payload, (seq, draft.body))
        if self._fifo:
            self._tx.execute(Q.add_group, (queue.key, group, seq, due_at))
        if dedup is not None:
            self._tx.execute(Q.put_dedup, (*dedup, now + DEDUP_MS, seq, message_id))
        self._tx.events.note(
            SENT, now, queue, seq, message_id, 0, size, self._principal, sent_detail(draft, queue, delay_ms),
            draft.body if queue.settings.archive_bodies else None,
        )  # fmt: skip
        return Sent(seq, message_id)

    def flush(self) -> None:
        if not (self._rows or self._plain_rows):
            return
        self._insert(Q.insert_plain_message, self._plain_rows)
        self._insert(Q.insert_message, self._rows)
        self._tx.due(self._tally, self._due_at)
        if self._ready_count:
            self._tx.made_ready(self._queue.key, self._ready_count)

    def _insert(self, query: str, rows: list[tuple[object, ...]]) -> None:
        if len(rows) == 1:
            self._tx.execute(query, rows[0])
        elif rows:
            self._tx.executemany(query, rows)

    def _count(self, size: int, due_at: int, discard_at: int | None) -> None:
        state = State.READY if due_at == self._now else State.DELAYED
        self._tally.add(state, size)
        if state is State.READY:
            self._ready_count += 1
        elif due_at < self._due_at:
            self._due_at = due_at
        if discard_at is not None and discard_at < self._due_at:
            self._due_at = discard_at

    def _dedup_key(self, parcel: Parcel) -> tuple[int, str] | None:
        """Under what the queue remembers a parcel, if it does; names of parcels and ids of messages never meet."""
        dedup_id = parcel.draft.dedup_id or parcel.draft.id
        if self._fifo and self._queue.owner is None and dedup_id is not None:
            return self._queue.key, dedup_id
        return None if parcel.once is None else (-self._queue.key, parcel.once)

    def _kept_duplicate(self, dedup: tuple[int, str]) -> Sent | None:
        row = self._tx.execute(Q.read_dedup, (*dedup, self._now)).fetchone()
        return Sent(row[0], row[1], duplicate=True) if row else None
