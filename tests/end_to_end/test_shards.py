"""A store on two databases, operated from the command line while programs use it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Courier
from tests.support.postgres import shared_cluster
from tests.support.server import ServerProcess, start_server

QUEUE = "/courier/v1/tenants/default/queues/orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    """Two nodes on a store of two databases."""
    home, second = (shared_cluster().store_url(tmp_path / name) for name in ("home", "second"))
    with start_server(tmp_path / "a", store=home) as one, start_server(tmp_path / "b", store=home) as other:
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
