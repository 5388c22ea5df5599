"""The delivery log: what the journal says of a listener's outbox, with the newest lines at hand in memory."""

from collections import deque
from collections.abc import AsyncIterator

import msgspec

from courier.broker import Broker
from courier.core.errors import Invalid, OffsetGone
from courier.core.events import Entry, Event, EventKind
from courier.core.limits import BROWSE_COUNT, check_range
from courier.core.model import MINUTE, Listener
from courier.delivery.model import DeliveryAttempt, LogPage, Note, Outcome

RECENT_COUNT = 50
CHUNK = 2_000
SCAN_COUNT = 50_000
"""How many events one page looks at before it answers with what it has found."""
SLACK_MS = 5 * MINUTE
"""An attempt is written down a little after it ended; a store in trouble makes that longer."""

KINDS = {EventKind.ACKED, EventKind.RELEASED, EventKind.LEASE_EXPIRED}

Place = tuple[int, int, int]


class Cursor(msgspec.Struct, frozen=True):
    """Where a page begins: before a place in the log, or before an offset of the journal."""

    place: Place | None = None
    offset: int | None = None


class DeliveryLog:
    """Newest first, page by page."""

    def __init__(self, broker: Broker, *, shared: bool = False) -> None:
        self._broker = broker
        self._shared = shared  # then the newest lines may be another node's
        self._recent: dict[str, deque[DeliveryAttempt]] = {}

    def add(self, listener: Listener, attempt: DeliveryAttempt) -> None:
        recent = self._recent.get(listener.id)
        if recent is None:
            recent = self._recent[listener.id] = deque(maxlen=RECENT_COUNT)
        recent.append(attempt)

    def forget(self, listener: Listener) -> None:
        self._recent.pop(listener.id, None)

    async def page(self, listener: Listener, *, limit: int, before: str | None = None) -> LogPage:
        """From memory where that is enough, else from the journal."""
        check_range("limit", limit, 1, BROWSE_COUNT)
        cursor = read_cursor(before)
        at_hand = self._at_hand(listener, cursor)
        if len(at_hand) > limit:
            return LogPage(attempts=at_hand[:limit], next=_after(at_hand[limit - 1]))
        return await self._scan(listener, limit, cursor)

    def _at_hand(self, listener: Listener, cursor: Cursor) -> list[DeliveryAttempt]:
        if cursor.offset is not None or self._shared:
            return []
        recent = reversed(self._recent.get(listener.id, deque()))
        lines = sorted(recent, key=lambda line: line.place, reverse=True)
        return [line for line in lines if cursor.place is None or line.place < cursor.place]

    async def _scan(self, listener: Listener, limit: int, cursor: Cursor) -> LogPage:
        found: list[DeliveryAttempt] = []
        last = None
        async for entry in self._backwards(await self._end(cursor)):
            last = entry.offset
            line = _read(entry.event, listener)
            if line is None or (cursor.place is not None and line.place >= cursor.place):
                continue
            found.append(line)
            if len(found) == limit:
                break
        oldest = (await self._broker.span()).oldest
        return LogPage(attempts=found, next=None if last is None or last <= oldest else f"o{last}")

    async def _end(self, cursor: Cursor) -> int:
        if cursor.offset is not None:
            return cursor.offset
        if cursor.place is not None:
            return await self._broker.offset_at(cursor.place[0] + SLACK_MS)
        return (await self._broker.span()).next

    async def _backwards(self, end: int) -> AsyncIterator[Entry]:
        """Entries below `end`, the newest first, at most SCAN_COUNT of them."""
        oldest = max((await self._broker.span()).oldest, end - SCAN_COUNT)
        while end > oldest:
            start = max(oldest, end - CHUNK)
            try:
                entries = await self._forwards(start, end)
            except OffsetGone:
                return
            for entry in reversed(entries):
                yield entry
            end = start

    async def _forwards(self, start: int, end: int) -> list[Entry]:
        entries: list[Entry] = []
        while start < end:
            some = await self._broker.read_events(start=start, limit=end - start)
            if not some:
                break
            entries.extend(some)
            start = some[-1].offset + 1
        return entries


def note_of(attempt: DeliveryAttempt) -> Note:
    """What of an attempt the journal must be told; the rest is in the event anyway."""
    note: Note = {"at": attempt.at, "verdict": attempt.verdict.value, "latency_ms": attempt.latency_ms}
    if attempt.status is not None:
        note["status"] = attempt.status
    if attempt.error is not None:
        note["error"] = attempt.error
    if attempt.excerpt:
        note["excerpt"] = attempt.excerpt
    return note


def _read(event: Event, listener: Listener) -> DeliveryAttempt | None:
    if event.queue_id != listener.outbox_id or event.kind not in KINDS:
        return None
    note = event.detail or {}
    if "untried" in note:
        return None
    return DeliveryAttempt(
        at=note.get("at", event.at),
        seq=event.seq or 0,
        message_id=event.message_id or "",
        attempt=event.attempt or 0,
        verdict=Outcome(note.get("verdict", Outcome.UNKNOWN)),
        status=note.get("status"),
        latency_ms=note.get("latency_ms"),
        error=note.get("error"),
        excerpt=note.get("excerpt"),
        delay_ms=note.get("delay_ms"),
    )


def _after(line: DeliveryAttempt) -> str:
    return "p" + "-".join(map(str, line.place))


def read_cursor(before: str | None) -> Cursor:
    if before is None:
        return Cursor()
    kind, numbers = before[:1], before[1:].split("-")
    if all(number.isdecimal() and len(number) < 20 for number in numbers):
        if kind == "o" and len(numbers) == 1:
            return Cursor(offset=int(numbers[0]))
        if kind == "p" and len(numbers) == 3:
            return Cursor(place=(int(numbers[0]), int(numbers[1]), int(numbers[2])))
    raise Invalid("the cursor is not one that a page ended with", field="before")
