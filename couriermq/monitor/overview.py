"""The queues of a tenant with their figures and rates: found, sorted and cut into pages here and not by the reader."""

from collections.abc import Callable, Sequence
from time import perf_counter

import msgspec

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.model import SECOND, Counters, Queue
from couriermq.monitor.rates import ACKED, SENT, SHOWN, QueueRates, Rates, backlog

SPARK_STEPS = 60
STEP_MS = 60_000
BOARD_SHARE = 20
"""Counting all queues may take one part in so many of the time."""
BOARD_COUNT = 64
"""Tenants whose figures are kept."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """A queue and its figures at one instant."""

    queue: Queue
    counters: Counters
    rates: QueueRates
    per_second: dict[str, float]

    @property
    def is_live(self) -> bool:
        """Whether it has messages, or had some lately."""
        return bool(self.rates.newest or self.counters.total_count)


class Spark(msgspec.Struct, frozen=True):
    """The last hour by minutes; the last one is not over yet."""

    step_ms: int
    sent: list[int]
    acked: list[int]
    backlog: list[int]


class Totals(msgspec.Struct, frozen=True):
    """The sums of some queues."""

    queue_count: int
    ready_count: int
    delayed_count: int
    leased_count: int
    byte_count: int
    per_second: dict[str, float]


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which queues, and in which order."""

    find: str = ""
    queues: frozenset[str] = frozenset()
    sort: str = "name"
    descending: bool = False
    skip: int = 0
    limit: int = 100


class Board(msgspec.Struct):
    """The counters of all queues of a tenant, as of an instant."""

    at: int
    cost_ms: float
    counters: dict[int, Counters]
    second: int = 0
    rows: dict[int, Row] = {}
    """Made anew each second, for all who look."""


SORTS: dict[str, Callable[[Row], float]] = {
    "ready": lambda row: row.counters.ready_count,
    "delayed": lambda row: row.counters.delayed_count,
    "leased": lambda row: row.counters.leased_count,
    "total": lambda row: row.counters.total_count,
    "bytes": lambda row: row.counters.byte_count,
    "oldest": lambda row: -(row.counters.oldest_at or 2**62),
}


class Overview:
    """Answers from memory; the counters of all queues of a tenant are read at most once a second for all who look."""

    def __init__(self, broker: Broker, catalog: Catalog, clock: Clock, rates: Rates, watch: Callable[[], None]) -> None:
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._rates = rates
        self._watch = watch
        self._boards: dict[str, Board] = {}

    async def rows(
        self, tenant: str, queues: Sequence[Queue], wanted: Wanted
    ) -> tuple[list[Row], int | None, list[Row]]:
        """A page of the queues, where the next one begins, and all that match."""
        self._watch()
        board, second = await self._board(tenant), self._clock.now() // SECOND
        if board.second != second:
            board.second, board.rows = second, {}
        every = [self._kept_row(board, queue) for queue in queues if _matches(queue, wanted)]
        _sort(every, wanted)
        page = every[wanted.skip : wanted.skip + wanted.limit]
        reached = wanted.skip + len(page)
        return await self._fresh(page, second), reached if reached < len(every) else None, every

    def _kept_row(self, board: Board, queue: Queue) -> Row:
        row = board.rows.get(queue.key)
        if row is None or row.queue is not queue:
            row = self._row(queue, board.counters.get(queue.key, Counters()), board.second)
            board.rows[queue.key] = row
        return row

    async def _fresh(self, page: list[Row], second: int) -> list[Row]:
        """The rows with counters of now: those of the board may be older where there are very many queues."""
        found = await self._broker.counters_of([row.queue for row in page])
        return [self._row(row.queue, found.get(row.queue.key, row.counters), second) for row in page]

    async def row(self, queue: Queue) -> Row:
        self._watch()
        return self._row(queue, await self._broker.counters(queue), self._clock.now() // SECOND)

    def _row(self, queue: Queue, counters: Counters, second: int) -> Row:
        rates = self._rates.of(queue.id)
        return Row(queue, counters, rates, {name: rates.per_second(name, second) for name in SHOWN})

    async def _board(self, tenant: str) -> Board:
        board, now = self._boards.get(tenant), self._clock.now()
        if board is not None and 0 <= now - board.at < max(SECOND, board.cost_ms * BOARD_SHARE):
            return board
        begun = perf_counter()
        counters = await self._broker.counters_of(self._catalog.queues(tenant))
        board = Board(now, (perf_counter() - begun) * 1_000, counters)
        self._boards.pop(tenant, None)
        self._boards[tenant] = board
        if len(self._boards) > BOARD_COUNT:
            del self._boards[next(iter(self._boards))]
        return board


def _matches(queue: Queue, wanted: Wanted) -> bool:
    if wanted.queues and queue.name not in wanted.queues and queue.id not in wanted.queues:
        return False
    return not wanted.find or wanted.find.lower() in queue.name.lower()


def _sort(rows: list[Row], wanted: Wanted) -> None:
    """By name where figures are alike, so that rows do not change their places without a reason."""
    rows.sort(key=lambda row: row.queue.name, reverse=wanted.sort == "name" and wanted.descending)
    if wanted.sort != "name":
        value = SORTS.get(wanted.sort) or (lambda row: row.per_second[wanted.sort])
        rows.sort(key=value, reverse=wanted.descending)


def totals_of(rows: Sequence[Row]) -> Totals:
    counters = [row.counters for row in rows]
    return Totals(
        len(rows),
        sum(one.ready_count for one in counters),
        sum(one.delayed_count for one in counters),
        sum(one.leased_count for one in counters),
        sum(one.byte_count for one in counters),
        {name: round(sum(row.per_second[name] for row in rows), 1) for name in SHOWN},
    )


def spark_of(row: Row, now: int) -> Spark:
    stop = now // STEP_MS + 1
    start = stop - SPARK_STEPS
    levels = backlog(row.rates, row.counters.total_count, start, stop, by_minutes=True)
    return Spark(STEP_MS, row.rates.minutes(SENT, start, stop), row.rates.minutes(ACKED, start, stop), levels)


def sum_of_sparks(sparks: Sequence[Spark]) -> Spark:
    def total(of: Callable[[Spark], list[int]]) -> list[int]:
        return [sum(step) for step in zip(*map(of, sparks), strict=True)] or [0] * SPARK_STEPS

    return Spark(STEP_MS, total(lambda one: one.sent), total(lambda one: one.acked), total(lambda one: one.backlog))
