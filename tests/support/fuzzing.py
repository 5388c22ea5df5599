"""A server under damaged requests: several workers send them for a while, and what it must not do is looked for."""

import contextlib
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support.hostile import MIB, memory
from tests.support.server import ServerProcess

SEED = int(os.environ.get("COURIER_FUZZ_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
WORKERS = 4
PATIENCE_SECONDS = 20
GROWTH_BYTES = 64 * MIB
WARM_UP_SHARE = 0.3
"""The caches of a server fill at the beginning; memory is compared after that."""
IMPATIENT: dict[str, Any] = {
    "header_timeout_ms": 300,
    "body_timeout_ms": 300,
    "keep_alive_ms": 300,
    "write_timeout_ms": 1_000,
}
"""Deadlines that end a request whose rest was lost."""


def seconds(usual: float) -> float:
    """How long to fuzz: this long in the test suite, as long as `make fuzz` says there."""
    return float(os.environ.get("COURIER_FUZZ_SECONDS", usual))


def fuzz(server: ServerProcess, request: Callable[[random.Random], bytes], *, seconds: float) -> int:
    """Send requests until the time is over and check the server; returns how many there were."""
    faults: list[tuple[bytes, bytes]] = []
    counts = [0] * WORKERS
    ends = time.monotonic() + seconds

    def work(number: int) -> None:
        dice = random.Random(SEED + number)
        while time.monotonic() < ends and not faults:
            data = request(dice)
            counts[number] += 1
            try:
                answered = ask(server, data)
            except TimeoutError:
                faults.append((data, b"the server neither answered nor closed"))
            except ConnectionRefusedError:
                faults.append((data, b"the server is gone"))
            else:
                if is_fault(answered):
                    faults.append((data, answered))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    time.sleep(seconds * WARM_UP_SHARE)  # other processes work: there is no clock of ours to move
    before = memory(server.pid, "VmRSS")
    for worker in workers:
        worker.join()
    assert faults == [], f"seed {SEED}"
    assert "Traceback" not in server.output, f"seed {SEED}\n{server.output[-5_000:]}"
    assert memory(server.pid, "VmRSS") - before < GROWTH_BYTES, f"seed {SEED}"
    assert server.session.get(f"{server.url}/readyz", timeout=10).ok
    return sum(counts)


def ask(server: ServerProcess, data: bytes) -> bytes:
    """What the server says to these bytes, until it closes or has nothing more to say."""
    received = b""
    port = int(server.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as client,
        contextlib.suppress(ConnectionError),
    ):
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        while chunk := client.recv(65_536):
            received += chunk
    return received


def is_fault(answered: bytes) -> bool:
    """Whether an answer is a failure of the server; 501 and 505 are about what a request asks of HTTP itself."""
    return any(status not in {b"501", b"505"} for status in re.findall(rb"HTTP/1\.1 (5\d\d) ", answered))
