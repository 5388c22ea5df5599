"""Ack, release and extend, each by its receipt."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from couriermq.core.errors import CourierError, InvalidReceipt, LeaseLost
from couriermq.core.events import EventKind
from couriermq.core.model import (
    UNENDING,
    Ack,
    Extend,
    Fate,
    Json,
    Kind,
    LateAck,
    Queue,
    Release,
    Settled,
    Settlement,
    State,
)
from couriermq.core.receipts import Sealer
from couriermq.core.retry import Again, after_failure, after_late_release
from couriermq.storage.base import Directory
from couriermq.storage.postgres.ending import bury, note, note_all, put_back
from couriermq.storage.postgres.rows import Row
from couriermq.storage.postgres.transaction import Transaction

Token = tuple[int, int, int]
"""Queue key, seq, lease number."""


def read_tokens(sealer: Sealer, settlements: Sequence[Settlement]) -> list[Token | None]:
    return sealer.read_receipts([settlement.receipt for settlement in settlements])


class Desk:
    """Settles what one call brings; `rows` are the messages that its receipts name, as far as they are there."""

    def __init__(
        self, tx: Transaction, queue: Queue, rows: Mapping[int, Row], directory: Directory, now: int, principal: str
    ) -> None:
        self._tx = tx
        self._queue = queue
        self._rows = rows
        self._directory = directory
        self._now = now
        self._principal = principal
        self._done: set[int] = set()
        self._change = tx.change(queue.key)
        self._acked: list[Row] = []
        """What is still to be noted, all with the same remark."""
        self._remark: dict[str, Json] | None = None

    def settle(self, settlements: Iterable[Settlement], tokens: Iterable[Token | None]) -> list[Settled | CourierError]:
        outcomes = [self._settle(one, token) for one, token in zip(settlements, tokens, strict=True)]
        self._note_acked()
        return outcomes

    def _settle(self, settlement: Settlement, token: Token | None) -> Settled | CourierError:
        if token is None or token[0] != self._queue.key:
            return InvalidReceipt(settlement.receipt)
        row = self._find(token[1])
        if row is None:
            return LeaseLost(settlement.receipt)
        alive = row.state is State.LEASED and row.lease_no == token[2] and row.due_at > self._now
        if type(settlement) is Ack:
            return self._ack(row, settlement.note) if alive else self._ack_late(row, settlement)
        if type(settlement) is Release and not alive:
            return self._release_late(row, settlement)
        if not alive:
            return LeaseLost(settlement.receipt)
        return self._release(row, settlement) if type(settlement) is Release else self._extend(row, settlement)  # type: ignore[arg-type]

    def _find(self, seq: int) -> Row | None:
        """A message settles once, even when one call names its receipt twice."""
        row = self._rows.get(seq)
        if row is None or row.queue != self._queue.key or seq in self._done or self._tx.is_gone(row):
            return None
        return row

    def end_claimed(self, seqs: Sequence[int], fate: Fate, note: dict[str, Json]) -> int:
        """Ack or release those of the messages that a claim still holds; how many that are."""
        rows = [row for seq in seqs if (row := self._find(seq))]
        held = [row for row in rows if row.state is State.LEASED and row.due_at == UNENDING]
        for row in held:
            if fate is Fate.ACKED:
                self._ack(row, note)
            else:
                self._release(row, Release("", note=note))
        self._note_acked()
        return len(held)

    def _ack(self, row: Row, note: dict[str, Json] | None) -> Settled:
        self._done.add(row.seq)
        self._tx.delete(row)
        self._change.remove(row.state, row.size)
        if row.origin is not None:
            self._tx.delivered.append(row.origin)
        if self._queue.kind is Kind.FIFO:
            self._tx.touch_group(self._queue.key, row.grp, leased=-(row.state is State.LEASED))
            self._tx.made_ready(self._queue.key)
        if note != self._remark:
            self._note_acked()
            self._remark = note
        self._acked.append(row)
        return Settled(row.seq, row.id)

    def _note_acked(self) -> None:
        """Acks mostly come many at a time: they are noted at a stroke, before anything that comes after them."""
        rows, self._acked = self._acked, []
        self._change.acked += len(rows)
        note_all(self._tx, EventKind.ACKED, self._now, self._queue, rows, self._principal, self._remark)

    def _ack_late(self, row: Row, order: Ack) -> Settled | CourierError:
        """The lease has ended: whether the ack still counts is the queue's to say."""
        if self._queue.settings.late_ack is LateAck.REFUSE:
            return LeaseLost(order.receipt)
        return self._ack(row, {**(order.note or {}), "late": True})

    def _release(self, row: Row, order: Release) -> Settled:
        self._done.add(row.seq)
        self._note(EventKind.RELEASED, row, _detail(order))
        row.attempts -= order.untried
        fate = after_failure(
            self._queue.settings,
            attempts=row.attempts,
            ended_at=self._now,
            discard_at=row.ends_at(self._queue),
            delay_ms=order.delay_ms,
        )
        if isinstance(fate, Again):
            put_back(self._tx, self._queue, row, due_at=fate.due_at, now=self._now)
            return Settled(row.seq, row.id)
        bury(self._tx, self._queue, self._directory, fate, row, at=self._now)
        return Settled(row.seq, row.id, dead=True)

    def _release_late(self, row: Row, order: Release) -> Settled | CourierError:
        """The lease has ended: whether the wish for a later attempt still counts is the queue's to say."""
        again = after_late_release(
            self._queue.settings, is_held=row.state is State.LEASED, now=self._now, delay_ms=order.delay_ms
        )
        if again is None:
            return LeaseLost(order.receipt)
        self._done.add(row.seq)
        # The end of the lease has counted as an attempt, whatever was done with the message.
        detail = {**(_detail(msgspec.structs.replace(order, untried=False)) or {}), "late": True}
        self._note(EventKind.RELEASED, row, detail)
        put_back(self._tx, self._queue, row, due_at=again.due_at, now=self._now)
        self._tx.made_ready(self._queue.key)  # a receiver of this commit must look again: it may have seen it ready
        return Settled(row.seq, row.id)

    def _extend(self, row: Row, order: Extend) -> Settled:
        row.due_at = self._now + order.lease_ms
        self._tx.put(row)
        self._tx.due(self._queue.key, row.due_at)
        self._note(EventKind.EXTENDED, row, {"lease_ms": order.lease_ms})
        return Settled(row.seq, row.id, expires_at=row.due_at)

    def _note(self, kind: EventKind, row: Row, detail: dict[str, Json] | None = None) -> None:
        self._note_acked()
        note(self._tx, kind, self._now, self._queue, row, self._principal, detail)


def _detail(order: Release) -> dict[str, Json] | None:
    detail = order.note
    if order.delay_ms is not None:
        detail = {**(detail or {}), "delay_ms": order.delay_ms}
    return {**(detail or {}), "untried": True} if order.untried else detail
