"""A Worker that runs in the Workers runtime produces straight into Courier through its queue binding."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

NODE = Path(__file__).parent / "node"
WORKERD = NODE / "node_modules" / ".bin" / "workerd"
QUEUES = "/client/v4/accounts/default/queues"


@contextlib.contextmanager
def running_worker(server: ServerProcess) -> Iterator[str]:
    """The URL of the Worker; it stops with the block."""
    assert WORKERD.exists(), "the Workers runtime is not installed; `make install-all` does that"
    address = server.url.removeprefix("http://")
    process = subprocess.Popen(
        [WORKERD, "serve", "workerd.capnp", f"--external-addr=courier={address}", "--control-fd=1"],
        cwd=NODE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # npm's starter has the runtime as its child: both must stop
    )
    try:
        assert process.stdout is not None
        event = json.loads(process.stdout.readline())
        yield f"http://127.0.0.1:{event['port']}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=10)  # which closes the pipe as well


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("workerd")) as server:
        yield server


@pytest.fixture(scope="module")
def worker(server: ServerProcess) -> Iterator[str]:
    with running_worker(server) as url:
        yield url


@pytest.fixture
def queue(server: ServerProcess) -> Iterator[str]:
    """A fresh queue `orders` that can be pulled."""
    api = server.session
    made = api.post(server.url + QUEUES, json={"queue_name": "orders"}).json()["result"]
    path = f"{server.url}{QUEUES}/{made['queue_id']}"
    api.post(f"{path}/consumers", json={"type": "http_pull"}).raise_for_status()
    yield path
    api.delete(path).raise_for_status()


def pull(server: ServerProcess, queue: str) -> list[Any]:
    messages: list[Any] = server.session.post(f"{queue}/messages/pull", json={}).json()["result"]["messages"]
    return messages


@pytest.mark.parametrize(
    ("call", "word", "body"),
    [("json", "json", '{"order":1}'), ("text", "text", "grüße"), ("bytes", "bytes", "AP8Q"), ("v8", "v8", None)],
)
def test_send(server: ServerProcess, worker: str, queue: str, call: str, word: str, body: str | None) -> None:
    answer = requests.get(f"{worker}/{call}", timeout=20).json()
    assert answer["metadata"]["metrics"]["backlogCount"] == 1, answer
    (message,) = pull(server, queue)
    assert message["metadata"] == {"CF-Content-Type": word, "CF-sourceMessageSource": "worker"}
    assert body is None or message["body"] == body


def test_send_batch_with_delays(server: ServerProcess, worker: str, queue: str) -> None:
    assert requests.get(f"{worker}/batch", timeout=20).json()["metadata"]["metrics"]["backlogCount"] == 2
    assert [message["body"] for message in pull(server, queue)] == ["two"]


def test_send_with_a_delay(server: ServerProcess, worker: str, queue: str) -> None:
    assert requests.get(f"{worker}/delayed", timeout=20).status_code == 200
    assert pull(server, queue) == []


@pytest.mark.usefixtures("queue")
def test_metrics(worker: str) -> None:
    assert requests.get(f"{worker}/metrics", timeout=20).json() == {"backlogCount": 0, "backlogBytes": 0}
    requests.get(f"{worker}/json", timeout=20).raise_for_status()
    metrics = requests.get(f"{worker}/metrics", timeout=20).json()
    assert (metrics["backlogCount"], metrics["backlogBytes"]) == (1, len('{"order":1}'))
    assert metrics["oldestMessageTimestamp"].endswith("Z")


def test_a_refusal_reaches_the_worker_with_its_code(server: ServerProcess, worker: str, queue: str) -> None:
    answer = requests.get(f"{worker}/large", timeout=20)
    assert (answer.status_code, answer.json()["error"]) == (
        500,
        "the message is 128001 bytes; at most 128000 are allowed (10204)",
    )
    assert pull(server, queue) == []
