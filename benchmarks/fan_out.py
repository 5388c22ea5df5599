"""What sends to another tenant's queue cost while a queue with many listeners delivers: `python -m benchmarks.fan_out`.

One tenant sends BURST messages to a queue with LISTENERS listeners whenever the last burst has arrived. Another tenant
sends one message at a time to a queue without listeners; its latencies are printed, before and during the deliveries.
"""

import sys
import tempfile
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec

from benchmarks.processes import TOKEN, Courier, Receiver

LISTENERS = 1_000
BURST = 5
SECONDS = 15.0
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


class Caller:
    """One connection to the server."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, path: str, document: Any) -> float:
        """How many milliseconds the request takes."""
        started = time.perf_counter()
        self._connection.request("POST", path, msgspec.json.encode(document), HEADERS)
        response = self._connection.getresponse()
        content = response.read()
        if response.status >= 300:
            raise SystemExit(f"{path}: {response.status} {content[:200]!r}")
        return (time.perf_counter() - started) * 1_000


def main(listeners: int = LISTENERS, seconds: float = SECONDS) -> None:
    with tempfile.TemporaryDirectory() as place, Receiver(Path(place)) as receiver:
        settings = {"delivery_allow": "127.0.0.0/8", "log_level": "warning"}
        with Courier(Path(place) / "data", settings) as server:
            caller = Caller(server.port)
            _prepare(caller, receiver, listeners)
            _print("idle", _probe(caller, seconds=seconds / 3))
            stopped = threading.Event()
            noise = threading.Thread(target=_make_noise, args=(server.port, receiver, listeners, stopped))
            noise.start()
            time.sleep(1)
            before, started = server.cpu_s(), time.perf_counter()
            latencies = _probe(caller, seconds=seconds)
            passed = time.perf_counter() - started
            stopped.set()
            noise.join()
            _print("while delivering", latencies)
            print(f"{'server':>20}: {(server.cpu_s() - before) / passed:.0%} of a core")


def _prepare(caller: Caller, receiver: Receiver, listeners: int) -> None:
    caller.post("/courier/v1/tenants", {"id": "quiet"})
    caller.post("/courier/v1/tenants/quiet/queues", {"name": "orders"})
    caller.post("/courier/v1/tenants/default/queues", {"name": "noise", "settings": {"keep_delivered": False}})
    for number in range(listeners):
        order = {"name": f"l{number}", "url": f"{receiver.url}/hook/{number}"}
        caller.post("/courier/v1/tenants/default/queues/noise/listeners", order)


def _make_noise(port: int, receiver: Receiver, listeners: int, stopped: threading.Event) -> None:
    caller, rounds, began = Caller(port), 0, time.perf_counter()
    receiver.stats()
    while not stopped.is_set():
        for _ in range(BURST):
            body = f"{time.monotonic_ns():019d}"
            caller.post("/courier/v1/tenants/default/queues/noise/messages", {"body": body})
        rounds += 1
        while receiver.count() < rounds * BURST * listeners:
            time.sleep(0.02)
    stats = receiver.stats()
    rate = stats.count / (time.perf_counter() - began)
    print(
        f"{'deliveries':>20}: {rate:.0f}/s, p50 {stats.p50_ms:.0f} ms, p99 {stats.p99_ms:.0f} ms from send to arrival"
    )


def _probe(caller: Caller, *, seconds: float) -> list[float]:
    latencies, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        latencies.append(caller.post("/courier/v1/tenants/quiet/queues/orders/messages", {"body": "x"}))
        time.sleep(0.02)
    return latencies


def _print(what: str, latencies: list[float]) -> None:
    p99 = quantiles(latencies, n=100)[98]
    print(f"{what:>20}: p50 {median(latencies):.1f} ms, p99 {p99:.1f} ms of {len(latencies)} sends")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
