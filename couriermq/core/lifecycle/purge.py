"""Messages that leave without an ack: removed by their owner, too old, or in a queue that is gone."""

from collections.abc import Sequence

from couriermq.core.events import EventKind
from couriermq.core.lifecycle.cursor import Moved
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import Member, entrance_of, extract_each, find_each, row_of, seq_of
from couriermq.core.lifecycle.move import page
from couriermq.core.lifecycle.needs import Deciding
from couriermq.core.lifecycle.rows import Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Json, Kind, Queue, State
from couriermq.core.removal import Removable, Removal
from couriermq.core.shards import Newest


def remove(
    unit: Unit,
    queue: Queue,
    single: Single,
    *,
    kind: str,
    at: int,
    principal: str | None = None,
    detail: dict[str, Json] | None = None,
) -> Deciding[None]:
    """Remove a message, whatever its state."""
    unit.drop(single)
    unit.count_out(queue, single.state, single.size)
    unit.note(kind, at, queue, single, principal, detail)
    if queue.kind is Kind.FIFO:
        yield from refresh_group(unit, queue, single.group, leased=-1 if single.state == State.LEASED else 0)


def remove_chosen(
    unit: Unit,
    queue: Queue,
    seqs: Sequence[int],
    *,
    which: Removable = Removable.ANY,
    kind: str,
    now: int,
    principal: str,
) -> Deciding[Removal]:
    """Remove named messages, of those that are there the ones that may go."""
    gone: list[Member] = []
    kept: list[Member] = []
    for member in (yield from find_each(unit, queue.key, seqs)):
        row = row_of(member)
        (gone if which.allows(row.state, row.attempts) else kept).append(member)
    singles = yield from extract_each(unit, gone)
    for single in singles:
        yield from remove(unit, queue, single, kind=kind, at=now, principal=principal)
    return Removal([single.seq for single in singles], [seq_of(member) for member in kept])


def purge(
    unit: Unit, queue: Queue, *, upto: Newest, after: str | None, limit: int, now: int, principal: str
) -> Deciding[Moved]:
    """One step of a purge."""
    members, following = yield from page(queue, after, limit)
    gone = [member for member in members if upto.covers(*entrance_of(member))]
    singles = yield from extract_each(unit, gone)
    for single in singles:
        yield from remove(unit, queue, single, kind=EventKind.PURGED, at=now, principal=principal)
    return Moved(len(gone), following)


def sweep(unit: Unit, queue: Queue, *, now: int, limit: int) -> Deciding[bool]:
    """Remove some of the messages of a queue that was deleted; whether none is left."""
    members, following = yield from page(queue, None, limit)
    singles = yield from extract_each(unit, members)
    for single in singles:
        yield from remove(unit, queue, single, kind=EventKind.PURGED, at=now, detail={"reason": "queue deleted"})
    return following is None
