"""The connector with a tenant's credential, which sees positions instead of offsets, beside other tenants."""

import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from couriermq.spark import pipeline, planner
from couriermq.spark.journal import DataLoss, Journal, JournalError, Wanted
from couriermq.spark.options import read_options
from couriermq.spark.source import StreamReader
from tests.spark.killing import forget_last_commit
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow

NUMBERS = itertools.count()
ACTIONS = ("send", "receive", "browse", "manage", "stats")


class Shop:
    """A tenant with a queue, a credential of its own, and a noisy neighbour."""

    def __init__(self, spark: SparkSession, server: ServerProcess) -> None:
        self.spark, self.server = spark, server
        self.name = f"shop{next(NUMBERS)}"
        self.call("POST", "/tenants", {"id": self.name})
        scopes = [{"action": action, "queues": ["*"]} for action in ACTIONS]
        made = self.call("POST", f"/tenants/{self.name}/credentials", {"name": "spark", "scopes": scopes})
        self.options = {"url": server.url, "token": made["secret"]}
        self.journal = Journal(server.url, made["secret"])
        for tenant in (self.name, "default"):
            self.call("POST", f"/tenants/{tenant}/queues", {"name": self.name})

    def call(self, method: str, path: str, document: Any = None, token: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"{self.server.url}/courier/v1{path}"
        answer = self.server.session.request(method, url, json=document, headers=headers, timeout=30)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def send(self, *bodies: int, noise: int = 0) -> None:
        """Messages of the tenant, each followed by so many of the neighbour."""
        for body in bodies:
            self.call("POST", f"/tenants/{self.name}/queues/{self.name}/messages", {"body": str(body)})
            if noise:
                self.make_noise(noise)

    def send_many(self, count: int) -> None:
        messages = [{"body": str(n)} for n in range(count)]
        self.call("POST", f"/tenants/{self.name}/queues/{self.name}/messages", {"messages": messages})

    def make_noise(self, count: int) -> None:
        self.call("POST", f"/tenants/default/queues/{self.name}/messages", {"messages": [{"body": "noise"}] * count})

    def read(self, **options: Any) -> DataFrame:
        return self.spark.read.format("courier").options(**(self.options | options)).load()

    def stream(self, out: Path, **options: Any) -> Any:
        """Read all that is available into Parquet; gives the query, ended."""
        frame = self.spark.readStream.format("courier").options(**(self.options | options)).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
        query = writer.trigger(availableNow=True).start(str(out / "table"))
        query.awaitTermination()
        return query

    def bodies(self, out: Path) -> list[int]:
        rows = self.spark.read.parquet(str(out / "table")).where("kind = 'sent'").select("body").collect()
        return sorted(int(bytes(row.body)) for row in rows)


@pytest.fixture
def shop(spark: SparkSession, server: ServerProcess) -> Shop:
    return Shop(spark, server)


def test_a_tenant_reads_its_own_events_in_tasks_of_so_many_of_them(shop: Shop) -> None:
    shop.send_many(500)
    shop.make_noise(1_000)
    shop.send_many(500)
    frame = shop.read(rowsPerPartition=300)
    assert frame.rdd.getNumPartitions() == 4
    rows = frame.collect()
    assert {row.tenant for row in rows} == {shop.name}
    assert [row.kind for row in rows if row.kind != "sent"] == ["tenant_added", "credential_added", "queue_added"]
    assert [int(bytes(row.body)) for row in rows if row.kind == "sent"] == [*range(500), *range(500)]
    assert len({row.offset for row in rows}) == len(rows) == len({row.seq for row in rows}) + 2
    assert [row.offset for row in shop.read(rowsPerPartition=700).collect()] == [row.offset for row in rows]


def test_a_stream_takes_so_many_of_the_tenants_events_and_goes_on_where_it_was(shop: Shop, tmp_path: Path) -> None:
    shop.send(*range(10), noise=30)
    query = shop.stream(tmp_path, maxRecordsPerBatch=5, queue=shop.name)
    assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == [5, 5, 1]
    shop.make_noise(50)
    query = shop.stream(tmp_path, maxRecordsPerBatch=5, queue=shop.name)
    assert [one.numInputRows for one in query.recentProgress if one.numInputRows] == []
    shop.send(10, 11, noise=30)
    shop.stream(tmp_path, maxRecordsPerBatch=5, queue=shop.name)
    forget_last_commit(tmp_path / "checkpoint")
    shop.send(12, noise=30)
    shop.stream(tmp_path, maxRecordsPerBatch=5, queue=shop.name)
    assert shop.bodies(tmp_path) == list(range(13))


def test_a_batch_that_is_done_again_has_the_same_rows(shop: Shop, tmp_path: Path) -> None:
    seen: list[list[int]] = []

    def take(frame: DataFrame, batch: int) -> None:
        seen.append(sorted(row.offset for row in frame.select("offset").collect()))
        assert len(seen) != 2, "a sink that is broken"

    options = shop.options | {"mode": "messages", "maxRecordsPerBatch": 4, "rowsPerPartition": 2}
    reader = shop.spark.readStream.format("courier").options(**options).load()
    writer = reader.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    shop.send(*range(7), noise=5)
    with pytest.raises(PySparkException, match="a sink that is broken"):
        writer.trigger(availableNow=True).start().awaitTermination()
    shop.send(*range(5), noise=5)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert [len(batch) for batch in seen] == [4, 3, 3, 4, 1]
    assert seen[1] == seen[2]


def test_messages_are_read_from_a_time_or_from_a_position_on(shop: Shop) -> None:
    shop.send(1, noise=3)
    position = shop.journal.ends()[0].next
    shop.send(2, noise=3)
    (_, second) = shop.read(mode="messages", queue=shop.name).collect()
    for start in (position, json.dumps({"0": position})):
        (row,) = shop.read(mode="messages", startingOffset=start).collect()
        assert (bytes(row.body), row.seq, row.offset) == (b"2", second.seq, second.offset)
    (row,) = shop.read(mode="messages", endingOffset=position).collect()
    assert bytes(row.body) == b"1"
    browsed = shop.call("GET", f"/tenants/{shop.name}/queues/{shop.name}/messages", token=shop.options["token"])
    assert [message["seq"] for message in browsed["messages"]][1] == second.seq
    at = datetime.fromtimestamp(second.sent_at / 1_000, UTC).isoformat(timespec="milliseconds")
    assert b"2" in [bytes(row.body) for row in shop.read(mode="messages", startingOffset=at).collect()]
    later = datetime.fromtimestamp(second.sent_at / 1_000 + 60, UTC).isoformat()
    assert shop.read(mode="messages", startingOffset=later).collect() == []


def test_consumed_messages_have_the_numbers_that_the_tenant_sees(shop: Shop, tmp_path: Path) -> None:
    shop.send(1, 2)
    browsed = shop.call("GET", f"/tenants/{shop.name}/queues/{shop.name}/messages", token=shop.options["token"])
    options = {"mode": "consume", "tenant": shop.name, "queue": shop.name, "job": "j"}
    shop.stream(tmp_path, **options)
    rows = shop.spark.read.parquet(str(tmp_path / "table")).collect()
    assert {row.seq for row in rows} == {message["seq"] for message in browsed["messages"]}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"mode": "ranges"}, "mode ranges needs root's token"),
        ({"startingOffset": "12"}, "12 is an offset, which is for root"),
        ({"startingOffset": "A" * 60}, "not a position that the journal gave to this tenant"),
        ({"tenant": "default"}, "may not use tenant"),
    ],
)
def test_what_a_tenants_credential_cannot_ask_for_is_said(shop: Shop, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PySparkException, match=sentence):
        shop.read(**options).collect()


def test_the_pipeline_is_for_root(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="needs root's token"):
        pipeline.run(shop.spark, pipeline.Job(shop.journal, tmp_path))


# -- without Spark --------------------------------------------------------------------------------------------


def reader_of(shop: Shop, **options: str) -> StreamReader:
    return StreamReader(read_options(shop.options | options), StructType([StructField("offset", LongType())]))


def test_a_stream_stays_where_it_is_while_only_others_have_news(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(shop, startingOffset="latest", queue=shop.name)
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    for _ in range(2):
        shop.make_noise(20)
        assert reader.latestOffset(start, limit) == start
    shop.send(1, noise=3)
    end = reader.latestOffset(start, limit)
    (part,) = reader.partitions(start, end)
    assert sum(batch.num_rows for batch in reader.read(part)) == 1
    shop.make_noise(20)
    monkeypatch.setattr(planner, "REFRESH_S", -1)
    moved = reader.latestOffset(end, limit)
    assert moved != end, "a position that grows old is left behind"
    assert reader.partitions(end, moved) == []


def test_a_position_that_is_gone_ends_the_query_or_is_skipped_as_told(shop: Shop) -> None:
    class Lost(Journal):
        """A journal whose server has forgotten a position."""

        def ask(self, method: str, path: str, *rest: Any, **options: Any) -> dict[str, Any]:
            if f"from={forgotten}" in path:
                raise DataLoss("the position is no longer kept")
            return super().ask(method, path, *rest, **options)

    forgotten = shop.journal.ends()[0].oldest
    shop.send(1, 2)
    end = {"0": shop.journal.ends()[0].next}
    for lossy in ("true", "false"):
        reader = reader_of(shop, queue=shop.name, failOnDataLoss=lossy)
        reader.options = reader.options._replace(journal=Lost(*shop.journal))
        if lossy == "true":
            with pytest.raises(DataLoss, match="Set failOnDataLoss to false"):
                reader.partitions({"0": forgotten}, end)
        else:
            (part,) = reader.partitions({"0": forgotten}, end)
            assert sum(batch.num_rows for batch in reader.read(part)) == 3


def test_reading_goes_on_behind_the_last_batch_that_came(shop: Shop) -> None:
    class Breaking(Journal):
        """A journal whose answers break off after the first batch."""

        def _batches(self, start: str, stop: str, wanted: Wanted) -> Any:
            for number, found in enumerate(super()._batches(start, stop, wanted)):
                if number == 1 and found[0].num_rows:
                    raise OSError("the answer broke off")
                yield found

    for _ in range(9):
        shop.send_many(1_000)
    ends = shop.journal.ends()[0]
    wanted = Wanted(("message_id",), queues=(shop.name,), kinds=("sent",))
    whole = list(shop.journal.read_positions(ends.oldest, ends.next, wanted, lane=0))
    pieces = list(Breaking(*shop.journal).read_positions(ends.oldest, ends.next, wanted, lane=0))
    ids = [name for batch in pieces for name in batch.column("message_id").to_pylist()]
    assert ids == [name for batch in whole for name in batch.column("message_id").to_pylist()]
    assert len(set(ids)) == len(ids) == 9_000
