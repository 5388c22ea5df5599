"""Leasing rows: whole packs where all their messages are wanted, their first messages where not, and singles."""

from collections.abc import Iterator, Sequence
from itertools import islice

from couriermq.core.lifecycle.members import ROWS_AT_ONCE, by_readiness
from couriermq.core.lifecycle.needs import Found
from couriermq.core.lifecycle.rows import Contents, Pack, Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import RESPONSE_BYTES
from couriermq.core.model import Queue, State

READY, LEASED = int(State.READY), int(State.LEASED)


class Stretch:
    """Messages that are ready one after the other: the first ones of a pack, or a single."""

    __slots__ = ("count", "pack", "single")

    def __init__(self, pack: Pack | None, single: Single | None, count: int = 1) -> None:
        self.pack = pack
        self.single = single
        self.count = count

    @property
    def bytes(self) -> int:
        """Of bodies, at most."""
        return self.single.size if self.single else self.pack.bytes if self.pack else 0


def in_line(found: Found, limit: int) -> list[Stretch]:
    """What is ready as stretches, longest ready first."""
    stretches: list[Stretch] = []
    if not found.singles:
        for pack in found.packs:
            count = min(pack.remaining, limit)
            if count:
                stretches.append(Stretch(pack, None, count))
            limit -= count
        return stretches
    for member in islice(by_readiness(found), limit):
        if isinstance(member, Single):
            stretches.append(Stretch(None, member))
        elif stretches and stretches[-1].pack is member[0]:
            stretches[-1].count += 1
        else:
            stretches.append(Stretch(member[0], None))
    return stretches


def portions(stretches: Sequence[Stretch]) -> Iterator[list[Stretch]]:
    """Parts of the stretches that are in few rows of the journal and have few bytes, so that both fit into memory."""
    part: list[Stretch] = []
    size = 0
    for stretch in stretches:
        if part and (len(part) == ROWS_AT_ONCE or size + stretch.bytes > RESPONSE_BYTES):
            yield part
            part, size = [], 0
        part.append(stretch)
        size += stretch.bytes
    if part:
        yield part


def lease_single(unit: Unit, queue: Queue, single: Single, *, lease_no: int, expires_at: int) -> None:
    """An attempt is counted now, not when it is acked, so that a consumer that dies has used one up."""
    unit.recount(queue, READY, LEASED)
    unit.due(unit.tally(queue.key), expires_at)
    single.state, single.due_at, single.lease_no = LEASED, expires_at, lease_no
    single.attempts += 1
    unit.put(single)


def lease_packed(
    unit: Unit, queue: Queue, pack: Pack, count: int, contents: Contents, *, lease_no: int, expires_at: int
) -> Pack:
    """Lease the first messages of a pack; returns the pack that holds just these."""
    unit.recount(queue, READY, LEASED, count)
    unit.due(unit.tally(queue.key), expires_at)
    part = _split(unit, pack, count, contents)
    part.state, part.due_at, part.lease_no = LEASED, expires_at, lease_no
    part.attempts += 1
    return part


def _split(unit: Unit, pack: Pack, count: int, contents: Contents) -> Pack:
    """The first `count` messages of a pack as a pack of their own; the rest stays under the old one's key."""
    if count == pack.remaining:
        unit.put_pack(pack)
        return pack
    indexes = list(islice(pack.indexes(), count))
    run, first = contents.run_of(pack)
    length = indexes[-1] + 1
    size = sum([run.sizes[first + index] or 0 for index in indexes])
    part = Pack(
        pack.first + length - 1, pack.queue, pack.state, pack.due_at, pack.attempts, pack.lease_no, pack.entered_at,
        length, count, size, pack.start, pack.position, pack.turn, pack.gone & ((1 << length) - 1),
    )  # fmt: skip
    pack.count -= length
    pack.position += length
    pack.gone >>= length
    pack.remaining -= count
    pack.bytes -= size
    unit.add_pack(part)
    unit.shrink_pack(pack)
    return part
