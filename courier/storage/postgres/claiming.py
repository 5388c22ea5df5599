"""Messages on their way out: one claim for everybody who waits at this node, then each gets a part of it."""

from collections import deque
from collections.abc import Sequence

from courier.core.events import EventKind
from courier.core.model import Kind, Lease, Queue, State
from courier.core.receipts import Sealer
from courier.storage.postgres.arrays import numbers
from courier.storage.postgres.ending import event
from courier.storage.postgres.link import ask
from courier.storage.postgres.orders import Receive
from courier.storage.postgres.queries import Q
from courier.storage.postgres.rows import Row, to_lease
from courier.storage.postgres.transaction import Transaction

Orders = Sequence[tuple[Queue, Receive]]
Group = tuple[bytes, list[int]]


async def receive(tx: Transaction, orders: Orders, sealer: Sealer) -> list[list[Lease]]:
    """Lease what is ready, in the order of the orders."""
    await tx.flush()
    parts: list[list[Row]] = [[] for _ in orders]
    standard = [index for index, (queue, _) in enumerate(orders) if queue.kind is Kind.STANDARD]
    if standard:
        await _share_out(tx, orders, standard, parts)
    if len(standard) < len(orders):
        await _share_groups(tx, orders, [n for n in range(len(orders)) if n not in set(standard)], parts)
    return [_lease(tx, queue, order, rows, sealer) for (queue, order), rows in zip(orders, parts, strict=True)]


async def _share_out(tx: Transaction, orders: Orders, chosen: list[int], parts: list[list[Row]]) -> None:
    wanted: dict[int, int] = {}
    for index in chosen:
        queue, order = orders[index]
        wanted[queue.key] = wanted.get(queue.key, 0) + order.limit
    where = {"keys": numbers(wanted), "limits": numbers(wanted.values())}
    (found,) = await ask(tx.connection, [(Q.claim, where)])
    waiting: dict[int, deque[Row]] = {key: deque() for key in wanted}
    for row in tx.adopt(found):
        waiting[row.queue].append(row)
    for index in chosen:
        queue, order = orders[index]
        line = waiting[queue.key]
        parts[index] = [line.popleft() for _ in range(min(order.limit, len(line)))]


async def _share_groups(tx: Transaction, orders: Orders, chosen: list[int], parts: list[list[Row]]) -> None:
    """Each group that nobody holds goes to one receiver, as far as it is ready and fits."""
    groups = await _free_groups(tx, [orders[index] for index in chosen])
    seqs: dict[int, list[int]] = {}
    for index in chosen:
        queue, order = orders[index]
        seqs[index] = _take_groups(tx, queue, order, groups[queue.key])
    rows = await tx.load(Q.named_whole, seqs=numbers(seq for part in seqs.values() for seq in part))
    by_seq = {row.seq: row for row in rows}
    for index, part in seqs.items():
        parts[index] = [by_seq[seq] for seq in part]


async def take_groups(tx: Transaction, queue: Queue, order: Receive) -> list[Row]:
    """The messages of groups that nobody holds, for one alone; the queue is locked."""
    groups = await _free_groups(tx, [(queue, order)])
    seqs = _take_groups(tx, queue, order, groups[queue.key])
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
    (found,) = await ask(tx.connection, [(Q.claim_groups, where)])
    groups: dict[int, deque[Group]] = {key: deque() for key in most}
    blocked: set[tuple[int, bytes]] = set()
    for key, grp, seq, state in found:
        line = groups[key]
        if not line or line[-1][0] != grp:
            line.append((grp, []))
        if state != State.READY:
            blocked.add((key, grp))
        elif (key, grp) not in blocked:
            line[-1][1].append(seq)
    return groups


def _take_groups(tx: Transaction, queue: Queue, order: Receive, groups: deque[Group]) -> list[int]:
    taken: list[int] = []
    while groups and len(taken) < order.limit:
        grp, seqs = groups.popleft()
        run = seqs[: min(order.group_limit or order.limit, order.limit - len(taken))]
        if run:
            taken += run
            tx.touch_group(queue.key, grp, leased=len(run))
    return taken


def _lease(tx: Transaction, queue: Queue, order: Receive, rows: list[Row], sealer: Sealer) -> list[Lease]:
    expires_at = order.now + order.lease_ms
    leases = []
    for row in rows:
        row.state, row.due_at = State.LEASED, expires_at
        row.attempts += 1  # counted when leased, not when acked: a consumer that dies must still use one up
        row.lease_no += 1
        tx.put(row)
        tx.events.append(event(EventKind.RECEIVED, order.now, queue, row, order.principal))
        leases.append(to_lease(queue, row, receipt=sealer.receipt(queue.key, row.seq, row.lease_no)))
    if rows:
        change = tx.change(queue.key)
        change.counts[State.READY] -= len(rows)
        change.counts[State.LEASED] += len(rows)
        tx.due(queue.key, expires_at)
    return leases
