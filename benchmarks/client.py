"""A plain client for what surrounds a measurement: making queues, filling them, counting what is in them."""

import time
from http.client import HTTPConnection
from typing import Any

import msgspec

from benchmarks.processes import TOKEN

BODY = "".join(chr(ord("a") + n % 26) for n in range(130))
"""The body of every message in every row."""
FILL = 1_000
QUEUES = "/courier/v1/tenants/default/queues"


class Client:
    """One kept connection to Courier's own API."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=600)

    def call(self, method: str, path: str, document: Any = None) -> Any:
        """The answer's JSON; any status but 2xx ends the run with what the server said."""
        return msgspec.json.decode(self.raw(method, path, b"" if document is None else msgspec.json.encode(document)))

    def raw(self, method: str, path: str, body: bytes) -> bytes:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        self._connection.request(method, path, body or None, headers)
        response = self._connection.getresponse()
        answer = response.read()
        if not 200 <= response.status < 300:
            raise SystemExit(f"{method} {path} answered {response.status}: {answer[:500].decode()}")
        return answer

    def create_queue(self, name: str) -> str:
        """A queue with long leases, so that nothing comes back during a run; returns its id."""
        queue = self.call("POST", QUEUES, {"name": name, "settings": {"lease_ms": 3_600_000}})
        return str(queue["id"])

    def fill(self, name: str, count: int) -> None:
        """Send `count` messages in large batches."""
        body = msgspec.json.encode({"messages": [{"body": BODY}] * FILL})
        for _ in range(count // FILL):
            self.raw("POST", f"{QUEUES}/{name}/messages", body)
        if rest := count % FILL:
            self.call("POST", f"{QUEUES}/{name}/messages", {"messages": [{"body": BODY}] * rest})

    def waiting(self, name: str) -> int:
        return int(self.call("GET", f"{QUEUES}/{name}/counters")["total_count"])

    def time_receive_and_ack(self, name: str, *, limit: int) -> float:
        """Seconds that the server took to lease `limit` messages and to settle them; our own work is left out."""
        order = msgspec.json.encode({"limit": limit})
        started = time.perf_counter()
        answer = self.raw("POST", f"{QUEUES}/{name}/receive", order)
        received = time.perf_counter()
        receipts = [lease["receipt"] for lease in msgspec.json.decode(answer)["leases"]]
        if len(receipts) != limit:
            raise SystemExit(f"asked for {limit} messages of {name} and got {len(receipts)}")
        settlement = msgspec.json.encode({"receipts": receipts})
        resumed = time.perf_counter()
        self.raw("POST", f"{QUEUES}/{name}/ack", settlement)
        return (received - started) + (time.perf_counter() - resumed)
