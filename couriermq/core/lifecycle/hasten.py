"""Having messages that wait for another attempt tried now."""

from couriermq.core.lifecycle.cursor import Moved, read_cursor
from couriermq.core.lifecycle.fifo import refresh_group
from couriermq.core.lifecycle.members import Member, extract_each
from couriermq.core.lifecycle.needs import Deciding, Found, WaitingAgain
from couriermq.core.lifecycle.rows import Single
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Kind, Queue, State

_LARGEST = 2**63 - 1


def hasten(unit: Unit, queue: Queue, *, after: str | None, limit: int, now: int) -> Deciding[Moved]:
    """One step of making ready what waits for another attempt, the longest wait first.

    What has not been tried yet waits because its sender wants it to, and goes on waiting.
    """
    before = read_cursor(after) if after else (_LARGEST, _LARGEST)
    found: Found = yield WaitingAgain(queue.key, *before, limit)
    line: list[tuple[tuple[int, int], Member]] = [((single.due_at, single.seq), single) for single in found.singles]
    for pack in found.packs:
        line += [((pack.due_at, pack.first + index), (pack, index)) for index in pack.indexes()]
    chosen = sorted((place for place in line if place[0] < before), key=lambda place: place[0], reverse=True)[:limit]
    singles: list[Single] = yield from extract_each(unit, [member for _, member in chosen])
    for single in singles:
        single.state, single.due_at = int(State.READY), now
        unit.put(single)
    if singles:
        unit.tally(queue.key).shift(State.DELAYED, State.READY, len(singles))
        unit.made_ready(queue.key, len(singles))
    if queue.kind is Kind.FIFO:
        for group in {single.group for single in singles}:
            yield from refresh_group(unit, queue, group, leased=0)
    if len(singles) < limit:
        return Moved(len(singles))
    due_at, seq = chosen[-1][0]
    return Moved(len(singles), f"{due_at}-{seq}")
