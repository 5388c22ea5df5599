"""The pipeline from a real server into a lake: restartable anywhere, and readable without Spark."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from couriermq.cli import main
from couriermq.cli.simulating import make
from couriermq.journal.schema import NAMES
from couriermq.lake import tables
from couriermq.spark import pipeline, rebuilding
from couriermq.spark.journal import Journal, Wanted
from couriermq.spark.lake import CHECKPOINT, Lake, Terms
from couriermq.spark.refreshing import TABLES
from couriermq.spark.stores.base import FORMATS
from tests.spark.conftest import Courier
from tests.spark.killing import Driver, begun, forget_last_commit
from tests.spark.test_tables import check, everything, read
from tests.support.eventually import eventually_sync
from tests.support.server import TLS, ServerProcess, start_server
from tests.support.soak import sized
from tests.support.stores import store_settings

pytestmark = pytest.mark.slow

EVENTS, ROWS = 12_000, 4_000
KILLS = sized(2, 3)
"""Each in a batch of its own."""
CENTURY_MS = 100 * 365 * 86_400_000
"""An archive's age at which a history with old dates is not forgotten."""


class Shop:
    """A server with a little life in it."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.journal = Journal(server.url, server.token)
        self.post("", {"name": "graves"})
        self.post("", {"name": "orders", "settings": {"max_attempts": 2, "dead_letter_queue": "graves"}})

    def post(self, path: str, document: dict[str, Any]) -> Any:
        url = f"{self.server.url}/courier/v1/tenants/default/queues{path}"
        answer = self.server.session.post(url, json=document, timeout=30)
        assert answer.status_code < 300, answer.text
        return answer.json()

    def live(self) -> None:
        """Ten orders come; three are acked, three fail once, the others wait."""
        self.post("/orders/messages", {"messages": [{"body": f"order {n}"} for n in range(10)]})
        receipts = [lease["receipt"] for lease in self.post("/orders/receive", {"limit": 6})["leases"]]
        self.post("/orders/ack", {"receipts": receipts[:3]})
        self.post("/orders/release", {"receipts": receipts[3:]})

    def events(self) -> list[dict[str, Any]]:
        """The journal, read without Spark."""
        span = self.journal.spans()[0]
        batches = self.journal.read(span.oldest, span.next, Wanted(NAMES))
        return [event for batch in batches for event in batch.to_pylist()]

    def cursor(self) -> int:
        answer = self.server.session.get(f"{self.server.url}/courier/v1/journal/cursors", timeout=30)
        (cursor,) = answer.json()["cursors"]
        return int(cursor["offset"])

    @property
    def variables(self) -> dict[str, str]:
        return {"COURIER_URL": self.server.url, "COURIER_TOKEN": self.server.token}

    @property
    def environ(self) -> dict[str, str]:
        return os.environ | self.variables


@pytest.fixture
def shop(tmp_path: Path, engine: str) -> Any:
    with start_server(tmp_path, engine=engine, archive_segment_ms=200) as process:
        yield Shop(process)


@pytest.mark.parametrize("kind", FORMATS)
def test_the_pipeline_goes_on_where_it_was_and_doubles_nothing(
    spark: SparkSession, shop: Shop, tmp_path: Path, kind: str
) -> None:
    root = tmp_path / "lake"
    job, lake = pipeline.Job(shop.journal, root, format=kind), Lake(spark, root, Terms(kind))
    seen: list[pipeline.Progress] = []
    shop.live()
    pipeline.run(spark, job, report=seen.append)
    first = shop.events()
    assert shop.cursor() == len(first)
    assert (seen[0].events, seen[0].offset, seen[0].backlog) == (len(first), len(first), 0)
    shop.live()
    pipeline.run(spark, job)
    found = everything(lake)
    forget_last_commit(lake.checkpoint)
    pipeline.run(spark, job)
    assert everything(lake) == found
    events = shop.events()
    check(lake, events)
    assert shop.cursor() == len(events) > len(first)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_rebuilt_lake_has_the_same_rows_and_a_compacted_one_too(
    spark: SparkSession, shop: Shop, tmp_path: Path, kind: str
) -> None:
    root = tmp_path / "lake"
    job, lake = pipeline.Job(shop.journal, root, format=kind), Lake(spark, root, Terms(kind))
    for _ in range(3):
        shop.live()
        pipeline.run(spark, job)
    found = everything(lake)
    files, newest = tables.Lake(root).files("events"), max((root / "events").glob("batch=*"))
    kept = [file for file in files if file.parent == newest]
    assert lake.store.compact("events") == (len(files), 1 + len(kept))
    assert everything(lake) == found
    # The newest batch was left as it is: done again after a kill, it finds its own rows and no others.
    assert lake.store.batch_files("events", 2) == sorted(kept)
    (schema,) = {str(pq.read_schema(file)) for file in tables.Lake(root).files("events")}
    assert "at: timestamp[us, tz=UTC]" in schema  # a file that was put together is like the others
    shop.live()
    pipeline.run(spark, job)
    found = everything(lake)
    rebuilding.rebuild(spark, job)
    assert everything(lake) == found
    assert not (root / "_rebuild").exists()
    # A lake without its notes is not touched.
    shutil.rmtree(root / CHECKPOINT)
    with pytest.raises(pipeline.PipelineFailed, match="run `courier pipeline rebuild`"):
        pipeline.run(spark, job)
    assert everything(lake) == found
    rebuilding.rebuild(spark, job)
    assert everything(lake) == found
    shop.live()
    pipeline.run(spark, job)
    check(lake, shop.events())


def query(lake: Path, sql: str) -> list[tuple[Any, ...]]:
    """As DuckDB answers it; a table is named in braces."""
    tables = {name: f"read_parquet('{lake / name}/**/*.parquet', union_by_name=true)" for name in TABLES}
    with duckdb.connect() as connection:
        return connection.execute(sql.format(**tables)).fetchall()


def make_history(data: Path, engine: str) -> None:
    """A long one, in the archive of a store on the engine."""
    make(data, events=EVENTS, seed=5, until=1_790_000_000_000)
    if engine != "sqlite":
        assert main(["migrate", "--from", f"sqlite:{data}", "--to", store_settings(data, engine)["store"]]) == 0


def look(lake: Path) -> None:
    """Whatever moment it is: files are whole and are tables' own, and no row is there twice."""
    for name in TABLES:
        files = [path for path in (lake / name).rglob("*") if path.is_file()]
        assert {path.suffix for path in files} <= {".parquet"}, files
        assert all(not path.name.startswith((".", "_")) for path in files)
    keys = {"events": '"offset"', "messages": "seq", "queue_minutes": "tenant, queue, minute"}
    for name, key in keys.items():
        if any((lake / name).rglob("*.parquet")):
            assert query(lake, f"SELECT {key} FROM {{{name}}} GROUP BY ALL HAVING count(*) > 1") == []


def test_a_pipeline_that_is_killed_again_and_again_leaves_exact_tables_that_anybody_can_read(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    lake, chance = tmp_path / "lake", random.Random(7)
    make_history(tmp_path / "data", engine)
    with start_server(tmp_path, engine=engine, archive_age_ms=CENTURY_MS) as server:
        shop = Journal(server.url, server.token)
        arguments = ["-m", "tests.spark.jobs.run_pipeline", "local[2]", server.url, server.token, str(ROWS), str(lake)]
        driver = Driver(arguments, tmp_path / "job.log")
        for batch in range(KILLS):
            driver.start()
            eventually_sync(lambda: begun(lake / CHECKPOINT), batch.__le__, seconds=120)
            time.sleep(chance.uniform(0, 4))
            driver.kill()
            look(lake)
        pipeline.run(spark, pipeline.Job(shop, lake, rows_per_batch=ROWS))  # another driver, on another Spark
        look(lake)
        span = shop.spans()[0]
        assert span.oldest == 0
        events = [e for batch in shop.read(span.oldest, span.next, Wanted(NAMES)) for e in batch.to_pylist()]
    kept = Lake(spark, lake)
    (count,) = query(lake, 'SELECT max("offset") + 1 FROM {events}')[0]
    assert EVENTS <= count <= len(events)
    check(kept, events[:count])
    sums = "sum(sent), sum(acked), sum(backlog), sum(oldest_age_ms), count(*)"
    ours = read(kept, "queue_minutes").selectExpr(*sums.split(", ")).first()
    assert query(lake, f"SELECT {sums} FROM {{queue_minutes}}") == [tuple(ours or ())]


def test_the_command_takes_in_what_there_is_and_says_how_much(shop: Shop, tmp_path: Path) -> None:
    shop.live()
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "couriermq.cli", "pipeline", "run", "--lake", str(lake)]
    local = [*command, "--master", "local[2]", "--json"]
    done = subprocess.run([*local, "--once"], env=shop.environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    count = len(shop.events())
    assert json.loads(done.stdout) == {"events": count, "lake": str(lake)}
    *_, last = (json.loads(line) for line in done.stderr.decode().splitlines())
    assert (last["done"], last["ended"]) == (count, "done")
    rows = ds.dataset(lake / "queue_minutes", partitioning="hive").to_table().to_pylist()
    assert sum(row["sent"] for row in rows if row["queue"] == "orders") == 10
    wrong = subprocess.run(command, env=shop.environ | {"COURIER_TOKEN": "wrong"}, capture_output=True, check=False)
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (4, 1)


def test_a_server_of_an_authority_of_ones_own_is_trusted_by_command_and_tasks(
    courier: Courier, tmp_path: Path, engine: str
) -> None:
    lake, authority = tmp_path / "lake", TLS / "cert.pem"
    with start_server(tmp_path, engine=engine, tls_cert=authority, tls_key=TLS / "key.pem") as server:
        command = ["pipeline", "run", "--lake", lake, "--master", "local[2]", "--json", "--ca-file", authority]
        done = courier(*command, COURIER_URL=server.url, COURIER_TOKEN=f"{server.token}\n")
    assert done.returncode == 0, done.stderr
    rows = ds.dataset(lake / "events", partitioning="hive").to_table().num_rows
    assert rows == json.loads(done.stdout)["events"] > 0


def test_a_lake_of_delta_tables_stays_one(courier: Courier, shop: Shop, tmp_path: Path) -> None:
    shop.live()
    lake = tmp_path / "lake"
    for command in (["run", "--format", "delta"], ["run"], ["rebuild"]):
        done = courier("pipeline", *command, "--lake", lake, "--master", "local[2]", **shop.variables)
        assert done.returncode == 0, done.stderr
    assert (lake / "messages" / "_delta_log").is_dir()
    assert DeltaTable(lake / "messages").to_pyarrow_table().num_rows > 0


def test_a_running_pipeline_keeps_others_out_and_ends_well_when_it_is_told_to(shop: Shop, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    command = [sys.executable, "-m", "couriermq.cli", "pipeline", "run", "--lake", str(lake), "--master", "local[2]"]
    shop.live()
    with subprocess.Popen([*command, "--every", "1s"], env=shop.environ, stderr=subprocess.PIPE) as service:
        try:
            eventually_sync(lambda: list((lake / "tenant_usage").rglob("*.parquet")), seconds=120)
            second = subprocess.run(command, env=shop.environ, capture_output=True, check=False)
            assert (second.returncode, second.stderr.count(b"\n")) == (1, 1)
            assert b"another pipeline is at work" in second.stderr
            service.send_signal(signal.SIGTERM)
            assert service.wait(60) == 0, service.stderr and service.stderr.read()
        finally:
            service.kill()
