"""What has happened since the tables were last brought up to date: the journal's newest part, counted by the minute."""

from collections.abc import Sequence

from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.model import MINUTE
from couriermq.lake.border import Border
from couriermq.lake.following import Follower
from couriermq.lake.tables import Lake
from couriermq.storage.base import EventLog

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
    """Counts by queue and minute, carried on from where they were left; the tables' minutes are dropped."""

    def __init__(self, lake: Lake, log: EventLog, *, scan_count: int = SCAN_COUNT) -> None:
        self._follower = Follower(log, lake, scan_count=scan_count, chunk=CHUNK)
        self._queues: dict[str, dict[int, Counts]] = {}

    @property
    def border(self) -> Border | None:
        return self._follower.border

    @property
    def known_from(self) -> int:
        """The instant from which on nothing is missing."""
        return self._follower.known_from

    async def catch_up(self) -> None:
        """Count what has happened since, and leave to the tables what they have got since."""
        await self._follower.catch_up(self._take_all, self._forget_all, drop=self._drop)

    def minutes(self, queue_id: str) -> dict[int, Counts]:
        """The counts of a queue by the start of the minute; those before `border` are the tables' to tell."""
        return self._queues.get(queue_id, {})

    def _forget_all(self) -> None:
        self._queues = {}

    def _drop(self, before: int) -> None:
        """Leave minutes out of new dictionaries: a reader that goes by the former border keeps the old ones."""
        kept = {
            queue_id: {at: counts for at, counts in minutes.items() if at >= before}
            for queue_id, minutes in self._queues.items()
        }
        self._queues = {queue_id: minutes for queue_id, minutes in kept.items() if minutes}

    def _take_all(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._take(entry.event)

    def _take(self, event: Event) -> None:
        if event.kind == EventKind.QUEUE_DELETED and event.queue_id is not None:
            self._queues.pop(event.queue_id, None)
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
