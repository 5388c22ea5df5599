"""An unchanged Worker that runs in the Workers runtime consumes Courier's queues through the bridge."""

import base64
import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import requests

from tests.clients.test_cloudflare_workerd import NODE, QUEUES, WORKERD, running_worker
from tests.support.eventually import eventually_sync
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes....").decode()


class Runtime(NamedTuple):
    """The URLs of the bridge and of the Worker behind it."""

    bridge: str
    worker: str

    def batches(self, queue: str) -> list[Any]:
        """Every batch of a queue that the handler has seen."""
        return [batch for batch in requests.get(self.worker, timeout=20).json() if batch["queue"] == queue]


@contextlib.contextmanager
def running_consumer() -> Iterator[Runtime]:
    process = subprocess.Popen(
        [WORKERD, "serve", "--experimental", "consumer.capnp", "--control-fd=1"],
        cwd=NODE,
        env=os.environ | {"COURIER_SECRET": SECRET},
        stdout=subprocess.PIPE,
        start_new_session=True,  # npm's starter has the runtime as its child: both must stop
    )
    try:
        assert process.stdout is not None
        events = [json.loads(process.stdout.readline()) for _ in range(2)]
        ports = {event["socket"]: event["port"] for event in events}
        yield Runtime(f"http://127.0.0.1:{ports['bridge']}", f"http://127.0.0.1:{ports['consumer']}")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("push"), delivery_allow="127.0.0.0/8") as server:
        yield server


@pytest.fixture(scope="module")
def runtime(server: ServerProcess) -> Iterator[Runtime]:
    with running_consumer() as runtime:
        attach(server, runtime.bridge).raise_for_status()
        yield runtime


def attach(server: ServerProcess, url: str, secret: str = SECRET) -> requests.Response:
    path = f"{server.url}/courier/v1/tenants/default/workers/shop"
    return server.session.put(path, json={"url": url, "secret": secret})


class Consumed:
    """A queue that the Worker `shop` consumes, and its dead letter queue."""

    def __init__(self, server: ServerProcess, name: str, **settings: Any) -> None:
        self.server, self.name = server, name
        self.path = f"{server.url}{QUEUES}/{name}"
        server.session.post(server.url + QUEUES, json={"queue_name": name}).raise_for_status()
        consumer = {"type": "worker", "script_name": "shop", "dead_letter_queue": f"{name}-dead", "settings": settings}
        server.session.post(f"{self.path}/consumers", json=consumer).raise_for_status()

    def push(self, *bodies: Any) -> None:
        messages = [{"body": body, "content_type": "json"} for body in bodies]
        answer = self.server.session.post(f"{self.path}/messages/batch", json={"messages": messages})
        assert answer.json()["success"], answer.text

    def backlog(self, suffix: str = "") -> int:
        count: int = self.server.session.get(f"{self.path}{suffix}/metrics").json()["result"]["backlog_count"]
        return count

    def is_empty(self) -> bool:
        return self.backlog() == 0


def seen(runtime: Runtime, queue: str, count: int) -> list[Any]:
    """The messages of all batches, once there are so many."""

    def messages() -> list[Any]:
        return [message for batch in runtime.batches(queue) for message in batch["messages"]]

    return eventually_sync(messages, lambda found: len(found) >= count)


def test_a_handler_that_returns_acks_the_batch(server: ServerProcess, runtime: Runtime) -> None:
    queue = Consumed(server, "plain", batch_size=3, max_wait_time_ms=60_000)
    queue.push({"n": 1}, {"n": 2}, {"n": 3})
    messages = seen(runtime, "plain", 3)
    assert [(each["body"], each["attempts"]) for each in messages] == [({"n": n}, 1) for n in (1, 2, 3)]
    assert all(len(each["id"]) == 32 and each["timestamp"].endswith("Z") for each in messages)
    (batch,) = runtime.batches("plain")
    assert batch["backlog"] == 3
    eventually_sync(queue.is_empty)


def test_a_batch_that_is_not_full_comes_after_its_wait(server: ServerProcess, runtime: Runtime) -> None:
    queue = Consumed(server, "partial", batch_size=100, max_wait_time_ms=100)
    queue.push({"n": 1}, {"n": 2})
    seen(runtime, "partial", 2)
    eventually_sync(queue.is_empty)


def test_each_message_is_settled_as_the_handler_says(server: ServerProcess, runtime: Runtime) -> None:
    queue = Consumed(server, "mixed", batch_size=4, max_wait_time_ms=500, max_retries=5)
    queue.push(
        {"do": "ack"}, {"do": "retry", "delaySeconds": 3600}, {"do": "throw"}, {"do": "retry", "delaySeconds": 0}
    )
    messages = seen(runtime, "mixed", 6)
    assert [each["body"]["do"] for each in messages].count("ack") == 1, "it was acked before the handler threw"
    delayed = [each for each in messages if each["body"].get("delaySeconds") == 3600]
    assert [each["attempts"] for each in delayed] == [1]
    assert {each["attempts"] for each in messages if each["body"]["do"] == "throw"} >= {1, 2}


def test_a_batch_is_retried_as_a_whole(server: ServerProcess, runtime: Runtime) -> None:
    queue = Consumed(server, "whole", batch_size=2, max_wait_time_ms=60_000)
    queue.push({"do": "retryAll"}, {"do": "ack"})
    seen(runtime, "whole", 2)
    eventually_sync(lambda: queue.backlog() == 1)
    peeked = server.session.post(f"{queue.path}/messages/peek", json={}).json()["result"]["messages"]
    assert [(json.loads(each["body"])["do"], each["attempts"]) for each in peeked] == [("retryAll", 1)]


def test_dead_letters_after_the_last_retry(server: ServerProcess, runtime: Runtime) -> None:
    queue = Consumed(server, "failing", batch_size=1, max_wait_time_ms=0, max_retries=2)
    queue.push({"do": "throw"})
    assert [each["attempts"] for each in seen(runtime, "failing", 3)] == [1, 2, 3]
    eventually_sync(lambda: (queue.backlog(), queue.backlog("-dead")) == (0, 1))


@pytest.mark.parametrize(
    ("call", "kind", "body"),
    [
        ("json", "Object", {"order": 1}),
        ("text", "String", "grüße"),
        ("bytes", "ArrayBuffer", [0, 255, 16]),
        ("v8", "Map", [["a", 1]]),
    ],
)
def test_the_worker_sees_what_another_worker_sent(
    server: ServerProcess, runtime: Runtime, producer: str, orders: Consumed, call: str, kind: str, body: Any
) -> None:
    before = len(seen(runtime, "orders", 0))
    requests.get(f"{producer}/{call}", timeout=20).raise_for_status()
    message = seen(runtime, "orders", before + 1)[before]
    assert (message["kind"], message["body"]) == (kind, body)
    eventually_sync(orders.is_empty)


def test_the_worker_sees_halves_of_surrogate_pairs(server: ServerProcess, runtime: Runtime) -> None:
    queue = Consumed(server, "halves", batch_size=3, max_wait_time_ms=60_000)
    bodies = [("\ud83dcut \U0001f600 \udc00", "text"), ({"cut": "\ud83d"}, "json"), ("\ud7ff grüße", "text")]
    messages = [{"body": body, "content_type": kind} for body, kind in bodies]
    server.session.post(f"{queue.path}/messages/batch", json={"messages": messages}).raise_for_status()
    assert [each["body"] for each in seen(runtime, "halves", 3)] == [body for body, _ in bodies]


@pytest.fixture(scope="module")
def producer(server: ServerProcess) -> Iterator[str]:
    with running_worker(server) as url:
        yield url


@pytest.fixture(scope="module")
def orders(server: ServerProcess, runtime: Runtime) -> Consumed:
    return Consumed(server, "orders", batch_size=1)


def test_invocations_run_at_the_same_time_up_to_the_limit(server: ServerProcess, runtime: Runtime) -> None:
    queue = Consumed(server, "slow", batch_size=1, max_wait_time_ms=0, max_concurrency=2)
    queue.push(*({"do": "wait", "ms": 300} for _ in range(4)))
    leased: list[int] = []

    def ended() -> bool:
        counters = server.session.get(f"{server.url}/courier/v1/tenants/default/queues/slow/counters").json()
        leased.append(counters["leased_count"])
        return queue.is_empty()

    eventually_sync(ended)
    assert max(leased) == 2
    assert len(seen(runtime, "slow", 4)) == 4


def test_messages_wait_while_the_bridge_is_not_there(server: ServerProcess, runtime: Runtime) -> None:
    attach(server, "http://127.0.0.1:9/").raise_for_status()
    try:
        queue = Consumed(server, "waiting", batch_size=1)
        queue.push({"n": 1})
        eventually_sync(lambda: last_error(server, "waiting"), lambda error: error is not None)
        assert runtime.batches("waiting") == []
    finally:
        attach(server, runtime.bridge).raise_for_status()
    assert [each["attempts"] for each in seen(runtime, "waiting", 1)] == [1], "no attempt was used up"


def test_the_bridge_takes_batches_only_from_its_courier(server: ServerProcess, runtime: Runtime) -> None:
    other = "whsec_" + base64.b64encode(b"another secret of thirty-two byt").decode()
    attach(server, runtime.bridge, other).raise_for_status()
    try:
        queue = Consumed(server, "signed", batch_size=1)
        queue.push({"n": 1})
        assert eventually_sync(lambda: last_error(server, "signed")) == "the bridge answered 401"
        assert requests.post(runtime.bridge, data=b"", timeout=20).status_code == 401
    finally:
        attach(server, runtime.bridge).raise_for_status()
    seen(runtime, "signed", 1)


def last_error(server: ServerProcess, queue: str) -> str | None:
    worker = server.session.get(f"{server.url}/courier/v1/tenants/default/workers/shop").json()
    (health,) = [one["health"] for one in worker["consumers"] if one["queue"] == queue]
    error: str | None = health["last_failure_error"]
    return error
