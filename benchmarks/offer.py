"""Sends messages over HTTP at a steady rate, whatever becomes of them, each with the instant at which it was sent."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import cast

import uvloop

from benchmarks.client import BODY
from benchmarks.processes import TOKEN

CONNECTIONS = 16
TICK_S = 0.002


def stamped() -> str:
    """A body of the usual size that says when it was made."""
    stamp = f"{time.monotonic_ns():019d}"
    return stamp + BODY[len(stamp) :]


class _Sending(asyncio.Protocol):
    """One connection; requests are answered in order, and only whether they were taken counts."""

    def __init__(self, free: deque["_Sending"]) -> None:
        self._free = free
        self.taken = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._free.append(self)

    def send(self, request: bytes) -> None:
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if not data.startswith(b"HTTP/1.1 201"):
            raise SystemExit(f"a message was refused: {data[:300]!r}")
        self.taken += 1
        self._free.append(self)


def offer(port: int, paths: Sequence[str], *, rate: int, seconds: int) -> int:
    """Send `rate` messages a second, in turn to each path; returns how many were taken."""
    return uvloop.run(_offer(port, paths, rate, seconds))


async def _offer(port: int, paths: Sequence[str], rate: int, seconds: int) -> int:
    loop = asyncio.get_running_loop()
    free: deque[_Sending] = deque()
    connections = [await loop.create_connection(lambda: _Sending(free), "127.0.0.1", port) for _ in range(CONNECTIONS)]
    started, due = loop.time(), 0
    while due < rate * seconds:
        now_due = min(rate * seconds, int((loop.time() - started) * rate) + 1)
        while due < now_due and free:
            free.popleft().send(_request(paths[due % len(paths)]))
            due += 1
        await asyncio.sleep(TICK_S)
    while len(free) < CONNECTIONS:
        await asyncio.sleep(TICK_S)
    for transport, _ in connections:
        transport.close()
    return sum(protocol.taken for _, protocol in connections)


def _request(path: str) -> bytes:
    body = b'{"body":"%b"}' % stamped().encode()
    return (
        f"POST {path} HTTP/1.1\r\nHost: courier\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
