"""Having messages that wait for another attempt tried now."""

from collections.abc import Sequence

from couriermq.core.lifecycle.cursor import Moved, read_cursor
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import Member, Placed, extract_each, find_each, state_of
from couriermq.core.lifecycle.needs import Deciding, Found, WaitingAgain
from couriermq.core.lifecycle.rows import Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Kind, Queue, State

_LARGEST = 2**63 - 1


def hasten(
    unit: Unit, queue: Queue, *, after: str | None, limit: int, now: int, seqs: Sequence[int] | None = None
) -> Deciding[Moved]:
    """One step of making ready what waits for another attempt, the longest wait first, or exactly the named messages.

    What has not been tried yet waits because its sender wants it to, and goes on waiting.
    """
    if seqs is not None:
        named = yield from find_each(unit, queue.key, seqs)
        chosen = [member for member in named if _waits_again(member)]
        yield from _make_ready(unit, queue, chosen, now=now)
        return Moved(len(chosen))
    places = yield from _page(queue, after, limit)
    yield from _make_ready(unit, queue, [member for _, member in places], now=now)
    if len(places) < limit:
        return Moved(len(places))
    due_at, seq = places[-1][0]
    return Moved(len(places), f"{due_at}-{seq}")


def _waits_again(member: Member) -> bool:
    attempts = member.attempts if isinstance(member, Single) else member[0].attempts
    return state_of(member) == State.DELAYED and attempts > 0


def _page(queue: Queue, after: str | None, limit: int) -> Deciding[list[Placed]]:
    before = read_cursor(after) if after else (_LARGEST, _LARGEST)
    found: Found = yield WaitingAgain(queue.key, *before, limit)
    line: list[Placed] = [((single.due_at, single.seq), single) for single in found.singles]
    for pack in found.packs:
        line += [((pack.due_at, pack.first + index), (pack, index)) for index in pack.indexes()]
    return sorted((place for place in line if place[0] < before), key=lambda place: place[0], reverse=True)[:limit]


def _make_ready(unit: Unit, queue: Queue, members: Sequence[Member], *, now: int) -> Deciding[None]:
    singles: list[Single] = yield from extract_each(unit, members)
    for single in singles:
        single.state, single.due_at = int(State.READY), now
        unit.put(single)
    if singles:
        unit.tally(queue.key).shift(State.DELAYED, State.READY, len(singles))
        unit.made_ready(queue.key, len(singles))
    if queue.kind is Kind.FIFO:
        for group in {single.group for single in singles}:
            yield from refresh_group(unit, queue, group, leased=0)
