"""A store is restored while queries have checkpoints: they stop with a sentence, and what is begun anew is exact."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from couriermq.lake.tables import Lake
from couriermq.spark import pipeline
from couriermq.spark.journal import Journal
from couriermq.spark.rebuilding import rebuild
from couriermq.storage.sqlite import care
from tests.spark.bench import Bench
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow


class Shop(NamedTuple):
    """A store as it was when the copy was made, and queries that have read on since."""

    spark: SparkSession
    folder: Path

    def stream(self, bench: Bench, name: str, **options: str) -> None:
        source = bench.spark.readStream.format("courier").options(**bench.options, **options).load()
        writer = source.writeStream.format("parquet").option("checkpointLocation", str(self.folder / name))
        writer.trigger(availableNow=True).start(str(self.folder / f"{name}-table")).awaitTermination()

    def job(self, server: ServerProcess) -> pipeline.Job:
        return pipeline.Job(Journal(server.url, server.token), self.folder / "lake")


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(spark, tmp_path_factory.mktemp("restored"))
    with start_server(shop.folder / "data", store="sqlite:") as server:
        bench = Bench(spark, server)
        bench.create("orders")
        bench.send("orders", 10)
        shop.stream(bench, "early")
        care.backup(server.data, shop.folder / "copy")
        bench.send("orders", 5, first=10)
        shop.stream(bench, "late")
        shop.stream(bench, "taken", mode="consume", queue="orders", job="billing")
        pipeline.run(spark, shop.job(server))
    return shop


@pytest.fixture(scope="module")
def restored(shop: Shop) -> Iterator[Bench]:
    care.restore(shop.folder / "copy", shop.folder / "again" / "data")
    with start_server(shop.folder / "again", store="sqlite:") as server:
        bench = Bench(shop.spark, server)
        bench.send("orders", 5, first=100)
        yield bench


def test_a_stream_stops_and_says_what_to_do(shop: Shop, restored: Bench) -> None:
    with pytest.raises(StreamingQueryException, match=r"restored from a copy.*new checkpointLocation"):
        shop.stream(restored, "late")
    with pytest.raises(StreamingQueryException, match="restored from a copy"):
        shop.stream(restored, "late", acceptIncarnation="true")  # it has read what was lost


def test_a_stream_that_read_nothing_lost_goes_on_when_it_is_told_to(shop: Shop, restored: Bench) -> None:
    with pytest.raises(StreamingQueryException, match="acceptIncarnation"):
        shop.stream(restored, "early")
    shop.stream(restored, "early", acceptIncarnation="true")
    rows = shop.spark.read.parquet(str(shop.folder / "early-table")).where("kind = 'sent'").collect()
    assert sorted(bytes(row.body).decode() for row in rows) == [f"{n:06}" for n in [*range(10), *range(100, 105)]]
    shop.stream(restored, "early")  # from now on it is of this incarnation


def test_a_job_that_consumes_stops(shop: Shop, restored: Bench) -> None:
    with pytest.raises(StreamingQueryException, match="courier claims free"):
        shop.stream(restored, "taken", mode="consume", queue="orders", job="billing")


def test_the_tables_stop_and_are_exact_when_they_are_made_anew(shop: Shop, restored: Bench) -> None:
    job = shop.job(restored.server)
    with pytest.raises(pipeline.PipelineFailed, match="courier pipeline rebuild"):
        pipeline.run(shop.spark, job)
    rebuild(shop.spark, job)
    events = Lake(shop.folder / "lake").read("events", ["kind"]).column("kind").to_pylist()
    assert (events.count("sent"), events.count("incarnation_began")) == (15, 1)
    pipeline.run(shop.spark, job)
