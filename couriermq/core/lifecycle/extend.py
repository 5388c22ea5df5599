"""Holding a leased message for longer."""

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.members import note_pack
from couriermq.core.lifecycle.rows import Contents, Pack, Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Extend, Queue, Settled

EXTENDED = EventKind.EXTENDED.value


def extend(unit: Unit, queue: Queue, single: Single, order: Extend, *, now: int, principal: str) -> Settled:
    """The lease ends `lease_ms` from now; its receipt stays the same."""
    single.due_at = now + order.lease_ms
    unit.put(single)
    unit.due(unit.tally(queue.key), single.due_at)
    unit.note(EXTENDED, now, queue, single, principal, {"lease_ms": order.lease_ms})
    return Settled(single.seq, single.id, expires_at=single.due_at)


def extend_pack(
    unit: Unit, queue: Queue, pack: Pack, contents: Contents, *, lease_ms: int, now: int, principal: str
) -> dict[int, Settled]:
    """The same for all messages of a pack together; the outcomes by seq."""
    pack.due_at = now + lease_ms
    unit.put_pack(pack)
    unit.due(unit.tally(queue.key), pack.due_at)
    note_pack(unit, EXTENDED, now, queue, pack, contents, principal=principal, detail={"lease_ms": lease_ms})
    run, first = contents.run_of(pack)
    return {
        pack.first + index: Settled(pack.first + index, run.message_ids[first + index] or "", expires_at=pack.due_at)
        for index in pack.indexes()
    }
