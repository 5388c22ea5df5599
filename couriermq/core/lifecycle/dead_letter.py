"""A message that has no attempt left, or has grown too old while it was leased."""

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.move import transfer
from couriermq.core.lifecycle.needs import Deciding, Queues
from couriermq.core.lifecycle.purge import remove
from couriermq.core.lifecycle.rows import Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Death, Queue
from couriermq.core.retry import TOO_OLD, Dead, Expired


def bury(unit: Unit, queue: Queue, queues: Queues, fate: Dead | Expired, single: Single, *, at: int) -> Deciding[None]:
    """To the dead letter queue where there is one and the attempts are used up; else it is discarded."""
    is_dead = isinstance(fate, Dead)
    target_id = queue.settings.dead_letter_queue
    target = queues.queue_of_id(target_id) if target_id and is_dead else None
    unit.tally(queue.key).dead += is_dead
    if target is None:
        reason = fate.reason if isinstance(fate, Dead) else TOO_OLD
        yield from remove(unit, queue, single, kind=EventKind.DISCARDED, at=at, detail={"reason": reason})
        return
    assert isinstance(fate, Dead)
    death = Death(reason=fate.reason, source_queue=queue.id, attempts=single.attempts, died_at=at)
    detail = {"reason": fate.reason, "target_id": target.id, "target": target.name}
    unit.note(EventKind.DEAD_LETTERED, at, queue, single, None, detail)
    yield from transfer(unit, queue, target, single, at=at, death=death)
