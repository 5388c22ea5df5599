"""A real server: started, asked, misused, stopped."""

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests

from tests.support.eventually import eventually_sync
from tests.support.server import COMMAND, TLS, ServerProcess, environ, start_server

pytestmark = pytest.mark.slow

QUEUES = "/courier/v1/tenants/default/queues"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path) as server:
        yield server


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=20)


def is_listening(server: ServerProcess) -> bool:
    try:
        connect(server).close()
    except ConnectionRefusedError:
        return False
    except ConnectionResetError:
        pass  # it was just closing
    return True


def read_to_end(client: socket.socket) -> bytes:
    received = b""
    while chunk := client.recv(65_536):
        received += chunk
    return received


def found(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, text
    return match[1]


def sample(server: ServerProcess, name: str) -> float:
    text = server.session.get(f"{server.url}/metrics", timeout=10).text
    return float(found(rf"^{name} (\S+)$", text))


BARE = [sys.executable, "-c", "import os, sys; from couriermq import config, server; {}".format(
    "sys.exit(server.run(config.load(environ=os.environ)))"
)]  # fmt: skip
"""The server without the command line, which has its own words for how a command ends."""


def refuse(tmp_path: Path, command: list[str], **settings: object) -> subprocess.CompletedProcess[str]:
    """Start a server that is expected not to run."""
    settings = {"data": tmp_path / "data", "port": 0} | settings
    return subprocess.run(
        command, env=environ(**settings), cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )


# -- starting -------------------------------------------------------------------------------------------------


def test_the_first_start_prints_a_token_and_a_request_that_works_as_printed(tmp_path: Path) -> None:
    with start_server(tmp_path, root_token=None) as server:
        commands = "\n".join(re.findall(r"^  ((?:export|curl) .*)$", server.output, re.MULTILINE))
        answer = subprocess.run(["bash", "-ec", commands], capture_output=True, text=True, check=True).stdout
        assert msgspec.json.decode(answer)["name"] == "first"
        token = found(r"export COURIER_TOKEN=(\w+)", commands)
        server.restart()
        assert server.output.count(token) == 2  # both from the first start
        asked = requests.get(f"{server.url}{QUEUES}", headers={"Authorization": f"Bearer {token}"}, timeout=10)
        assert [queue["name"] for queue in asked.json()["queues"]] == ["first"]


def test_what_is_not_for_people_is_json(server: ServerProcess) -> None:
    (line,) = server.output.splitlines()
    assert msgspec.json.decode(line)["url"] == server.url


def test_people_are_told_where_it_listens_and_what_there_is_to_look_at(tmp_path: Path) -> None:
    with start_server(tmp_path, log_format="human") as server:
        first, *pages = server.output.splitlines()
        assert first == f"Courier listens on {server.url} and keeps its data in {server.data}"
        assert f"API reference: {server.url}/docs" in pages
        for page in pages:
            assert requests.get(page.partition(": ")[2], timeout=10).status_code == 200


def test_a_data_directory_in_use_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    refused = refuse(tmp_path, BARE, data=server.data)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith(f"courier: the data directory {server.data} is in use by another Courier")
    assert len(refused.stderr.splitlines()) == 1
    assert requests.get(f"{server.url}/healthz", timeout=10).ok


def test_a_port_in_use_is_refused_before_any_data_is_touched(server: ServerProcess, tmp_path: Path) -> None:
    port = server.url.rpartition(":")[2]
    refused = refuse(tmp_path, BARE, data=tmp_path / "other", port=port)
    assert not (tmp_path / "other").exists()
    assert (refused.returncode, refused.stderr) == (
        4,
        f"courier: cannot listen on 127.0.0.1:{port}: Address already in use\n",
    )


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"prot": 1}, "COURIER_PROT is not a setting"),
        ({"port": "http"}, "COURIER_PORT must be a whole number from 0 to 65535"),
        ({"tls_cert": "/none.pem", "tls_key": "/none.pem"}, "cannot be used for TLS: No such file or directory"),
    ],
)
def test_a_bad_setting_is_refused_with_one_sentence(tmp_path: Path, settings: dict[str, object], part: str) -> None:
    refused = refuse(tmp_path, COMMAND, **settings)
    assert refused.returncode == 2
    assert part in refused.stderr
    assert "Traceback" not in refused.stderr


# -- stopping -------------------------------------------------------------------------------------------------


def test_a_stop_answers_whoever_waits_and_ends_well(server: ServerProcess) -> None:
    server.session.post(f"{server.url}{QUEUES}", json={"name": "orders"}, timeout=10)
    answers: list[requests.Response] = []

    def wait() -> None:
        url = f"{server.url}{QUEUES}/orders/receive"
        answers.append(server.session.post(url, json={"wait_ms": 60_000}, timeout=50))

    waiting = [threading.Thread(target=wait) for _ in range(5)]
    for thread in waiting:
        thread.start()
    eventually_sync(lambda: sample(server, "courier_requests_in_hand"), lambda count: count >= len(waiting) + 1)
    assert server.stop() == 0
    for thread in waiting:
        thread.join()
    assert [(answer.status_code, answer.json()) for answer in answers] == [(200, {"leases": []})] * 5
    assert not (server.data / "port").exists()


def test_a_stop_answers_readers_that_wait_for_events(server: ServerProcess) -> None:
    journal = f"{server.url}/courier/v1/journal"
    end = server.session.get(journal, timeout=10).json()["next"]
    answers: list[requests.Response] = []

    def wait() -> None:
        answers.append(server.session.get(f"{journal}/events?from={end}&wait_ms=60000", timeout=50))

    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually_sync(lambda: sample(server, "courier_requests_in_hand"), lambda count: count >= 2)
    assert server.stop() == 0
    waiting.join()
    assert [(answer.status_code, answer.json()) for answer in answers] == [
        (200, {"events": [], "next": end, "at_end": True})
    ]


def test_a_stop_lets_a_request_in_hand_finish(server: ServerProcess) -> None:
    server.session.post(f"{server.url}{QUEUES}", json={"name": "orders"}, timeout=10)
    body = b'{"body": "hi"}'
    head = f"POST {QUEUES}/orders/messages HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n"
    with connect(server) as client:
        client.sendall(f"{head}content-length: {len(body)}\r\nexpect: 100-continue\r\n\r\n".encode())
        assert client.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        server.signal(signal.SIGTERM)
        eventually_sync(lambda: not is_listening(server))
        client.sendall(body)
        answer = read_to_end(client)
    assert answer.startswith(b"HTTP/1.1 201 Created")
    assert b"connection: close" in answer
    assert server.wait() == 0


def stuck_request(server: ServerProcess) -> socket.socket:
    """A client that never finishes its request, known to be in hand."""
    client = connect(server)
    head = f"POST {QUEUES} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\ncontent-length: 9\r\n"
    client.sendall(f"{head}expect: 100-continue\r\n\r\n".encode())
    assert client.recv(1_000) == b"HTTP/1.1 100 Continue\r\n\r\n"
    return client


def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    with start_server(tmp_path, shutdown_ms=100) as server, stuck_request(server):
        assert server.stop() == 0


def test_a_second_signal_does_not_wait_at_all(server: ServerProcess) -> None:
    with stuck_request(server):
        server.signal(signal.SIGINT)
        eventually_sync(lambda: not is_listening(server))
        server.signal(signal.SIGINT)
        assert server.wait() == 0


def test_what_was_accepted_is_there_after_a_kill(server: ServerProcess) -> None:
    server.session.post(f"{server.url}{QUEUES}", json={"name": "orders"}, timeout=10)
    sent = server.session.post(f"{server.url}{QUEUES}/orders/messages", json={"body": "hi"}, timeout=10).json()
    server.kill()
    server.start()
    received = server.session.post(f"{server.url}{QUEUES}/orders/receive", json={}, timeout=10).json()
    assert [lease["message"]["id"] for lease in received["leases"]] == [sent["id"]]


# -- misuse ---------------------------------------------------------------------------------------------------


def test_receivers_that_left_take_no_message_with_them(server: ServerProcess) -> None:
    server.session.post(f"{server.url}{QUEUES}", json={"name": "orders"}, timeout=10)
    body = b'{"wait_ms": 60000}'
    head = f"POST {QUEUES}/orders/receive HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n"
    ghosts = [connect(server) for _ in range(20)]
    for ghost in ghosts:
        ghost.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    eventually_sync(lambda: sample(server, "courier_requests_in_hand"), lambda count: count >= len(ghosts) + 1)
    for ghost in ghosts:
        ghost.close()
    eventually_sync(lambda: sample(server, "courier_requests_in_hand"), lambda count: count <= 1)
    server.session.post(f"{server.url}{QUEUES}/orders/messages", json={"body": "hi"}, timeout=10)
    received = server.session.post(f"{server.url}{QUEUES}/orders/receive", json={}, timeout=10).json()
    assert received["leases"][0]["message"]["attempts"] == 1


def test_slow_and_silent_clients_are_closed_and_harm_nobody(tmp_path: Path) -> None:
    deadlines: dict[str, Any] = {"header_timeout_ms": 500, "body_timeout_ms": 500, "keep_alive_ms": 500}
    with start_server(tmp_path, **deadlines) as server:
        silent = [connect(server) for _ in range(100)]
        head = f"POST {QUEUES} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {server.token}\r\n"
        dribbling = connect(server)
        dribbling.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ")
        half = connect(server)
        half.sendall(f"{head}content-length: 99\r\n\r\n{{".encode())
        idle = connect(server)
        idle.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert requests.get(f"{server.url}/healthz", timeout=10).ok
        assert [read_to_end(client) for client in silent] == [b""] * 100
        assert read_to_end(dribbling).startswith(b"HTTP/1.1 408 ")
        assert b"408 Request Timeout" in read_to_end(half)
        assert read_to_end(idle).startswith(b"HTTP/1.1 200 OK")
        assert requests.get(f"{server.url}/healthz", timeout=10).ok
        for client in (*silent, dribbling, half, idle):
            client.close()


def megabytes(count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield b"x" * 1_000_000


@pytest.mark.parametrize("announced", [True, False])
def test_a_huge_body_is_refused_and_never_held_in_memory(tmp_path: Path, announced: bool) -> None:
    with start_server(tmp_path, max_request_bytes=100_000) as server:
        before = peak_memory(server)
        body = b"x" * 200_000_000 if announced else megabytes(200)
        try:
            answer = server.session.post(f"{server.url}{QUEUES}", data=body, timeout=20)
        except requests.ConnectionError:
            pass  # the server hung up on a client that would not listen
        else:
            assert answer.status_code == 413
        assert peak_memory(server) - before < 20_000_000
        assert requests.get(f"{server.url}/healthz", timeout=10).ok


def peak_memory(server: ServerProcess) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return int(found(r"VmHWM:\s+(\d+) kB", status)) * 1024


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"name": 1}', b"null"])
def test_a_body_that_makes_no_sense_is_the_callers_to_fix(server: ServerProcess, body: bytes) -> None:
    answer = server.session.post(f"{server.url}{QUEUES}", data=body, timeout=10)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


def test_a_refused_client_can_read_why_even_while_it_is_still_sending(server: ServerProcess) -> None:
    """Closing at once would reset the connection under the answer."""
    with connect(server) as client:
        client.sendall(
            b"POST /courier/v1/tenants HTTP/1.1\r\nhost: x\r\nauthorization: Bearer " + server.token.encode()
        )
        client.sendall(b"\r\ncontent-length: 99999999999\r\n\r\n" + b"x" * 1_000_000)
        assert client.recv(12) == b"HTTP/1.1 413"


# -- TLS ------------------------------------------------------------------------------------------------------


def test_https_by_certificate_files(tmp_path: Path) -> None:
    with start_server(tmp_path, tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem") as server:
        trust: dict[str, Any] = {"verify": str(TLS / "cert.pem"), "timeout": 10}
        assert server.url.startswith("https://")
        assert server.session.post(f"{server.url}{QUEUES}", json={"name": "orders"}, **trust).status_code == 201
        with connect(server) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"200 OK" not in read_to_end_of_anything(plain)
        assert requests.get(f"{server.url}/healthz", **trust).ok
        assert server.stop() == 0


def read_to_end_of_anything(client: socket.socket) -> bytes:
    try:
        return read_to_end(client)
    except ConnectionResetError:
        return b""
