"""Giving a leased message back as a failed attempt."""

import msgspec

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.dead_letter import bury
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.needs import Deciding, Queues
from couriermq.core.lifecycle.rows import Pack, Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Json, Kind, LateAck, Queue, Release, Settled, State
from couriermq.core.retry import Again, after_failure

RELEASED = EventKind.RELEASED.value


def release(
    unit: Unit, queue: Queue, queues: Queues, single: Single, order: Release, *, now: int, principal: str
) -> Deciding[Settled]:
    """Ready again after the delay, or dead once its attempts are used up; one that was not tried never is."""
    unit.note(RELEASED, now, queue, single, principal, _detail(order))
    if order.untried:
        single.attempts -= 1
    return (yield from _try_again(unit, queue, queues, single, order, now=now))


def may_release_late(queue: Queue, row: Pack | Single) -> bool:
    """Whether a release counts whose lease has ended: the queue says so, and nobody else holds the message."""
    return row.state != State.LEASED and queue.settings.late_ack is LateAck.ACCEPT


def release_late(
    unit: Unit, queue: Queue, queues: Queues, single: Single, order: Release, *, now: int, principal: str
) -> Deciding[Settled]:
    """The end of the lease has counted as an attempt; what counts now is when the last holder wants the next one."""
    detail = {**(_detail(msgspec.structs.replace(order, untried=False)) or {}), "late": True}
    unit.note(RELEASED, now, queue, single, principal, detail)
    return (yield from _try_again(unit, queue, queues, single, order, now=now))


def _try_again(
    unit: Unit, queue: Queue, queues: Queues, single: Single, order: Release, *, now: int
) -> Deciding[Settled]:
    fate = after_failure(
        queue.settings, attempts=0 if order.untried else single.attempts, ended_at=now,
        discard_at=single.discards_at(queue), delay_ms=order.delay_ms,
    )  # fmt: skip
    if isinstance(fate, Again):
        yield from put_back(unit, queue, single, due_at=fate.due_at, now=now)
        return Settled(single.seq, single.id)
    yield from bury(unit, queue, queues, fate, single, at=now)
    return Settled(single.seq, single.id, dead=True)


def put_back(unit: Unit, queue: Queue, single: Single, *, due_at: int, now: int) -> Deciding[None]:
    """A message becomes ready again, or delayed until `due_at`."""
    was = single.state
    state = State.READY if due_at <= now else State.DELAYED
    single.state, single.due_at = int(state), due_at
    unit.put(single)
    unit.recount(queue, was, state)
    if state is State.READY:
        unit.made_ready(queue.key)
    else:
        unit.due(unit.tally(queue.key), due_at)
    if queue.kind is Kind.FIFO:
        yield from refresh_group(unit, queue, single.group, leased=-1 if was == State.LEASED else 0)


def _detail(order: Release) -> dict[str, Json] | None:
    detail = order.note
    if order.delay_ms is not None:
        detail = {**(detail or {}), "delay_ms": order.delay_ms}
    return {**(detail or {}), "untried": True} if order.untried else detail
