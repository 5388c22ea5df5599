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


def soak(bench: Bench) -> list[Row]:
    """Send ten, receive ten, ack ten, flat out: the rate of the last tenth by that of the first."""
    work = Chain("native", QUEUE, 10, bench.file({"messages": [{"body": BODY}] * 10}))
    with on_postgres(bench) as (server, _), contextlib.ExitStack() as second_half:
        chain(server, work, clients=CLIENTS, seconds=SLICE_S)
        before = _size(bench)
        rates: list[tuple[float, float, float]] = []
        started = time.monotonic()
        held = False
        while (elapsed := time.monotonic() - started) < bench.soak_seconds:
            if elapsed >= bench.soak_seconds / 2 and not held:
                second_half.enter_context(_held_open(bench))
                held = True
            cost = Cost(bench, server)
            with cost.of() as count:
                load = chain(server, work, clients=CLIENTS, seconds=SLICE_S)
                count(load.count)
            rates.append((elapsed, load.rate, cost.us))
        after = _size(bench)
    begin, end = bench.soak_seconds / PART, bench.soak_seconds * (1 - 1 / PART) - SLICE_S
    first = mean(rate for at, rate, _ in rates if at < begin)
    last = [rate for at, rate, _ in rates if at >= end]
    costs = [median(us for at, _, us in rates if when(at)) for when in (lambda at: at < begin, lambda at: at >= end)]
    return [
        Row(
            name="pg-soak",
            what=f"PostgreSQL: {bench.soak_seconds} s, half of it with a transaction held open",
            value=mean(last),
            unit="messages/s",
            reference="its first tenth",
            ratios=[rate / first for rate in last],
            bar=0.8,
            cpu_ratio=costs[0] / costs[1],
            notes={"first": first, "bytes_before": before, "bytes_after": after},
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
