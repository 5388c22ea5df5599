"""The receiver of deliveries, in a process of its own: `python -m benchmarks.receiver PORT`.

A body begins with the instant at which it was sent, by the clock that all processes of a machine share, so that the
receiver can tell how long it took to arrive. `/hook…` answers at once, `/hang…` never. GET `/stats` tells what came
since the last time it was asked, GET `/count` how many there are so far.
"""

import asyncio
import sys
import time
from typing import cast

import msgspec
import uvloop

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
STAMP = 19


class Stats(msgspec.Struct):
    """How many deliveries came, over how long, and how long they took, in milliseconds."""

    count: int
    seconds: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


class Arrivals:
    def __init__(self) -> None:
        self.latencies_ns: list[int] = []
        self.first_ns = self.last_ns = 0

    def add(self, body: bytes) -> None:
        now = time.monotonic_ns()
        if not self.latencies_ns:
            self.first_ns = now
        self.last_ns = now
        self.latencies_ns.append(now - int(body[:STAMP]))

    def take(self) -> Stats:
        latencies, self.latencies_ns = sorted(self.latencies_ns), []
        return Stats(
            len(latencies), (self.last_ns - self.first_ns) / 1e9, *(_percentile(latencies, p) for p in (50, 95, 99))
        )


def _percentile(latencies_ns: list[int], percent: int) -> float:
    if not latencies_ns:
        return 0.0
    return latencies_ns[min(len(latencies_ns) - 1, len(latencies_ns) * percent // 100)] / 1e6


class Receiving(asyncio.Protocol):
    """Just enough of HTTP for a client that is known."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            at = head.lower().rfind(b"content-length: ")
            length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < end + 4 + length:
                return
            body, self._buffer = self._buffer[end + 4 : end + 4 + length], self._buffer[end + 4 + length :]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST /hook"):
            self._arrivals.add(body)
            self._transport.write(OK)
        elif head.startswith(b"GET "):
            stats = msgspec.json.encode(
                self._arrivals.take() if b" /stats" in head else len(self._arrivals.latencies_ns)
            )
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(stats), stats))


async def serve(port: int) -> None:
    arrivals = Arrivals()
    server = await asyncio.get_running_loop().create_server(lambda: Receiving(arrivals), "127.0.0.1", port)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
