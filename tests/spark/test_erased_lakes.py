"""Erasing from, and replaying out of, tables that the pipeline has made, by the commands that people give."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from couriermq.lake import tables
from couriermq.spark import pipeline, rebuilding
from couriermq.spark.lake import Lake, Terms
from couriermq.spark.stores.base import FORMATS
from tests.spark.conftest import Courier
from tests.spark.test_pipeline import Shop
from tests.spark.test_tables import everything
from tests.support.eventually import eventually_sync
from tests.support.server import environ, start_server
from tests.support.soak import sized

pytestmark = pytest.mark.slow

PEOPLE = ("ada", "bob", "cyd")


class Accepting(BaseHTTPRequestHandler):
    """A listener that takes everything."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def listener() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Accepting) as taker:
        threading.Thread(target=taker.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{taker.server_port}/"
        taker.shutdown()


class Bureau(Shop):
    """A shop whose orders bear the names of people, and are also delivered to a listener."""

    def live_with(self, name: str, people: tuple[str, ...] = PEOPLE) -> None:
        """Each person has four orders: one is acked, two die, one is in hand."""
        orders = [
            {"id": f"{name}-{who}-{n}", "body": f"secret of {who}", "attributes": {"user": who}}
            for n in range(4)
            for who in people
        ]
        self.post("/orders/messages", {"messages": orders})
        receipts = self.receive(len(orders))
        dying = slice(len(people), 3 * len(people))
        self.post("/orders/ack", {"receipts": receipts[: len(people)]})
        self.post("/orders/release", {"receipts": receipts[dying]})
        self.post("/orders/release", {"receipts": self.receive(2 * len(people))})
        self.await_deliveries()

    def await_deliveries(self) -> None:
        """Until the listener has had its copies, so that the journal rests."""
        eventually_sync(
            lambda: Counter(event["kind"] for event in self.events() if (event["queue"] or "").startswith("~")),
            lambda copies: copies["sent"] == copies["acked"],
            seconds=60,
        )

    def receive(self, limit: int) -> list[str]:
        leases = self.post("/orders/receive", {"limit": limit, "lease_ms": 3_600_000})["leases"]
        return [lease["receipt"] for lease in leases]

    def command(self, lake: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        given = environ(url=self.server.url, token=self.server.token, data=self.server.data, lake=lake)
        command = [sys.executable, "-m", "couriermq.cli", *arguments, "--json", "--yes"]
        return subprocess.run(command, env=given, capture_output=True, text=True, check=False, timeout=120)

    def erase(self, lake: Path, who: str) -> dict[str, Any]:
        done = self.command(lake, "erase", "--attribute", f"user={who}", "--wait", "60s")
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    def replay(self, lake: Path, courier: Courier) -> list[str]:
        """Send Monday's dead again, to another queue; returns what is there then."""
        where = "message_id LIKE 'monday%' OR message_id LIKE 'erased%'"
        arguments = ["--from", "dead_letters", "--where", where, "--to", "again", "--lake", lake, "--yes"]
        done = courier("replay", *arguments, **self.variables)
        assert done.returncode == 0, done.stderr
        url = f"{self.server.url}/courier/v1/tenants/default/queues/again/messages"
        return [message["id"] for message in self.server.session.get(url, timeout=30).json()["messages"]]


@pytest.fixture
def bureau(tmp_path: Path, listener: str, engine: str) -> Iterator[Bureau]:
    with start_server(tmp_path, engine=engine, archive_segment_ms=200, delivery_allow="127.0.0.0/8") as process:
        bureau = Bureau(process)
        bureau.post("", {"name": "again"})
        bureau.post("/orders/listeners", {"name": "copies", "url": listener})
        yield bureau


def told_anywhere(folder: Path, who: str) -> list[Path]:
    """Every Parquet file below a folder, in use or not, that still holds something of a person."""
    told = who.encode()
    return [
        file
        for file in folder.rglob("*.parquet")
        if any(told in str(value).encode() for row in pq.ParquetFile(file).read().to_pylist() for value in row.values())
    ]


def others(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """The rows that speak of nobody who was erased."""
    return {table: [row for row in rows if "ada" not in row and "erased" not in row] for table, rows in found.items()}


LATE = re.compile(r"kind='(signed_in|denied|secret_read|record_\w+)'")
"""Events that the server writes by itself a while after what they tell of: a rebuild may find one more of them."""


def lasting(found: dict[str, list[str]]) -> dict[str, list[str]]:
    return {table: [row for row in rows if not LATE.search(row)] for table, rows in found.items()}


@pytest.mark.parametrize("kind", sized(("parquet",), FORMATS))
def test_what_is_erased_stays_away_while_the_pipeline_goes_on_and_when_it_rebuilds(
    spark: SparkSession, courier: Courier, bureau: Bureau, tmp_path: Path, kind: str
) -> None:
    root = tmp_path / "lake"
    job, lake = pipeline.Job(bureau.journal, root, format=kind), Lake(spark, root, Terms(kind))
    bureau.live_with("monday")
    pipeline.run(spark, job)
    before = everything(lake)
    assert {"events", "messages", "dead_letters"} == {name for name, rows in before.items() if "ada" in str(rows)}
    shutil.copytree(root / "events", root / "_staging" / "events" / "try")  # as a run that was killed leaves it

    done = bureau.erase(root, "ada")
    assert (len(done["seqs"]), done["live_removed"], done["complete"]) == (4, 3, True)
    assert all(sum(one["rows"] for one in done["tables"][name]) for name in ("events", "messages", "dead_letters"))
    assert told_anywhere(root, "ada") == told_anywhere(bureau.server.data / "archive", "ada") == []
    assert others(everything(lake)) == others(before)

    bureau.live_with("tuesday", ("bob", "cyd"))
    pipeline.run(spark, job)
    found = everything(lake)
    assert "tuesday-bob-0" in str(found["messages"])
    assert told_anywhere(root, "ada") == []
    assert bureau.replay(root, courier) == ["monday-bob-1", "monday-cyd-1", "monday-bob-2", "monday-cyd-2"]
    pipeline.run(spark, job)
    found = everything(lake)
    assert sum("queue='again'" in row for row in found["messages"]) == 4
    rebuilding.rebuild(spark, job)
    assert lasting(everything(lake)) == lasting(found)
    assert told_anywhere(root, "ada") == []


def test_a_rebuild_that_died_before_its_tables_were_in_place_brings_nothing_back(
    spark: SparkSession, bureau: Bureau, tmp_path: Path
) -> None:
    root = tmp_path / "lake"
    job = pipeline.Job(bureau.journal, root)
    bureau.live_with("monday")
    pipeline.run(spark, job)
    pipeline.run(spark, job._replace(lake=root / rebuilding.FRESH))
    rebuilding.mark_complete(root / rebuilding.FRESH)
    bureau.erase(root, "ada")
    rebuilding.finish(root)
    pipeline.run(spark, job)
    assert told_anywhere(root, "ada") == []
    assert tables.Lake(root).has("messages")
