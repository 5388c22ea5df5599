"""Messages that are read through kill -9 of everybody arrive exactly once, as they were sent."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.killing import dice, run_through
from tests.support.ports import free_port
from tests.support.server import ServerProcess, start_server
from tests.support.soak import sized

pytestmark = pytest.mark.slow

MESSAGES = sized(8_000, 150_000)
BATCHES = sized(8, 30)
AT_A_TIME = 1_000


def body_of(number: int) -> str:
    """A text that nobody writes by accident, of a length of its own."""
    return f"{number} {hashlib.sha256(str(number).encode()).hexdigest()[: number % 64]}"


def send_all(server: ServerProcess, queue: str, count: int) -> None:
    session, queues = server.session, f"{server.url}/courier/v1/tenants/default/queues"
    assert session.post(queues, json={"name": queue}, timeout=30).status_code == 201
    for first in range(0, count, AT_A_TIME):
        numbers = range(first, first + AT_A_TIME)
        messages = [{"body": body_of(number), "attributes": {"n": number}} for number in numbers]
        answer = session.post(f"{queues}/{queue}/messages", json={"messages": messages}, timeout=60)
        assert answer.status_code == 200, answer.text


def test_a_stream_of_messages_is_exact_through_kills(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    count = MESSAGES
    settings: dict[str, Any] = {"port": free_port(), "archive_segment_ms": 700, "archive_segment_bytes": 2_000_000}
    with start_server(tmp_path, engine=engine, **settings) as server:
        send_all(server, "orders", count)
        out = tmp_path / "out"
        command = ["-m", "tests.spark.jobs.read_messages", "local[2]", server.url, server.token, "orders"]
        kills = dice(1, batches=BATCHES)
        log = tmp_path / "job.log"
        run_through([*command, str(count // BATCHES), str(out)], out / "checkpoint", server, kills, log=log)
    rows = spark.read.parquet(str(out / "table")).select("body", "attributes", "seq").toArrow().to_pylist()
    assert len(rows) == count
    assert len({row["seq"] for row in rows}) == count
    found = {row["body"].decode(): row["attributes"] for row in rows}
    assert found == {body_of(number): f'{{"n":{number}}}' for number in range(count)}
