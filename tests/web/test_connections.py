"""A real server, and clients that speak HTTP/1.1 in unusual but legal ways."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

QUEUES = "/courier/v1/tenants/default/queues"
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, shutdown_ms=600_000) as server:
        server.session.post(f"{server.url}{QUEUES}", json={"name": "orders"}, timeout=10)
        yield server


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=30)


def read_to_end(client: socket.socket) -> bytes:
    received = b""
    while chunk := client.recv(65_536):
        received += chunk
    return received


def post(server: ServerProcess, path: str, body: bytes, *lines: str) -> bytes:
    """A request of root."""
    head = [f"POST {path} HTTP/1.1", "host: x", f"authorization: Bearer {server.token}", *lines]
    return "\r\n".join([*head, f"content-length: {len(body)}", "", ""]).encode() + body


# -- pipelining and half-closed clients -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "sentence"),
    [
        (b"GET /healthz HTTP/1.1\r\n\r\n", b"the request has no Host header"),
        (b"not HTTP at all\r\n\r\n", b"the request is not valid HTTP/1.1"),
    ],
)
def test_a_bad_request_behind_many_without_a_route_is_refused_as_itself(
    server: ServerProcess, last: bytes, sentence: bytes
) -> None:
    with connect(server) as client:
        client.sendall(b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n" * 2_000 + last)
        answers = b""
        while piece := client.recv(65_536):
            answers += piece
    assert answers.startswith(b"HTTP/1.1 404 ")
    assert b"HTTP/1.1 400 " in answers
    assert sentence in answers
    assert "Traceback" not in server.output


@pytest.mark.parametrize("request_bytes", [GET, GET[:-2] + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n"])
def test_ten_thousand_requests_at_once_are_all_answered(server: ServerProcess, request_bytes: bytes) -> None:
    with connect(server) as client:
        sender = threading.Thread(target=client.sendall, args=(request_bytes * 10_000,))
        sender.start()
        received = b""
        while received.count(b"HTTP/1.1 200 OK") < 10_000:
            chunk = client.recv(1_000_000)
            assert chunk, "the server hung up"
            received += chunk
        sender.join()
    assert len(server.output.splitlines()) == 1


def test_requests_ahead_are_answered_in_their_order(server: ServerProcess) -> None:
    sends = b"".join(post(server, f"{QUEUES}/orders/messages", b'{"body": "%d"}' % number) for number in range(200))
    with connect(server) as client:
        client.sendall(sends + GET[:-2] + b"connection: close\r\n\r\n")
        answers = read_to_end(client).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"201"] * 200 + [b"200"]
    received = server.session.get(f"{server.url}{QUEUES}/orders/messages?limit=500", timeout=10).json()
    assert [message["body"] for message in received["messages"]] == [str(number) for number in range(200)]


def test_a_sender_that_closes_its_side_gets_its_answer(server: ServerProcess) -> None:
    with connect(server) as client:
        client.sendall(post(server, f"{QUEUES}/orders/messages", b'{"body": "hi"}') + GET)
        client.shutdown(socket.SHUT_WR)
        answers = read_to_end(client).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"201", b"200"]


def test_a_credential_in_a_trailer_opens_nothing(server: ServerProcess) -> None:
    head = f"POST {QUEUES}/orders/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    body = f'e\r\n{{"body": "hi"}}\r\n0\r\nauthorization: Bearer {server.token}\r\n\r\n'
    with connect(server) as client:
        client.sendall((head + body).encode())
        assert client.recv(12) == b"HTTP/1.1 401"


# -- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (f"{QUEUES}/orders/messages", b"unsupported-media-type"),
        ("/client/v4/accounts/default/queues", b'"success":false'),
        ("/v1/queues", b'"title":"Unsupported Media Type"'),
        ("/mq/admin/api/v1/organizations/default/environments/default/regions/us-east-1/destinations/queues/q", b""),
    ],
)
def test_a_compressed_body_is_refused_in_the_words_of_each_dialect(
    server: ServerProcess, path: str, part: bytes
) -> None:
    method = "PUT" if path.startswith("/mq") else "POST"
    headers = {"Content-Encoding": "gzip", "X-API-KEY": server.token, "Content-Type": "application/json"}
    answer = server.session.request(method, f"{server.url}{path}", data=b"\x1f\x8b", headers=headers, timeout=10)
    assert answer.status_code == 415
    assert part in answer.content
    assert "Content-Encoding" in answer.text + str(answer.headers)


def test_bodies_beyond_the_servers_memory_are_refused_for_now(tmp_path: Path) -> None:
    with start_server(tmp_path, max_buffered_bytes=4_000_000, body_timeout_ms=4_000) as server:
        url, queue = f"{server.url}{QUEUES}", f"{QUEUES}/orders/messages"
        server.session.post(url, json={"name": "orders"}, timeout=10)
        holders = [connect(server) for _ in range(3)]
        for holder in holders:  # each announces a megabyte and keeps the server waiting for its end
            holder.sendall(post(server, queue, b"x" * 1_000_000)[:-1])
        refused = server.session.post(f"{server.url}{queue}", data=b"x" * 500_000, timeout=20)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert server.session.post(f"{server.url}{queue}", json={"body": "small"}, timeout=10).status_code == 201
        for holder in holders:
            holder.close()
        while server.session.post(f"{server.url}{queue}", json={"body": "x" * 500_000}, timeout=20).status_code == 503:
            pass


# -- stopping -------------------------------------------------------------------------------------------------


def test_a_stop_does_not_wait_for_streams_that_nobody_reads(server: ServerProcess) -> None:
    batch = {"messages": [{"body": "x" * 100_000}] * 50}
    for _ in range(6):
        answer = server.session.post(f"{server.url}{QUEUES}/orders/messages", json=batch, timeout=30)
        assert answer.status_code < 300, answer.text
    url = f"{server.url}/courier/v1/journal/events?limit=100000"
    with requests.Session() as session:
        session.headers.update({"Authorization": f"Bearer {server.token}", "Accept": ARROW})
        stream = session.get(url, stream=True, timeout=30)
        assert stream.status_code == 200
        assert stream.raw.read(10)
        assert server.stop() == 0


ARROW = "application/vnd.apache.arrow.stream"


def test_a_stop_does_not_wait_for_responses_that_nobody_reads(server: ServerProcess) -> None:
    with connect(server) as client:
        client.sendall(b"GET /openapi/native.json HTTP/1.1\r\nhost: x\r\n\r\n" * 100)
        assert client.recv(12) == b"HTTP/1.1 200"
        assert server.stop() == 0
