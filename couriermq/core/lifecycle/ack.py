"""A message is done."""

from collections.abc import Collection, Sequence

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import extract_each, find_each, queue_of, seq_of, state_of
from couriermq.core.lifecycle.needs import Copied, Deciding, Queues
from couriermq.core.lifecycle.order import keep_order
from couriermq.core.lifecycle.rows import Contents, Pack, Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Json, Kind, Queue, State

ACKED = EventKind.ACKED.value
Note = dict[str, Json] | None


def ack_packed(
    unit: Unit, queue: Queue, pack: Pack, seqs: Sequence[int], contents: Contents, *, note: Note, now: int,
    principal: str,
) -> None:  # fmt: skip
    """Messages of one pack are done."""
    run, first = contents.run_of(pack)
    offset = first - pack.first
    is_whole = len(seqs) == pack.remaining
    sizes = [run.sizes[seq + offset] or 0 for seq in seqs]
    size = pack.bytes if is_whole else sum(sizes)
    ids = [run.message_ids[seq + offset] or "" for seq in seqs]
    unit.events.note_all(
        ACKED, now, queue, seqs, ids, [pack.attempts] * len(seqs), sizes, principal, note,
        turn=pack.turn + 1, sent_at=pack.entered_at,
    )  # fmt: skip
    unit.count_out(queue, pack.state, size, len(seqs))
    unit.tally(queue.key).acked += len(seqs)
    if not is_whole:
        for seq in seqs:
            pack.gone |= 1 << (seq - pack.first)
    pack.remaining -= len(seqs)
    pack.bytes -= size
    unit.shrink_pack(pack)


def ack_single(unit: Unit, queue: Queue, single: Single, *, note: Note, now: int, principal: str) -> None:
    """One message is done; its group is for the caller to refresh."""
    unit.drop(single)
    unit.count_out(queue, single.state, single.size)
    unit.tally(queue.key).acked += 1
    unit.note(ACKED, now, queue, single, principal, note)


def end_delivered(unit: Unit, queues: Queues, seqs: Collection[int], *, now: int, principal: str) -> Deciding[None]:
    """Ack the originals of copies that listeners have got, where no copy is left.

    The originals are found first, and so locked: of two who end the last copies at the same time, the second one waits
    and sees that there are no others.
    """
    found = yield from find_each(unit, None, sorted(set(seqs)))
    waiting = {seq_of(member): member for member in found if state_of(member) != State.LEASED}  # else for its receiver
    copied: set[int] = yield Copied(list(waiting))
    ended = [(queues.queue_of_key(queue_of(member)), member) for seq, member in waiting.items() if seq not in copied]
    known = [(queue, member) for queue, member in ended if queue is not None]
    singles = yield from extract_each(unit, [member for _, member in known])
    for (queue, _), single in zip(known, singles, strict=True):
        ack_single(unit, queue, single, note={"delivered": True}, now=now, principal=principal)
        if queue.kind is Kind.FIFO:
            yield from keep_order(queue)
            yield from refresh_group(unit, queue, single.group, leased=0)
