"""Messages on their way out: one claim for everybody who waits at this node, then each gets a part of it."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from couriermq.core.events import EventKind
from couriermq.core.limits import COMMIT_BYTES, Room
from couriermq.core.model import Kind, Lease, Queue, State
from couriermq.core.receipts import Sealer
from couriermq.storage.postgres.arrays import numbers
from couriermq.storage.postgres.ending import note_all
from couriermq.storage.postgres.link import Rows, Step
from couriermq.storage.postgres.orders import Receive
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.rows import Row, to_lease
from couriermq.storage.postgres.strips import first_long
from couriermq.storage.postgres.transaction import Transaction

Orders = Sequence[tuple[Queue, Receive]]
Group = tuple[bytes, list[tuple[int, int]]]
"""Its name, and seq and bytes of each of its messages that are ready."""
Claimed = dict[int, list[Row]]
"""By queue, what is locked and ready, longest ready first."""


async def receive(
    tx: Transaction, orders: Orders, sealer: Sealer, early: Claimed, lease_nos: Iterator[int]
) -> list[list[Lease] | None]:
    """Lease what is ready, in the order of the orders; `early` has what was claimed before anything else happened.

    None is for an order that got nothing because others got as many bytes as one commit gives out.
    """
    parts: list[list[Row]] = [[] for _ in orders]
    standard = [index for index, (queue, _) in enumerate(orders) if queue.kind is Kind.STANDARD]
    if standard:
        await _share_out(tx, orders, standard, parts, early)
    if len(standard) < len(orders):
        await _share_groups(tx, orders, [n for n in range(len(orders)) if n not in set(standard)], parts)
    return [
        None if not rows and queue.key in tx.cut else _lease(tx, queue, order, rows, sealer, lease_nos)
        for (queue, order), rows in zip(orders, parts, strict=True)
    ]


def wanted(orders: Iterable[tuple[Queue, Receive]]) -> dict[int, int]:
    """How many messages of each queue are asked for, standard queues only."""
    limits: dict[int, int] = {}
    for queue, order in orders:
        if queue.kind is Kind.STANDARD:
            limits[queue.key] = limits.get(queue.key, 0) + order.limit
    return limits


def look(tx: Transaction, limits: dict[int, int]) -> tuple[Step, Step]:
    """The questions that lock what is ready: messages of their own, and bundles."""
    looks = {key: tx.marks.claim(key) for key in limits}
    tx.looked.update(looks)
    where = {"keys": numbers(limits), "limits": numbers(limits.values()), "budget": COMMIT_BYTES}
    return (
        (Q.claim, {**where, "ready_since": numbers(look.ready for look in looks.values())}),
        (Q.claim_bundles, {**where, "since": numbers(look.bundle for look in looks.values())}),
    )


def sort_out(tx: Transaction, limits: dict[int, int], rows: Rows, found: Rows) -> Claimed:
    """What was found of each queue, longest ready first, no more than asked for and than was read whole."""
    claimed: Claimed = {key: [] for key in limits}
    for own in tx.adopt(rows):
        claimed[own.queue].append(own)
    firsts = {key: line[0].due_at for key, line in claimed.items() if line}
    ends = {facts[0]: (first_long(facts[4]), facts[1]) for facts in found if facts[-1] is None}
    oldest: dict[int, int] = {}
    for row in tx.open_bundles([facts for facts in found if facts[-1] is not None]):
        claimed[row.queue].append(row)
        oldest.setdefault(row.queue, row.entered_at)
    for key, line in claimed.items():
        tx.marks.claimed(key, tx.looked[key], ready=firsts.get(key), bundle=oldest.get(key))
        line.sort(key=_readiness)
        del line[limits[key] :]
        claimed[key] = _before(tx, key, line, ends.get(key))
    return claimed


def _before(tx: Transaction, key: int, line: list[Row], end: tuple[int, int] | None) -> list[Row]:
    """The messages before the first one that was not read because of its bytes: nobody overtakes that one."""
    whole = [
        row
        for row in itertools.takewhile(lambda row: row.content is not None, line)
        if end is None or _readiness(row) < end
    ]
    if len(whole) < len(line) or end is not None:
        tx.cut.add(key)
    return whole


def _readiness(row: Row) -> tuple[int, int]:
    return row.due_at, row.seq


async def claim(tx: Transaction, limits: dict[int, int]) -> Claimed:
    """What is ready of each queue, as it stands now, locked."""
    await tx.flush()
    rows, found = await tx.ask(*look(tx, limits))
    return sort_out(tx, limits, rows, found)


async def _share_out(
    tx: Transaction, orders: Orders, chosen: list[int], parts: list[list[Row]], early: Claimed
) -> None:
    limits = wanted(orders[index] for index in chosen)
    missing = {key: most for key, most in limits.items() if _is_short(tx, key, most, early)}
    late = await claim(tx, missing) if missing else {}
    waiting = {key: deque(late[key] if key in late else early[key]) for key in limits}
    for index in chosen:
        queue, order = orders[index]
        parts[index] = _part(tx, order, waiting[queue.key])


def _part(tx: Transaction, order: Receive, line: deque[Row]) -> list[Row]:
    """What one receiver gets; where that is less than it asked for because of the bytes, others can have the rest."""
    room, part = Room(), list[Row]()
    while line and len(part) < order.limit and room.takes(len(line[0].content or b"")):
        part.append(line.popleft())
    if len(part) < order.limit and (line or order.queue.key in tx.cut):
        tx.made_ready(order.queue.key)
    return part


def _is_short(tx: Transaction, key: int, most: int, early: Claimed) -> bool:
    """Whether there may be more to be had than was found early; what was sent since then comes after that anyway."""
    return key not in early or (len(early[key]) < most and key in tx.ready)


async def _share_groups(tx: Transaction, orders: Orders, chosen: list[int], parts: list[list[Row]]) -> None:
    """Each group that nobody holds goes to one receiver, as far as it is ready and fits."""
    groups = await _free_groups(tx, [orders[index] for index in chosen])
    budget = Room(COMMIT_BYTES)
    seqs: dict[int, list[int]] = {}
    for index in chosen:
        queue, order = orders[index]
        seqs[index] = _take_groups(tx, queue, order, groups[queue.key], budget)
    rows = await tx.load(Q.named_whole, seqs=numbers(seq for part in seqs.values() for seq in part))
    by_seq = {row.seq: row for row in rows}
    for index, part in seqs.items():
        parts[index] = [by_seq[seq] for seq in part]


async def take_groups(tx: Transaction, queue: Queue, order: Receive) -> list[Row]:
    """The messages of groups that nobody holds, for one alone; the queue is locked."""
    groups = await _free_groups(tx, [(queue, order)])
    seqs = _take_groups(tx, queue, order, groups[queue.key], Room(COMMIT_BYTES))
    by_seq = {row.seq: row for row in await tx.load_named(seqs)}
    return [by_seq[seq] for seq in seqs]


async def _free_groups(tx: Transaction, orders: Orders) -> dict[int, deque[Group]]:
    """By queue, the groups that can be had, longest available first: their names and the seqs that are ready."""
    most: dict[int, int] = {}
    room: dict[int, int] = {}
    nows: dict[int, int] = {}
    for queue, order in orders:
        most[queue.key] = most.get(queue.key, 0) + order.limit
        room[queue.key] = max(room.get(queue.key, 0), min(order.limit, order.group_limit or order.limit))
        nows[queue.key] = max(nows.get(queue.key, 0), order.now)
    where = {
        "keys": numbers(most), "limits": numbers(most.values()), "rooms": numbers(room[key] for key in most),
        "nows": numbers(nows[key] for key in most),
    }  # fmt: skip
    found = await tx.after_writing(Q.claim_groups, **where)
    groups: dict[int, deque[Group]] = {key: deque() for key in most}
    blocked: set[tuple[int, bytes]] = set()
    for key, grp, seq, state, weight in found:
        line = groups[key]
        if not line or line[-1][0] != grp:
            line.append((grp, []))
        if state != State.READY:
            blocked.add((key, grp))
        elif (key, grp) not in blocked:
            line[-1][1].append((seq, weight))
    return groups


def _take_groups(tx: Transaction, queue: Queue, order: Receive, groups: deque[Group], budget: Room) -> list[int]:
    """The seqs of one order; a group of which nothing fits is left to the next order."""
    taken: list[int] = []
    room = Room()
    while groups and len(taken) < order.limit:
        grp, ready = groups.popleft()
        most = min(order.group_limit or order.limit, order.limit - len(taken))
        run = [seq for seq, weight in ready[:most] if room.takes(weight) and budget.takes(weight)]
        if run:
            taken += run
            tx.touch_group(queue.key, grp, leased=len(run))
        if len(run) < min(most, len(ready)):
            tx.cut.add(queue.key)
            tx.made_ready(queue.key)
            if not run:
                groups.appendleft((grp, ready))
            break
    return taken


def _lease(
    tx: Transaction, queue: Queue, order: Receive, rows: list[Row], sealer: Sealer, lease_nos: Iterator[int]
) -> list[Lease]:
    expires_at = order.now + order.lease_ms
    for row in rows:
        row.state, row.due_at = State.LEASED, expires_at
        row.attempts += 1  # counted when leased, not when acked: a consumer that dies must still use one up
    note_all(tx, EventKind.RECEIVED, order.now, queue, rows, order.principal)
    tx.lease(rows, lease_nos)
    receipts = sealer.receipts([(queue.key, row.seq, row.lease_no) for row in rows])
    if rows:
        change = tx.change(queue.key)
        change.counts[State.READY] -= len(rows)
        change.counts[State.LEASED] += len(rows)
        tx.due(queue.key, expires_at)
    return [to_lease(queue, row, receipt=receipt) for row, receipt in zip(rows, receipts, strict=True)]
