"""The delivery log: what the journal says of a listener's outbox, with the newest lines at hand in memory."""

import contextlib
from collections import deque
from collections.abc import Mapping

import msgspec

from couriermq.broker import Broker
from couriermq.core.errors import Invalid, OffsetGone
from couriermq.core.events import Event, EventKind
from couriermq.core.lanes import lane_of
from couriermq.core.limits import BROWSE_COUNT, check_range
from couriermq.core.model import MINUTE, Listener
from couriermq.delivery.model import DeliveryAttempt, LogPage, Note, Outcome
from couriermq.journal.merging import Places, backwards
from couriermq.storage.base import Span

RECENT_COUNT = 50
CHUNK = 2_000
SCAN_COUNT = 50_000
"""How many events one page looks at before it answers with what it has found."""
SLACK_MS = 5 * MINUTE
"""An attempt is written down a little after it ended; a store in trouble makes that longer."""

KINDS = {EventKind.ACKED, EventKind.RELEASED, EventKind.LEASE_EXPIRED}

Place = tuple[int, int, int]


class Cursor(msgspec.Struct, frozen=True):
    """Where a page begins: before a place in the log, or before an offset of each lane."""

    place: Place | None = None
    offsets: tuple[int, ...] = ()


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
        if cursor.offsets or self._shared:
            return []
        recent = reversed(self._recent.get(listener.id, deque()))
        lines = sorted(recent, key=lambda line: line.place, reverse=True)
        return [line for line in lines if cursor.place is None or line.place < cursor.place]

    async def _scan(self, listener: Listener, limit: int, cursor: Cursor) -> LogPage:
        """All lanes are looked through: the listener's queue may have been in any of them."""
        found: list[DeliveryAttempt] = []
        spans = await self._broker.spans()
        ends = await self._ends(cursor, spans)
        oldest = {lane: span.oldest for lane, span in spans.items()}
        seen = 0
        with contextlib.suppress(OffsetGone):  # what was just trimmed is the end of the log
            async for entry in backwards(self._broker, ends, oldest, chunk=CHUNK):
                ends[lane_of(entry.offset)], seen = entry.offset, seen + 1
                line = _read(entry.event, listener)
                if line is not None and (cursor.place is None or line.place < cursor.place):
                    found.append(line)
                if len(found) == limit or seen == SCAN_COUNT:
                    break
        left = [end for lane, end in sorted(ends.items()) if end > oldest[lane]]
        return LogPage(attempts=found, next="o" + "-".join(map(str, left)) if left and seen else None)

    async def _ends(self, cursor: Cursor, spans: Mapping[int, Span]) -> Places:
        """Where the page begins in each lane; one that the last page did not leave anything of has nothing for it."""
        if cursor.offsets:
            ends = {lane_of(end): end for end in cursor.offsets}
            if len(ends) < len(cursor.offsets) or not ends.keys() <= spans.keys():
                raise _unknown_cursor()
            return {lane: min(end, spans[lane].next) for lane, end in ends.items()}
        if cursor.place is not None:
            begins = await self._broker.offsets_at(cursor.place[0] + SLACK_MS)
            return {lane: begins[lane] for lane in spans}
        return {lane: span.next for lane, span in spans.items()}


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
    if "untried" in note and "verdict" not in note:
        return None  # it was given back without a request
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
        if kind == "o":
            return Cursor(offsets=tuple(map(int, numbers)))
        if kind == "p" and len(numbers) == 3:
            return Cursor(place=(int(numbers[0]), int(numbers[1]), int(numbers[2])))
    raise _unknown_cursor()


def _unknown_cursor() -> Invalid:
    return Invalid("the cursor is not one that a page ended with", field="before")
