"""Where an operation's messages come from: the queue itself, or what journal and archive know of its past."""

import msgspec

from couriermq.broker import Broker
from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry, EventKind
from couriermq.core.lanes import lane_of
from couriermq.core.model import Draft, Message, Queue, State
from couriermq.core.search import Search
from couriermq.journal.history import History
from couriermq.monitor.search import search
from couriermq.operations.model import Operation, Verb

PORTION_COUNT = 100
PORTION_BYTES = 8 * 1024 * 1024
EVENT_COUNT = 20_000
"""Events that one portion of a replay looks at."""
CHUNK = 2_000


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """Messages that match, how many were looked at, and where the next portion begins; None is the end."""

    messages: list[Message]
    looked_count: int
    without_body_count: int = 0
    next: str | None


class Portions:
    """Reads one portion after the other."""

    def __init__(self, broker: Broker, history: History) -> None:
        self._broker = broker
        self._history = history

    async def read(self, operation: Operation, queue: Queue, after: str | None, *, limit: int) -> Portion:
        where = operation.where.search(before=operation.started_at, last_seq=operation.last_seq)
        if operation.verb is Verb.REPLAY:
            return await self._sent(queue, where, after, limit=limit)
        hits = await search(
            self._broker, queue, where, limit=limit, after=after, now=operation.started_at, most_bytes=PORTION_BYTES
        )
        return Portion(messages=hits.messages, looked_count=hits.looked_count, next=hits.next)

    async def _sent(self, queue: Queue, where: Search, after: str | None, *, limit: int) -> Portion:
        """Messages that were sent to the queue; `after` is the offset to go on with."""
        lanes = sorted(await self._history.spans())
        offset = await self._first(lanes[0], where) if after is None else int(after)
        stop = await self._stop(lane_of(offset), where)
        found: list[Message] = []
        looked = bodiless = size = 0
        while offset < stop and looked < EVENT_COUNT:
            entries = await self._read(offset, min(CHUNK, stop - offset))
            for entry in entries:
                if len(found) == limit or size >= PORTION_BYTES:
                    return _portion(found, looked, bodiless, entry.offset)
                looked, offset = looked + 1, entry.offset + 1
                message = _message_of(entry, queue)
                if message is None or not where.takes(message):
                    continue
                if entry.event.detail is None or "body" not in entry.event.detail:
                    bodiless += 1
                else:
                    found.append(message)
                    size += message.size
            if not entries:
                break
        if offset < stop:
            return _portion(found, looked, bodiless, offset)
        later = [lane for lane in lanes if lane > lane_of(offset)]
        following = await self._first(later[0], where) if later else None
        return _portion(found, looked, bodiless, following)

    async def _first(self, lane: int, where: Search) -> int:
        oldest = (await self._history.span(lane)).oldest
        return oldest if where.start is None else max(oldest, (await self._history.offsets_at(where.start))[lane])

    async def _stop(self, lane: int, where: Search) -> int:
        following = (await self._history.span(lane)).next
        return following if where.end is None else min(following, (await self._history.offsets_at(where.end))[lane])

    async def _read(self, offset: int, limit: int) -> list[Entry]:
        try:
            return await self._history.read_events(start=offset, limit=limit)
        except OffsetGone as gone:  # what was trimmed meanwhile cannot be had any more
            return await self._history.read_events(start=gone.oldest, limit=limit)


def _portion(found: list[Message], looked: int, bodiless: int, following: int | None) -> Portion:
    return Portion(
        messages=found,
        looked_count=looked,
        without_body_count=bodiless,
        next=None if following is None else str(following),
    )


def _message_of(entry: Entry, queue: Queue) -> Message | None:
    """The message as it was sent to the queue; None for an event that sends none there."""
    event = entry.event
    if event.kind != EventKind.SENT or event.queue_id != queue.id or event.seq is None:
        return None
    detail = event.detail or {}
    return Message(
        seq=event.seq,
        id=event.message_id or "",
        state=State.READY,
        body=detail.get("body", b""),
        content_type=detail.get("content_type", "application/octet-stream"),
        attributes=detail.get("attributes", {}),
        attempts=0,
        sent_at=event.at,
        entered_at=event.at,
        due_at=event.at,
        discard_at=event.at,
        group=detail.get("group"),
        trace=detail.get("trace"),
    )


def draft_of(message: Message) -> Draft:
    """A copy to send; it is a message of its own, with an id of its own."""
    return Draft(
        body=message.body,
        content_type=message.content_type,
        attributes=dict(message.attributes),
        group=message.group,
        trace=message.trace,
    )
