"""The connector on a real Spark against a real server."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from couriermq.journal.schema import MESSAGE_COLUMNS, arrow_schema, journal_schema, spark_schema
from couriermq.spark import journal
from couriermq.spark.cursors import CursorKeeper
from couriermq.spark.journal import DataLoss, Journal, JournalError, Span, Unreachable, Wanted
from couriermq.spark.options import read_options
from couriermq.spark.source import CourierSource, JournalReader, Range, StreamReader
from tests.spark.killing import forget_last_commit
from tests.support.eventually import eventually_sync
from tests.support.ports import free_port
from tests.support.server import TLS, ServerProcess, start_server

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()
QUEUES = "/courier/v1/tenants/default/queues"


class Bench:
    """A queue of the test's own, and Spark to read it with."""

    def __init__(self, spark: SparkSession, server: ServerProcess, queue: str) -> None:
        self.spark = spark
        self.server = server
        self.queue = queue
        self.options = {"url": server.url, "token": server.token}
        self.start = Journal(server.url, server.token).span().next
        self.post("", {"name": queue})

    def post(self, path: str, document: dict[str, Any]) -> Any:
        answer = self.server.session.post(
            f"{self.server.url}/courier/v1/tenants/default/queues{path}", json=document, timeout=30
        )
        assert answer.status_code < 300, answer.text
        return answer.json()

    def send(self, count: int, **more: Any) -> None:
        for first in range(0, count, 1_000):
            numbers = range(first, min(first + 1_000, count))
            answer = self.post(f"/{self.queue}/messages", {"messages": [{"body": str(n), **more} for n in numbers]})
            assert [result for result in answer["results"] if "error" in result] == []

    def stream(self, out: Path, *, schema: str | None = None, **options: Any) -> Any:
        """Read all that is available into Parquet; gives the query, ended."""
        reader = self.spark.readStream.format("courier").options(**(self.options | options))
        frame = (reader.schema(schema) if schema else reader).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(out / "table"))
        query.awaitTermination()
        return query

    def cursor(self) -> int:
        """Where the cursor is that is named as the queue is; 0 where there is none."""
        answer = self.server.session.get(f"{self.server.url}/courier/v1/journal/cursors", timeout=30)
        return {one["name"]: int(one["offset"]) for one in answer.json()["cursors"]}.get(self.queue, 0)

    def read(self, **options: Any) -> DataFrame:
        return self.spark.read.format("courier").options(**(self.options | options)).load()


@pytest.fixture
def bench(spark: SparkSession, server: ServerProcess, request: pytest.FixtureRequest) -> Bench:
    return Bench(spark, server, request.node.originalname.removeprefix("test_") + str(next(NUMBERS)))


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


def test_arrow_and_spark_have_one_schema(spark: SparkSession) -> None:
    events, messages = StructType.fromDDL(spark_schema()), StructType.fromDDL(spark_schema(MESSAGE_COLUMNS))
    assert isinstance(events, StructType)
    assert isinstance(messages, StructType)
    assert to_arrow_schema(events, timezone="UTC") == journal_schema()
    assert to_arrow_schema(messages) == arrow_schema(MESSAGE_COLUMNS)


def test_events_are_read_as_they_happened_from_segments_and_journal(bench: Bench) -> None:
    bench.send(2_500)
    frame = bench.read(startingOffset=bench.start, rowsPerPartition=600)
    assert frame.rdd.getNumPartitions() == 4  # a small rest goes with the last
    rows = sorted(frame.collect(), key=lambda row: row.offset)
    assert [row.offset for row in rows] == list(range(bench.start, bench.start + 2_501))
    assert [row.kind for row in rows[:2]] == ["queue_added", "sent"]
    assert [bytes(row.body) for row in rows[1:]] == [str(n).encode() for n in range(2_500)]


def test_messages_have_their_bodies_and_what_came_with_them(bench: Bench) -> None:
    bench.send(1, attributes={"region": "eu", "n": 1}, delay_ms=5, group="g")
    bench.post(f"/{bench.queue}/receive", {})
    (row,) = bench.read(mode="messages", queue=bench.queue).collect()
    assert (bytes(row.body), row.content_type, row.queue) == (b"0", "text/plain; charset=utf-8", bench.queue)
    assert (json.loads(row.attributes), row.delay_ms, row.group) == ({"region": "eu", "n": 1}, 5, "g")
    assert row.offset == bench.start + 1


def test_only_the_columns_of_the_schema_are_read(bench: Bench) -> None:
    bench.send(3)
    reader = bench.spark.read.format("courier").options(**bench.options, queues=f"{bench.queue},{bench.queue}")
    assert [tuple(row) for row in reader.schema("kind STRING, size BIGINT").load().collect()] == [
        ("queue_added", None), *[("sent", 1)] * 3,
    ]  # fmt: skip
    with pytest.raises(PySparkException, match="'colour' is not a column"):
        reader.schema("colour STRING").load().collect()


def test_columns_in_which_every_event_has_a_value_say_so(bench: Bench) -> None:
    bench.send(2)
    events, messages = bench.read(queue=bench.queue), bench.read(queue=bench.queue, mode="messages")
    assert [field.name for field in events.schema if not field.nullable] == ["offset", "kind", "at", "tenant"]
    assert [field.name for field in messages.schema if not field.nullable] == ["offset", "tenant"]
    assert [row.kind for row in events.collect()] == ["queue_added", "sent", "sent"]
    assert [row.offset for row in messages.collect()] == [bench.start + 1, bench.start + 2]


def test_a_view_in_sql_needs_nothing_but_the_name(bench: Bench) -> None:
    bench.send(4)
    url, token = bench.options["url"], bench.options["token"]
    bench.spark.sql(
        f"CREATE OR REPLACE TEMP VIEW sent USING courier"
        f" OPTIONS (url '{url}', token '{token}', queue '{bench.queue}', mode 'messages')"
    )
    assert bench.spark.sql("SELECT count(*), max(seq) - min(seq) FROM sent").first() == (4, 3)


def test_a_stream_takes_so_many_records_at_a_time_and_goes_on_where_it_was(bench: Bench, tmp_path: Path) -> None:
    bench.send(999)
    query = bench.stream(tmp_path, startingOffset=bench.start, maxRecordsPerBatch=400)
    assert [progress.numInputRows for progress in query.recentProgress if progress.numInputRows] == [400, 400, 200]
    last = query.recentProgress[-1].sources[0]
    assert json.loads(last.endOffset)["0"] == bench.start + 1_000
    assert json.loads(last.latestOffset)["0"] >= bench.start + 1_000
    bench.send(10)
    bench.stream(tmp_path, startingOffset=bench.start, maxRecordsPerBatch=400)
    found = bench.spark.read.parquet(str(tmp_path / "table"))
    assert offsets(found) == list(range(bench.start, bench.start + 1_010))


def test_a_stream_whose_last_commit_is_lost_reads_the_same_batch_again(bench: Bench, tmp_path: Path) -> None:
    bench.send(500)
    options: dict[str, Any] = {"mode": "messages", "queue": bench.queue, "maxRecordsPerBatch": 200}
    bench.stream(tmp_path, startingOffset=bench.start, **options)
    forget_last_commit(tmp_path / "checkpoint")
    bench.send(50)
    bench.stream(tmp_path, startingOffset=bench.start, **options)
    bodies = [bytes(row.body) for row in bench.spark.read.parquet(str(tmp_path / "table")).orderBy("offset").collect()]
    assert bodies == [str(n).encode() for n in [*range(500), *range(50)]]


def test_a_cursor_follows_the_stream_to_its_end(bench: Bench, tmp_path: Path) -> None:
    bench.send(300)
    query = bench.stream(tmp_path, startingOffset=bench.start, maxRecordsPerBatch=100, cursor=bench.queue)
    end = json.loads(query.recentProgress[-1].sources[0].endOffset)["0"]
    assert bench.cursor() == end >= bench.start + 301


def test_a_cursor_waits_at_a_batch_that_fails(bench: Bench, tmp_path: Path) -> None:
    bench.send(299)
    options = bench.options | {"startingOffset": bench.start, "maxRecordsPerBatch": 100, "cursor": bench.queue}
    reader = bench.spark.readStream.format("courier").options(**options)
    broken = [True]

    def take(frame: DataFrame, batch: int) -> None:
        assert batch == 0 or not broken, "a sink that is broken"

    writer = reader.load().writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):  # the second time Spark begins with the batch that failed
        with pytest.raises(PySparkException, match="a sink that is broken"):
            writer.trigger(availableNow=True).start().awaitTermination()
        assert bench.cursor() == bench.start + 100
    broken.clear()
    writer.trigger(availableNow=True).start().awaitTermination()
    assert bench.cursor() >= bench.start + 300


def test_a_cursor_that_a_listener_keeps_moves_when_a_batch_is_done(bench: Bench, tmp_path: Path) -> None:
    """Before the stream looks for news again, which this one does in an hour."""
    bench.send(299)
    keeper = CursorKeeper(Journal(bench.server.url, bench.server.token), bench.queue, query=bench.queue)
    options = bench.options | {"startingOffset": bench.start, "cursor": bench.queue}
    frame = bench.spark.readStream.format("courier").options(**options).load()
    writer = frame.writeStream.format("noop").queryName(bench.queue)
    bench.spark.streams.addListener(keeper)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="1 hour").start()
    try:
        eventually_sync(bench.cursor, lambda cursor: cursor >= bench.start + 300, seconds=60)
    finally:
        query.stop()
        bench.spark.streams.removeListener(keeper)


def test_a_stream_can_start_at_a_time(bench: Bench, tmp_path: Path) -> None:
    bench.send(1)
    sent = bench.read(mode="messages", queue=bench.queue).first()
    assert sent is not None
    at = f"{sent.sent_at // 1000}.{sent.sent_at % 1000:03d}"
    row = bench.spark.sql(f"SELECT date_format(timestamp_seconds({at}), \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\")").first()
    assert row is not None
    bench.stream(tmp_path, startingOffset=row[0])
    assert min(offsets(bench.spark.read.parquet(str(tmp_path / "table")))) in {bench.start, bench.start + 1}


class Growing(Journal):
    """A journal that something is added to each time somebody looks."""

    grown = itertools.count(100)

    def reach(self) -> dict[str, Any]:
        return {}

    def sees_offsets(self) -> bool:
        return True

    def stamp(self) -> str:
        return ""

    def spans(self) -> dict[int, Span]:
        return {0: Span(0, next(self.grown))}


def test_a_stream_from_the_latest_offset_begins_where_that_was_when_it_was_first_asked() -> None:
    options = read_options({"startingOffset": "latest"})._replace(journal=Growing("http://courier"))
    reader = StreamReader(options, StructType([StructField("offset", LongType())]))
    begin = reader.initialOffset()
    assert reader.reportLatestOffset() != begin
    assert reader.initialOffset() == begin


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mode": "dreams"}, "mode is 'dreams'; choose events or messages"),
        ({"startingOffset": "soon"}, "startingOffset is 'soon'"),
        ({"maxRecordsPerBatch": "0"}, "maxRecordsPerBatch is '0'"),
        ({"colour": "red"}, "'colour' is not an option"),
        ({"token": "wrong"}, "credential"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(bench: Bench, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException, match=sentence):
        bench.read(**options).collect()


def test_a_queue_that_is_not_there_fails_the_read(bench: Bench, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="there is no queue named 'ordres'; one that was deleted"):
        bench.read(queues=f"{bench.queue},ordres").collect()
    with pytest.raises(PySparkException, match="tenant 'default' has no queue named 'ordres'"):
        bench.read(mode="messages", tenant="default", queue="ordres").collect()
    stream = bench.spark.readStream.format("courier").options(**bench.options, queue="ordres").load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "at")).start()
    with pytest.raises(PySparkException, match="there is no queue named 'ordres'"):
        query.awaitTermination(60)


def test_events_of_a_deleted_queue_are_read_by_its_id(bench: Bench) -> None:
    known = bench.server.session.get(f"{bench.server.url}{QUEUES}/{bench.queue}", timeout=30).json()["id"]
    bench.server.session.delete(f"{bench.server.url}{QUEUES}/{bench.queue}", timeout=30)
    assert [row.kind for row in bench.read(queue=known).collect()] == ["queue_added", "queue_deleted"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://no-such-host.invalid:8080"])
def test_an_address_at_which_nobody_answers_fails_the_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(journal, "FIRST_PATIENCE_S", 0.5)
    source = CourierSource({**bench.options, "url": url})
    reader = source.reader(StructType([StructField("offset", LongType())]))
    with pytest.raises(Unreachable, match=f"{url} cannot be reached: .*; is the url right?"):
        reader.partitions()


def test_what_is_no_longer_kept_fails_the_query_or_is_skipped_as_told(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    with start_server(tmp_path, engine=engine, archive_segment_ms=1, archive_age_ms=1) as server:
        bench = Bench(spark, server, "orders")
        bench.send(10)
        journal = Journal(server.url, server.token)
        while journal.span().oldest < bench.start + 5:
            bench.send(1)
        with pytest.raises(PySparkException, match="are no longer kept"):
            bench.read(startingOffset=0).collect()
        journal.advance_cursor("reader", journal.span().oldest)  # from now on nothing more is lost
        left = offsets(bench.read(startingOffset=0, failOnDataLoss="false"))
        assert left == list(range(left[0], journal.span().next))


class Shrinking(Journal):
    """A journal of nodes that lose events while these are looked for, and do not all know of it at once."""

    def _stream(self, start: int, stop: int, wanted: Wanted) -> Iterator[tuple[pa.RecordBatch | None, int]]:
        for offset in range(start, stop):
            if offset < OLDEST[0]:
                raise DataLoss(f"offset {offset} is no longer kept")
            yield pa.record_batch({name: pa.array([offset]) for name in wanted.columns}), offset + 1
            if offset == 12:
                OLDEST[:] = [15, 9]

    def span(self, shard: int = 0) -> Span:
        """By the next node, which reads are then answered by as well."""
        del OLDEST[: len(OLDEST) > 1]
        said = OLDEST[0]
        OLDEST[0] = max(said, min(said + 2, 8))
        return Span(said, 20)


OLDEST: list[int] = []


def test_what_is_lost_while_it_is_looked_for_is_skipped_and_nothing_comes_twice() -> None:
    OLDEST[:] = [4]
    options = read_options({"url": "http://nowhere", "token": "none", "failOnDataLoss": "false"})
    options = options._replace(journal=Shrinking(*options.journal))
    reader = JournalReader(options, StructType([StructField("offset", LongType())]))
    found = [batch.column("offset")[0].as_py() for batch in reader.batches(Range(0, 18))]
    assert found == list(range(8, 18))


def test_a_server_that_dies_in_the_middle_is_waited_for(tmp_path: Path, engine: str) -> None:
    with start_server(tmp_path, engine=engine, port=free_port(), archive_enabled="false") as server:
        session, queues = server.session, f"{server.url}/courier/v1/tenants/default/queues"
        session.post(queues, json={"name": "orders"}, timeout=30)
        bodies = [{"body": "x" * 1_000} for _ in range(1_000)]
        for _ in range(20):
            requests.post(
                f"{queues}/orders/messages", json={"messages": bodies}, headers=dict(session.headers), timeout=30
            )
        journal = Journal(server.url, server.token)
        batches = journal.read(0, 20_002, Wanted(("body", "offset")))
        first = next(batches)
        server.kill()
        server.come_back()
        found = first.column("offset").to_pylist() + [
            n for batch in batches for n in batch.column("offset").to_pylist()
        ]
    assert found == list(range(20_002))


def test_a_certificate_that_is_not_trusted_is_said_at_once(tmp_path: Path, engine: str) -> None:
    with start_server(tmp_path, engine=engine, tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem") as server:
        assert Journal(server.url, server.token, str(TLS / "cert.pem")).span().oldest == 0
        with pytest.raises(JournalError, match=r"is not trusted .*; name its authority in caFile"):
            Journal(server.url, server.token).span()
        with pytest.raises(JournalError, match=r"cannot read the certificates in nothing\.pem: No such file"):
            Journal(server.url, server.token, "nothing.pem").span()
        empty = tmp_path / "empty.pem"
        empty.touch()
        with pytest.raises(JournalError, match=r"cannot read the certificates in .*empty\.pem"):
            Journal(server.url, server.token, str(empty)).span()
