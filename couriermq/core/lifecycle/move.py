"""Into another queue, as if it had just come: fresh attempts, that queue's retention."""

from collections.abc import Sequence

from couriermq.core.lifecycle.cursor import Moved, read_cursor, write_cursor
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import (
    Member,
    by_entrance,
    entrance_of,
    extract_each,
    find_each,
    size_of,
    state_of,
)
from couriermq.core.lifecycle.needs import Deciding, Found, InOrder, Queues
from couriermq.core.lifecycle.order import keep_order
from couriermq.core.lifecycle.rows import Single, encode
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES, Room
from couriermq.core.model import Death, Kind, Queue, State
from couriermq.core.shards import Newest


def transfer(
    unit: Unit, source: Queue, target: Queue, single: Single, *, at: int, death: Death | None = None
) -> Deciding[None]:
    """Move a message as it is to another queue, where it starts afresh."""
    old_group, old_state = single.group, single.state
    unit.count_out(source, old_state, single.size)
    single.queue, single.state, single.due_at, single.entered_at = target.key, int(State.READY), at, at
    single.attempts, single.discard_at = 0, None
    single.group = (old_group or "") if target.kind is Kind.FIFO else (old_group or None)
    single.death = encode(death) if death else None
    unit.put_moved(single)
    tally = unit.tally(target.key)
    tally.add(State.READY, single.size)
    tally.oldest_at = None  # it counts from `at`, which may be earlier than what came in since
    unit.made_ready(target.key)
    unit.due(tally, at + target.settings.retention_ms)
    if source.kind is Kind.FIFO:
        yield from refresh_group(unit, source, old_group, leased=-1 if old_state == State.LEASED else 0)
    if target.kind is Kind.FIFO:
        yield from keep_order(target)  # a concurrent ack of the group's last message would delete the group
        yield from refresh_group(unit, target, single.group, leased=0)


def move(
    unit: Unit,
    source: Queue,
    target: Queue | None,
    *,
    queues: Queues,
    seqs: Sequence[int] | None,
    upto: Newest,
    after: str | None,
    limit: int,
    kind: str,
    now: int,
    principal: str,
) -> Deciding[Moved]:
    """One step of a move or a redrive, oldest first; what is leased stays."""
    following = None
    if seqs is None:
        members, following = yield from page(source, after, limit)
    else:
        members = yield from find_each(unit, source.key, seqs)
    waiting = [m for m in members if state_of(m) != State.LEASED and upto.covers(*entrance_of(m))]
    goals = [(m, goal) for m in waiting if (goal := target or _where_it_died(m, queues)) is not None]
    singles = yield from extract_each(unit, [member for member, _ in goals])
    for single, (_, goal) in zip(singles, goals, strict=True):
        unit.note(kind, now, source, single, principal, {"target_id": goal.id, "target": goal.name})
        yield from transfer(unit, source, goal, single, at=now)
    return Moved(len(goals), following)


def _where_it_died(member: Member, queues: Queues) -> Queue | None:
    death = member.died if isinstance(member, Single) else None
    return queues.queue_of_id(death.source_queue) if death else None


def page(queue: Queue, after: str | None, limit: int) -> Deciding[tuple[list[Member], str | None]]:
    """Messages behind a cursor, as many as the limit and the bytes of a commit allow, and the cursor behind them."""
    entered_at, seq = read_cursor(after)
    found: Found = yield InOrder(queue.key, entered_at, seq, limit)
    members: list[Member] = []
    room = Room(COMMIT_BYTES)
    for member in by_entrance(found, entered_at=entered_at, seq=seq):
        if len(members) == limit:
            break
        if not room.takes(size_of(member)):
            return members, write_cursor(members[-1])
        members.append(member)
    return members, write_cursor(members[-1]) if len(members) == limit else None
