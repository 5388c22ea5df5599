"""Messages that a job holds without end, under numbers of its choice.

A claim is made of parts, one a transaction, and is answered for when it is complete; its end is decided in one
transaction and then carried out part by part. Both go on where they were after a crash.
"""

from couriermq.core.errors import ClaimGone, Fenced, JobNotFound, QueuePaused
from couriermq.core.events import EventKind
from couriermq.core.lifecycle.fifo import take_groups
from couriermq.core.lifecycle.in_flight import leasable
from couriermq.core.lifecycle.lease import Stretch, in_line, lease_packed, lease_single, portions
from couriermq.core.lifecycle.members import note_pack
from couriermq.core.lifecycle.needs import (
    ClaimOf,
    ClaimPart,
    ClaimRow,
    Content,
    DecidedClaim,
    Deciding,
    Found,
    JobOf,
    LastClaim,
    Named,
    Queues,
    Ready,
)
from couriermq.core.lifecycle.rows import Contents, Pack, Single, message_of, messages_of, weight_of_attributes
from couriermq.core.lifecycle.settle import Desk
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import Room
from couriermq.core.model import UNENDING, Claim, Fate, Job, Json, Kind, Message, Queue, State

RECEIVED = EventKind.RECEIVED.value
PART = 1_000
"""Messages of one part: as many as one step takes, about 10 ms of the event loop."""


def open_job(unit: Unit, queue: Queue, name: str, *, last_epoch: int, now: int) -> Deciding[Job]:
    """Begin a new epoch, behind those of earlier incarnations of the store."""
    found: Job | None = yield JobOf(queue.key, name)
    epoch, done = (found.epoch, found.done) if found else (0, 0)
    epoch = max(epoch, last_epoch) + 1
    unit.order("put_job", queue.key, name, epoch, done, now)
    return Job(name=name, epoch=epoch, done=done, opened_at=now)


def check_epoch(queue: Queue, name: str, epoch: int) -> Deciding[Job]:
    job: Job | None = yield JobOf(queue.key, name)
    if job is None or job.epoch != epoch:
        raise Fenced(name, epoch)
    return job


def held_claim(queue: Queue, job: str, number: int, epoch: int) -> Deciding[ClaimRow]:
    """A claim that can be read."""
    yield from check_epoch(queue, job, epoch)
    found: ClaimRow | None = yield ClaimOf(queue.key, job, number)
    if found is None or found.fate != Fate.HELD:
        raise ClaimGone(job, number)
    return found


def is_held(row: Pack | Single) -> bool:
    """Whether a claim holds it."""
    return row.state == State.LEASED and row.due_at == UNENDING


def take_part(
    unit: Unit, queue: Queue, job: str, number: int, *, epoch: int, limit: int, ready_by: int, now: int, principal: str
) -> Deciding[Claim | None]:
    """Add a part to a claim; returns the claim once it is complete."""
    if number <= (yield from check_epoch(queue, job, epoch)).done:
        raise ClaimGone(job, number)
    claim: ClaimRow = (yield ClaimOf(queue.key, job, number)) or ClaimRow(number, 0, 0, now, limit, 0, 0)
    count, size, complete = claim.count, claim.bytes, bool(claim.complete)
    if is_new := not complete:
        if queue.settings.paused:
            raise QueuePaused(queue.name)
        wanted = min(PART, claim.wanted - count)
        detail = {"claim": {"job": job, "number": number}}
        seqs, taken_bytes = yield from _take(unit, queue, wanted, ready_by, detail, now, principal)
        if seqs:
            unit.order("insert_claim_part", queue.key, job, number, count, len(seqs), seqs)
        count, size = count + len(seqs), size + taken_bytes
        complete = len(seqs) < wanted or count == claim.wanted
        if count:
            unit.order("put_claim", queue.key, job, number, claim.wanted, complete, count, size, claim.claimed_at)
    if not complete:
        return None
    return Claim(number=number, count=count, byte_count=size, claimed_at=claim.claimed_at, is_new=is_new)


def _take(
    unit: Unit, queue: Queue, wanted: int, ready_by: int, detail: dict[str, Json], now: int, principal: str
) -> Deciding[tuple[list[int], int]]:
    """Lease messages without end, as far as the queue's limit allows; their seqs, and the bytes of their bodies."""
    if not unit.tally(queue.key).may_have(State.READY):
        return [], 0
    room = yield from leasable(unit, queue, wanted)
    if not room:
        return [], 0
    if queue.kind is Kind.FIFO:
        singles = yield from take_groups(unit, queue, limit=room, group_limit=room, now=ready_by, by=ready_by)
        stretches = [Stretch(None, single) for single in singles]
    else:
        stretches = in_line((yield Ready(queue.key, room, ready_by)), room)
    seqs: list[int] = []
    size, lease_no = 0, unit.take_lease_no() if stretches else 0
    for some in portions(stretches):
        contents: Contents = yield Content([s.pack for s in some if s.pack is not None], bodies=False)
        for stretch in some:
            if stretch.single is not None:
                lease_single(unit, queue, stretch.single, lease_no=lease_no, expires_at=UNENDING)
                unit.note(RECEIVED, now, queue, stretch.single, principal, detail)
                seqs.append(stretch.single.seq)
                size += stretch.single.size
                continue
            assert stretch.pack is not None
            pack = lease_packed(
                unit, queue, stretch.pack, stretch.count, contents, lease_no=lease_no, expires_at=UNENDING
            )
            note_pack(unit, RECEIVED, now, queue, pack, contents, principal=principal, detail=detail)
            seqs += pack.seqs()
            size += pack.bytes
    return seqs, size


def read_parts(
    queue: Queue, job: str, number: int, *, start: int, stop: int
) -> Deciding[tuple[list[tuple[int, Message]], int | None]]:
    """The messages at positions of a claim that fit one response, and the position of the first that does not."""
    messages: list[tuple[int, Message]] = []
    room, position = Room(), start
    while position < stop:
        part: tuple[int, list[int]] | None = yield ClaimPart(queue.key, job, number, position)
        if part is None:
            break
        first, seqs = part[0], part[1][position - part[0] : stop - part[0]]
        found, fitting = yield from _claimed(queue, seqs, room)
        messages += [(place, found[seq]) for place, seq in enumerate(fitting, position) if seq in found]
        if len(fitting) < len(seqs):
            return messages, position + len(fitting)
        position = first + len(part[1])
    return messages, None


def _claimed(queue: Queue, seqs: list[int], room: Room) -> Deciding[tuple[dict[int, Message], list[int]]]:
    """Of these messages those that a claim still holds, and the seqs up to which they fit."""
    named: Found = yield Named(queue.key, seqs)
    packs, singles = list(filter(is_held, named.packs)), list(filter(is_held, named.singles))
    fitting = yield from _fitting(seqs, packs, singles, room)
    wanted = set(fitting)
    packs = [pack for pack in packs if not wanted.isdisjoint(pack.seqs())]
    singles = [single for single in singles if single.seq in wanted]
    contents: Contents = yield Content(packs, singles)
    messages = {single.seq: message_of(single, queue, contents.body_of(single)) for single in singles}
    for pack in packs:
        indexes = [index for index in pack.indexes() if pack.first + index in wanted]
        messages |= {message.seq: message for message in messages_of(pack, indexes, queue, contents)}
    return messages, fitting


def _fitting(seqs: list[int], packs: list[Pack], singles: list[Single], room: Room) -> Deciding[list[int]]:
    """The first of the seqs, as many as fit; rows of the journal behind them are not loaded."""
    weights = {single.seq: single.weight for single in singles}
    # Messages with attributes of their own are packs of one: many of them share a row of the journal.
    sharing: dict[int, list[Pack]] = {}
    for pack in packs:
        sharing.setdefault(pack.start, []).append(pack)
    starts = {seq: pack.start for pack in packs for seq in pack.seqs()}
    for count, seq in enumerate(seqs):
        if seq not in weights and seq in starts:
            weights |= yield from _weights(sharing[starts[seq]])
        if not room.takes(weights.get(seq, 0)):
            return seqs[:count]
    return seqs


def _weights(packs: list[Pack]) -> Deciding[dict[int, int]]:
    """What each message of packs that share a row of the journal counts for in a response, by seq."""
    contents: Contents = yield Content(packs, bodies=False)
    weights: dict[int, int] = {}
    for pack in packs:
        run, first = contents.run_of(pack)
        extra = weight_of_attributes(run)
        weights |= {pack.first + index: (run.sizes[first + index] or 0) + extra for index in pack.indexes()}
    return weights


def ack_claims(unit: Unit, queue: Queue, job: str, *, upto: int, epoch: int) -> Deciding[None]:
    """Claims up to a number are done; `end_part` acks what is in them."""
    yield from check_epoch(queue, job, epoch)
    unit.order("finish_claims", upto, queue.key, job)
    unit.order("decide_claims", int(Fate.ACKED), queue.key, job, upto)


def free_job(unit: Unit, queue: Queue, name: str) -> Deciding[None]:
    """End the job's epoch and give up its claims; `end_part` releases what is in them."""
    job: Job | None = yield JobOf(queue.key, name)
    if job is None:
        raise JobNotFound(name)
    done = max(job.done, (yield LastClaim(queue.key, name)))
    unit.order("put_job", queue.key, name, job.epoch + 1, done, job.opened_at)
    unit.order("decide_claims", int(Fate.FREED), queue.key, name, done)


def end_part(unit: Unit, queue: Queue, *, queues: Queues, now: int, principal: str) -> Deciding[int | None]:
    """Ack or release a part of a claim that is decided; how many messages that were, None when no claim is left."""
    decided = yield DecidedClaim(queue.key)
    if decided is None:
        return None
    job, number, fate, part = decided
    if part is None:
        unit.order("delete_claim", queue.key, job, number)
        return 0
    first, seqs = part
    desk = Desk(unit, queue, queues)
    desk.serve(now, principal)
    count = yield from desk.end_claimed(seqs, Fate(fate), {"claim": {"job": job, "number": number}})
    unit.order("delete_claim_part", queue.key, job, number, first)
    return count
