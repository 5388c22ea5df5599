"""Messages whose stored contents are damaged leave their queues, so that nobody gets them and the others go on."""

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.needs import Deciding, Found, PointingTo, Queues
from couriermq.core.lifecycle.order import keep_order
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Kind, Queue, State
from couriermq.core.receipts import Sealer

DISCARDED = EventKind.DISCARDED.value
DAMAGED = "damaged"
"""The reason in the event."""


def quarantine(
    unit: Unit, *, start: int | None, seq: int | None, queues: Queues, sealer: Sealer, at: int
) -> Deciding[int]:
    """Set aside all messages of a journal row, or one whose body was copied out; how many that are."""
    found: Found = yield PointingTo(start, seq)
    detail, count = {"reason": DAMAGED}, 0
    for pack in found.packs:
        queue = queues.queue_of_key(pack.queue) or _gone(pack.queue)
        seqs = pack.seqs()
        ids, attempts = sealer.message_ids(seqs), [pack.attempts] * len(seqs)
        sizes = [pack.bytes // len(seqs)] * len(seqs)  # the damaged row alone has the sizes of each
        unit.events.note_all(
            DISCARDED, at, queue, seqs, ids, attempts, sizes, None, detail, turn=pack.turn + 1, sent_at=pack.entered_at
        )
        unit.order("set_aside", pack.last, pack.queue, len(seqs), pack.start, at)
        unit.count_out(queue, pack.state, pack.bytes, len(seqs))
        pack.remaining = 0
        unit.shrink_pack(pack)
        count += len(seqs)
    for single in found.singles:
        queue = queues.queue_of_key(single.queue) or _gone(single.queue)
        unit.note(DISCARDED, at, queue, single, None, detail)
        unit.order("set_aside", single.seq, single.queue, 1, single.start, at)
        unit.count_out(queue, single.state, single.size)
        unit.drop(single)
        count += 1
        if queue.kind is Kind.FIFO:
            yield from keep_order(queue)
            leased = -1 if single.state == State.LEASED else 0
            yield from refresh_group(unit, queue, single.group, leased=leased)
    return count


def _gone(key: int) -> Queue:
    return Queue(key=key, id="", tenant="", name="")
