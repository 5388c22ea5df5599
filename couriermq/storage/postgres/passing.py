"""What the passing of time does to a queue: delays and leases end, messages grow too old."""

from collections import Counter
from collections.abc import Iterable, Mapping

from couriermq.core.events import EventKind
from couriermq.core.model import Kind, Queue, State
from couriermq.core.retry import Again, after_failure
from couriermq.storage.base import Directory
from couriermq.storage.postgres import bundles
from couriermq.storage.postgres.arrays import numbers
from couriermq.storage.postgres.ending import TOO_OLD, bury, dead_letter_queue, note, put_back, remove
from couriermq.storage.postgres.link import Rows, Step
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row
from couriermq.storage.postgres.transaction import Transaction

STEP = 2_000
"""How many messages of a kind one transaction changes; what is left over comes with the next."""

PACKS = STEP // bundles.MOST_MESSAGES
"""How many rows of several messages that are."""

ENDED, AGED, DELAYED = 0, 1, 2
Kinds = dict[tuple[int, int], list[Row]]
"""By queue and kind, what time has done something to."""


def look(queues: Mapping[int, tuple[Queue, int]], since: Mapping[int, int]) -> tuple[Step, Step, Step]:
    """The questions what time has done to these queues, each by its own now and since its own instant: to messages
    that were leased together, to single ones, and to bundles."""
    where = {
        "keys": numbers(queues),
        "nows": numbers(now for _, now in queues.values()),
        "untils": numbers(until(queue, now) for queue, now in queues.values()),
        "since": numbers(since[key] for key in queues),
        "step": STEP,
    }
    packed = {**where, "step": PACKS}
    return (Q.due_held, packed), (Q.due, where), (Q.aged_bundles, packed)


def until(queue: Queue, now: int) -> int:
    """What came then or earlier is too old now."""
    return now - queue.settings.retention_ms


def fifo_keys(queues: Iterable[Queue], directory: Directory) -> set[int]:
    """The FIFO queues that a change of these queues may reach: themselves, and where their dead letters go."""
    reached = [reach for queue in queues for reach in (queue, dead_letter_queue(queue, directory))]
    return {queue.key for queue in reached if queue is not None and queue.kind is Kind.FIFO}


def apply_time(
    tx: Transaction, found: Rows, hands: Rows, aged: Rows, queues: Mapping[int, tuple[Queue, int]], directory: Directory
) -> set[int]:
    """Do what `look` has found; the keys of queues that have more to be done than one step."""
    kinds: Kinds = {}
    for kind, *facts in found:
        (row,) = tx.adopt([tuple(facts)])
        kinds.setdefault((facts[1], kind), []).append(row)
    unfinished = {key for (key, _), rows in kinds.items() if len(rows) >= STEP}
    if hands:
        unfinished |= _open_hands(tx, hands, queues, kinds)
    if aged:
        unfinished |= _open_aged(tx, aged, queues, kinds)
    for key, (queue, now) in queues.items():
        if ended := kinds.get((key, ENDED)):
            _end_leases(tx, queue, ended, directory, now)
        # While leases are left to end nothing grows too old: what failed first may have gone to the dead letter queue.
        if key not in unfinished:
            tx.passed[key] = now
        if ended is None or len(ended) < STEP:
            _discard_aged(tx, queue, kinds.get((key, AGED), []))
            _end_delays(tx, queue, kinds.get((key, DELAYED), []))
    return unfinished


def _open_hands(tx: Transaction, found: Rows, queues: Mapping[int, tuple[Queue, int]], kinds: Kinds) -> set[int]:
    """Add what was leased together and has come to its end; the queues of which there may be more."""
    for row in tx.open_hands(list({(facts[0], facts[1]): facts for facts in found}.values())):
        queue, now = queues[row.queue]
        if row.due_at <= now:
            kinds.setdefault((row.queue, ENDED), []).append(row)
        elif row.entered_at <= until(queue, now):
            kinds.setdefault((row.queue, AGED), []).append(row)
    for (_, kind), rows in kinds.items():
        if kind == ENDED:
            rows.sort(key=lambda row: (row.due_at, row.seq))
    _sort_aged(kinds)
    return _full(found)


def _sort_aged(kinds: Kinds) -> None:
    for (_, kind), rows in kinds.items():
        if kind == AGED:
            rows.sort(key=lambda row: (row.discard_at is not None, row.discard_at or row.entered_at, row.seq))


def _full(found: Rows) -> set[int]:
    """The queues that a look may not have seen the end of."""
    counts = Counter(facts[0] for facts in found)
    return {key for key, count in counts.items() if count >= PACKS}


def _open_aged(tx: Transaction, found: Rows, queues: Mapping[int, tuple[Queue, int]], kinds: Kinds) -> set[int]:
    """Add what is too old in bundles to what is too old by itself; the queues of which there may be more."""
    for row in tx.open_bundles(found):
        queue, now = queues[row.queue]
        if row.entered_at <= until(queue, now):
            kinds.setdefault((row.queue, AGED), []).append(row)
    _sort_aged(kinds)
    return _full(found)


def _end_leases(tx: Transaction, queue: Queue, rows: list[Row], directory: Directory, now: int) -> None:
    for row in rows:
        ended_at, end = row.due_at, row.ends_at(queue)
        fate = after_failure(queue.settings, attempts=row.attempts, ended_at=ended_at, discard_at=end)
        if end >= ended_at:
            note(tx, EventKind.LEASE_EXPIRED, ended_at, queue, row)
        if isinstance(fate, Again):
            put_back(tx, queue, row, due_at=fate.due_at, now=now)
        else:
            bury(tx, queue, directory, fate, row, at=min(end, ended_at))


def _discard_aged(tx: Transaction, queue: Queue, rows: list[Row]) -> None:
    for row in rows:
        if row.queue == queue.key and not tx.is_gone(row):
            at = row.ends_at(queue)
            remove(tx, queue, row, kind=EventKind.DISCARDED, at=at, detail={"reason": TOO_OLD})


def _end_delays(tx: Transaction, queue: Queue, rows: list[Row]) -> None:
    """The message keeps the instant at which it became ready."""
    for row in rows:
        if row.state is State.DELAYED and not tx.is_gone(row):
            row.state = State.READY
            tx.put(row)
            tx.change(queue.key).shift(State.DELAYED, State.READY)
            tx.made_ready(queue.key)


async def next_dues(tx: Transaction, queues: Iterable[Queue]) -> dict[int, int]:
    """When time will next change each queue, where it will at all."""
    chosen = list(queues)
    where = {
        "keys": numbers(queue.key for queue in chosen),
        "retentions": numbers(queue.settings.retention_ms for queue in chosen),
    }
    found = await tx.after_writing(Q.next_due, **where)
    return {key: due for key, due in found if due is not None}
