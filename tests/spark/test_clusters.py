"""The same jobs on every kind of Spark: a standalone cluster, local-cluster, and through Spark Connect."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from courier.journal.schema import NAMES
from courier.spark.journal import Journal, Wanted
from courier.spark.lake import Lake
from tests.spark.bench import Bench
from tests.spark.killing import run_job
from tests.spark.test_pipeline import query
from tests.spark.test_tables import check
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

MESSAGES = 3_000


@pytest.fixture(scope="module")
def queue(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A queue with messages, some of which the journal has and some the archive."""
    session, queues = server.session, f"{server.url}/courier/v1/tenants/default/queues"
    name = tmp_path_factory.mktemp("far").name  # made again for each kind of Spark
    session.post(queues, json={"name": name}, timeout=30)
    for first in range(0, MESSAGES, 1_000):
        messages = [{"body": str(number)} for number in range(first, first + 1_000)]
        assert session.post(f"{queues}/{name}/messages", json={"messages": messages}, timeout=30).status_code == 200
    return name


def test_messages_are_read_by_executors_wherever_they_are(
    spark: SparkSession, server: ServerProcess, queue: str, any_spark: str, tmp_path: Path
) -> None:
    job = ["-m", "tests.spark.jobs.read_messages", any_spark, server.url, server.token, queue, "1000", str(tmp_path)]
    run_job(job, log=tmp_path / "job.log")
    rows = spark.read.parquet(str(tmp_path / "table")).select("body").collect()
    assert sorted(int(row.body) for row in rows) == list(range(MESSAGES))


def test_messages_are_carried_from_queue_to_queue_by_executors_wherever_they_are(
    spark: SparkSession, server: ServerProcess, any_spark: str, tmp_path: Path
) -> None:
    bench = Bench(spark, server)
    source, target = (bench.create(f"{end}-{tmp_path.name}") for end in ("source", "target"))
    bench.send(source, MESSAGES)
    where = [any_spark, server.url, server.token, source, target, "1000", str(tmp_path)]
    run_job(["-m", "tests.spark.jobs.carry_messages", *where], log=tmp_path / "job.log")
    assert sorted(bench.bodies(target)) == [f"{number:06}" for number in range(MESSAGES)]
    assert (bench.messages(source), bench.claims(source)) == ([], [])


def test_the_pipeline_runs_on_every_kind_of_spark(
    spark: SparkSession, server: ServerProcess, any_spark: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    arguments = ["-m", "tests.spark.jobs.run_pipeline", any_spark, server.url, server.token, "1000000", str(lake)]
    run_job(arguments, log=tmp_path / "job.log")
    journal = Journal(server.url, server.token)
    end = query(lake, 'SELECT max("offset") + 1 FROM {events}')[0][0]
    events = [event for batch in journal.read(0, end, Wanted(NAMES)) for event in batch.to_pylist()]
    check(Lake(spark, lake), events)
