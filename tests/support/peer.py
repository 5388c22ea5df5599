"""A client's connection without a socket: what the transport was told, and what the application was asked."""

import asyncio
import re
from typing import Any

from couriermq.web.asgi import OVERLOADED, TIMED_OUT
from couriermq.web.budget import Budget
from couriermq.web.protocol import Connection
from couriermq.web.state import Deadlines, ServerState, sweep

DEADLINES = Deadlines(head=10, body=20, idle=30, write=40, max_connections=3)
GET = b"GET /a HTTP/1.1\r\nhost: x\r\n\r\n"


class FakeTransport(asyncio.Transport):
    """Remembers what a transport was told."""

    def __init__(self) -> None:
        self.written = b""
        self.writes = 0
        self.closed = self.aborted = self.reading_paused = self.ended = False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    @property
    def finished(self) -> bool:
        """Whether the client sees the end of what we have to say."""
        return self.closed or self.ended

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 5000) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.writes += 1

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False


class Peer:
    """One client, its connection, and an application that keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.left = self.overloaded = False
        self.proceed = asyncio.Event()
        self.proceed.set()
        self.budget = Budget(1_000_000)
        self.state = ServerState(self.app, DEADLINES, self.budget)
        self.connect()

    def connect(self) -> None:
        self.transport = FakeTransport()
        self.connection = Connection(self.state)
        self.connection.connection_made(self.transport)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.append(scope)
        body = b""
        event: dict[str, Any] = {"more_body": True}
        while event.get("more_body"):
            event = await receive()
            if event["type"] == TIMED_OUT:
                await self.answer(send, 408, b"too slow", (b"connection", b"close"))
                return
            if event["type"] == OVERLOADED:
                self.overloaded = True
                await self.answer(send, 503, b"no room")
                return
            if event["type"] == "http.disconnect":
                self.left = True
                return
            body += event["body"]
        self.bodies.append(body)
        await self.proceed.wait()
        await self.answer(send, 200, body or b"ok")

    async def answer(self, send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": status, "headers": [length, *headers]})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def say(self, *data: bytes) -> None:
        for part in data:
            self.connection.data_received(part)
        await self.settle()

    async def settle(self) -> None:
        """Let every task that can run do so."""
        for _ in range(10):
            await asyncio.sleep(0)

    def pass_time(self, seconds: float) -> None:
        sweep(self.state.connections, asyncio.get_running_loop().time() + seconds)

    @property
    def answers(self) -> list[bytes]:
        return [part for part in re.split(rb"HTTP/1\.1 (?=\d{3} )", self.transport.written) if part]
