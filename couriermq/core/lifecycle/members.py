"""Messages that are in packs: taking them out, and seeing packs and singles as one line of messages."""

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from couriermq.core.lifecycle.needs import Content, Deciding, Found, Named
from couriermq.core.lifecycle.rows import Contents, Pack, Single, single_of
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES
from couriermq.core.model import Json, Queue

ROWS_AT_ONCE = 32
"""Rows of the journal that a decision asks for at one time: at most 8 MiB of bodies that are not its own."""

LARGEST_SEQ = 2**63 - 1

Member = tuple[Pack, int] | Single
"""A message: an index of a pack, or a single."""
Placed = tuple[tuple[int, int], Member]
"""A message and its place in an order."""


def extract(unit: Unit, pack: Pack, index: int, contents: Contents) -> Single:
    """Take a message out of its pack; it is a row of its own once it is put."""
    single = single_of(pack, index, contents)
    pack.gone |= 1 << index
    pack.remaining -= 1
    pack.bytes -= single.size
    unit.shrink_pack(pack)
    return single


def note_pack(
    unit: Unit,
    kind: str,
    at: int,
    queue: Queue,
    pack: Pack,
    contents: Contents,
    *,
    principal: str | None = None,
    detail: dict[str, Json] | None = None,
) -> None:
    """The same has happened to all messages of a pack: their next turn."""
    pack.turn += 1
    run, first = contents.run_of(pack)
    indexes = pack.indexes()
    ids = [run.message_ids[first + index] or "" for index in indexes]
    sizes = [run.sizes[first + index] or 0 for index in indexes]
    unit.events.note_all(
        kind, at, queue, pack.seqs(), ids, [pack.attempts] * len(ids), sizes, principal, detail,
        turn=pack.turn, sent_at=pack.entered_at,
    )  # fmt: skip


def extract_each(unit: Unit, members: Sequence[Member]) -> Deciding[list[Single]]:
    """The same for many, in their order."""
    contents = yield Content(_packs(members), bodies=False)
    return [m if isinstance(m, Single) else extract(unit, m[0], m[1], contents) for m in members]


def find_each(unit: Unit, queue: int | None, seqs: Sequence[int]) -> Deciding[list[Member]]:
    """The named messages that are in a queue, in the order in which they were named, each once."""
    wanted = [seq for seq in dict.fromkeys(seqs) if 0 < seq <= LARGEST_SEQ]
    found: Found = yield Named(queue, wanted)
    singles = {single.seq: single for single in found.singles}
    packs = sorted(found.packs, key=_last)
    members: list[Member] = []
    for seq in wanted:
        if seq in singles:
            members.append(singles[seq])
        elif (pack := holder(packs, seq)) is not None:
            members.append((pack, seq - pack.first))
    return members


def holder(packs: Sequence[Pack], seq: int) -> Pack | None:
    """The pack that a seq is in, of packs in the order of their seqs."""
    number = bisect_left(packs, seq, key=_last)
    return packs[number] if number < len(packs) and packs[number].has(seq) else None


def _last(pack: Pack) -> int:
    return pack.last


def by_entrance(found: Found, *, entered_at: int, seq: int) -> Iterator[Member]:
    """Messages in the order in which they came into the queue, behind one that was seen."""
    behind = (entered_at, seq)
    packed: Iterator[Placed] = (
        ((pack.entered_at, pack.first + index), (pack, index))
        for pack in found.packs
        for index in pack.indexes()
        if (pack.entered_at, pack.first + index) > behind
    )
    alone: Iterator[Placed] = (((single.entered_at, single.seq), single) for single in found.singles)
    for _, member in heapq.merge(packed, alone, key=_first):
        yield member


def by_readiness(found: Found) -> Iterator[Member]:
    """Messages in the order in which they became ready."""
    packed: Iterator[Placed] = (((p.due_at, p.first + index), (p, index)) for p in found.packs for index in p.indexes())
    alone: Iterator[Placed] = (((single.due_at, single.seq), single) for single in found.singles)
    for _, member in heapq.merge(packed, alone, key=_first):
        yield member


def entrance_of(member: Member) -> tuple[int, int]:
    """When it came in, and its seq."""
    if isinstance(member, Single):
        return member.entered_at, member.seq
    pack, index = member
    return pack.entered_at, pack.first + index


def size_of(member: Member) -> int:
    """Of its body; in a pack of several, which are small, their average."""
    return member.size if isinstance(member, Single) else member[0].bytes // member[0].remaining


def seq_of(member: Member) -> int:
    return member.seq if isinstance(member, Single) else member[0].first + member[1]


def queue_of(member: Member) -> int:
    return member.queue if isinstance(member, Single) else member[0].queue


def state_of(member: Member) -> int:
    return row_of(member).state


def row_of(member: Member) -> Pack | Single:
    """The row that has its state and its attempts."""
    return member if isinstance(member, Single) else member[0]


def _first(pair: Placed) -> tuple[int, int]:
    return pair[0]


def portions(members: Sequence[Member]) -> Iterator[list[Member]]:
    """Parts of the members that are in few rows of the journal and have few bytes, so that both fit into memory."""
    part: list[Member] = []
    starts: set[int] = set()
    size = 0
    for member in members:
        row = member if isinstance(member, Single) else member[0]
        start, weight = row.start or 0, size_of(member)
        if part and (size + weight > COMMIT_BYTES or (start not in starts and len(starts) == ROWS_AT_ONCE)):
            yield part
            part, starts, size = [], set(), 0
        starts.add(start)
        size += weight
        part.append(member)
    if part:
        yield part


def _packs(members: Sequence[Member]) -> list[Pack]:
    return list({m[0].last: m[0] for m in members if not isinstance(m, Single)}.values())
