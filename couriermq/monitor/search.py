"""Looking for messages in a queue without leasing them: bounded, in either order, on any engine."""

from collections import deque
from collections.abc import AsyncIterator

import msgspec

from couriermq.broker import Broker, Filter
from couriermq.core.errors import Invalid
from couriermq.core.limits import RESPONSE_BYTES, Room, weight_of
from couriermq.core.model import Message, Queue
from couriermq.core.search import Search

LOOK_COUNT = 10_000
LOOK_BYTES = 64 * 1024 * 1024
"""What one search looks at before it answers."""
STEP = 200
FIRST_WINDOW_MS = 1_000
WINDOW_COUNT = 1_000
"""Messages of a window of time that are read to find the newest of them."""
LATEST = 10**17
CURSOR_CHARS = 40

Bound = tuple[int, int]
"""When a message came in, and its seq."""


class Hits(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that were found, how many were looked at, and where to go on; None is the end."""

    messages: list[Message]
    looked_count: int
    next: str | None


async def search(
    broker: Broker, queue: Queue, where: Search, *, limit: int, after: str | None, now: int,
    newest: bool = False,
    most_bytes: int = RESPONSE_BYTES,
) -> Hits:  # fmt: skip
    """Up to `limit` messages after a cursor; fewer where that many were not among those looked at."""
    found: list[Message] = []
    room, looked, looked_bytes, cursor = Room(most_bytes), 0, 0, after
    async for message in _walk(broker, queue, where, after, before=now if newest else None):
        if looked >= LOOK_COUNT or looked_bytes >= LOOK_BYTES or len(found) == limit:
            return Hits(messages=found, looked_count=looked, next=cursor)
        if where.takes(message):
            if not room.takes(weight_of(message.body, message.attributes)):
                return Hits(messages=found, looked_count=looked, next=cursor)
            found.append(message)
        looked += 1
        looked_bytes += message.size
        cursor = cursor_of(message)
    return Hits(messages=found, looked_count=looked, next=None)


def cursor_of(message: Message) -> str:
    """Where a list goes on behind a message, as `Store.browse` takes it."""
    return f"{message.entered_at}-{message.seq}"


async def _walk(
    broker: Broker, queue: Queue, where: Search, after: str | None, *, before: int | None
) -> AsyncIterator[Message]:
    """In the order of the queue; the newest first where `before` says what time it is."""
    if before is not None:
        async for message in _backwards(broker, queue, where, after, before):
            yield message
        return
    cursor = after
    if cursor is None and where.start is not None:
        cursor = f"{max(0, where.start - 1)}-{LATEST}"
    while True:
        page = await broker.browse(queue, where=_filter(where), limit=STEP, after=cursor)
        for message in page.messages:
            if where.end is not None and message.entered_at >= where.end:
                return
            yield message
        cursor = page.next
        if cursor is None:
            return


def _filter(where: Search) -> Filter:
    """What the store looks at by itself; the rest is ours."""
    return Filter(states=where.states, id=where.id)


async def _backwards(
    broker: Broker, queue: Queue, where: Search, before: str | None, now: int
) -> AsyncIterator[Message]:
    """The newest first. Stores read forwards only, so windows of time are read, the latest first."""
    bound = _bound(before)
    while page := await _newest(broker, queue, where, bound, now):
        for message in reversed(page):
            yield message
        bound = page[0].entered_at, page[0].seq


def _bound(before: str | None) -> Bound:
    if before is None:
        return LATEST, LATEST
    at, dash, seq = before.partition("-")
    if not (dash and at.isdecimal() and seq.isdecimal() and len(before) < CURSOR_CHARS):
        raise Invalid("the cursor is not one that a page ended with", field="after")
    return int(at), int(seq)


async def _newest(broker: Broker, queue: Queue, where: Search, bound: Bound, now: int) -> list[Message]:
    """Some of the newest messages before a bound, the oldest of them first; none at the end.

    A window that holds nothing is made longer and one that holds too much shorter, until one is right.
    """
    oldest_at = (await broker.counters(queue)).oldest_at
    if oldest_at is None:
        return []
    upper = min(bound[0], now)
    empty, window = -1, FIRST_WINDOW_MS
    crowded: int | None = None
    while True:
        messages, is_whole = await _last(broker, queue, where, (upper - window, -1), bound)
        if messages and is_whole:
            return messages
        if is_whole and upper - window < oldest_at:
            return []
        if is_whole:
            empty = window
        else:
            crowded = window
        if crowded is None:
            window = empty * 4
        elif crowded - empty <= 1:
            return await _newest_of(broker, queue, where, upper - crowded, bound)
        else:
            window = max(empty + 1, (empty + crowded) // 2 if empty > 0 else crowded // 4)


async def _newest_of(broker: Broker, queue: Queue, where: Search, at: int, bound: Bound) -> list[Message]:
    """The same of one instant at which very many came in: their numbers follow each other."""
    upper = await broker.last_seq(queue) + 1
    upper = min(upper, bound[1]) if bound[0] == at else upper
    width = STEP
    while True:
        messages, _ = await _last(broker, queue, where, (at, upper - width), min(bound, (at, upper)))
        if messages or width > upper:
            return messages
        width *= 4


async def _last(broker: Broker, queue: Queue, where: Search, start: Bound, bound: Bound) -> tuple[list[Message], bool]:
    """The last messages behind a place and before a bound, and whether the bound was reached."""
    kept: deque[Message] = deque(maxlen=STEP)
    at, seq = start
    cursor: str | None = f"{max(0, at)}-{max(0, seq)}" if seq >= 0 else f"{max(0, at - 1)}-{LATEST}"
    count = 0
    while cursor is not None:
        page = await broker.browse(queue, where=_filter(where), limit=STEP, after=cursor)
        for message in page.messages:
            if (message.entered_at, message.seq) >= bound:
                return list(kept), True
            kept.append(message)
            count += 1
        cursor = page.next
        if count > WINDOW_COUNT:
            return list(kept), False
    return list(kept), True
