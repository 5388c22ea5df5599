"""What Spark writes into a queue is there as a whole, once."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from couriermq.spark import writer as writing
from couriermq.spark.options import read_options
from couriermq.spark.writer import Staged, StreamWriter
from tests.spark.bench import Bench
from tests.spark.killing import forget_last_commit
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()
TEXT = StructType().add("body", StringType())


@pytest.fixture
def bench(spark: SparkSession, server: ServerProcess) -> Bench:
    return Bench(spark, server)


@pytest.fixture
def queue(bench: Bench) -> str:
    return bench.create(f"written-{next(NUMBERS)}")


def rows(bench: Bench, count: int, partitions: int = 2) -> DataFrame:
    return bench.spark.range(0, count, 1, partitions).select(f.format_string("%06d", "id").alias("body"))


def numbered(count: int) -> list[str]:
    return [f"{n:06}" for n in range(count)]


# -- batches --------------------------------------------------------------------------------------------------


def test_every_column_reaches_its_message(bench: Bench, queue: str) -> None:
    frame = bench.spark.sql(
        "SELECT CAST('a' AS BINARY) AS body, 'text/x' AS content_type, map('n', '1', 'none', NULL) AS attributes,"
        " 'mine' AS id, CAST(60000 AS INT) AS delay_ms, 'g' AS group, 70000L AS retention_ms, 'd' AS dedup_id"
    )
    bench.write(frame, queue=queue)
    (message,) = bench.messages(queue)
    assert (message["body"], message["content_type"], message["id"]) == ("a", "text/x", "mine")
    assert (message["attributes"], message["group"], message["state"]) == ({"n": "1"}, "g", "delayed")
    assert message["discard_at"] - message["sent_at"] == 70_000


def test_attributes_may_be_json_as_a_read_gives_them(bench: Bench, queue: str) -> None:
    bench.write(bench.spark.sql("""SELECT 'a' AS body, '{"n": 1, "ok": true}' AS attributes"""), queue=queue)
    (message,) = bench.messages(queue)
    assert (message["attributes"], message["content_type"]) == ({"n": 1, "ok": True}, "text/plain; charset=utf-8")


def test_many_rows_arrive_in_the_order_of_their_partitions(bench: Bench, queue: str) -> None:
    bench.write(rows(bench, 25_000, partitions=3), queue=queue)
    assert bench.bodies(queue) == numbered(25_000)


def test_two_writes_are_two_writes_unless_they_are_said_to_be_one(bench: Bench, queue: str) -> None:
    for _ in range(2):
        bench.write(rows(bench, 2), queue=queue)
    for _ in range(2):
        bench.write(rows(bench, 3), queue=queue, series=f"once-{queue}", number=7)
    assert sorted(bench.bodies(queue)) == sorted(numbered(2) * 2 + numbered(3))


def test_an_exchange_routes_what_is_written(bench: Bench, queue: str) -> None:
    bench.ask("POST", "/exchanges", {"name": f"fan-{queue}"})
    bench.ask("PUT", f"/exchanges/fan-{queue}/bindings/{queue}")
    bench.write(rows(bench, 2), exchange=f"fan-{queue}")
    assert bench.bodies(queue) == numbered(2)


def test_a_write_of_nothing_is_nothing(bench: Bench, queue: str) -> None:
    bench.write(rows(bench, 0), queue=queue)
    assert bench.messages(queue) == []


def test_a_write_that_fails_has_sent_nothing(bench: Bench, queue: str) -> None:
    good = rows(bench, 1_000)
    broken = good.select(f.expr("if(body = '000999', raise_error('no more'), body)").alias("body"))
    with pytest.raises(PySparkException, match="no more"):
        bench.write(broken, queue=queue)
    assert bench.counters(queue)["sent_count"] == 0


@pytest.mark.parametrize(
    ("sql", "options", "sentence"),
    [
        ("SELECT 'a' AS text", {}, "needs a column body"),
        ("SELECT 'a' AS body, 1 AS colour", {}, "'colour' is not a column that can be written"),
        ("SELECT 1 AS body", {}, "column body is int; it must be binary"),
        ("SELECT 'a' AS body, 'x' AS delay_ms", {}, "column delay_ms is string"),
        ("SELECT 'a' AS body, -1 AS delay_ms", {}, "message 0: delay_ms is -1"),
        ("SELECT CAST(NULL AS STRING) AS body", {}, "a body is null"),
        ("SELECT 'a' AS body", {"queue": "nowhere"}, "no queue named 'nowhere'"),
        ("SELECT 'a' AS body", {"exchange": "fan"}, "one queue or one exchange"),
        ("SELECT 'a' AS body", {"series": "s"}, "series and number belong together"),
    ],
)
def test_what_cannot_be_written_is_said(
    bench: Bench, queue: str, sql: str, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(PySparkException, match=sentence):
        bench.write(bench.spark.sql(sql), **({"queue": queue} | options))


# -- streams --------------------------------------------------------------------------------------------------


def lines(bench: Bench, folder: Path, **more: Any) -> DataFrame:
    return bench.spark.readStream.schema("value STRING").options(**more).text(str(folder)).toDF("body")


def put_file(folder: Path, name: str, bodies: list[str]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(bodies) + "\n")


def test_a_batch_that_is_replayed_is_published_once(bench: Bench, queue: str, tmp_path: Path) -> None:
    whole = numbered(3_000)
    for n in range(3):
        put_file(tmp_path / "in", f"{n}.txt", whole[n * 1_000 : n * 1_000 + 1_000])
    stream = lines(bench, tmp_path / "in", maxFilesPerTrigger=1)
    bench.pour(stream, tmp_path / "checkpoint", queue=queue)
    assert sorted(bench.bodies(queue)) == whole
    forget_last_commit(tmp_path / "checkpoint")
    put_file(tmp_path / "in", "more.txt", ["more"])
    bench.pour(stream, tmp_path / "checkpoint", queue=queue)
    assert sorted(bench.bodies(queue)) == [*whole, "more"]


def test_from_queue_to_queue_each_message_goes_once(bench: Bench, queue: str, tmp_path: Path) -> None:
    source = bench.create(f"source-of-{queue}")
    bench.send(source, 2_500)
    taken = bench.consume(source, maxRecordsPerBatch=1_000).select("body", "content_type", "attributes")
    bench.pour(taken, tmp_path, queue=queue)
    assert (sorted(bench.bodies(queue)), bench.messages(source)) == (numbered(2_500), [])
    assert bench.messages(queue)[0]["attributes"] == {"n": 0}


# -- the writer alone -----------------------------------------------------------------------------------------


class OneTask:
    """The context of a task of a query."""

    def __init__(self, query: str) -> None:
        self._query = query

    def getLocalProperty(self, name: str) -> str:  # noqa: N802 - Spark's name
        return self._query


@pytest.fixture
def writer(bench: Bench, queue: str, monkeypatch: pytest.MonkeyPatch) -> StreamWriter:
    task = type("Task", (), {"get": staticmethod(lambda: OneTask(f"query-{queue}"))})
    monkeypatch.setattr(writing, "TaskContext", task)
    return StreamWriter(read_options({"queue": queue, **bench.options}), TEXT, overwrite=False)


def staged(writer: StreamWriter, *bodies: str) -> Staged:
    message = writer.write(iter([pa.RecordBatch.from_pydict({"body": list(bodies)})]))
    assert isinstance(message, Staged)
    return message


def test_an_abort_after_the_publication_takes_nothing_back(bench: Bench, queue: str, writer: StreamWriter) -> None:
    message = staged(writer, "a", "b")
    writer.commit([message, None], 0)
    writer.abort([message, None], 0)
    assert bench.bodies(queue) == ["a", "b"]


def test_an_abort_before_the_publication_drops_what_was_staged(bench: Bench, queue: str, writer: StreamWriter) -> None:
    message = staged(writer, "a")
    writer.abort([message, None], 0)
    with pytest.raises(Exception, match="no stage named"):
        writer.commit([message], 0)
    assert bench.messages(queue) == []


def test_a_stage_that_has_lost_a_part_is_not_published(bench: Bench, queue: str, writer: StreamWriter) -> None:
    message = staged(writer, "a", "b")
    message.parts += 1
    with pytest.raises(Exception, match="has 1 part and not 2"):
        writer.commit([message], 0)
    assert bench.messages(queue) == []


def test_two_attempts_at_a_task_are_two_stages_of_which_one_counts(
    bench: Bench, queue: str, writer: StreamWriter
) -> None:
    staged(writer, "a")
    writer.commit([staged(writer, "a")], 0)
    assert bench.bodies(queue) == ["a"]
