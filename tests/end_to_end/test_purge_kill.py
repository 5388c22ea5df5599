"""A purge that a power cut interrupts goes on by itself when the server is back."""

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.eventually import eventually_sync
from tests.support.server import ServerProcess, start_server

QUEUES = "/courier/v1/tenants/default/queues"
CLOUDFLARE = "/client/v4/accounts/default/queues"
COUNT = 20_000

pytestmark = pytest.mark.slow


def get(server: ServerProcess, path: str) -> dict[str, Any]:
    answer = server.session.get(server.url + path, timeout=30)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def fill(server: ServerProcess) -> str:
    created = server.session.post(server.url + QUEUES, json={"name": "orders"}, timeout=30)
    batch = {"messages": [{"body": "x"}] * 1_000}
    for _ in range(COUNT // 1_000):
        assert server.session.post(f"{server.url}{QUEUES}/orders/messages", json=batch, timeout=60).ok
    queue_id: str = created.json()["id"]
    return queue_id


def start_purge(server: ServerProcess, queue_id: str) -> threading.Thread:
    def call() -> None:
        with contextlib.suppress(requests.ConnectionError):  # the server is killed before it answers
            server.session.post(
                f"{server.url}{CLOUDFLARE}/{queue_id}/purge", json={"delete_messages_permanently": True}, timeout=60
            )

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_a_purge_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    with start_server(tmp_path, engine="sqlite") as server:
        queue_id = fill(server)
        caller = start_purge(server, queue_id)
        left = eventually_sync(
            lambda: get(server, f"{QUEUES}/orders/counters")["ready_count"], right=lambda count: count < COUNT
        )
        server.kill()
        caller.join()
        assert 0 < left < COUNT
        server.start()
        later = server.session.post(f"{server.url}{QUEUES}/orders/messages", json={"body": "later"}, timeout=30)
        assert later.status_code == 201
        status = f"{CLOUDFLARE}/{queue_id}/purge"
        eventually_sync(lambda: get(server, status)["result"]["completed"], right=lambda told: told == "true")
        messages = get(server, f"{QUEUES}/orders/messages")["messages"]
        assert [message["body"] for message in messages] == ["later"]
        assert get(server, f"{QUEUES}/orders/purge")["ended_at"] is not None
