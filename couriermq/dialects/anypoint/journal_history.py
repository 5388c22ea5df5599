"""History from the journal: read once, added up in memory, and carried on from where the last question left off.

Where there are tables, they tell what came before the border at which the journal takes over.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from couriermq.broker import Broker
from couriermq.clock import Clock
from couriermq.core.events import Entry
from couriermq.core.model import HOUR, MINUTE, Counters, Exchange, Queue
from couriermq.dialects.anypoint import figures
from couriermq.dialects.anypoint.figures import KEPT_MS, Figures, Row, Series
from couriermq.dialects.anypoint.history import ExchangePoint, QueuePoint, UsagePoint, Window
from couriermq.dialects.anypoint.steps import Step, added_up, by_calendar, cells_of, steps_of, unit_of
from couriermq.dialects.anypoint.table_history import QueuePast, Sums, TablePast
from couriermq.lake.border import Border
from couriermq.lake.following import Follower
from couriermq.lake.tables import Lake

T = TypeVar("T")

TRIES = 3
SCAN = 1_000_000
"""How many events, the newest, a first question reads at most; older ones stay unknown."""


class JournalHistory:
    """Levels are reckoned backwards from the exact figures of now, so that a trimmed journal cannot falsify them."""

    def __init__(self, broker: Broker, clock: Clock, *, lake: Lake | None = None, scan: int = SCAN) -> None:
        self._broker = broker
        self._tables = TablePast(lake) if lake is not None else None
        self._clock = clock
        self._follower = Follower(broker, lake, scan_count=scan)
        self._figures = Figures()

    async def of_queue(self, queue: Queue, window: Window) -> list[QueuePoint]:
        counters = await self._counters(queue)
        series, border = self._figures.queue(queue.id), self.border
        known_from, read = await self._older(series, window, lambda past, *span: past.queue(queue, *span))
        older = read or QueuePast()
        steps, sums, since = self._added_up(series, window, older.sums, known_from)
        total, leased = counters.total_count - since[figures.TOTAL], counters.leased_count - since[figures.LEASED]
        points = []
        for step, row in zip(reversed(steps), reversed(sums), strict=True):
            if border is not None and step.end <= border.at:
                total, leased = older.level(step.end)
            counts = row[figures.SENT], row[figures.RECEIVED], row[figures.ACKED]
            points.append(QueuePoint(step.at, total - leased, leased, *counts))
            total -= row[figures.TOTAL]
            leased -= row[figures.LEASED]
        return points[::-1]

    async def of_exchange(self, exchange: Exchange, window: Window) -> list[ExchangePoint]:
        await self._catch_up()
        series = self._figures.exchange(exchange.id)
        known_from, older = await self._older(series, window, lambda past, *span: past.exchange(exchange, *span))
        steps, sums, _ = self._added_up(series, window, older or {}, known_from)
        return [
            ExchangePoint(step.at, row[figures.PUBLISHED], row[figures.DELIVERED])
            for step, row in zip(steps, sums, strict=True)
        ]

    async def of_tenants(self, tenants: list[str], window: Window) -> list[UsagePoint]:
        """By hours, days or months of the calendar, of which only what is inside the window counts, to the hour."""
        await self._catch_up()
        periods, usage = by_calendar(window), dict[int, Row]()
        first = window.start - window.start % HOUR
        for tenant in tenants:
            series = self._figures.tenant(tenant)
            known_from, older = await self._older(series, periods, partial(_tenant_rows, tenant))
            known_from = periods.start if known_from <= first else known_from
            steps, sums, _ = self._added_up(series, periods, older or {}, known_from, since=first)
            for step, row in zip(steps, sums, strict=True):
                kept = usage.setdefault(step.at, [0] * len(row))
                usage[step.at] = [a + b for a, b in zip(kept, row, strict=True)]
        return [UsagePoint(at, *row) for at, row in sorted(usage.items())]

    def _added_up(
        self, series: Series, window: Window, older: Sums, known_from: int, *, since: int = 0
    ) -> tuple[list[Step], list[Row], Row]:
        """The steps of the window, what happened in each from an instant on, and what has happened afterwards."""
        now = self._clock.now()
        steps = steps_of(window, now=now, known_from=max(known_from, now - KEPT_MS[unit_of(series, window)]))
        cells = (cell for cell in (*older.items(), *cells_of(series, window, now=now)) if cell[0] >= since)
        return steps, *added_up(cells, steps, series.width)

    async def _counters(self, queue: Queue) -> Counters:
        """The figures of now, once all that led to them has been read; under load, nearly all."""
        for _ in range(TRIES):
            await self._catch_up()
            counters = await self._broker.counters(queue)  # this, too, may write events: leases that have ended
            if await self._follower.is_level(self._clock.now()):
                break
            await self._follower.on_disk(self._clock.now())
        return counters

    async def _older(
        self, series: Series, window: Window, read: Callable[[TablePast, int, int], Awaitable[T]]
    ) -> tuple[int, T | None]:
        """From when on all is known, and what the tables know of the time from the window's start to the border."""
        border, step = self.border, window.step_ms
        if border is None or self._tables is None or (step is not None and step < MINUTE):
            return self._follower.known_from, None
        start = min(window.start, border.at)
        oldest = self._clock.now() - KEPT_MS[unit_of(series, window)]
        known_from = await self._tables.known_from()
        return known_from, await read(self._tables, max(start, oldest), border.at)

    # -- reading the journal ----------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        await self._follower.catch_up(self._take, self._forget_all)
        self._figures.forget(self._clock.now())

    def _take(self, entries: Sequence[Entry]) -> None:
        now = self._clock.now()
        for entry in entries:
            self._figures.take(entry.event, now)

    def _forget_all(self) -> None:
        self._figures = Figures()

    @property
    def border(self) -> Border | None:
        """Where the tables ended when the journal was first read, or when the first of them came."""
        return self._follower.border


async def _tenant_rows(tenant: str, past: TablePast, start: int, end: int) -> Sums:
    return await past.tenant(tenant, start, end)
