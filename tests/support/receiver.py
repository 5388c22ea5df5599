"""A real HTTP server that takes deliveries and behaves as badly as it is told to."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus

PATIENCE_S = 25.0


@dataclass
class Request:
    """What arrived; header names are lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    came_at: float = field(default_factory=time.time)
    """By the wall clock."""


Manner = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def answer(status: int = 200, body: bytes = b"", **headers: str) -> Manner:
    """A well-behaved answer; `Retry_After` stands for Retry-After."""

    async def manner(request: Request, writer: asyncio.StreamWriter) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return manner


def raw(*chunks: bytes, close: bool = True) -> Manner:
    """Exactly these bytes."""

    async def manner(request: Request, writer: asyncio.StreamWriter) -> None:
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
        if close:
            writer.close()

    return manner


async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
    """Say nothing, for ever."""
    await asyncio.Event().wait()


async def hang_up(request: Request, writer: asyncio.StreamWriter) -> None:
    """Close the socket without a word."""
    writer.close()


def held_until(until: asyncio.Event, then: Manner) -> Manner:
    """Take the request, and do nothing with it before the event."""

    async def manner(request: Request, writer: asyncio.StreamWriter) -> None:
        await until.wait()
        await then(request, writer)

    return manner


async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
    """An answer whose body never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with contextlib.suppress(OSError):
        while not writer.is_closing():
            writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)


async def trickle(request: Request, writer: asyncio.StreamWriter) -> None:
    """A good status, and then a body that comes so slowly that it never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
    await asyncio.Event().wait()


@dataclass
class Receiver:
    """`manners` are used one request each; the last one stays."""

    manners: list[Manner] = field(default_factory=lambda: [answer()])
    requests: list[Request] = field(default_factory=list)
    connection_count: int = 0
    open_count: int = 0
    most_at_once: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    _busy: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}/hook"

    def behave(self, *manners: Manner) -> None:
        self.manners = list(manners)

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]

    async def wait(self, count: int) -> list[Request]:
        """Until so many requests have come, ever."""
        async with asyncio.timeout(PATIENCE_S), self._news:
            await self._news.wait_for(lambda: len(self.requests) >= count)
        return self.requests

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        self.open_count += 1
        number = self.connection_count
        try:
            while not writer.is_closing():
                request = await _read(reader, number)
                await self._take(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open_count -= 1
            writer.close()

    async def _take(self, request: Request, writer: asyncio.StreamWriter) -> None:
        manner = self.manners.pop(0) if len(self.manners) > 1 else self.manners[0]
        self._busy += 1
        self.most_at_once = max(self.most_at_once, self._busy)
        async with self._news:
            self.requests.append(request)
            self._news.notify_all()
        try:
            await manner(request, writer)
        finally:
            self._busy -= 1


async def _read(reader: asyncio.StreamReader, connection: int) -> Request:
    start = await reader.readexactly(1)
    if start == b"\x16":
        raise ConnectionError("this one does not speak TLS")
    head = (start + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ")
    return Request(method, path, headers, body, connection)


@contextlib.asynccontextmanager
async def receiving(*manners: Manner, host: str = "127.0.0.1") -> AsyncIterator[Receiver]:
    """A receiver on a free port of this machine."""
    receiver = Receiver(host=host)
    if manners:
        receiver.behave(*manners)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await receiver._serve(reader, writer)
        tasks.discard(task)

    server = await asyncio.start_server(serve, host, 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
