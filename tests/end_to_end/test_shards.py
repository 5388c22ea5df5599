"""A store on two databases, operated from the command line while programs use it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from couriermq.core.shards import first_of, shard_of
from tests.cli.conftest import Courier, Run
from tests.support.eventually import eventually_sync
from tests.support.ports import free_port
from tests.support.postgres import shared_cluster
from tests.support.server import ServerProcess, start_server

PATIENCE_S = 30.0
QUEUE = "/courier/v1/tenants/default/queues/orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two nodes on a store of two databases, with an archive that both reach."""
    home, second = (shared_cluster().store_url(tmp_path / name) for name in ("home", "second"))
    settings: dict[str, Any] = {"store": home, "archive": tmp_path / "archive", "archive_segment_ms": 200}
    with (
        start_server(tmp_path / "a", **settings) as one,
        start_server(tmp_path / "b", port=free_port(), **settings) as other,
    ):
        added = command(one).ok("shards", "add", "second", second, "--weight", 1)
        assert "number 1" in added.out
        yield [one, other]
    for name in ("home", "second"):
        shared_cluster().empty(tmp_path / name)


def command(server: ServerProcess) -> Courier:
    return Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token)


class Traffic:
    """Sends through one node and receives through the other until it is stopped, then receives the rest."""

    def __init__(self, sender: ServerProcess, receiver: ServerProcess) -> None:
        self.sent: list[str] = []
        self.received: list[str] = []
        self._sender = sender
        self._receiver = receiver
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _send(self) -> None:
        session = self._sender.session
        while not self._stop.is_set():
            number = f"{len(self.sent)}"
            document = {"messages": [{"body": number, "id": number, "group": "g"}]}
            answer = session.post(self._sender.url + QUEUE + "/messages", json=document)
            assert answer.status_code in {200, 503}, answer.text
            if answer.status_code == 200:
                self.sent.append(number)
            else:
                assert answer.headers["Retry-After"]

    def _receive(self) -> None:
        session, url = self._receiver.session, self._receiver.url + QUEUE
        while not self._stop.is_set() or len(self.received) < len(self.sent):
            answer = session.post(url + "/receive", json={"limit": 10, "wait_ms": 100})
            if answer.status_code == 503:
                continue
            for lease in answer.json()["leases"]:
                self._settle(session, url, lease)

    def _settle(self, session: object, url: str, lease: dict[str, object]) -> None:
        order = {"receipt": lease["receipt"]}
        while True:
            answer = session.post(url + "/ack", json=order)  # type: ignore[attr-defined]
            if answer.status_code != 503:
                assert answer.status_code == 200, answer.text
                self.received.append(lease["message"]["id"])  # type: ignore[index]
                return


@pytest.mark.slow
def test_a_fifo_queue_moves_between_databases_under_load(cluster: list[ServerProcess]) -> None:
    one, other = cluster
    courier = command(one)
    assert courier("shards", "move", "orders", "--to", "second").code == 3
    courier.ok("queues", "create", "orders", "--kind", "fifo")
    with Traffic(one, other) as traffic:
        for place in ("second", "home"):
            moved = courier.ok("shards", "move", "orders", "--to", place, "--json").json
            assert (moved["progress"], moved["to_shard"]) == ("done", place)
    assert traffic.received == traffic.sent
    assert len(traffic.sent) > 20


@pytest.mark.slow
def test_shards_are_weighed_and_drained_from_the_command_line(cluster: list[ServerProcess]) -> None:
    one, other = cluster
    courier = command(one)
    courier.ok("shards", "weight", "home", 0)
    for name in ("a", "b"):
        courier.ok("queues", "create", name)
        courier.ok("send", name, f"body of {name}")
    listed = {shard["name"]: shard for shard in courier.ok("shards", "list", "--json").json["shards"]}
    assert [(listed[name]["weight"], listed[name]["queue_count"]) for name in ("home", "second")] == [(0, 0), (1, 2)]
    courier.ok("shards", "weight", "home", 1)
    drained = courier.ok("shards", "drain", "second", "--json").json
    assert (drained["queue_count"], drained["draining"]) == (0, True)
    for name in ("a", "b"):
        assert f"body of {name}" in command(other).ok("receive", name, "--json").out


@pytest.mark.slow
def test_a_tail_follows_a_queue_on_whichever_shard_it_is(cluster: list[ServerProcess]) -> None:
    one, other = cluster
    courier = command(one)
    courier.ok("shards", "weight", "home", 0)
    courier.ok("queues", "create", "far")
    journal = f"{one.url}/courier/v1/journal"
    eventually_sync(lambda: len(one.session.get(journal, timeout=30).json()["lanes"]) == len(cluster))
    with command(one).running("tail", "far", "--last", 1_000) as tail:
        assert tail.stdout is not None
        courier.ok("send", "far", "x", "--id", "m1")
        assert "sent" in next(line for line in tail.stdout if "m1" in line)
        succeeds(lambda: command(other)("receive", "far", "--ack"))
        assert "acked" in next(line for line in tail.stdout if "acked" in line)


def succeeds(look: Callable[[], Run]) -> Run:
    """A command once it succeeds: nodes hear of each other's changes within a second."""
    return eventually_sync(look, lambda run: run.code == 0, seconds=PATIENCE_S)


@pytest.mark.slow
def test_a_shard_is_found_again_at_another_address(cluster: list[ServerProcess], tmp_path: Path) -> None:
    one, other = cluster
    courier, database = command(one), shared_cluster()
    courier.ok("shards", "weight", "home", 0)
    courier.ok("queues", "create", "orders")
    courier.ok("send", "orders", "kept")
    schema, empty = database._schemas[tmp_path / "second"], database.store_url(tmp_path / "empty")
    refused = courier("shards", "address", "second", empty)
    assert (refused.code, "it lacks queue 'orders'" in refused.err) == (1, True), refused.err
    assert "--store" in courier("shards", "address", "home", empty).err
    database.execute(f"ALTER SCHEMA {schema} RENAME TO promoted")  # as if a standby had taken over elsewhere
    try:
        courier.ok("shards", "address", "second", database.url("promoted"))
        assert "kept" in succeeds(lambda: command(other)("browse", "orders")).out
        courier.ok("send", "orders", "new")
        assert succeeds(lambda: command(other)("receive", "orders", "--limit", 2, "--json")).out.count("body") >= 2
        one.restart()
        assert command(one).ok("shards", "list", "--json").json["shards"][1]["trouble"] is None
    finally:
        for node in cluster:
            node.kill()
        database.execute(f"ALTER SCHEMA promoted RENAME TO {schema}")
        database.empty(tmp_path / "empty")


@pytest.mark.slow
def test_a_shard_that_is_drained_and_empty_is_removed_and_its_events_stay_readable(
    cluster: list[ServerProcess], tmp_path: Path
) -> None:
    one, other = cluster
    courier = command(one)
    courier.ok("shards", "weight", "home", 0)
    courier.ok("queues", "create", "orders")
    courier.ok("send", "orders", "kept")
    assert "drain it first" in courier("shards", "remove", "second", "--yes", "--forget-journal").err
    assert "cannot be removed" in courier("shards", "remove", "home", "--yes", "--forget-journal").err
    courier.ok("shards", "drain", "second")
    succeeds(lambda: courier("shards", "remove", "second", "--yes"))  # as soon as its journal is sealed
    assert [shard["name"] for shard in courier.ok("shards", "list", "--json").json["shards"]] == ["home"]
    assert "kept" in succeeds(lambda: command(other)("receive", "orders")).out
    one.restart()
    journal = f"{one.url}/courier/v1/journal"
    lanes = [lane for lane in one.session.get(journal, timeout=30).json()["lanes"] if lane["oldest"] >= first_of(1)]
    pages = [one.session.get(f"{journal}/events?from={lane['oldest']}", timeout=30).json() for lane in lanes]
    assert [event["kind"] for page in pages for event in page["events"]] == ["sent"]
    third = shared_cluster().store_url(tmp_path / "third")
    assert "number 2" in command(one).ok("shards", "add", "second", third).out
    for node in cluster:
        node.kill()
    shared_cluster().empty(tmp_path / "third")


@pytest.mark.slow
def test_messages_are_erased_from_the_journals_of_all_shards(cluster: list[ServerProcess], tmp_path: Path) -> None:
    one, other = cluster
    courier, archive = command(one), tmp_path / "archive"
    for place, name in ((0, "close"), (1, "far")):
        courier.ok("shards", "weight", "home", 1 - place)
        courier.ok("shards", "weight", "second", place)
        courier.ok("queues", "create", name)
        for number in range(4):
            courier.ok("send", name, f"secret of {name} {number}", "-a", f"user=u{number % 2}")
    leases = command(other).ok("receive", "far", "--limit", 2, "--json").json
    command(other).ok("ack", "far", *(lease["receipt"] for lease in leases))
    settings = {"COURIER_DATA": str(tmp_path / "elsewhere"), "COURIER_ARCHIVE": str(archive)}
    told = courier.ok("erase", "-a", "user=u1", "--wait", "50s", "--yes", "--json", **settings).json
    assert (told["complete"], told["live_removed"], len(told["seqs"])) == (True, 3, 4)
    assert {shard_of(seq) for seq in told["seqs"]} == {0, 1}
    bodies = duckdb.execute(f"SELECT body FROM '{archive}/*.parquet' WHERE body IS NOT NULL").fetchall()
    kept = [f"secret of {name} {number}".encode() for name in ("close", "far") for number in (0, 2)]
    assert sorted({body for (body,) in bodies}) == sorted(kept)


@pytest.mark.slow
def test_a_backup_has_all_shards_and_the_doctor_looks_at_all(cluster: list[ServerProcess], tmp_path: Path) -> None:
    one, other = cluster
    for place, name in ((0, "close"), (1, "far")):
        command(one).ok("shards", "weight", "home", 1 - place)
        command(one).ok("shards", "weight", "second", place)
        command(one).ok("queues", "create", name)
        command(one).ok("send", name, f"to {name}")
    home = shared_cluster().store_url(tmp_path / "home")
    operator, copy = Courier(COURIER_STORE=home, COURIER_DATA=str(tmp_path / "none")), tmp_path / "copy"
    operator.ok("doctor")
    assert operator.ok("backup", copy, "--json").json["byte_count"] > 0
    assert {folder.name for folder in copy.iterdir()} == {"home", "second"}
    for node in cluster:
        node.kill()
    shared_cluster().change(tmp_path / "second", "UPDATE tally SET ready = ready + 1")
    damaged = operator("doctor")
    assert damaged.code != 0
    assert "shard second: " in damaged.out
    assert "already holds data" in operator("restore", copy).err
    shared_cluster().wipe(tmp_path / "home")
    assert "shard second: the store already holds data" in operator("restore", copy).err
    assert shared_cluster().execute(f"SELECT FROM {shared_cluster()._schemas[tmp_path / 'home']}.meta") == []
    shared_cluster().wipe(tmp_path / "second")
    operator.ok("restore", copy)
    operator.ok("doctor")
    other.come_back()
    for name in ("close", "far"):
        assert command(other).ok("receive", name, "--json").json[0]["message"]["body"] == f"to {name}"
