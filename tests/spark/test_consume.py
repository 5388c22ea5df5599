"""A queue is consumed exactly once, whatever is replayed, and by one job at a time."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import BinaryType, StructType

from couriermq.journal.schema import CLAIMED_COLUMNS, spark_schema
from couriermq.spark.consume import ClaimKeeper, ConsumingReader, Part
from couriermq.spark.journal import DataLoss, JournalError
from couriermq.spark.options import read_options
from tests.spark.bench import Bench
from tests.spark.killing import forget_last_commit
from tests.support.eventually import eventually_sync
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()
BODY = StructType().add("body", BinaryType())


@pytest.fixture
def bench(spark: SparkSession, server: ServerProcess) -> Bench:
    return Bench(spark, server)


@pytest.fixture
def queue(bench: Bench) -> str:
    return bench.create(f"consumed-{next(NUMBERS)}")


def drain(frame: DataFrame, out: Path, **more: str) -> Any:
    """Consume all that is ready into Parquet; gives the query, ended."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
    query = writer.options(**more).trigger(availableNow=True).start(str(out / "table"))
    query.awaitTermination()
    return query


def found(bench: Bench, out: Path) -> list[str]:
    return sorted(bytes(row.body).decode() for row in bench.spark.read.parquet(str(out / "table")).collect())


def numbered(count: int, first: int = 0) -> list[str]:
    return [f"{n:06}" for n in range(first, first + count)]


def reader_of(bench: Bench, queue: str, **options: Any) -> ConsumingReader:
    given = {"mode": "consume", "queue": queue, "job": "job"} | bench.options | options
    return ConsumingReader(read_options(given), BODY)


def rows_of(reader: ConsumingReader, start: dict[str, int], end: dict[str, int]) -> list[str]:
    parts = reader.partitions(start, end)
    return [body.as_py().decode() for part in parts for batch in reader.read(part) for body in batch.column(0)]


# -- with Spark -----------------------------------------------------------------------------------------------


def test_a_queue_is_consumed_in_batches_until_it_is_empty(bench: Bench, queue: str, tmp_path: Path) -> None:
    bench.send(queue, 2_500)
    query = drain(bench.consume(queue, maxRecordsPerBatch=1_000), tmp_path)
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [1_000, 1_000, 500]
    assert found(bench, tmp_path) == numbered(2_500)
    assert (bench.counters(queue)["total_count"], bench.claims(queue)) == (0, [])
    bench.send(queue, 10, first=2_500)
    drain(bench.consume(queue), tmp_path)
    assert found(bench, tmp_path) == numbered(2_510)
    assert bench.counters(queue)["acked_count"] == 2_510


def test_rows_have_all_that_came_with_a_message(bench: Bench, queue: str, tmp_path: Path) -> None:
    bench.ask("POST", f"/queues/{queue}/messages", {"json": [1], "id": "mine", "group": "g", "attributes": {"n": 1}})
    drain(bench.consume(queue), tmp_path)
    frame = bench.spark.read.parquet(str(tmp_path / "table"))
    assert frame.schema == StructType.fromDDL(spark_schema(CLAIMED_COLUMNS[1:]))
    (row,) = frame.collect()
    assert (bytes(row.body), row.message_id, row.content_type) == (b"[1]", "mine", "application/json")
    assert (row.group, row.attempts, row.queue, row.size) == ("g", 1, queue, 3)
    assert json.loads(row.attributes) == {"n": 1}


def test_a_batch_that_failed_is_replayed_with_the_same_messages(bench: Bench, queue: str, tmp_path: Path) -> None:
    bench.send(queue, 3_000)
    seen: list[tuple[int, list[str]]] = []

    def keep(frame: DataFrame, batch: int) -> None:
        rows = sorted(bytes(row.body).decode() for row in frame.collect())
        seen.append((batch, rows))
        if len(seen) == 2:
            raise RuntimeError("the driver dies")

    def run() -> None:
        writer = bench.consume(queue, maxRecordsPerBatch=1_000).writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="the driver dies"):
        run()
    assert bench.claims(queue) == [2]
    bench.send(queue, 500, first=3_000)
    run()
    assert [batch for batch, _ in seen] == [0, 1, 1, 2, 3]
    assert seen[1] == seen[2]
    assert sorted(row for _, rows in [seen[0], *seen[2:]] for row in rows) == numbered(3_500)


def test_a_claim_that_is_acked_cannot_be_replayed_and_says_so(bench: Bench, queue: str, tmp_path: Path) -> None:
    taken: list[str] = []

    def run(**options: str) -> None:
        frame = bench.consume(queue, maxRecordsPerBatch=5, **options)
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path))
        writer = writer.foreachBatch(lambda frame, _: taken.extend(bytes(row.body).decode() for row in frame.collect()))
        writer.trigger(availableNow=True).start().awaitTermination()

    bench.send(queue, 10)
    run()
    forget_last_commit(tmp_path)
    bench.send(queue, 1, first=10)
    with pytest.raises(StreamingQueryException, match="claim 2 of job 'job' is not held"):
        run()
    run(failOnDataLoss="false")
    assert sorted(taken) == numbered(11)


def test_a_keeper_acks_as_soon_as_a_batch_is_committed(bench: Bench, queue: str, tmp_path: Path) -> None:
    bench.send(queue, 5)
    keeper = ClaimKeeper(query=queue, queue=queue, job="job", **bench.options)
    bench.spark.streams.addListener(keeper)
    try:
        frame = bench.consume(queue).writeStream.format("noop").queryName(queue)
        query = frame.option("checkpointLocation", str(tmp_path)).trigger(processingTime="1 hour").start()

        def acked() -> bool:
            assert query.exception() is None
            return bench.counters(queue)["acked_count"] == 5

        eventually_sync(acked, seconds=30)
        query.stop()
    finally:
        bench.spark.streams.removeListener(keeper)
    assert bench.counters(queue)["acked_count"] == 5


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"job": ""}, "needs a job"),
        ({"queues": "another"}, "takes one queue"),
        ({"job": "a b"}, "a job has 1 to 128"),
        ({"tenant": "nobody"}, "no tenant named 'nobody'"),
    ],
)
def test_what_is_wrong_with_the_options_is_said(
    bench: Bench, queue: str, tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        drain(bench.consume(queue, **options), tmp_path)


def test_consuming_is_for_streams(bench: Bench, queue: str) -> None:
    reader = bench.spark.read.format("courier").options(mode="consume", queue=queue, job="job", **bench.options)
    with pytest.raises(PySparkException, match="use readStream"):
        reader.load().collect()


# -- the reader alone -----------------------------------------------------------------------------------------


def test_a_driver_that_is_replaced_is_shut_out(bench: Bench, queue: str) -> None:
    bench.send(queue, 4)
    old = reader_of(bench, queue)
    end = old.latestOffset(old.initialOffset(), ReadMaxRows(2))
    parts = old.partitions({"claim": 0}, end)
    new = reader_of(bench, queue)
    assert new.initialOffset()["claim"] == 0
    for act in (
        lambda: list(old.read(parts[0])),
        lambda: old.latestOffset(end, ReadMaxRows(2)),
        lambda: old.commit(end),
    ):
        with pytest.raises(JournalError, match="opened again"):
            act()
    assert new.latestOffset({"claim": 0}, ReadMaxRows(100)) == end
    assert rows_of(new, {"claim": 0}, end) == numbered(2)


def test_planning_again_plans_the_same(bench: Bench, queue: str) -> None:
    bench.send(queue, 3)
    reader = reader_of(bench, queue)
    ends = [reader.latestOffset({"claim": 0}, ReadMaxRows(2)) for _ in range(3)]
    assert [end["claim"] for end in ends] == [1] * 3
    assert rows_of(reader_of(bench, queue), {"claim": 0}, {"claim": 1}) == numbered(2)


def test_a_large_claim_is_read_by_several_tasks(bench: Bench, queue: str) -> None:
    bench.send(queue, 12_000)
    reader = reader_of(bench, queue)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(20_000))
    parts = [(part.start, part.stop) for part in reader.partitions({"claim": 0}, end) if isinstance(part, Part)]
    assert parts == [(0, 5_000), (5_000, 10_000), (10_000, 12_000)]
    assert rows_of(reader, {"claim": 0}, end) == numbered(12_000)


def test_messages_that_are_purged_from_a_claim_are_missed(bench: Bench, queue: str) -> None:
    bench.send(queue, 3)
    reader, careless = reader_of(bench, queue), reader_of(bench, queue, failOnDataLoss="false")
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    (part,) = reader.partitions({"claim": 0}, end)
    bench.ask("POST", f"/queues/{queue}/purge")
    with pytest.raises(DataLoss, match="3 messages of claim 1 were purged"):
        list(reader.read(part))
    assert list(careless.read(part)) == []


def test_a_batch_is_not_replayed_with_messages_of_a_queue_that_was_made_again(bench: Bench, queue: str) -> None:
    bench.send(queue, 2)
    reader = reader_of(bench, queue)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    bench.ask("DELETE", f"/queues/{queue}")
    bench.create(queue)
    bench.send(queue, 3, first=2)
    with pytest.raises(DataLoss, match="claim 1 of job 'job' is not held"):
        reader_of(bench, queue).partitions({"claim": 0}, end)
    careless = reader_of(bench, queue, failOnDataLoss="false")
    assert rows_of(careless, {"claim": 0}, end) == []
    after = careless.latestOffset(end, ReadMaxRows(10))
    assert rows_of(careless, end, after) == numbered(3, first=2)


def test_a_freed_job_goes_on_behind_what_was_freed(bench: Bench, queue: str) -> None:
    bench.send(queue, 3)
    reader = reader_of(bench, queue)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    assert bench.ask("POST", f"/queues/{queue}/jobs/job/free") == {"count": 3}
    with pytest.raises(DataLoss, match="claim 1 of job 'job' is not held"):
        reader_of(bench, queue).partitions({"claim": 0}, end)
    careless = reader_of(bench, queue, failOnDataLoss="false")
    assert rows_of(careless, {"claim": 0}, end) == []
    after = careless.latestOffset(end, ReadMaxRows(10))
    assert rows_of(careless, end, after) == numbered(3)
