"""The example of a cluster starts with one command, serves through its balancer, survives a node, and stops clean."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.support.ports import free_port

pytestmark = pytest.mark.slow

START = Path(__file__).parents[2] / "examples" / "cluster" / "start.py"
STOP_SECONDS = 60


@pytest.fixture
def cluster() -> Iterator[tuple[str, list[int], subprocess.Popen[str]]]:
    """Its URL, the processes of its nodes, and the program that holds them all."""
    folder = Path(tempfile.mkdtemp(prefix="courier-cluster-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user, who must get there
    command = [sys.executable, str(START), "--port", str(free_port()), "--data", str(folder)]
    environ = os.environ | {"COURIER_ROOT_TOKEN": "root-token"}
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, cwd=START.parents[2]) as program:
        assert program.stdout is not None
        nodes: list[int] = []
        try:
            for line in program.stdout:
                if found := re.search(r"ready: (\S+),", line):
                    yield found[1], nodes, program
                    break
                nodes.append(int(re.search(r"process (\d+)", line)[1]))  # type: ignore[index]
        finally:
            program.terminate()
            program.wait(STOP_SECONDS)
            shutil.rmtree(folder)


def ask(session: requests.Session, url: str, order: dict[str, object]) -> requests.Response:
    """Again where the balancer says that a node broke off: it cannot know whether the node had done it."""
    for _ in range(5):
        answer = session.post(url, json=order)
        if answer.status_code != 502:
            break
    assert answer.status_code == 200, answer.text
    return answer


def test_the_example_serves_through_its_balancer_and_survives_a_node(
    cluster: tuple[str, list[int], subprocess.Popen[str]],
) -> None:
    url, nodes, program = cluster
    session = requests.Session()
    session.headers["Authorization"] = "Bearer root-token"
    queues = f"{url}/courier/v1/tenants/default/queues"
    assert session.post(queues, json={"name": "orders"}).status_code == 201
    for number in range(10):
        assert session.post(f"{queues}/orders/messages", json={"body": f"{number}"}).status_code == 201
    os.kill(nodes[0], signal.SIGKILL)
    bodies: set[str] = set()
    while len(bodies) < 10:
        received = ask(session, f"{queues}/orders/receive", {"limit": 3, "lease_ms": 60_000})
        for lease in received.json()["leases"]:
            bodies.add(lease["message"]["body"])
            ask(session, f"{queues}/orders/ack", {"receipt": lease["receipt"]})
    assert bodies == {f"{number}" for number in range(10)}
    program.terminate()
    assert program.wait(STOP_SECONDS) == 0


def test_a_port_that_is_taken_is_said_before_anything_is_started(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = [sys.executable, str(START), "--port", str(port), "--data", str(data)]
        program = subprocess.run(command, capture_output=True, text=True, check=False, timeout=STOP_SECONDS)
    assert (program.returncode, program.stdout) == (1, "")
    assert program.stderr == f"port {port} is taken by another program; choose one with --port\n"
    assert not data.exists()
