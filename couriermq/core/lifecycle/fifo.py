"""FIFO groups: locked while a message of theirs is leased, and given out from their heads on."""

from couriermq.core.lifecycle.needs import Deciding, FreeGroups, GroupHead, InGroup
from couriermq.core.lifecycle.rows import Single
from couriermq.core.lifecycle.unit import GroupChange, Unit
from couriermq.core.limits import Room
from couriermq.core.model import Queue, State


def refresh_group(unit: Unit, queue: Queue, group: str | None, *, leased: int) -> Deciding[None]:
    """Bring a group up to date after a change of its messages, `leased` of them more (or fewer) leased."""
    name = group or ""
    head: tuple[int, int] | None = yield GroupHead(queue.key, name)
    if head is None:
        unit.put_group(GroupChange(queue.key, name, None))
        return
    unit.put_group(GroupChange(queue.key, name, head[0], head[1], leased))
    unit.made_ready(queue.key)  # at worst a receiver looks in vain


def take_groups(
    unit: Unit,
    queue: Queue,
    *,
    limit: int,
    group_limit: int,
    now: int,
    by: int | None = None,
    room: Room | None = None,
) -> Deciding[list[Single]]:
    """The first messages of groups that nobody holds, each group as far as it is ready and fits; locks the groups."""
    taken: list[Single] = []
    groups: list[str] = yield FreeGroups(queue.key, now, limit, by)
    for group in groups:
        count = min(group_limit, limit - len(taken))
        if count == 0:
            break
        line: list[Single] = yield InGroup(queue.key, group, count)
        ready = _ready_part(line)
        chosen = ready if room is None else fitting(unit, queue, ready, room)
        if chosen:
            taken += chosen
            unit.changes.locked_groups.append((len(chosen), queue.key, group))
            unit.changes.is_empty = False
    return taken


def fitting(unit: Unit, queue: Queue, singles: list[Single], room: Room) -> list[Single]:
    """The first ones that fit; where some do not, receivers hear that there is more to be had."""
    taken: list[Single] = []
    for single in singles:
        if not room.takes(single.weight):
            unit.made_ready(queue.key)
            break
        unit.taken_bytes += single.weight
        taken.append(single)
    return taken


def _ready_part(line: list[Single]) -> list[Single]:
    """Up to the first message that is not ready."""
    for index, single in enumerate(line):
        if single.state != State.READY:
            return line[:index]
    return line
