"""Messages on their way out: leased, then acked, released or extended by receipt."""

from collections.abc import Sequence
from typing import Any

from courier.core.errors import CourierError, InvalidReceipt, LeaseLost
from courier.core.events import Event, EventKind
from courier.core.model import (
    Ack,
    Extend,
    Json,
    Kind,
    LateAck,
    Lease,
    Queue,
    Release,
    Settled,
    Settlement,
    State,
)
from courier.core.receipts import Sealer
from courier.core.retry import Again, after_failure, discard_at
from courier.storage.base import Directory
from courier.storage.sqlite.ending import bury, drop_payload, refresh_group
from courier.storage.sqlite.ledger import Tx
from courier.storage.sqlite.queries import Q
from courier.storage.sqlite.rows import Row, to_lease


def receive(
    tx: Tx,
    queue: Queue,
    *,
    sealer: Sealer,
    limit: int,
    lease_ms: int,
    group_limit: int | None,
    now: int,
    principal: str,
) -> list[Lease]:
    """Lease what is ready, up to `limit`."""
    if not tx.tally(queue.key).counts[State.READY]:
        return []
    if queue.kind is Kind.FIFO:
        rows = _take_groups(tx, queue, limit=limit, group_limit=group_limit or limit, now=now)
    else:
        rows = tx.execute(Q.ready_messages, {"queue": queue.key, "limit": limit}).fetchall()
    return _lease(tx, queue, rows, sealer, now + lease_ms, now, principal)


def _lease(
    tx: Tx, queue: Queue, rows: list[Row], sealer: Sealer, expires_at: int, now: int, principal: str
) -> list[Lease]:
    if not rows:
        return []
    tx.executemany(Q.lease, [(expires_at, row[0]) for row in rows])
    tally = tx.tally(queue.key)
    tally.counts[State.READY] -= len(rows)
    tally.counts[State.LEASED] += len(rows)
    tx.due(tally, expires_at)
    key, tenant, queue_id, name = queue.key, queue.tenant, queue.id, queue.name
    leases = []
    for row in rows:
        seq, lease_no = row[0], row[16] + 1
        leases.append(to_lease(tx.db, queue, row, expires_at=expires_at, receipt=sealer.receipt(key, seq, lease_no)))
        tx.events.append(
            Event(EventKind.RECEIVED, now, tenant, queue_id, name, seq, row[1], row[6] + 1, row[15], principal)
        )
    return leases


def _take_groups(tx: Tx, queue: Queue, *, limit: int, group_limit: int, now: int) -> list[Row]:
    """The heads of groups that nobody holds, each as far as it is ready and fits."""
    taken: list[Row] = []
    groups = tx.execute(Q.available_groups, {"queue": queue.key, "now": now, "limit": limit}).fetchall()
    for (grp,) in groups:
        room = min(group_limit, limit - len(taken))
        if room == 0:
            break
        rows = tx.execute(Q.group_messages, {"queue": queue.key, "grp": grp, "limit": room}).fetchall()
        run = 0
        while run < len(rows) and rows[run][2] == State.READY:
            run += 1
        if run:
            taken.extend(rows[:run])
            tx.execute(Q.lock_group, (run, queue.key, grp))
    return taken


def settle(
    tx: Tx,
    queue: Queue,
    settlements: Sequence[Settlement],
    *,
    directory: Directory,
    sealer: Sealer,
    now: int,
    principal: str,
) -> list[Settled | CourierError]:
    """Each settlement by its receipt alone."""
    desk = _Desk(tx, queue, directory, sealer, now, principal)
    return [desk.settle(settlement) for settlement in settlements]


class _Desk:
    """Where receipts are handed in: what all settlements of one call have in common."""

    def __init__(self, tx: Tx, queue: Queue, directory: Directory, sealer: Sealer, now: int, principal: str) -> None:
        self.tx = tx
        self.queue = queue
        self.directory = directory
        self.sealer = sealer
        self.now = now
        self.principal = principal
        self.tally = tx.tally(queue.key)

    def settle(self, settlement: Settlement) -> Settled | CourierError:
        token = self.sealer.read_receipt(settlement.receipt)
        if token is None or token[0] != self.queue.key:
            return InvalidReceipt(settlement.receipt)
        _, seq, lease_no = token
        match settlement:
            case Ack():
                return self._ack(seq, lease_no, settlement)
            case Release():
                return self._release(seq, lease_no, settlement)
            case Extend():
                return self._extend(seq, lease_no, settlement)

    def _ack(self, seq: int, lease_no: int, order: Ack) -> Settled | CourierError:
        row = self.tx.execute(Q.ack, (seq, self.queue.key, lease_no, self.now)).fetchone()
        if row is None:
            return self._ack_late(seq, order)
        message_id, attempts, size, grp = row
        drop_payload(self.tx, seq, size)
        self.tally.remove(State.LEASED, size)
        if self.queue.kind is Kind.FIFO:
            refresh_group(self.tx, self.queue, grp, leased=-1)
        self._note(EventKind.ACKED, seq, message_id, attempts, size)
        return Settled(seq, message_id)

    def _ack_late(self, seq: int, order: Ack) -> Settled | CourierError:
        """The lease has ended: whether the ack still counts is the queue's to say."""
        if self.queue.settings.late_ack is LateAck.REFUSE:
            return LeaseLost(order.receipt)
        row = self.tx.execute(Q.message, (seq, self.queue.key)).fetchone()
        if row is None:
            return LeaseLost(order.receipt)
        message_id, state, attempts, grp, size = row[1], State(row[2]), row[6], row[12], row[15]
        self.tx.execute(Q.delete_message, (seq,))
        drop_payload(self.tx, seq, size)
        self.tally.remove(state, size)
        if self.queue.kind is Kind.FIFO:
            refresh_group(self.tx, self.queue, grp, leased=-1 if state is State.LEASED else 0)
        self._note(EventKind.ACKED, seq, message_id, attempts, size, {"late": True})
        return Settled(seq, message_id)

    def _release(self, seq: int, lease_no: int, order: Release) -> Settled | CourierError:
        row = self._held(seq, lease_no)
        if row is None:
            return LeaseLost(order.receipt)
        message_id, attempts, size, grp, entered_at, own_end = row
        self._note(EventKind.RELEASED, seq, message_id, attempts, size, _delay(order))
        end = own_end or discard_at(self.queue.settings, entered_at=entered_at, retention_ms=None)
        fate = after_failure(
            self.queue.settings, attempts=attempts, ended_at=self.now, discard_at=end, delay_ms=order.delay_ms
        )
        if not isinstance(fate, Again):
            bury(
                self.tx, self.queue, self.directory, fate, seq=seq, message_id=message_id, attempts=attempts,
                size=size, grp=grp, at=self.now,
            )  # fmt: skip
            return Settled(seq, message_id, dead=True)
        put_back(self.tx, self.queue, seq=seq, grp=grp, due_at=fate.due_at, now=self.now)
        return Settled(seq, message_id)

    def _extend(self, seq: int, lease_no: int, order: Extend) -> Settled | CourierError:
        row = self._held(seq, lease_no)
        if row is None:
            return LeaseLost(order.receipt)
        message_id, attempts, size = row[:3]
        expires_at = self.now + order.lease_ms
        self.tx.execute(Q.extend, (expires_at, seq))
        self.tx.due(self.tally, expires_at)
        self._note(EventKind.EXTENDED, seq, message_id, attempts, size, {"lease_ms": order.lease_ms})
        return Settled(seq, message_id, expires_at=expires_at)

    def _held(self, seq: int, lease_no: int) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self.tx.execute(Q.held, (seq, self.queue.key, lease_no, self.now)).fetchone()
        return row

    def _note(
        self,
        kind: EventKind,
        seq: int,
        message_id: str,
        attempts: int,
        size: int,
        detail: dict[str, Json] | None = None,
    ) -> None:
        queue = self.queue
        self.tx.events.append(
            Event(
                kind, self.now, queue.tenant, queue.id, queue.name, seq, message_id, attempts, size, self.principal,
                detail,
            )
        )  # fmt: skip


def put_back(tx: Tx, queue: Queue, *, seq: int, grp: str | None, due_at: int, now: int) -> None:
    """A leased message becomes ready again, or delayed until `due_at`."""
    tally = tx.tally(queue.key)
    state = State.READY if due_at <= now else State.DELAYED
    tx.execute(Q.put_back, (int(state), due_at, seq))
    tally.shift(State.LEASED, state)
    if state is State.READY:
        tx.made_ready(queue.key)
    else:
        tx.due(tally, due_at)
    if queue.kind is Kind.FIFO:
        refresh_group(tx, queue, grp, leased=-1)


def _delay(order: Release) -> dict[str, Json] | None:
    return {"delay_ms": order.delay_ms} if order.delay_ms is not None else None
