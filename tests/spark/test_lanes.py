"""Streams and the pipeline while lanes of the journal appear: nothing is lost and nothing comes twice."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from pyspark.sql import SparkSession

from couriermq.lake import tables
from couriermq.spark import pipeline
from couriermq.spark.journal import Journal
from couriermq.spark.lake import Lake, Terms
from couriermq.spark.stores.base import PARQUET
from tests.spark.bench import Bench
from tests.spark.test_tables import read
from tests.spark.test_tenants import Shop
from tests.support.eventually import eventually_sync
from tests.support.laned import COMMAND
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

LANES = ["0", "0.1", "0.2"]
CALLERS = pytest.mark.parametrize("is_root", [True, False], ids=["root", "tenant"])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """One that seals all the time."""
    with start_server(tmp_path, engine="sqlite", command=COMMAND, archive_segment_ms=300) as process:
        yield process


def send(shop: Shop, numbers: range) -> None:
    """Each in a commit of its own, with events of others between them."""
    for number in numbers:
        shop.send(number, noise=1 if number % 3 == 0 else 0)


def lanes_of(query: Any) -> list[str]:
    """The lanes that a query has come to, in the order of its offsets."""
    return [name for name in json.loads(query.lastProgress.sources[0].endOffset) if name != "store"]


def options_of(shop: Shop, *, is_root: bool) -> dict[str, Any]:
    token = {"token": shop.server.token} if is_root else {}
    return shop.options | token | {"queues": shop.name, "tenant": shop.name}


@CALLERS
def test_a_stream_with_a_checkpoint_reads_lanes_that_appeared_since(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, is_root: bool
) -> None:
    shop, done = Shop(spark, server), 0
    for upto in (3, 30, 60, 63, 100):
        send(shop, range(done, upto))
        query = shop.stream(tmp_path / "out", **options_of(shop, is_root=is_root))
        assert shop.bodies(tmp_path / "out") == list(range(upto))
        done = upto
    assert lanes_of(query) == LANES


@CALLERS
def test_a_stream_that_runs_goes_on_in_lanes_that_appear(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, is_root: bool
) -> None:
    shop, out = Shop(spark, server), tmp_path / "out"
    options = options_of(shop, is_root=is_root) | {"maxRecordsPerBatch": 11}
    frame = spark.readStream.format("courier").options(**options).load()
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
    query = writer.start(str(out / "table"))
    try:
        for start in range(0, 100, 50):
            send(shop, range(start, start + 50))
            query.processAllAvailable()
            assert shop.bodies(out) == list(range(start + 50))
        assert lanes_of(query) == LANES
    finally:
        query.stop()


def test_the_pipeline_takes_in_lanes_that_appear_while_it_runs(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    bench, root = Bench(spark, server), tmp_path / "lake"
    bench.create("orders")
    job = pipeline.Job(Journal(server.url, server.token), root)
    left = [range(first, first + 20) for first in reversed(range(0, 120, 20))]

    def send_some() -> bool:
        """Until it has all, and nothing more while it comes to rest."""
        for number in left.pop() if left else ():
            bench.send("orders", 1, first=number)
        return not left

    pipeline.run(spark, job, every_ms=100, stopping=send_some)
    pipeline.run(spark, job)
    lake = Lake(spark, root, Terms(PARQUET))
    spans = job.journal.spans()
    found = sorted(row.offset for row in read(lake, "events").select("offset").collect())
    assert found == [offset for span in spans.values() for offset in range(span.oldest, span.next)]
    assert read(lake, "messages").where("queue = 'orders'").count() == 120
    fresh = tables.Lake(root).freshness()
    assert fresh is not None
    assert fresh.offsets == {name: span.next for name, span in zip(LANES, spans.values(), strict=True)}


def test_a_lane_of_which_events_were_forgotten_before_a_tenants_stream_saw_it_is_data_loss(
    spark: SparkSession, tmp_path: Path
) -> None:
    settings = {"archive_segment_ms": 100, "archive_age_ms": 1_000}
    with start_server(tmp_path, engine="sqlite", command=COMMAND, **settings) as server:
        shop, out = Shop(spark, server), tmp_path / "out"
        root = Journal(server.url, server.token)
        root.advance_cursor("holder", 0)  # no lane forgets anything
        send(shop, range(3))
        shop.stream(out, **options_of(shop, is_root=False))
        authorization = {"Authorization": f"Bearer {server.token}"}
        requests.delete(f"{server.url}/courier/v1/journal/cursors/holder", headers=authorization, timeout=60)
        send(shop, range(3, 60))
        eventually_sync(lambda: root.spans()[1].oldest > 2**41, seconds=60)
        root.advance_cursor("holder", 0)  # from now on no lane forgets anything more
        with pytest.raises(Exception, match="no longer kept"):
            shop.stream(out, **options_of(shop, is_root=False))
        shop.stream(out, **options_of(shop, is_root=False), failOnDataLoss="false")
