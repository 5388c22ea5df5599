"""A hundred megabytes in every phase of a connection: the server stays small, and others are answered meanwhile."""

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.hostile import CONNECTION_BYTES, TOTAL_BYTES, Attack, Watch, run
from tests.support.server import ROOT_TOKEN, TLS, ServerProcess, start_server

pytestmark = pytest.mark.alone  # an attack keeps all processors busy

SEND = "/courier/v1/tenants/default/queues/orders/messages"
MANY = 16
LOG_BYTES = 20_000
"""How much a server may log about an attack: attackers must not fill the disk."""


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "host: x", *lines, "", ""]).encode()


CHUNKED = "transfer-encoding: chunked"
HUGE = "content-length: 99999999999"
CREDENTIAL = f"authorization: Bearer {ROOT_TOKEN}"
PADDING = "padding: " + "x" * 4_000
UPGRADE = ("connection: upgrade", "upgrade: h2c")

ATTACKS = {
    "head: one header without end": Attack(head("GET", "/healthz")[:-2] + b"a: ", b"x" * 65_536),
    "head: headers without end": Attack(head("GET", "/healthz")[:-2], b"a:b\r\n" * 13_000),
    "head: blank lines": Attack(b"", b"\r\n" * 32_768),
    "body: to a page": Attack(head("GET", "/healthz", HUGE), b"x" * 65_536),
    "body: to the figures": Attack(head("GET", "/metrics", CHUNKED), b"8000\r\n" + b"x" * 0x8000 + b"\r\n"),
    "body: to the tokens": Attack(head("POST", "/api/v1/authorize", CHUNKED), b"8000\r\n" + b"x" * 0x8000 + b"\r\n"),
    "body: without a credential": Attack(head("POST", SEND, "content-length: 60000000"), b"x" * 65_536),
    "body: longer than allowed": Attack(head("POST", SEND, CREDENTIAL, HUGE), b"x" * 65_536),
    "chunks: tiny ones": Attack(head("POST", SEND, CHUNKED), b"1\r\nx\r\n" * 10_000),
    "chunks: tiny ones, with a credential": Attack(head("POST", SEND, CREDENTIAL, CHUNKED), b"1\r\nx\r\n" * 10_000),
    "chunks: an extension without end": Attack(head("POST", SEND, CREDENTIAL, CHUNKED) + b"5;", b"x" * 65_536),
    "chunks: long extensions": Attack(
        head("POST", SEND, CREDENTIAL, CHUNKED), b"1;" + b"x" * 60_000 + b"\r\nx\r\n"
    ),
    "trailers: many": Attack(head("POST", SEND, CHUNKED) + b"0\r\n", b"a:b\r\n" * 13_000),
    "trailers: with a credential": Attack(head("POST", SEND, CREDENTIAL, CHUNKED) + b"0\r\n", b"a:b\r\n" * 13_000),
    "trailers: one without end": Attack(head("POST", SEND, CREDENTIAL, CHUNKED) + b"0\r\na: ", b"x" * 65_536),
    "unread: a large page again and again": Attack(b"", head("GET", "/openapi/native.json", PADDING), reads=False),
    "unread: small pages": Attack(b"", head("GET", "/healthz") * 1_000, reads=False),
    "pipelining: requests": Attack(b"", head("GET", "/healthz", PADDING) * 16),
    "pipelining: offers to upgrade": Attack(b"", head("GET", "/healthz", PADDING, *UPGRADE) * 16),
}  # fmt: skip


def dial(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=20)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("plain")) as server:
        queues = f"{server.url}/courier/v1/tenants/default/queues"
        assert server.session.post(queues, json={"name": "orders"}, timeout=10).ok
        yield server


@pytest.mark.parametrize(("connections", "limit"), [(1, CONNECTION_BYTES), (MANY, TOTAL_BYTES)], ids=["one", "many"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_stays_cheap(server: ServerProcess, attack: Attack, connections: int, limit: int) -> None:
    logged = len(server.output)
    with Watch(server.pid, server.url) as watch:
        tally = run(attack, lambda: dial(server), connections=connections)
    assert tally.is_over or tally.blocked == connections
    watch.cost.check(limit)
    assert len(server.output) - logged < LOG_BYTES
    assert "Traceback" not in server.output


HANDSHAKES = {
    "handshake: noise": Attack(b"", b"\x00" * 65_536),
    "handshake: a message without end": Attack(
        b"", b"".join(b"\x16\x03\x01\x40\x00" + b"\x01\xff\xff\xff" + b"\x00" * 16_380 for _ in range(4))
    ),
    "handshake: HTTP": Attack(b"", head("GET", "/healthz", PADDING) * 16),
}


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("tls")
    with start_server(folder, tls_cert=TLS / "cert.pem", tls_key=TLS / "key.pem") as server:
        yield server


@pytest.mark.parametrize(("connections", "limit"), [(1, CONNECTION_BYTES), (MANY, TOTAL_BYTES)], ids=["one", "many"])
@pytest.mark.parametrize("attack", HANDSHAKES.values(), ids=HANDSHAKES.keys())
def test_an_attack_before_encryption_stays_cheap(
    tls_server: ServerProcess, attack: Attack, connections: int, limit: int
) -> None:
    logged = len(tls_server.output)
    with Watch(tls_server.pid, tls_server.url) as watch:
        tally = run(attack, lambda: dial(tls_server), connections=connections)
    assert tally.is_over
    watch.cost.check(limit)
    assert len(tls_server.output) - logged < LOG_BYTES


def test_handshakes_that_are_finished_again_and_again_leave_time_for_others(tls_server: ServerProcess) -> None:
    """Each costs the server a signature."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    def shake(count: int) -> None:
        for _ in range(count):
            with dial(tls_server) as client, context.wrap_socket(client, server_hostname="localhost"):
                pass

    threads = [threading.Thread(target=shake, args=(50,)) for _ in range(MANY)]
    with Watch(tls_server.pid, tls_server.url) as watch:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    watch.cost.check(TOTAL_BYTES)
