"""Queues into a folder and back, here or elsewhere."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from couriermq.cli import exporting
from couriermq.cli.app import main
from couriermq.cli.connection import Remote
from couriermq.cli.exported import Export, new_message
from couriermq.cli.publishing import publish
from couriermq.clock import SystemClock
from tests.cli.conftest import Courier
from tests.support.server import ServerProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def filled(courier: Courier, tenant: str) -> Courier:
    """A tenant with a queue of messages in every state, and its dead letter queue."""
    courier.ok("queues", "create", "failed")
    courier.ok(
        "queues", "create", "orders", "--dead-letter-queue", "failed", "--max-attempts", "3", "--max-leased", "9"
    )
    for n in range(3):
        courier.ok("send", "orders", f"ready {n}", "--id", f"r{n}", "-a", "region=eu", "-a", f"n={n}")
    courier.ok("send", "orders", "later", "--id", "delayed", "--delay", "1h")
    courier.ok("send", "orders", "-", "--id", "bytes", stdin=b"\xff\x00\xfe")
    courier.ok("receive", "orders", "--limit", "1", "--lease", "1h")
    return courier


def bodies(courier: Courier, queue: str) -> dict[str, tuple[str, dict[str, Any]]]:
    messages = courier.ok("browse", queue, "--limit", "10000", "--json").json
    return {m["id"]: (m.get("body") or m["body_base64"], m["attributes"]) for m in messages}


def test_queues_come_back_as_they_were(filled: Courier, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = filled.ok("export", "--to", out, "--json").json
    assert told == {"export": str(out), "queues": 2, "messages": 5}
    before = bodies(filled, "orders")
    filled.ok("tenants", "create", f"{filled.environ['COURIER_TENANT']}-copy")
    filled.environ["COURIER_TENANT"] += "-copy"
    told = filled.ok("import", out, "--json").json
    assert told == {"queues": 2, "made": 2, "messages": 5, "sent": 5}
    assert bodies(filled, "orders") == before
    queue = filled.ok("queues", "show", "orders", "--json").json
    assert (queue["settings"]["max_attempts"], queue["settings"]["dead_letter_queue"]) == (3, "failed")
    assert queue["settings"]["max_leased"] == 9
    states = {m["id"]: m["state"] for m in filled.ok("browse", "orders", "--json").json}
    assert states == dict.fromkeys(("r0", "r1", "r2", "bytes"), "ready") | {"delayed": "delayed"}


def test_aliases_come_along_unless_the_queue_gets_another_name(courier: Courier, tenant: str, tmp_path: Path) -> None:
    alias = "c" * 32
    courier.ok("queues", "create", "orders")
    courier.ok("queues", "change", "orders", "--alias", f"cloudflare={alias}")
    courier.ok("export", "--to", tmp_path / "out")
    courier.ok("import", tmp_path / "out", "--rename", "orders=copies")
    assert courier.ok("queues", "show", "copies", "--json").json["aliases"] == {}
    courier.ok("tenants", "create", f"{tenant}-copy")
    courier.environ["COURIER_TENANT"] += "-copy"
    courier.ok("import", tmp_path / "out")
    assert courier.ok("queues", "show", "orders", "--json").json["aliases"] == {"cloudflare": alias}


def test_importing_twice_is_importing_once(filled: Courier, tmp_path: Path) -> None:
    filled.ok("export", "orders", "--to", tmp_path / "out")
    filled.ok("import", tmp_path / "out", "--rename", "orders=copies")
    again = filled.ok("import", tmp_path / "out", "--rename", "orders=copies")
    assert "0 of them new, and 0 messages; 5 messages had been sent before" in again.out
    assert len(bodies(filled, "copies")) == 5


def test_an_export_is_parquet_that_anybody_reads(filled: Courier, tmp_path: Path) -> None:
    filled.ok("export", "--to", tmp_path / "out")
    rows = duckdb.execute(
        f"SELECT message_id, state, attempts, body FROM '{tmp_path}/out/messages/*/*.parquet' ORDER BY seq"
    )
    found = rows.fetchall()
    assert [row[0] for row in found] == ["r0", "r1", "r2", "delayed", "bytes"]
    assert found[0][1:] == ("leased", 1, b"ready 0")
    assert (found[3][1], found[4][3]) == ("delayed", b"\xff\x00\xfe")
    found = duckdb.execute(f"SELECT settings FROM '{tmp_path}/out/queues.parquet' WHERE queue = 'orders'").fetchall()
    ((settings,),) = found
    assert json.loads(settings)["max_attempts"] == 3


def test_an_export_that_was_killed_goes_on(
    filled: Courier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in filled.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(exporting, "PAGE", 2)
    monkeypatch.setattr(exporting, "PART_COUNT", 2)
    out = tmp_path / "out"
    copy = exporting._fill
    calls: list[tuple[Any, ...]] = []

    def fail_later(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return copy(*arguments)

    monkeypatch.setattr(exporting, "_fill", fail_later)
    assert main(["export", "orders", "--to", str(out)]) == 130
    assert not (out / "queues.parquet").exists()
    assert main(["import", str(out)]) == 1
    assert main(["export", "failed", "--to", str(out)]) == 1
    monkeypatch.setattr(exporting, "_fill", copy)
    assert main(["export", "orders", "--to", str(out)]) == 0
    assert main(["export", "orders", "--to", str(out)]) == 1
    assert "is complete; name a new folder" in capsys.readouterr().err
    parts = sorted(out.glob("messages/orders/*.parquet"))
    ids = [name for part in parts for name in pq.read_table(part).column("message_id").to_pylist()]
    assert ids == ["r0", "r1", "r2", "delayed", "bytes"]
    assert len(parts) == 3


def test_an_import_that_is_killed_again_and_again_sends_everything_once(
    courier: Courier, tenant: str, tmp_path: Path, server: ServerProcess
) -> None:
    courier.ok("queues", "create", "many")
    lines = b"".join(b"message %d\n" % n for n in range(30_000))
    courier.ok("send", "many", "-", "--lines", stdin=lines)
    courier.ok("export", "many", "--to", tmp_path / "out")
    courier.ok("queues", "create", "again")
    killed = 0
    for patience_s in (0.7, 1.1, 1.4, 1.8, 2.4):
        arguments = ("import", tmp_path / "out", "--rename", "many=again")
        with courier.running(*arguments) as process:
            try:
                process.wait(patience_s)
            except Exception:
                process.send_signal(signal.SIGKILL)
                process.wait(30)
                killed += 1
            else:
                break
    courier.ok("import", tmp_path / "out", "--rename", "many=again")
    counters = server.session.get(f"{server.url}/courier/v1/tenants/{tenant}/queues/again/counters", timeout=60).json()
    assert counters["total_count"] == 30_000
    assert killed, os.times()


def test_what_is_not_an_export_is_told_apart(courier: Courier, tenant: str, tmp_path: Path) -> None:
    assert courier("import", tmp_path).code == 3
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    refused = courier("export", "--to", tmp_path / "full")
    assert (refused.code, refused.err) == (1, f"courier: {tmp_path}/full is not empty; name a new folder\n")
    courier.ok("queues", "create", "one")
    courier.ok("export", "one", "--to", tmp_path / "one")
    missing = courier("import", tmp_path / "one", "two")
    assert (missing.code, missing.err) == (3, "courier: the export has no queue named 'two'\n")


def test_two_queues_that_are_imported_into_one_both_arrive_whole(courier: Courier, tenant: str, tmp_path: Path) -> None:
    for queue, count in (("one", 3), ("two", 2)):
        courier.ok("queues", "create", queue)
        lines = "".join(f"{queue} {n}\n" for n in range(count))
        courier.ok("send", queue, "--lines", stdin=lines.encode())
    courier.ok("export", "--to", tmp_path / "out")
    renamed = ("--rename", "one=both", "--rename", "two=both")
    assert courier.ok("import", tmp_path / "out", *renamed, "--json").json["sent"] == 5
    assert courier.ok("import", tmp_path / "out", *renamed, "--json").json["sent"] == 0
    courier.ok("queues", "create", "again")
    for queue, count in (("one", 3), ("two", 2)):  # each by itself
        again = ("import", tmp_path / "out", queue, "--rename", f"{queue}=again", "--json")
        assert [courier.ok(*again).json["sent"] for _ in range(2)] == [count, 0]
    sent = ["one 0", "one 1", "one 2", "two 0", "two 1"]
    assert [sorted(body for body, _ in bodies(courier, name).values()) for name in ("both", "again")] == [sent, sent]


def test_an_import_that_an_earlier_version_began_goes_on(
    filled: Courier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It published what came from any queue in one series of the target."""
    for name, value in filled.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(exporting, "PAGE", 2)
    monkeypatch.setattr(exporting, "PART_COUNT", 2)
    out = tmp_path / "out"
    assert main(["export", "orders", "--to", str(out)]) == 0
    filled.ok("queues", "create", "copies")
    environ, export = filled.environ, Export(out)
    remote = Remote(url=environ["COURIER_URL"], token=environ["COURIER_TOKEN"], tenant=environ["COURIER_TENANT"])
    note = export.note()
    assert note is not None
    first = export.parts("orders")[0]
    messages = [new_message(row, now=SystemClock().now()) for row in export.messages(first)]
    publish(remote, "copies", f"import-{note.id}", 1, messages)
    told = filled.ok("import", out, "--rename", "orders=copies", "--json").json
    assert (told["messages"], told["sent"]) == (5, 3)
    assert filled.ok("import", out, "--rename", "orders=copies", "--json").json["sent"] == 0
    assert len(bodies(filled, "copies")) == 5


def test_messages_of_one_id_in_a_fifo_queue_all_come_back(courier: Courier, tenant: str, tmp_path: Path) -> None:
    courier.ok("queues", "create", "line", "--kind", "fifo")
    for n in range(2):
        courier.ok("send", "line", str(n), "--id", "order-42", "--dedup-id", f"d{n}")
    courier.ok("export", "line", "--to", tmp_path / "out")
    told = courier.ok("import", tmp_path / "out", "--rename", "line=copies", "--json").json
    assert told["sent"] == 2
    assert courier.ok("import", tmp_path / "out", "--rename", "line=copies", "--json").json["sent"] == 0
    copies = courier.ok("browse", "copies", "--json").json
    assert [(message["id"], message["body"]) for message in copies] == [("order-42", "0"), ("order-42", "1")]
