"""What has happened since the tables were last brought up to date: the journal's newest part, counted by the minute."""

import asyncio

from courier.core.errors import OffsetGone
from courier.core.events import Event, EventKind
from courier.core.model import MINUTE
from courier.lake.border import Border, find_border
from courier.lake.tables import Lake
from courier.storage.base import EventLog

CHUNK = 2_000
SCAN_COUNT = 500_000
"""How many events, the newest, are counted where there are no tables."""
KEPT_MINUTES = 7 * 24 * 60
"""Older ones are in the tables, or forgotten."""

COLUMNS = {
    EventKind.SENT: "sent",
    EventKind.RECEIVED: "received",
    EventKind.ACKED: "acked",
    EventKind.RELEASED: "released",
    EventKind.LEASE_EXPIRED: "expired",
    EventKind.DEAD_LETTERED: "dead_lettered",
    EventKind.DISCARDED: "discarded",
    EventKind.PURGED: "removed",
    EventKind.CANCELLED: "removed",
    EventKind.MOVED: "moved_out",
    EventKind.REDRIVEN: "moved_out",
}
"""Each kind and the column of `queue_minutes` that counts it."""
PASSING = {EventKind.DEAD_LETTERED, EventKind.MOVED, EventKind.REDRIVEN}

Counts = dict[str, int]


class Recent:
    """Counts by queue and minute, read once and carried on from where they were left."""

    def __init__(self, lake: Lake, log: EventLog, *, scan_count: int = SCAN_COUNT) -> None:
        self.border: Border | None = None
        self.known_from = 0
        """The instant from which on nothing is missing."""
        self._lake = lake
        self._log = log
        self._scan_count = scan_count
        self._next: int | None = None
        self._queues: dict[str, dict[int, Counts]] = {}
        self._reading = asyncio.Lock()

    async def minutes(self, queue_id: str) -> dict[int, Counts]:
        """The counts of a queue by the start of the minute; those before `border` are the tables' to tell."""
        async with self._reading:
            await self._catch_up()
        return self._queues.get(queue_id, {})

    async def _catch_up(self) -> None:
        offset = await self._first() if self._next is None else self._next
        while True:
            try:
                entries = await self._log.read_events(start=offset, limit=CHUNK)
            except OffsetGone as gone:
                offset = gone.oldest
                self._queues.clear()  # there is a gap that nothing can fill
                self._next = None
                continue
            if self._next is None:
                self.known_from = self._beginning(offset, entries[0].event.at if entries else 0)
            for entry in entries:
                self._take(entry.event)
            self._next = offset = entries[-1].offset + 1 if entries else offset
            if not entries:
                return

    async def _first(self) -> int:
        span = await self._log.span()
        self.border = await find_border(self._lake, self._log)
        return max(span.oldest, span.next - self._scan_count if self.border is None else self.border.offset)

    def _beginning(self, offset: int, first_at: int) -> int:
        if self.border is not None and offset <= self.border.offset:
            return self.border.at
        return 0 if offset == 0 else first_at

    def _take(self, event: Event) -> None:
        if event.seq is None or event.queue_id is None:
            return
        column = COLUMNS.get(EventKind(event.kind))
        if column is None:
            return
        self._add(event.queue_id, event.at, column, 1)
        if event.kind == EventKind.SENT:
            self._add(event.queue_id, event.at, "bytes", event.size or 0)
        target = (event.detail or {}).get("target_id") if event.kind in PASSING else None
        if target is not None:
            self._add(target, event.at, "arrived", 1)

    def _add(self, queue_id: str, at: int, column: str, amount: int) -> None:
        minutes = self._queues.setdefault(queue_id, {})
        minute = at - at % MINUTE
        counts = minutes.get(minute)
        if counts is None:
            counts = minutes[minute] = {}
            if len(minutes) > KEPT_MINUTES:
                del minutes[min(minutes)]
        counts[column] = counts.get(column, 0) + amount
