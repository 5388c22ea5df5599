"""History from the journal: read once, added up in memory, and carried on from where the last question left off.

Where there are tables, they tell what came before the border at which the journal takes over.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from couriermq.broker import Broker
from couriermq.clock import Clock
from couriermq.core.events import Entry
from couriermq.core.model import HOUR, MINUTE, Counters, Exchange, Queue
from couriermq.dialects.anypoint import dates, figures
from couriermq.dialects.anypoint.figures import KEPT_MS, Figures, Row, Series
from couriermq.dialects.anypoint.history import ExchangePoint, QueuePoint, UsagePoint, Window
from couriermq.dialects.anypoint.table_history import QueuePast, Sums, TablePast
from couriermq.lake.border import Border
from couriermq.lake.following import Follower
from couriermq.lake.tables import Lake

T = TypeVar("T")
P = TypeVar("P", QueuePoint, ExchangePoint, UsagePoint)

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
        self._known_from = 0

    async def of_queue(self, queue: Queue, window: Window) -> list[QueuePoint]:
        counters = await self._counters(queue)
        older = await self._older(window, lambda past, start, end: past.queue(queue, start, end)) or QueuePast()
        now = self._clock.now()
        total, leased = counters.total_count, counters.leased_count
        points = []
        for at, row in self._steps(self._figures.queue(queue.id), window, now, older.sums):
            if self.border is not None and at + (window.step_ms or 0) <= self.border.at:
                total, leased = older.level(at + (window.step_ms or 0))
            points.append(
                QueuePoint(at, total - leased, leased, row[figures.SENT], row[figures.RECEIVED], row[figures.ACKED])
            )
            total -= row[figures.TOTAL]
            leased -= row[figures.LEASED]
        return _chosen(points, window)

    async def of_exchange(self, exchange: Exchange, window: Window) -> list[ExchangePoint]:
        await self._catch_up()
        older = await self._older(window, lambda past, start, end: past.exchange(exchange, start, end))
        steps = self._steps(self._figures.exchange(exchange.id), window, self._clock.now(), older or {})
        points = [ExchangePoint(at, row[figures.PUBLISHED], row[figures.DELIVERED]) for at, row in steps]
        return _chosen(points, window)

    async def of_tenants(self, tenants: list[str], window: Window) -> list[UsagePoint]:
        await self._catch_up()
        now = self._clock.now()
        sums: dict[int, Row] = {}
        for tenant in tenants:
            older = await self._older(window, partial(_tenant_rows, tenant))
            for at, row in self._steps(self._figures.tenant(tenant), window, now, older or {}):
                kept = sums.setdefault(at, [0] * len(row))
                sums[at] = [a + b for a, b in zip(kept, row, strict=True)]
        return _chosen([UsagePoint(at, *sums[at]) for at in sorted(sums, reverse=True)], window)

    async def _counters(self, queue: Queue) -> Counters:
        """The figures of now, once all that led to them has been read; under load, nearly all."""
        for _ in range(TRIES):
            await self._catch_up()
            counters = await self._broker.counters(queue)  # this, too, may write events: leases that have ended
            if await self._follower.is_level(self._clock.now()):
                break
            await self._follower.on_disk(self._clock.now())
        return counters

    async def _older(self, window: Window, read: Callable[[TablePast, int, int], Awaitable[T]]) -> T | None:
        """What the tables know of the time from the window's start to the border."""
        border, step = self.border, window.step_ms
        self._known_from = self._follower.known_from
        if border is None or self._tables is None or (step is not None and step < MINUTE):
            return None
        start = _floor(min(window.start, border.at), step)
        oldest = self._clock.now() - KEPT_MS[HOUR if step is None or step % HOUR == 0 else MINUTE]
        self._known_from = await self._tables.known_from()
        return await read(self._tables, max(start, oldest), border.at)

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
        """Where the tables ended when the journal was first read."""
        return self._follower.border

    # -- cutting time into steps ------------------------------------------------------------------------------

    def _steps(self, series: Series, window: Window, now: int, older: Sums) -> Iterator[tuple[int, Row]]:
        """From now backwards to the window's start, or as far as all is known: each step and its sums."""
        grain = series.coarsest_within(window.step_ms) if window.step_ms else max(series.grains)
        sums: dict[int, Row] = {}
        for at, row in (*older.items(), *series.grains[grain].items()):
            kept = sums.setdefault(_floor(at, window.step_ms), [0] * series.width)
            for column, amount in enumerate(row):
                kept[column] += amount
        first = max(_floor(min(window.start, now), window.step_ms), self._known_from, now - KEPT_MS[grain])
        for at in _backwards(now, first, window.step_ms):
            yield at, sums.get(at) or [0] * series.width


async def _tenant_rows(tenant: str, past: TablePast, start: int, end: int) -> Sums:
    return await past.tenant(tenant, start, end)


def _floor(at: int, step_ms: int | None) -> int:
    return at - at % step_ms if step_ms else dates.month_start(at)


def _backwards(now: int, first: int, step_ms: int | None) -> Iterator[int]:
    """The starts of all steps that begin at `first` or later, the present one in any case."""
    at = _floor(now, step_ms)
    yield at
    while (at := _floor(at - 1, step_ms)) >= first:
        yield at


def _chosen(points: list[P], window: Window) -> list[P]:
    """Oldest first, those inside the window; the one nearest to it where none is."""
    end = max(window.end, window.start + 1)
    inside = [point for point in reversed(points) if point.at < end]
    return inside or points[-1:]
