"""The whole pipeline against Spark's plain copy of the same data, and a refresh of a large lake against a small one."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from benchmarks.bench import Bench
from benchmarks.measure import Row, alternate
from benchmarks.processes import TOKEN, Courier
from benchmarks.spark import session, simulated, tree_cpu_s
from couriermq.core.events import Event
from couriermq.journal.place import LocalPlace
from couriermq.journal.segments import Segment, among, chain, read_entries
from couriermq.journal.simulating import SEGMENT_EVENTS
from couriermq.spark.journal import Journal
from couriermq.spark.pipeline import Job, run
from couriermq.storage.sqlite import care

ROUNDS = 2
SMALL, LARGE = 1, 10
"""How many times the backlog's number of events the lakes hold."""
NEW = 100
"""One in so many events of the large lake is new when both are refreshed."""


def whole(bench: Bench) -> list[Row]:
    """From an empty lake to all tables, by Spark's own copy of the archive from Parquet to Parquet."""
    events = LARGE * bench.backlog
    data = simulated(bench, events)
    with session(bench) as spark, Courier(data) as server:
        cpu = _Cpu()
        copy = cpu.of(lambda: _copy(spark, data / "archive", bench.new_data()))
        tables = cpu.of(lambda: _fill(spark, server, bench.new_data()))
        turns = alternate(copy, [tables], rounds=min(ROUNDS, bench.rounds))
    return [
        Row(
            name="pipeline",
            what=f"all tables from {events:,} events",
            value=turns.figure(),
            unit="s",
            reference="Parquet-to-Parquet copy",
            ratios=turns.ratios(),
            bar=4.0,
            at_least=False,
            cpu_ratio=cpu.last(tables) / cpu.last(copy),
            cpu_us=cpu.last(tables) * 1e6 / events,
            reference_cpu_us=cpu.last(copy) * 1e6 / events,
            notes={"events_per_s": events / turns.figure(), "copy_s": turns.reference[-1]},
        )
    ]


def refresh(bench: Bench) -> list[Row]:
    """The same number of new events into a lake of ten times as many, and into one of as many."""
    new = LARGE * bench.backlog // NEW
    small_turns: list[_Refresh] = []
    large_turns: list[_Refresh] = []
    with session(bench) as spark:
        for _ in range(ROUNDS):
            for turns, size in ((small_turns, SMALL), (large_turns, LARGE)):
                turns.append(_refreshed(bench, spark, max(SEGMENT_EVENTS, size * bench.backlog), new))
    return [
        Row(
            name="pipeline-refresh",
            what=f"{new:,} new events into tables of {LARGE * bench.backlog:,}",
            value=min(turn.seconds for turn in large_turns),
            unit="s",
            reference=f"into {SMALL * bench.backlog:,}",
            ratios=[large.seconds / small.seconds for small, large in zip(small_turns, large_turns, strict=True)],
            bar=1.5,
            at_least=False,
            cpu_us=min(turn.cpu_s for turn in large_turns) * 1e6 / new,
            reference_cpu_us=min(turn.cpu_s for turn in small_turns) * 1e6 / new,
        )
    ]


def _copy(spark: SparkSession, source: Path, target: Path) -> None:
    spark.read.parquet(str(source)).write.parquet(str(target))
    shutil.rmtree(target)


def _fill(spark: SparkSession, server: Courier, lake: Path) -> None:
    run(spark, Job(Journal(server.url, TOKEN), lake, cursor=lake.name))
    shutil.rmtree(lake)


class _Refresh(NamedTuple):
    """What a refresh took, processor time of Spark and server included."""

    seconds: float
    cpu_s: float


def _refreshed(bench: Bench, spark: SparkSession, events: int, new: int) -> _Refresh:
    """What the last `new` of the events take when the others are in the lake."""
    data = simulated(bench, events + new)
    lake = bench.new_data()
    hidden = _hide(data, events)
    with Courier(data) as server:
        run(spark, Job(Journal(server.url, TOKEN), lake))
    _show(data, hidden)
    with Courier(data) as server:
        before, started = tree_cpu_s(os.getpid()), time.perf_counter()
        run(spark, Job(Journal(server.url, TOKEN), lake))
        took = _Refresh(time.perf_counter() - started, tree_cpu_s(os.getpid()) - before)
    shutil.rmtree(data)
    shutil.rmtree(lake)
    return took


def _hide(data: Path, keep: int) -> list[Path]:
    """Put the segments away that end beyond `keep` events, and have the store go on behind the others."""
    archive, aside = data / "archive", data / "aside"
    aside.mkdir()
    found = chain(among(LocalPlace(archive).list()))
    hidden = [segment for segment in found if segment.end > keep]
    kept = [segment for segment in found if segment.end <= keep]
    for segment in hidden:
        (archive / segment.name).rename(aside / segment.name)
    _continue_after(data, kept[-1])
    return [aside / segment.name for segment in hidden]


def _show(data: Path, hidden: list[Path]) -> None:
    """Put them back; what the server has written itself meanwhile makes place for them."""
    archive = data / "archive"
    for path in hidden:
        path.rename(archive / path.name)
    _continue_after(data, chain(among(LocalPlace(archive).list()))[-1])


def _continue_after(data: Path, segment: Segment) -> None:
    (entry,) = read_entries(LocalPlace(data / "archive"), segment, start=segment.end - 1, limit=1)
    event: Event = entry.event
    care.continue_after(data, offset=segment.end, next_seq=2**40, last=event)


class _Cpu:
    """Times what is done, and keeps the processor time of all who took part, children of this process, in the last of
    each."""

    def __init__(self) -> None:
        self._spent: dict[int, float] = {}

    def of(self, work: Callable[[], None]) -> Callable[[], float]:
        def timed() -> float:
            before, started = tree_cpu_s(os.getpid()), time.perf_counter()
            work()
            elapsed = time.perf_counter() - started
            self._spent[id(timed)] = tree_cpu_s(os.getpid()) - before
            return elapsed

        return timed

    def last(self, timed: Callable[[], float]) -> float:
        return self._spent[id(timed)]
