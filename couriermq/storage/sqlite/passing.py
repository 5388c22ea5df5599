"""What the passing of time does to a queue: delays and leases end, messages grow too old, memories fade."""

from couriermq.core.events import EventKind
from couriermq.core.model import Kind, Queue, State
from couriermq.core.retry import Again, after_failure, discard_at
from couriermq.storage.base import Directory
from couriermq.storage.sqlite.ending import TOO_OLD, bury, remove
from couriermq.storage.sqlite.leasing import put_back
from couriermq.storage.sqlite.ledger import NEVER, Tally, Tx
from couriermq.storage.sqlite.queries import Q

STEP = 2_000
"""How many messages of a kind one operation changes; what is left over comes with the next."""


def apply_time(tx: Tx, queue: Queue, *, directory: Directory, now: int) -> None:
    """Bring a queue to `now`, or as far as one step goes; `tally.next_due` says whether more is to be done."""
    tally = tx.tally(queue.key)
    if tally.next_due > now:
        return
    # While leases are left to end nothing grows too old: what failed first may have gone to the dead letter queue.
    if tally.total and _end_leases(tx, queue, directory, now):
        _discard_aged(tx, queue, now)
        _end_delays(tx, queue, tally, now)
    tally.next_due = NEVER
    tx.due(tally, _next_due(tx, queue, tally))


def _end_leases(tx: Tx, queue: Queue, directory: Directory, now: int) -> bool:
    """Whether all have been ended that were to end by now."""
    rows = tx.execute(Q.ended_leases, {"queue": queue.key, "now": now, "limit": STEP}).fetchall()
    for seq, message_id, attempts, size, grp, ended_at, entered_at, own_end in rows:
        end = own_end or discard_at(queue.settings, entered_at=entered_at, retention_ms=None)
        fate = after_failure(queue.settings, attempts=attempts, ended_at=ended_at, discard_at=end)
        if end >= ended_at:
            tx.events.note(EventKind.LEASE_EXPIRED, ended_at, queue, seq, message_id, attempts, size)
        if isinstance(fate, Again):
            put_back(tx, queue, seq=seq, grp=grp, due_at=fate.due_at, now=now)
        else:
            at = min(end, ended_at)
            bury(
                tx, queue, directory, fate, seq=seq, message_id=message_id, attempts=attempts, size=size, grp=grp,
                at=at,
            )  # fmt: skip
    return len(rows) < STEP


def _discard_aged(tx: Tx, queue: Queue, now: int) -> None:
    retention_ms = queue.settings.retention_ms
    aged = tx.execute(Q.aged, {"queue": queue.key, "until": now - retention_ms, "limit": STEP}).fetchall()
    own = tx.execute(Q.aged_by_themselves, {"queue": queue.key, "now": now, "limit": STEP}).fetchall()
    ends = [(*row[:6], row[6] + retention_ms) for row in aged] + own
    for seq, message_id, state, attempts, size, grp, at in ends:
        remove(
            tx, queue, seq=seq, message_id=message_id, state=State(state), attempts=attempts, size=size, grp=grp,
            kind=EventKind.DISCARDED, at=at, detail={"reason": TOO_OLD},
        )  # fmt: skip


def _end_delays(tx: Tx, queue: Queue, tally: Tally, now: int) -> None:
    count = tx.execute(Q.wake_delayed, {"queue": queue.key, "now": now, "limit": STEP}).rowcount
    if count:
        tally.counts[State.DELAYED] -= count
        tally.counts[State.READY] += count
        tx.made_ready(queue.key, count)


def _next_due(tx: Tx, queue: Queue, tally: Tally) -> int:
    """When time will next change the queue: a handful of looks into indexes."""
    if not tally.total:
        return NEVER
    ends = []
    if tally.counts[State.DELAYED]:
        ends.append(tx.execute(Q.next_delay_end, (queue.key,)).fetchone()[0])
    if tally.counts[State.LEASED]:
        ends.append(tx.execute(Q.next_lease_end, (queue.key,)).fetchone()[0])
    ends.append(tx.execute(Q.next_own_end, (queue.key,)).fetchone()[0])
    oldest = tx.execute(Q.oldest_entered, (queue.key,)).fetchone()[0]
    if oldest is not None:
        ends.append(oldest + queue.settings.retention_ms)
    return min((end for end in ends if end is not None), default=NEVER)


def sweep(tx: Tx, queue: Queue, *, now: int, limit: int) -> bool:
    """Remove some of the messages of a queue that was deleted; whether none is left."""
    after = {"queue": queue.key, "entered_at": -1, "seq": -1, "limit": limit}
    rows = tx.execute(Q.page, after).fetchall()
    for row in rows:
        remove(
            tx, queue, seq=row[0], message_id=row[1], state=State(row[2]), attempts=row[6], size=row[15],
            grp=row[12] if queue.kind is Kind.FIFO else None, kind=EventKind.PURGED, at=now,
            detail={"reason": "queue deleted"},
        )  # fmt: skip
    if len(rows) < limit:
        tx.execute(Q.delete_groups, (queue.key,))
        tx.execute(Q.delete_tally, (queue.key,))
        tx.execute(Q.delete_record, ("doomed", queue.tenant, queue.id))
        tx.drop_tally(queue.key)
        return True
    return False


def forget_dedup(tx: Tx, now: int) -> bool:
    """Forget ids whose time is over; whether there may be more of them."""
    return tx.execute(Q.forget_dedup, {"now": now, "limit": STEP}).rowcount == STEP
