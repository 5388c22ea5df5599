"""What time does to a queue: leases and delays end, messages grow too old."""

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.dead_letter import bury
from couriermq.core.lifecycle.members import extract, note_pack
from couriermq.core.lifecycle.needs import Aged, Content, Deciding, Ended, Found, NextDue, Queues
from couriermq.core.lifecycle.purge import remove
from couriermq.core.lifecycle.release import put_back
from couriermq.core.lifecycle.rows import Contents, Pack, Single
from couriermq.core.lifecycle.tally import NEVER, Tally
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Queue, State
from couriermq.core.retry import TOO_OLD, Again, after_lapse, discard_at

STEP = 2_000
"""How many messages of a kind one step changes, about; the rest comes with the next."""

LEASE_EXPIRED, DISCARDED = EventKind.LEASE_EXPIRED.value, EventKind.DISCARDED.value
DELAYED, READY, LEASED = map(int, (State.DELAYED, State.READY, State.LEASED))


def expire(unit: Unit, queue: Queue, *, queues: Queues, now: int) -> Deciding[None]:
    """Bring a queue to `now`, or as far as one step goes; `tally.next_due` says whether there is more to do."""
    tally = unit.tally(queue.key)
    if tally.next_due > now:
        return
    # While leases are left to end nothing grows too old: what failed first may have gone to the dead letter queue.
    if tally.may_have() and (yield from _end_leases(unit, queue, queues, now)):
        yield from _discard_aged(unit, queue, now)
        yield from _end_delays(unit, queue, tally, now)
    tally.next_due = NEVER
    unit.due(tally, (yield from _next_due(queue, tally, now)))


def _end_leases(unit: Unit, queue: Queue, queues: Queues, now: int) -> Deciding[bool]:
    """Whether all have been ended that were to end by now.

    Rows are asked for whatever the tally says: one that is damaged must be found, or it would be due for ever.
    """
    found: Found = yield Ended(queue.key, LEASED, now, STEP)
    count = len(found.singles)
    for pack in found.packs:
        count += pack.remaining
        contents: Contents = yield Content([pack], bodies=False)
        yield from _end_pack(unit, queue, queues, pack, contents, now)
    for single in found.singles:
        yield from _end_single(unit, queue, queues, single, now)
    return count < STEP


def _end_pack(unit: Unit, queue: Queue, queues: Queues, pack: Pack, contents: Contents, now: int) -> Deciding[None]:
    """All of it failed at the same instant: it is ready again as one pack, or each message goes its way."""
    end = discard_at(queue.settings, entered_at=pack.entered_at, retention_ms=None)
    fate = after_lapse(queue, attempts=pack.attempts, ended_at=pack.due_at, discard_at=end)
    if not isinstance(fate, Again):
        for index in pack.indexes():
            yield from _end_single(unit, queue, queues, extract(unit, pack, index, contents), now)
        return
    note_pack(unit, LEASE_EXPIRED, pack.due_at, queue, pack, contents)
    pack.state, pack.due_at = READY if fate.due_at <= now else DELAYED, fate.due_at
    unit.put_pack(pack)
    unit.recount(queue, LEASED, pack.state, pack.remaining)
    if pack.state == READY:
        unit.made_ready(queue.key, pack.remaining)
    else:
        unit.due(unit.tally(queue.key), pack.due_at)


def _end_single(unit: Unit, queue: Queue, queues: Queues, single: Single, now: int) -> Deciding[None]:
    end, ended_at = single.discards_at(queue), single.due_at
    fate = after_lapse(queue, attempts=single.attempts, ended_at=ended_at, discard_at=end)
    if end >= ended_at:
        unit.note(LEASE_EXPIRED, ended_at, queue, single)
    if isinstance(fate, Again):
        yield from put_back(unit, queue, single, due_at=fate.due_at, now=now)
    else:
        yield from bury(unit, queue, queues, fate, single, at=min(end, ended_at))


def _discard_aged(unit: Unit, queue: Queue, now: int) -> Deciding[None]:
    retention_ms, detail = queue.settings.retention_ms, {"reason": TOO_OLD}
    found: Found = yield Aged(queue.key, now - retention_ms, now, STEP)
    for pack in found.packs:
        contents: Contents = yield Content([pack], bodies=False)
        note_pack(unit, DISCARDED, pack.entered_at + retention_ms, queue, pack, contents, detail=detail)
        unit.count_out(queue, pack.state, pack.bytes, pack.remaining)
        pack.remaining = pack.bytes = 0
        unit.shrink_pack(pack)
    for single in found.singles:
        at = single.discards_at(queue)
        yield from remove(unit, queue, single, kind=EventKind.DISCARDED, at=at, detail=detail)


def _end_delays(unit: Unit, queue: Queue, tally: Tally, now: int) -> Deciding[None]:
    """A message keeps the instant at which it became ready."""
    found: Found = yield Ended(queue.key, DELAYED, now, STEP)
    count = len(found.singles)
    for pack in found.packs:
        pack.state = READY
        unit.put_pack(pack)
        count += pack.remaining
    for single in found.singles:
        single.state = READY
        unit.put(single)
    if count:
        tally.shift(DELAYED, READY, count)
        unit.made_ready(queue.key, count)


def _next_due(queue: Queue, tally: Tally, now: int) -> Deciding[int]:
    """When time will next change the queue."""
    if not tally.may_have():
        return NEVER
    retention_ms = queue.settings.retention_ms
    state_ends, own_ends, oldest = yield NextDue(queue.key, now, now - retention_ms)
    ends = [state_ends, own_ends, None if oldest is None else oldest + retention_ms]
    return min((end for end in ends if end is not None), default=NEVER)
