"""Messages on their way out: leased, then acked, released or extended by receipt."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from couriermq.core.errors import CourierError, InvalidReceipt, LeaseLost
from couriermq.core.events import EventKind
from couriermq.core.limits import Room
from couriermq.core.model import (
    UNENDING,
    Ack,
    Extend,
    Fate,
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
from couriermq.core.receipts import Sealer
from couriermq.core.retry import Again, after_failure, after_late_release
from couriermq.storage.base import Directory
from couriermq.storage.sqlite.ending import bury, drop_payload, end_delivered, refresh_group
from couriermq.storage.sqlite.ledger import Tx
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.rows import Row, to_lease

SIZES = (1, 10, 100, 1_000)
SETTLING = {size: Q.settling.replace(":seqs", ",".join("?" * size)) for size in SIZES}
"""The same query for some round numbers of seqs, so that SQLite compiles only these."""


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
        rows = take_groups(tx, queue, limit=limit, group_limit=group_limit or limit, now=now, room=Room())
    else:
        rows = _fitting(tx, queue, tx.execute(Q.ready_messages, {"queue": queue.key, "limit": limit}), Room())
    return _lease(tx, queue, rows, sealer, now + lease_ms, now, principal)


def _fitting(tx: Tx, queue: Queue, rows: Iterator[Row], room: Room) -> list[Row]:
    """The first rows, as far as they fit; others hear that the rest is still to be had."""
    taken: list[Row] = []
    for row in rows:
        size = row[15] + len(row[5] or b"")
        if not room.takes(size):
            tx.made_ready(queue.key)
            break
        tx.taken_bytes += size
        taken.append(row)
    return taken


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
    tx.events.note_all(
        EventKind.RECEIVED, now, queue, [row[0] for row in rows], [row[1] for row in rows],
        [row[6] + 1 for row in rows], [row[15] for row in rows], principal,
    )  # fmt: skip
    receipts = sealer.receipts([(queue.key, row[0], row[16] + 1) for row in rows])
    return [
        to_lease(tx.db, queue, row, expires_at=expires_at, receipt=receipt)
        for row, receipt in zip(rows, receipts, strict=True)
    ]


def take_groups(tx: Tx, queue: Queue, *, limit: int, group_limit: int, now: int, room: Room | None = None) -> list[Row]:
    """The heads of groups that nobody holds, each as far as it is ready and fits."""
    taken: list[Row] = []
    groups = tx.execute(Q.available_groups, {"queue": queue.key, "now": now, "limit": limit}).fetchall()
    for (grp,) in groups:
        count = min(group_limit, limit - len(taken))
        if count == 0:
            break
        found = tx.execute(Q.group_messages, {"queue": queue.key, "grp": grp, "limit": count})
        ready = itertools.takewhile(lambda row: row[2] == State.READY, found)
        run = list(ready) if room is None else _fitting(tx, queue, ready, room)
        if run:
            taken.extend(run)
            tx.execute(Q.lock_group, (len(run), queue.key, grp))
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
    tokens = sealer.read_receipts([settlement.receipt for settlement in settlements])
    desk = Desk(tx, queue, directory, now, principal)
    desk.fetch([token[1] for token in tokens if token is not None and token[0] == queue.key])
    outcomes = [desk.settle(settlement, token) for settlement, token in zip(settlements, tokens, strict=True)]
    desk.flush()
    return outcomes


class Desk:
    """Where receipts are handed in: what all settlements of one call have in common.

    The messages are read together and deleted together; one by one that would be the dearest part of an ack.
    """

    def __init__(self, tx: Tx, queue: Queue, directory: Directory, now: int, principal: str) -> None:
        self._tx = tx
        self._queue = queue
        self._directory = directory
        self._now = now
        self._principal = principal
        self._tally = tx.tally(queue.key)
        self._rows: dict[int, tuple[Any, ...]] = {}
        self._gone: list[tuple[int]] = []
        self._unlocked: dict[str, int] = {}
        self._delivered: list[int] = []

    def fetch(self, seqs: list[int]) -> None:
        if seqs:
            size = next(size for size in SIZES if size >= len(seqs))
            padded = (self._queue.key, *seqs, *[seqs[-1]] * (size - len(seqs)))
            self._rows = {row[0]: row for row in self._tx.execute(SETTLING[size], padded)}

    def flush(self) -> None:
        """Delete what was acked, and let go of the groups."""
        if self._gone:
            self._tx.executemany(Q.delete_message, self._gone)
            self._gone = []
        for grp, count in self._unlocked.items():
            refresh_group(self._tx, self._queue, grp, leased=-count)
        self._unlocked = {}
        for origin in self._delivered:
            end_delivered(self._tx, self._directory, origin, at=self._now, principal=self._principal)
        self._delivered = []

    def settle(self, settlement: Settlement, token: tuple[int, int, int] | None) -> Settled | CourierError:
        if token is None or token[0] != self._queue.key:
            return InvalidReceipt(settlement.receipt)
        row = self._rows.get(token[1])
        if row is None:
            return LeaseLost(settlement.receipt)
        state, lease_no, due_at = row[6:9]
        alive = state == State.LEASED and lease_no == token[2] and due_at > self._now
        if type(settlement) is Ack:
            return self._ack(row, settlement.note) if alive else self._ack_late(row, settlement)
        if type(settlement) is Release and not alive:
            return self._release_late(row, settlement)
        if not alive:
            return LeaseLost(settlement.receipt)
        self.flush()
        return self._release(row, settlement) if type(settlement) is Release else self._extend(row, settlement)  # type: ignore[arg-type]

    def end_claimed(self, seqs: list[int], fate: Fate, note: dict[str, Json]) -> int:
        """Ack or release those of the messages that a claim still holds; how many that are."""
        self.fetch(seqs)
        rows = [self._rows[seq] for seq in seqs if seq in self._rows]
        held = [row for row in rows if row[6] == State.LEASED and row[8] == UNENDING]
        for row in held:
            if fate is Fate.ACKED:
                self._ack(row, note)
            else:
                self._release(row, Release("", note=note))
        self.flush()
        return len(held)

    def _ack(self, row: tuple[Any, ...], note: dict[str, Json] | None) -> Settled:
        seq, message_id, attempts, size, grp, _, state = row[:7]
        self._take(seq)
        self._gone.append((seq,))
        drop_payload(self._tx, seq, size)
        self._tally.remove(state, size)
        self._tally.acked += 1
        if row[10] is not None:
            self._delivered.append(row[10])
        if self._queue.kind is Kind.FIFO:
            self._unlocked[grp] = self._unlocked.get(grp, 0) + (state == State.LEASED)
        self._note(EventKind.ACKED, seq, message_id, attempts, size, note)
        return Settled(seq, message_id)

    def _ack_late(self, row: tuple[Any, ...], order: Ack) -> Settled | CourierError:
        """The lease has ended: whether the ack still counts is the queue's to say."""
        if self._queue.settings.late_ack is LateAck.REFUSE:
            return LeaseLost(order.receipt)
        return self._ack(row, {**(order.note or {}), "late": True})

    def _release(self, row: tuple[Any, ...], order: Release) -> Settled:
        seq, message_id, attempts, size, grp, end, *_ = self._take(row[0])
        self._note(EventKind.RELEASED, seq, message_id, attempts, size, _delay(order))
        end = end if row[9] else end + self._queue.settings.retention_ms
        if order.untried:
            self._tx.execute(Q.uncount_attempt, (seq,))
            attempts -= 1
        fate = after_failure(
            self._queue.settings, attempts=attempts, ended_at=self._now, discard_at=end, delay_ms=order.delay_ms
        )
        if isinstance(fate, Again):
            put_back(self._tx, self._queue, seq=seq, grp=grp, due_at=fate.due_at, now=self._now)
            return Settled(seq, message_id)
        bury(
            self._tx, self._queue, self._directory, fate, seq=seq, message_id=message_id, attempts=attempts,
            size=size, grp=grp, at=self._now,
        )  # fmt: skip
        return Settled(seq, message_id, dead=True)

    def _release_late(self, row: tuple[Any, ...], order: Release) -> Settled | CourierError:
        """The lease has ended: whether the wish for a later attempt still counts is the queue's to say."""
        was = State(row[6])
        again = after_late_release(
            self._queue.settings, is_held=was is State.LEASED, now=self._now, delay_ms=order.delay_ms
        )
        if again is None:
            return LeaseLost(order.receipt)
        self.flush()
        seq, message_id, attempts, size, grp, *_ = self._take(row[0])
        # The end of the lease has counted as an attempt, whatever was done with the message.
        detail = {**(_delay(msgspec.structs.replace(order, untried=False)) or {}), "late": True}
        self._note(EventKind.RELEASED, seq, message_id, attempts, size, detail)
        put_back(self._tx, self._queue, seq=seq, grp=grp, due_at=again.due_at, now=self._now, was=was)
        return Settled(seq, message_id)

    def _extend(self, row: tuple[Any, ...], order: Extend) -> Settled:
        seq, message_id, attempts, size = row[:4]
        expires_at = self._now + order.lease_ms
        self._tx.execute(Q.extend, (expires_at, seq))
        self._tx.due(self._tally, expires_at)
        self._rows[seq] = (*row[:8], expires_at, *row[9:])
        self._note(EventKind.EXTENDED, seq, message_id, attempts, size, {"lease_ms": order.lease_ms})
        return Settled(seq, message_id, expires_at=expires_at)

    def _take(self, seq: int) -> tuple[Any, ...]:
        """A message settles once, even when one call names its receipt twice."""
        return self._rows.pop(seq)

    def _note(
        self,
        kind: EventKind,
        seq: int,
        message_id: str,
        attempts: int,
        size: int,
        detail: dict[str, Json] | None = None,
    ) -> None:
        self._tx.events.note(kind, self._now, self._queue, seq, message_id, attempts, size, self._principal, detail)


def put_back(
    tx: Tx, queue: Queue, *, seq: int, grp: str | None, due_at: int, now: int, was: State = State.LEASED
) -> None:
    """A leased message becomes ready again, or delayed until `due_at`."""
    tally = tx.tally(queue.key)
    state = State.READY if due_at <= now else State.DELAYED
    tx.execute(Q.put_back, (int(state), due_at, seq))
    tally.shift(was, state)
    if state is State.READY:
        tx.made_ready(queue.key)
    else:
        tx.due(tally, due_at)
    if queue.kind is Kind.FIFO:
        refresh_group(tx, queue, grp, leased=-1 if was is State.LEASED else 0)


def _delay(order: Release) -> dict[str, Json] | None:
    detail = order.note
    if order.delay_ms is not None:
        detail = {**(detail or {}), "delay_ms": order.delay_ms}
    return {**(detail or {}), "untried": True} if order.untried else detail
