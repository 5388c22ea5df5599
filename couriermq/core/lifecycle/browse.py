"""Looking at messages without leasing them."""

from collections.abc import Iterator, Sequence

import msgspec

from couriermq.core.errors import MessageNotFound
from couriermq.core.lifecycle.cursor import read_cursor, write_cursor
from couriermq.core.lifecycle.members import Member, by_entrance, find_each, portions, state_of
from couriermq.core.lifecycle.needs import Content, Deciding, Found, Given, InOrder
from couriermq.core.lifecycle.rows import Contents, Single, message_of, messages_of
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import Room, weight_of
from couriermq.core.model import Message, Page, Queue, State
from couriermq.core.receipts import Sealer

SCAN_COUNT = 10_000
"""Messages that a filtered browse looks at before it answers."""
STEP = 100


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages a browse shows."""

    states: tuple[State, ...] = (State.DELAYED, State.READY, State.LEASED)
    id: str | None = None
    attribute: tuple[str, str | float | bool] | None = None


def browse(unit: Unit, queue: Queue, where: Filter, *, sealer: Sealer, limit: int, after: str | None) -> Deciding[Page]:
    """One page; a filter looks at no more than SCAN_COUNT messages before it answers."""
    if where.id is not None:
        return (yield from _browse_id(unit, queue, where, sealer=sealer, limit=limit, after=after))
    messages: list[Message] = []
    room, cursor, looked = Room(), after, 0
    while True:
        step = min(STEP, SCAN_COUNT - looked, max(limit - len(messages), 1))
        some = yield from _next(queue, cursor, step)
        for part in portions(some):
            contents: Contents = yield _content([member for member in part if state_of(member) in where.states])
            for member in part:
                if state_of(member) in where.states:
                    message = shown(member, queue, contents)
                    if _has_attribute(message, where):
                        if not room.takes(weight_of(message.body, message.attributes)):
                            return Page(messages=messages, next=cursor)
                        messages.append(message)
                cursor = write_cursor(member)
        looked += len(some)
        if len(some) < step:
            return Page(messages=messages)
        if len(messages) == limit or looked == SCAN_COUNT:
            more = yield from _next(queue, cursor, 1)
            return Page(messages=messages, next=cursor if more else None)


def read_message(unit: Unit, queue: Queue, message_id: str, *, sealer: Sealer) -> Deciding[Message]:
    """The oldest live message of that id."""
    found = yield from _of_id(unit, queue, sealer, message_id, after=0, limit=1)
    if not found:
        raise MessageNotFound(message_id)
    contents = yield _content(found[:1])
    return shown(found[0], queue, contents)


def _browse_id(
    unit: Unit, queue: Queue, where: Filter, *, sealer: Sealer, limit: int, after: str | None
) -> Deciding[Page]:
    assert where.id is not None
    found = yield from _of_id(unit, queue, sealer, where.id, after=max(read_cursor(after)[1], 0), limit=limit + 1)
    matching: list[Message] = []
    room, cursor = Room(), None
    for member in found[:limit]:
        contents = yield _content([member])
        message = shown(member, queue, contents)
        if message.state in where.states and _has_attribute(message, where):
            if not room.takes(weight_of(message.body, message.attributes)):
                return Page(messages=matching, next=cursor)
            matching.append(message)
        cursor = write_cursor(member)
    return Page(messages=matching, next=cursor if len(found) > limit else None)


def _of_id(
    unit: Unit, queue: Queue, sealer: Sealer, message_id: str, *, after: int, limit: int
) -> Deciding[list[Member]]:
    """Messages of one id, oldest first: an id that we minted says where its message is."""
    given: list[Single] = yield Given(queue.key, message_id, after, limit)
    members: list[Member] = [*given]
    seq = sealer.seq_of(message_id)
    if seq is not None and seq > after and all(single.seq != seq for single in given):
        members += yield from find_each(unit, queue.key, [seq])
    return sorted(members, key=_seq_of)[:limit]


def _next(queue: Queue, after: str | None, limit: int) -> Deciding[list[Member]]:
    entered_at, seq = read_cursor(after)
    found: Found = yield InOrder(queue.key, entered_at, seq, limit)
    members: Iterator[Member] = by_entrance(found, entered_at=entered_at, seq=seq)
    return [member for member, _ in zip(members, range(limit), strict=False)]


def _content(members: Sequence[Member]) -> Content:
    packs = {member[0].last: member[0] for member in members if not isinstance(member, Single)}
    return Content(list(packs.values()), [member for member in members if isinstance(member, Single)])


def _seq_of(member: Member) -> int:
    return member.seq if isinstance(member, Single) else member[0].first + member[1]


def shown(member: Member, queue: Queue, contents: Contents) -> Message:
    """A message as callers see it."""
    if isinstance(member, Single):
        return message_of(member, queue, contents.body_of(member))
    pack, index = member
    return next(messages_of(pack, [index], queue, contents))


def _has_attribute(message: Message, where: Filter) -> bool:
    if where.attribute is None:
        return True
    name, wanted = where.attribute
    value = message.attributes.get(name)
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)
