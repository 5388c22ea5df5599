"""Reading the journal with Spark: the connector against Spark's own stream over the same Parquet files."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession

from benchmarks.bench import Bench
from benchmarks.measure import Row, alternate
from benchmarks.processes import TOKEN, Courier
from couriermq.journal.schema import spark_schema
from couriermq.spark.session import open_session, telling

WARM_UPS = 2
"""Turns of each before any counts: Java compiles, and compiles better, what it has run a few times."""


@contextlib.contextmanager
def session(bench: Bench) -> Iterator[SparkSession]:
    """Spark on all cores of this machine, as the pipeline has it."""
    conf = {"spark.sql.warehouse.dir": str(bench.new_data()), "spark.local.dir": str(bench.new_data())}
    with telling(bench.directory / "spark.log"):
        spark = open_session("local[*]", name="benchmarks", conf=conf)
    try:
        yield spark
    finally:
        spark.stop()


def simulated(bench: Bench, events: int) -> Path:
    """A data directory whose archive holds so many events that never happened."""
    data = bench.new_data()
    command = [sys.executable, "-m", "couriermq.cli", "simulate", "--events", str(events), "--data", str(data)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return data


def read_stream(bench: Bench) -> list[Row]:
    """All events, all columns, each time as a new stream that reads what there is into nowhere.

    What of a stream's time is not its batches', as Spark reports them, is noted beside, and the ratio without it: a
    stream starts but once.
    """
    events = 2 * bench.backlog
    data = simulated(bench, events)
    with session(bench) as spark, Courier(data) as server:
        options = {"url": server.url, "token": TOKEN}
        ours = _Stream(bench, events, lambda: spark.readStream.format("courier").options(**options).load())
        files = str(data / "archive")
        native = _Stream(bench, events, lambda: spark.readStream.schema(spark_schema()).parquet(files))
        for _ in range(WARM_UPS):
            native()
            ours()
        native.forget()
        ours.forget()
        turns = alternate(native, [ours], rounds=bench.rounds)
    return [
        Row(
            name="spark-read",
            what=f"connector, stream of {events:,} events",
            value=turns.figure(),
            unit="events/s",
            reference="Spark's Parquet stream",
            ratios=turns.ratios(),
            bar=0.6,
            cpu_ratio=native.cpu_us / ours.cpu_us,
            cpu_us=ours.cpu_us,
            reference_cpu_us=native.cpu_us,
            notes={
                "parquet_events_per_s": median(turns.reference),
                "parquet_start_s": native.start_s,
                "courier_start_s": ours.start_s,
                "ratio_of_batches": native.batches_s / ours.batches_s,
            },
        )
    ]


class _Stream:
    """Events a second of a stream, from its start to its end; and the processor time of all who took part, who are
    children of this process."""

    def __init__(self, bench: Bench, events: int, read: Callable[[], DataFrame]) -> None:
        self._bench = bench
        self._events = events
        self._read = read
        self._cpu_s: list[float] = []
        self._start_s: list[float] = []
        self._batches_s: list[float] = []

    def __call__(self) -> float:
        before, started = tree_cpu_s(os.getpid()), time.perf_counter()
        writer = self._read().writeStream.format("noop").option("checkpointLocation", str(self._bench.new_data()))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        elapsed = time.perf_counter() - started
        self._cpu_s.append(tree_cpu_s(os.getpid()) - before)
        found = sum(progress.numInputRows for progress in query.recentProgress)
        if found < self._events:  # the server that serves them may have added its own start
            raise SystemExit(f"the stream gave {found} of {self._events} events")
        busy = sum(progress.durationMs["triggerExecution"] for progress in query.recentProgress) / 1_000
        self._start_s.append(elapsed - busy)
        self._batches_s.append(busy)
        return self._events / elapsed

    def forget(self) -> None:
        """What was measured while warming up."""
        self._cpu_s.clear()
        self._start_s.clear()
        self._batches_s.clear()

    @property
    def start_s(self) -> float:
        """What a query takes besides its batches."""
        return median(self._start_s)

    @property
    def batches_s(self) -> float:
        """What its batches take, as Spark reports them."""
        return median(self._batches_s)

    @property
    def cpu_us(self) -> float:
        return median(self._cpu_s) * 1e6 / self._events


def tree_cpu_s(pid: int) -> float:
    """Processor time of a process and of everything below it, of children that have ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task").glob("*/children")
    with contextlib.suppress(OSError):
        return own + sum(tree_cpu_s(int(child)) for path in children for child in path.read_text().split())
    return own
