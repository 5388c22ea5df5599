"""History from the journal: read once, added up in memory, and carried on from where the last question left off."""

import asyncio
from collections.abc import Iterator
from typing import TypeVar

from courier.broker import Broker
from courier.clock import Clock
from courier.core.errors import OffsetGone
from courier.core.model import Counters, Exchange, Queue
from courier.dialects.anypoint import dates, figures
from courier.dialects.anypoint.figures import KEPT_MS, Figures, Row, Series
from courier.dialects.anypoint.history import ExchangePoint, QueuePoint, UsagePoint, Window

P = TypeVar("P", QueuePoint, ExchangePoint, UsagePoint)

CHUNK = 1_000
TRIES = 3
SCAN = 1_000_000
"""How many events, the newest, a first question reads at most; older ones stay unknown."""


class JournalHistory:
    """Levels are reckoned backwards from the exact figures of now, so that a trimmed journal cannot falsify them."""

    def __init__(self, broker: Broker, clock: Clock, *, scan: int = SCAN) -> None:
        self._broker = broker
        self._clock = clock
        self._scan = scan
        self._figures = Figures()
        self._next: int | None = None
        self._known_from = 0
        self._reading = asyncio.Lock()

    async def of_queue(self, queue: Queue, window: Window) -> list[QueuePoint]:
        counters = await self._counters(queue)
        now = self._clock.now()
        total, leased = counters.total_count, counters.leased_count
        points = []
        for at, row in self._steps(self._figures.queue(queue.id), window, now):
            points.append(
                QueuePoint(at, total - leased, leased, row[figures.SENT], row[figures.RECEIVED], row[figures.ACKED])
            )
            total -= row[figures.TOTAL]
            leased -= row[figures.LEASED]
        return _chosen(points, window)

    async def of_exchange(self, exchange: Exchange, window: Window) -> list[ExchangePoint]:
        await self._catch_up()
        steps = self._steps(self._figures.exchange(exchange.id), window, self._clock.now())
        points = [ExchangePoint(at, row[figures.PUBLISHED], row[figures.DELIVERED]) for at, row in steps]
        return _chosen(points, window)

    async def of_tenants(self, tenants: list[str], window: Window) -> list[UsagePoint]:
        await self._catch_up()
        now = self._clock.now()
        sums: dict[int, Row] = {}
        for tenant in tenants:
            for at, row in self._steps(self._figures.tenant(tenant), window, now):
                kept = sums.setdefault(at, [0] * len(row))
                sums[at] = [a + b for a, b in zip(kept, row, strict=True)]
        return _chosen([UsagePoint(at, *sums[at]) for at in sorted(sums, reverse=True)], window)

    async def _counters(self, queue: Queue) -> Counters:
        """The figures of now, once all that led to them has been read; under load, nearly all."""
        for _ in range(TRIES):
            await self._catch_up()
            counters = await self._broker.counters(queue)  # this, too, may write events: leases that have ended
            if (await self._broker.span()).next == self._next:
                break
        return counters

    # -- reading the journal ----------------------------------------------------------------------------------

    async def _catch_up(self) -> None:
        async with self._reading:
            offset = await self._first() if self._next is None else self._next
            while True:
                try:
                    entries = await self._broker.read_events(start=offset, limit=CHUNK)
                except OffsetGone as gone:
                    offset = gone.oldest
                    self._forget_all()
                    continue
                now = self._clock.now()
                if entries and self._next is None and entries[0].offset > 0:
                    self._known_from = entries[0].event.at
                for entry in entries:
                    self._figures.take(entry.event, now)
                if not entries:
                    break
                self._next = offset = entries[-1].offset + 1
            self._figures.forget(self._clock.now())

    async def _first(self) -> int:
        span = await self._broker.span()
        return max(span.oldest, span.next - self._scan)

    def _forget_all(self) -> None:
        """The journal was trimmed past where we were: there is a gap that nothing can fill."""
        self._figures, self._next, self._known_from = Figures(), None, 0

    # -- cutting time into steps ------------------------------------------------------------------------------

    def _steps(self, series: Series, window: Window, now: int) -> Iterator[tuple[int, Row]]:
        """From now backwards to the window's start, or as far as all is known: each step and its sums."""
        grain = series.coarsest_within(window.step_ms) if window.step_ms else max(series.grains)
        sums: dict[int, Row] = {}
        for at, row in series.grains[grain].items():
            kept = sums.setdefault(_floor(at, window.step_ms), [0] * series.width)
            for column, amount in enumerate(row):
                kept[column] += amount
        first = max(_floor(min(window.start, now), window.step_ms), self._known_from, now - KEPT_MS[grain])
        for at in _backwards(now, first, window.step_ms):
            yield at, sums.get(at) or [0] * series.width


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
