"""A message is done."""

from collections.abc import Sequence

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import extract, find_each, state_of
from couriermq.core.lifecycle.needs import Content, Deciding, HasCopies, Queues
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
    tally = unit.tally(queue.key)
    tally.remove(pack.state, size, len(seqs))
    tally.acked += len(seqs)
    if not is_whole:
        for seq in seqs:
            pack.gone |= 1 << (seq - pack.first)
    pack.remaining -= len(seqs)
    pack.bytes -= size
    unit.shrink_pack(pack)


def ack_single(unit: Unit, queue: Queue, single: Single, *, note: Note, now: int, principal: str) -> None:
    """One message is done; its group is for the caller to refresh."""
    unit.drop(single)
    tally = unit.tally(queue.key)
    tally.remove(single.state, single.size)
    tally.acked += 1
    unit.note(ACKED, now, queue, single, principal, note)


def end_delivered(unit: Unit, queues: Queues, seq: int, *, now: int, principal: str) -> Deciding[None]:
    """Ack the original of a copy that a listener has got, once no copy of it is left."""
    if (yield HasCopies(seq)):
        return
    found = yield from find_each(unit, None, [seq])
    if not found or state_of(found[0]) == State.LEASED:  # the receiver that leases it will settle it
        return
    (member,) = found
    key = member.queue if isinstance(member, Single) else member[0].queue
    queue = queues.queue_of_key(key)
    if queue is None:
        return
    if isinstance(member, Single):
        single = member
    else:
        contents = yield Content([member[0]], bodies=False)
        single = extract(unit, member[0], member[1], contents)
    ack_single(unit, queue, single, note={"delivered": True}, now=now, principal=principal)
    if queue.kind is Kind.FIFO:
        yield from refresh_group(unit, queue, single.group, leased=0)
