"""Figures by time: what the journal's events add up to, by second, minute and hour.

The finer the grain the sooner it is forgotten, as the vendor does it: seconds after 3 hours, minutes after 15 days,
hours after 15 months.
"""

from couriermq.core.billing import billable_units
from couriermq.core.events import Event, EventKind
from couriermq.core.model import DAY, HOUR, MINUTE, SECOND

KEPT_MS = {SECOND: 3 * HOUR, MINUTE: 15 * DAY, HOUR: 457 * DAY}

# Columns of a queue's series.
SENT, RECEIVED, ACKED, TOTAL, LEASED = range(5)
# Columns of an exchange's series.
PUBLISHED, DELIVERED = range(2)
# Columns of a tenant's series.
OPERATIONS, RECEIPTS, UNITS, BYTES = range(4)

OPERATION_KINDS = {
    EventKind.SENT, EventKind.RECEIVED, EventKind.ACKED, EventKind.RELEASED, EventKind.EXTENDED,
}  # fmt: skip
GONE_KINDS = {EventKind.ACKED, EventKind.DISCARDED, EventKind.PURGED, EventKind.CANCELLED}
MOVED_KINDS = {EventKind.DEAD_LETTERED, EventKind.MOVED, EventKind.REDRIVEN}
UNLEASED_KINDS = {EventKind.RELEASED, EventKind.LEASE_EXPIRED}
DELETED_KINDS = {EventKind.QUEUE_DELETED, EventKind.EXCHANGE_DELETED}

OUTBOX = "~"
"""How the names of queues begin that belong to listeners: nobody sends to those or receives from them."""

Row = list[int]


class Series:
    """Rows of counts by the instant at which their second, minute or hour began."""

    __slots__ = ("grains", "width")

    def __init__(self, width: int, grains: tuple[int, ...]) -> None:
        self.width = width
        self.grains: dict[int, dict[int, Row]] = {grain: {} for grain in grains}

    def add(self, at: int, column: int, amount: int, now: int) -> None:
        for grain, rows in self.grains.items():
            start = at - at % grain
            if start < now - KEPT_MS[grain]:
                continue
            row = rows.get(start)
            if row is None:
                row = rows[start] = [0] * self.width
            row[column] += amount

    def forget(self, now: int) -> None:
        for grain, rows in self.grains.items():
            oldest = now - KEPT_MS[grain]
            for start in [start for start in rows if start < oldest]:
                del rows[start]

    def coarsest_within(self, step_ms: int) -> int:
        """The largest grain that a step can be put together from."""
        return max((grain for grain in self.grains if step_ms % grain == 0), default=min(self.grains))


class Figures:
    """The series of every queue, exchange and tenant, kept up to date event by event."""

    def __init__(self) -> None:
        self.queues: dict[str, Series] = {}
        self.exchanges: dict[str, Series] = {}
        self.tenants: dict[str, Series] = {}
        self._leased: set[int] = set()

    def queue(self, queue_id: str) -> Series:
        return self.queues.setdefault(queue_id, Series(5, (SECOND, MINUTE, HOUR)))

    def exchange(self, exchange_id: str) -> Series:
        return self.exchanges.setdefault(exchange_id, Series(2, (SECOND, MINUTE, HOUR)))

    def tenant(self, tenant: str) -> Series:
        return self.tenants.setdefault(tenant, Series(4, (HOUR,)))

    def forget(self, now: int) -> None:
        for family in (self.queues, self.exchanges, self.tenants):
            for series in family.values():
                series.forget(now)

    def take(self, event: Event, now: int) -> None:
        if event.queue_id is None or (event.queue or "").startswith(OUTBOX):
            return
        if event.kind == EventKind.PUBLISHED:
            self._take_published(event, now)
        elif event.kind in DELETED_KINDS:
            self.queues.pop(event.queue_id, None)
            self.exchanges.pop(event.queue_id, None)
        elif event.seq is not None:
            self._take_message(event, event.seq, event.queue_id, now)

    def _take_published(self, event: Event, now: int) -> None:
        assert event.queue_id is not None
        copies = (event.detail or {}).get("queue_count", 0)
        series = self.exchange(event.queue_id)
        series.add(event.at, PUBLISHED, 1, now)
        series.add(event.at, DELIVERED, copies, now)
        # The copies are journaled as sent, one by one, but nobody asked for each of them.
        self.tenant(event.tenant).add(event.at, OPERATIONS, 1 - copies, now)

    def _take_message(self, event: Event, seq: int, queue_id: str, now: int) -> None:
        series, at = self.queue(queue_id), event.at
        was_leased = seq in self._leased
        match event.kind:
            case EventKind.SENT:
                series.add(at, SENT, 1, now)
                series.add(at, TOTAL, 1, now)
            case EventKind.RECEIVED:
                self._leased.add(seq)
                series.add(at, RECEIVED, 1, now)
                series.add(at, LEASED, 1, now)
            case kind if kind in UNLEASED_KINDS:
                self._leased.discard(seq)
                series.add(at, LEASED, -1, now)
            case kind if kind in GONE_KINDS or kind in MOVED_KINDS:
                self._take_leaving(event, seq, series, was_leased, now)
        self._take_usage(event, now)

    def _take_leaving(self, event: Event, seq: int, series: Series, was_leased: bool, now: int) -> None:
        at, detail = event.at, event.detail or {}
        self._leased.discard(seq)
        series.add(at, TOTAL, -1, now)
        if event.kind == EventKind.ACKED:
            series.add(at, ACKED, 1, now)
            # Only what is leased can be acked, unless late: true of leases older than the journal, too.
            was_leased = was_leased or not detail.get("late")
        if was_leased:
            series.add(at, LEASED, -1, now)
        if event.kind in MOVED_KINDS and "target_id" in detail:
            self.queue(detail["target_id"]).add(at, TOTAL, 1, now)

    def _take_usage(self, event: Event, now: int) -> None:
        if event.kind not in OPERATION_KINDS:
            return
        usage, size = self.tenant(event.tenant), event.size or 0
        usage.add(event.at, OPERATIONS, 1, now)
        if event.kind == EventKind.RECEIVED:
            usage.add(event.at, RECEIPTS, 1, now)
            usage.add(event.at, UNITS, billable_units(size), now)
        if event.kind in {EventKind.RECEIVED, EventKind.SENT}:
            usage.add(event.at, BYTES, size, now)
