"""The pipeline from a real server into a lake: restartable anywhere, and readable without Spark."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from courier.journal.schema import NAMES
from courier.spark import pipeline
from courier.spark.journal import Journal, Wanted
from courier.spark.lake import Lake
from tests.spark.test_tables import expected_minutes, message_rows, minute_rows
from tests.support import minutes as plain
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow


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
        span = self.journal.span()
        batches = self.journal.read(span.oldest, span.next, Wanted(NAMES))
        return [event for batch in batches for event in batch.to_pylist()]

    def cursor(self) -> int:
        answer = self.server.session.get(f"{self.server.url}/courier/v1/journal/cursors", timeout=30)
        (cursor,) = answer.json()["cursors"]
        return int(cursor["offset"])


@pytest.fixture
def shop(server: ServerProcess, tmp_path: Path) -> Any:
    with start_server(tmp_path, archive_segment_ms=200) as process:
        yield Shop(process)


def forget_last_commit(lake: Lake) -> None:
    """What a crash after the batch and before Spark's own note of it leaves behind."""
    commits = lake.checkpoint / "commits"
    last = max(commits.glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink()


def check(lake: Lake, events: list[dict[str, Any]]) -> None:
    assert message_rows(lake) == plain.messages(events)
    assert minute_rows(lake) == expected_minutes(events)
    offsets = ds.dataset(lake.root / "events", partitioning="hive").to_table(columns=["offset"]).column("offset")
    assert sorted(offsets.to_pylist()) == list(range(len(events)))


def test_the_pipeline_goes_on_where_it_was_and_doubles_nothing(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    job, lake = pipeline.Job(shop.journal, tmp_path / "lake"), Lake(spark, tmp_path / "lake")
    seen: list[pipeline.Progress] = []
    shop.live()
    pipeline.run(spark, job, report=seen.append)
    first = shop.events()
    assert shop.cursor() == len(first)
    forget_last_commit(lake)
    shop.live()
    pipeline.run(spark, job._replace(rows_per_batch=20))
    events = shop.events()
    assert len(events) > len(first)
    check(lake, events)
    assert shop.cursor() == len(events)
    assert (seen[0].events, seen[0].offset, seen[0].backlog) == (len(first), len(first), 0)
    # What is there can be read by anybody, and is nothing but tables.
    assert ds.dataset(lake.root / "messages", partitioning="hive").count_rows() == 20
    visible = {path.name for path in lake.root.iterdir()} - {"_checkpoint", "_staging"}
    assert visible == {"events", "messages", "queue_minutes"}
    files = [path for name in visible for path in (lake.root / name).rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".parquet"}


def test_the_command_takes_in_what_there_is_and_says_how_much(shop: Shop, tmp_path: Path) -> None:
    shop.live()
    environ = os.environ | {"COURIER_URL": shop.server.url, "COURIER_TOKEN": shop.server.token}
    command = [sys.executable, "-m", "courier.cli", "pipeline", "run", "--once", "--lake", str(tmp_path / "lake")]
    done = subprocess.run([*command, "--master", "local[2]", "--json"], env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    count = len(shop.events())
    assert json.loads(lines[0])["events"] == count
    assert json.loads("".join(lines[1:]))["events"] == count
    rows = ds.dataset(tmp_path / "lake" / "queue_minutes", partitioning="hive").to_table().to_pylist()
    assert sum(row["sent"] for row in rows if row["queue"] == "orders") == 10
    wrong = subprocess.run(command, env=environ | {"COURIER_TOKEN": "wrong"}, capture_output=True, check=False)
    assert (wrong.returncode, len(wrong.stderr.splitlines())) == (4, 1)
