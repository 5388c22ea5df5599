"""How much memory a server needs while many clients send and receive large messages at the same time."""

import base64
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.server import ServerProcess, start_server
from tests.support.soak import sized

MIB = 1024 * 1024
BATCHES = sized(25, 50)
"""Of 10 MiB, in the queue that many receive from at once."""
PATH = "/courier/v1/tenants/default/queues"

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, engine=request.param) as server:
        settings = {"max_body_bytes": 16 * MIB, "lease_ms": 600_000}
        created = server.session.post(server.url + PATH, json={"name": "large", "settings": settings}, timeout=30)
        assert created.status_code == 201, created.text
        yield server


def resident(server: ServerProcess, figure: str) -> int:
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (found,) = (line for line in lines if line.startswith(figure))
    return int(found.split()[1]) * 1024


def growth(server: ServerProcess, work: Callable[[], None]) -> int:
    """How far the server's memory rises above its present size while the work is done."""
    before = resident(server, "VmRSS")
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")  # the peak starts anew
    work()
    return resident(server, "VmHWM") - before


def at_once(count: int, work: Callable[[], None]) -> None:
    start = threading.Barrier(count)

    def run(_: int) -> None:
        start.wait(30)
        work()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))


def test_forty_senders_of_8_mib_are_all_served_in_bounded_memory(server: ServerProcess) -> None:
    """A server that has too much to store says so, and takes the message when it is sent again."""
    body = {"body_base64": base64.b64encode(b"x" * 8 * MIB).decode()}
    answers: list[int] = []

    def send() -> None:
        answer = server.session.post(f"{server.url}{PATH}/large/messages", json=body, timeout=300)
        while answer.status_code == 503:
            answers.append(503)
            time.sleep(int(answer.headers["retry-after"]))
            answer = server.session.post(f"{server.url}{PATH}/large/messages", json=body, timeout=300)
        answers.append(answer.status_code)

    grown = growth(server, lambda: at_once(40, send))
    assert answers.count(201) == 40
    assert set(answers) <= {201, 503}
    assert answers.count(503) < 40
    assert grown < 600 * MIB


def test_twenty_receivers_of_a_large_queue_get_bounded_responses(server: ServerProcess) -> None:
    message = {"body_base64": base64.b64encode(b"x" * (MIB // 2)).decode()}
    batch = {"messages": [message] * 20}
    session = server.session
    for _ in range(BATCHES):
        assert session.post(f"{server.url}{PATH}/large/messages", json=batch, timeout=120).ok
    sizes: list[int] = []
    counts: list[int] = []

    def receive() -> None:
        while True:
            answer = server.session.post(f"{server.url}{PATH}/large/receive", json={"limit": 1_000}, timeout=300)
            assert answer.status_code == 200, answer.text[:1_000]
            if not (leases := answer.json()["leases"]):
                return
            sizes.append(len(answer.content))
            counts.append(len(leases))

    grown = growth(server, lambda: at_once(20, receive))
    assert sum(counts) == 20 * BATCHES
    assert max(sizes) < 12 * MIB
    assert grown < 400 * MIB


def test_a_page_of_the_journal_is_bounded_and_goes_on(server: ServerProcess) -> None:
    message = {"body_base64": base64.b64encode(b"x" * (MIB // 2)).decode()}
    session = server.session
    for _ in range(10):
        answer = session.post(f"{server.url}{PATH}/large/messages", json={"messages": [message] * 20}, timeout=60)
        assert answer.ok
    seen: list[int] = []

    def read(start: int) -> None:
        while True:
            page = _events(session, server.url, start)
            if page["next"] == start:
                return
            seen.extend(event["offset"] for event in page["events"] if event["kind"] == "sent")
            start = page["next"]

    lanes = session.get(f"{server.url}/courier/v1/journal", timeout=60).json()["lanes"]

    def read_all() -> None:
        for lane in lanes:
            read(lane["oldest"])

    grown = growth(server, read_all)
    assert len(seen) == len(set(seen)) == 200
    assert grown < 320 * MIB


def _events(session: requests.Session, url: str, start: int) -> dict[str, Any]:
    answer = session.get(f"{url}/courier/v1/journal/events?from={start}&limit=10000", timeout=120)
    assert answer.status_code == 200
    assert len(answer.content) < 9 * MIB
    page: dict[str, Any] = answer.json()
    return page
