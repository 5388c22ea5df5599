"""The same jobs on every kind of Spark: a standalone cluster, local-cluster, and through Spark Connect."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from couriermq.core.lanes import LANE_SIZE, first_of_lane, lane_of
from couriermq.journal.schema import NAMES
from couriermq.spark.journal import Journal, Wanted
from couriermq.spark.lake import Lake
from tests.spark.bench import Bench
from tests.spark.killing import run_job
from tests.spark.test_pipeline import query
from tests.spark.test_tables import check
from tests.support.server import start_server
from tests.support.soak import sized
from tests.support.spark import CLIENT, job_environ
from tests.support.spark_cluster import connect_server, standalone
from tests.support.stores import SERVED

pytestmark = pytest.mark.slow

MESSAGES = sized(2_000, 3_000)
"""Two or three batches of each job."""
BODIES = [f"{number:06}" for number in range(MESSAGES)]
LOCAL = "local-cluster[2,1,512]"
KINDS: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "standalone": standalone,
    "local-cluster": lambda place: contextlib.nullcontext(LOCAL),
    "connect": connect_server,
    "client": connect_server,
}
"""Of the last, the driver has no Spark of its own."""
CHOSEN = sized(["client"], list(KINDS))
"""Spark Connect and a driver without a Spark of its own; a soak has every kind."""
ENGINES = sized(["postgres"], SERVED)
"""Every other suite of Spark runs on the embedded engine; a soak has both here."""


class Place(NamedTuple):
    where: str
    environ: dict[str, str]
    """Of a driver."""


@pytest.fixture(params=CHOSEN)
def any_spark(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A Spark of each kind that is more than one process."""
    place = tmp_path / "spark"
    place.mkdir()
    with KINDS[request.param](place) as where:
        yield Place(where, job_environ(CLIENT) if request.param == "client" else job_environ())


def test_every_job_runs_on_every_kind_of_spark_and_on_postgresql(
    spark: SparkSession, any_spark: Place, tmp_path: Path
) -> None:
    """One application for all of it: a cluster takes longer to start than to do this."""
    with contextlib.ExitStack() as stack:
        started = [
            stack.enter_context(start_server(tmp_path / engine, engine=engine, archive_segment_ms=300))
            for engine in ENGINES
        ]
        benches = [Bench(spark, server) for server in started]
        errands: list[str] = []
        for bench in benches:
            for queue in ("read", "source", "target"):
                bench.create(queue)
            bench.send("read", MESSAGES)
            bench.send("source", MESSAGES)
            errands += [bench.server.url, bench.server.token, "read", "source", "target"]
        job = ["-m", "tests.spark.jobs.do_everything", any_spark.where, str(tmp_path), "1000", *errands]
        run_job(job, log=tmp_path / "job.log", environ=any_spark.environ)
        for number, bench in enumerate(benches):
            _check_read(spark, tmp_path / str(number) / "read")
            _check_carried(bench)
            _check_lake(spark, Journal(bench.server.url, bench.server.token), tmp_path / str(number) / "lake")


def _check_read(spark: SparkSession, place: Path) -> None:
    rows = spark.read.parquet(str(place / "table")).select("body").collect()
    assert sorted(row.body.decode() for row in rows) == BODIES


def _check_carried(bench: Bench) -> None:
    assert sorted(bench.bodies("target")) == BODIES
    assert (bench.messages("source"), bench.claims("source")) == ([], [])


def _check_lake(spark: SparkSession, journal: Journal, lake: Path) -> None:
    lanes = query(lake, f'SELECT max("offset") + 1 FROM {{events}} GROUP BY "offset" // {LANE_SIZE}')
    ranges = [(first_of_lane(lane_of(end)), end) for (end,) in lanes]
    batches = (batch for start, end in ranges for batch in journal.read(start, end, Wanted(NAMES)))
    events = [event for batch in batches for event in batch.to_pylist()]
    assert len(events) > 4 * MESSAGES
    check(Lake(spark, lake), events)
