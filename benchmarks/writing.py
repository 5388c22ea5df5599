"""A Spark stream that writes into a queue, by the broker's own intake of batches."""

import itertools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import Bench, check_stored
from benchmarks.client import BODY, QUEUES, Client
from benchmarks.load import Request
from benchmarks.measure import Row, alternate
from benchmarks.processes import TOKEN, Courier
from benchmarks.spark import tree_cpu_s

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES = 4
ROWS = 100_000
"""Of each batch."""


def stream_write(bench: Bench) -> list[Row]:
    """What a query takes from the first trigger to the last, its start left out: that is Spark's own."""
    from couriermq.spark.session import open_session  # noqa: PLC0415 - an extra that the other rows do without

    batch = bench.file({"messages": [{"body": BODY}] * 100})
    request = Request("POST", f"{QUEUES}/orders/messages", batch, messages=100)
    place = bench.new_data()
    _make_files(place / "in")
    spark = open_session("local[2]", name="benchmarks", conf={"spark.local.dir": str(place / "local")})
    try:
        with bench.courier() as (server, client):
            client.create_queue("orders")
            client.create_queue("written")
            meter = bench.send_meter(server, request, connections=32)
            stream = _Stream(spark, server, place)
            turns = alternate(meter, [stream], rounds=bench.rounds)
            later = Client(server.port)  # the first connection has been idle for too long
            check_stored(later, [meter])
            _check(later.waiting("written"), stream.written)
    finally:
        spark.stop()
        shutil.rmtree(place)
    return [
        Row(
            name="spark-write",
            what=f"Spark stream into a queue, {ROWS:,} messages a batch",
            value=turns.figure(),
            unit="messages/s",
            reference="batch-100",
            ratios=turns.ratios(),
            bar=0.5,
            cpu_us=stream.cpu_us,
        )
    ]


def _make_files(folder: Path) -> None:
    folder.mkdir(parents=True)
    table = pa.table({"body": pa.array([BODY] * ROWS, pa.string())})
    for number in range(BATCHES):
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=ROWS // 2)


def _check(found: int, written: int) -> None:
    if found != written:
        raise SystemExit(f"Spark has written {written} messages, and {found} are in the queue")


class _Stream:
    """Each call is a query of its own over the same files; gives messages a second."""

    def __init__(self, spark: "SparkSession", server: Courier, place: Path) -> None:
        self._spark = spark
        self._server = server
        self._place = place
        self._names = itertools.count()
        self.written = 0
        self._cpu_s = 0.0

    @property
    def cpu_us(self) -> float:
        """Of Spark and of the server, both children of this process."""
        return self._cpu_s * 1e6 / self.written

    def __call__(self) -> float:
        before = tree_cpu_s(os.getpid())
        options = {"url": f"http://127.0.0.1:{self._server.port}", "token": TOKEN, "queue": "written"}
        files = self._spark.readStream.schema("body STRING").option("maxFilesPerTrigger", 1)
        frame = files.parquet(str(self._place / "in"))
        writer = frame.writeStream.format("courier").options(**options)
        writer = writer.option("checkpointLocation", str(self._place / f"checkpoint-{next(self._names)}"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        self._cpu_s += tree_cpu_s(os.getpid()) - before
        batches = [progress for progress in query.recentProgress if progress.numInputRows]
        self.written += BATCHES * ROWS
        seconds = sum(progress.durationMs["triggerExecution"] for progress in batches) / 1_000
        return sum(progress.numInputRows for progress in batches) / seconds
