"""Messages of the past, sent again: those that were asked for, once, and no others."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from couriermq.lake.tables import Lake
from couriermq.spark import replay as job
from tests.spark.conftest import Courier
from tests.support.lakes import read_journal, write_tables
from tests.support.server import ServerProcess, environ, start_server

pytestmark = pytest.mark.slow

T = "/courier/v1/tenants/default"
COMMAND = [sys.executable, "-m", "couriermq.cli", "replay"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, engine: str) -> Iterator[ServerProcess]:
    """3,000 orders of which every third is done, some for Europe; and a lake that knows of them."""
    with start_server(tmp_path_factory.mktemp("shop"), engine=engine) as server:
        call = server.session
        for name in ("orders", "again", "secret"):
            settings = {"archive_bodies": name != "secret"}
            call.post(f"{server.url}{T}/queues", json={"name": name, "settings": settings}, timeout=30)
        for start in range(0, 3_000, 1_000):
            messages = [
                {"id": f"o{n}", "body": f"order {n}", "attributes": {"region": "eu" if n % 2 else "us"}}
                for n in range(start, start + 1_000)
            ]
            call.post(f"{server.url}{T}/queues/orders/messages", json={"messages": messages}, timeout=30)
        call.post(f"{server.url}{T}/queues/secret/messages", json={"body": "unknown"}, timeout=30)
        leases = call.post(f"{server.url}{T}/queues/orders/receive", json={"limit": 1_000}, timeout=30).json()["leases"]
        receipts = [lease["receipt"] for lease in leases]
        call.post(f"{server.url}{T}/queues/orders/ack", json={"receipts": receipts}, timeout=30)
        write_tables(server.data / "lake", read_journal(server))
        yield server


def files(lake: Lake, table: str) -> dict[str, list[str]]:
    return {name: [str(path) for path in lake.files(name)] for name in (table, "events")}


@pytest.mark.parametrize(
    ("table", "where", "expected"),
    [
        ("messages", "outcome = 'acked'", [f"o{n}" for n in range(1_000)]),
        ("messages", "queue = 'orders' AND outcome = 'open' AND seq % 500 = 0", ["o1499", "o1999", "o2499", "o2999"]),
        ("events", "kind = 'received' AND message_id IN ('o5', 'o7', 'o2500')", ["o5", "o7"]),
        ("events", "get_json_object(detail, '$.attributes.region') = 'eu' AND seq < 6", ["o1", "o3"]),
        ("messages", "queue = 'nowhere'", []),
    ],
)
def test_a_condition_on_a_table_finds_messages_as_they_were_sent(
    spark: SparkSession, shop: ServerProcess, table: str, where: str, expected: list[str]
) -> None:
    lake = Lake(shop.data / "lake")
    found = job.chosen(spark, files(lake, table), lake.root, table=table, where=where, tenant="default")
    rows = found.orderBy("seq").collect()
    assert [row.message_id for row in rows] == expected
    assert [bytes(row.body).decode() for row in rows] == [f"order {name[1:]}" for name in expected]
    assert {json.loads(row.attributes)["region"] for row in rows} <= {"eu", "us"}
    assert job.chosen(spark, files(lake, table), lake.root, table=table, where=where, tenant="other").count() == 0


def test_bodies_that_are_not_kept_are_counted_and_left_out(
    spark: SparkSession, shop: ServerProcess, tmp_path: Path
) -> None:
    lake = Lake(shop.data / "lake")
    where = "queue = 'secret' OR message_id = 'o3'"
    found = job.chosen(spark, files(lake, "messages"), lake.root, table="messages", where=where, tenant="default")
    total, count, sample = job.preview(found, table="messages")
    assert (total, count, [row["message_id"] for row in sample]) == (2, 1, ["o3"])
    job.write_down(found, count, tmp_path / "plan", table="messages")
    assert spark.read.parquet(str(tmp_path / "plan")).count() == 1


@pytest.mark.parametrize(
    ("table", "where", "sentence"),
    [
        ("messages", "colour = 'red'", "colour"),
        ("messages", "outcome = ", "Syntax error"),
        ("messages", "CAST(message_id AS INT) > 0", "'o"),
        ("messages", "raise_error('wrong\nthrice')", "wrong"),
        ("queue_minutes", "true", "no messages"),
    ],
)
def test_a_condition_that_makes_no_sense_is_one_sentence(
    spark: SparkSession, shop: ServerProcess, table: str, where: str, sentence: str
) -> None:
    lake = Lake(shop.data / "lake")

    def look() -> None:
        found = job.chosen(spark, files(lake, table), lake.root, table=table, where=where, tenant="default")
        job.preview(found, table=table)

    with pytest.raises(job.ReplayError) as refused:
        look()
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "java" not in str(refused.value)


def run(shop: ServerProcess, *arguments: str) -> "subprocess.Popen[str]":
    given = environ(url=shop.url, token=shop.token, lake=shop.data / "lake")
    command = [*COMMAND, *arguments, "--json", "--master", "local[2]"]
    return subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ids(shop: ServerProcess, queue: str) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        query: dict[str, Any] = {"limit": 1_000, **({"after": after} if after else {})}
        page = shop.session.get(f"{shop.url}{T}/queues/{queue}/messages", params=query, timeout=30).json()
        found += [message["id"] for message in page["messages"]]
        after = page["next"]
        if after is None:
            return found


def test_a_replay_that_is_killed_goes_on_and_sends_each_message_once(shop: ServerProcess) -> None:
    order = ["--from", "messages", "--where", "outcome = 'acked'", "--to", "again", "--yes", "--rate", "200"]
    with run(shop, *order) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if line.startswith("{") and 0 < json.loads(line)["done"] < 1_000:
                first.send_signal(signal.SIGKILL)
                break
        first.wait(60)
    before = ids(shop, "again")
    assert 0 < len(before) < 1_000
    with run(shop, *order[:-2]) as second:
        out, err = second.communicate(timeout=120)
        assert second.returncode == 0, err
    assert json.loads(out)["messages"] == 1_000
    assert json.loads(out)["sent"] == 1_000 - len(before)
    assert ids(shop, "again") == [f"o{n}" for n in range(1_000)]
    with run(shop, *order) as third:
        _, err = third.communicate(timeout=120)
        assert (third.returncode, "give it another --name" in err) == (1, True)
    assert len(ids(shop, "again")) == 1_000


def test_a_preview_sends_nothing(courier: Courier, shop: ServerProcess) -> None:
    before = ids(shop, "again")
    order = ["--from", "events", "--where", "message_id = 'o1'", "--to", "again", "--lake", shop.data / "lake"]
    done = courier("replay", *order, "--preview", "--json", COURIER_URL=shop.url, COURIER_TOKEN=shop.token)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert (shown["found"], shown["sample"][0]["body"]) == (1, "order 1")
    assert ids(shop, "again") == before


def test_a_condition_that_fails_in_the_rows_is_one_sentence_to_its_caller(shop: ServerProcess) -> None:
    where = "CAST(message_id AS INT) > 0"
    with run(shop, "--from", "events", "--where", where, "--to", "again", "--preview") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith("courier: the condition cannot be applied to events: [CAST_INVALID_INPUT]")
