"""Whether PostgreSQL stays as fast as it was, with somebody's transaction held open for the second half of the time."""

import contextlib
import time
from collections.abc import Iterator
from statistics import mean, median

import psycopg

from benchmarks.bench import Bench
from benchmarks.client import BODY
from benchmarks.load import Chain, chain
from benchmarks.measure import Row
from benchmarks.postgres import Cost, on_postgres
from benchmarks.sending import CLIENTS, QUEUE

PART = 10
"""The first and the last part of that many are compared."""
SLICE_S = 2


class Tenth:
    """One of the two tenths that are compared.

    The machine may have become faster or slower in between, so each slice is followed by a turn of the bare server, and
    counts by what that had.
    """

    def __init__(self, bench: Bench) -> None:
        self.rates: list[float] = []
        self.ratios: list[float] = []
        self._costs: list[float] = []
        self._bare = bench.bare_meter(CLIENTS)

    def add(self, rate: float, cost_us: float) -> None:
        self.rates.append(rate)
        self.ratios.append(rate / self._bare())
        self._costs.append(cost_us)

    @property
    def cost_us(self) -> float:
        """Processor time of a message."""
        return median(self._costs)

    @property
    def cost(self) -> float:
        """The same, by that of a request to the bare server."""
        return self.cost_us / self._bare.cpu_us


def soak(bench: Bench) -> list[Row]:
    """Send ten, receive ten, ack ten, flat out: the rate of the last tenth by that of the first."""
    work = Chain("native", QUEUE, 10, bench.file({"messages": [{"body": BODY}] * 10}))
    first, last, seconds = Tenth(bench), Tenth(bench), bench.soak_seconds
    with on_postgres(bench) as (server, _), contextlib.ExitStack() as second_half:
        chain(server, work, clients=CLIENTS, seconds=SLICE_S)
        before = _size(bench)
        started = time.monotonic()
        held = False
        while (elapsed := time.monotonic() - started) < seconds:
            if elapsed >= seconds / 2 and not held:
                second_half.enter_context(_held_open(bench))
                held = True
            cost = Cost(bench, server)
            with cost.of() as count:
                load = chain(server, work, clients=CLIENTS, seconds=SLICE_S)
                count(load.count)
            if elapsed < seconds / PART:
                first.add(load.rate, cost.us)
            elif elapsed >= seconds * (1 - 1 / PART) - SLICE_S:
                last.add(load.rate, cost.us)
        after = _size(bench)
    return [
        Row(
            name="pg-soak",
            what=f"PostgreSQL: {seconds} s, half of it with a transaction held open",
            value=mean(last.rates),
            unit="messages/s",
            reference="its first tenth",
            ratios=[ratio / mean(first.ratios) for ratio in last.ratios],
            bar=0.8,
            cpu_ratio=first.cost / last.cost,
            cpu_us=last.cost_us,
            reference_cpu_us=first.cost_us,
            notes={
                "first": mean(first.rates),
                "ratio_without_bare": mean(last.rates) / mean(first.rates),
                "bytes_before": before,
                "bytes_after": after,
            },
        )
    ]


@contextlib.contextmanager
def _held_open(bench: Bench) -> Iterator[None]:
    """A transaction that sees the past, so that vacuum may remove nothing that came after it."""
    with psycopg.connect(bench.pgmq.cluster.url()) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pgmq.meta")
        connection.execute("CREATE TEMPORARY TABLE held ()")  # and one that has a number of its own
        yield
        connection.rollback()


def _size(bench: Bench) -> float:
    ((size,),) = bench.pgmq.cluster.execute("SELECT pg_database_size(current_database())")
    assert isinstance(size, int)
    return float(size)
