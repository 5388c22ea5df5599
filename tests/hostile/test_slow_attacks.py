"""Half a minute of clients and receivers that send a byte at a time, in every phase, side by side."""

import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.hostile.test_attacks import CHUNKED, CREDENTIAL, HUGE, SEND, dial, head
from tests.support.attacked_deliveries import SETTINGS, Attacked, Courier
from tests.support.hostile import TOTAL_BYTES, Attack, Watch, drip
from tests.support.receiver_attacks import DEAF, DRIPS, SILENCE, SLOW_TAILS, receivers
from tests.support.server import TLS, ServerProcess, start_server

SECONDS = 30
CONNECTIONS = 8
CLIENTS = [
    Attack(b"", b"G"),
    Attack(head("GET", "/healthz")[:-2] + b"a: ", b"x"),
    Attack(head("GET", "/healthz")[:-2], b"a:b\r\n"),
    Attack(b"", b"\r\n"),
    Attack(head("POST", SEND, CREDENTIAL, HUGE), b"x"),
    Attack(head("POST", SEND, CREDENTIAL, "content-length: 60000000"), b"x"),
    Attack(head("POST", SEND, CREDENTIAL, CHUNKED), b"1\r\nx\r\n"),
    Attack(head("POST", SEND, CREDENTIAL, CHUNKED) + b"5;", b"x"),
    Attack(head("POST", SEND, CREDENTIAL, CHUNKED) + b"0\r\n", b"a:b\r\n"),
    Attack(head("POST", SEND, CREDENTIAL, CHUNKED) + b"0\r\na: ", b"x"),
    Attack(b"", head("GET", "/openapi/native.json")),  # nobody reads the responses
]
HANDSHAKES = [
    Attack(b"", b"\x16"),
    Attack(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc", b"\x00"),
]


def test_clients_and_receivers_that_are_slow_for_half_a_minute_stay_cheap(tmp_path: Path) -> None:
    tls: dict[str, Any] = {"tls_cert": TLS / "cert.pem", "tls_key": TLS / "key.pem"}
    with (
        receivers() as attackers,
        start_server(tmp_path / "plain", **SETTINGS) as plain,
        start_server(tmp_path / "tls", **tls) as encrypted,
    ):
        courier = Courier(plain, attackers)
        courier.ask("POST", "", {"name": "orders"})
        failing = [_queue(courier, name) for name in (*DRIPS, SILENCE, DEAF)]
        delivering = [_queue(courier, name) for name in SLOW_TAILS]
        with courier.watch() as watch, Watch(encrypted.pid, encrypted.url) as encrypted_watch:
            for queue in (*failing, *delivering):
                queue.send(1, "x" * 100_000)
            slow = [_start(CLIENTS, plain), _start(HANDSHAKES, encrypted)]
            for queue in failing:
                queue.finish(1)
            for thread in slow:
                thread.join()
        watch.cost.check(TOTAL_BYTES)
        encrypted_watch.cost.check(TOTAL_BYTES)
        assert {queue.outcomes()[0] for queue in failing} == {0}
        assert {queue.outcomes() for queue in delivering} == {(CONNECTIONS, 0)}
        assert "Traceback" not in plain.output + encrypted.output


def _queue(courier: Courier, attack: str) -> Attacked:
    return courier.queue(attack, listeners=CONNECTIONS, timeout_ms=SECONDS * 1_000)


def _start(attacks: Sequence[Attack], server: ServerProcess) -> threading.Thread:
    def connect() -> socket.socket:
        return dial(server)

    thread = threading.Thread(
        target=drip, args=(attacks, connect), kwargs={"connections": CONNECTIONS, "seconds": SECONDS}
    )
    thread.start()
    return thread
