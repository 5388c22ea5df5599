"""Receivers that attack the server that delivers to them: how one connection is attacked, and a server that does it."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

PIECE_BYTES = 256 * 1024
DRIP_SECONDS = 0.02

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

Attack = Callable[["Attacker", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Attacker:
    """A server on a free port; every connection meets the same attack."""

    attack: Attack
    port: int = 0
    connection_count: int = 0
    open_count: int = 0
    request_count: int = 0
    written: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connection_count += 1
        self.open_count += 1
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self.attack(self, reader, writer)
        except asyncio.CancelledError:
            pass
        finally:
            self.open_count -= 1
            writer.transport.abort()
            self._tasks.discard(task)

    async def read_request(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        await reader.readexactly(int(length.partition(b":")[2]))
        self.request_count += 1

    async def write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        self.written += len(data)

    async def flood(self, writer: asyncio.StreamWriter, unit: bytes) -> None:
        """The unit again and again, as fast as it is read."""
        if not unit:
            return
        piece = unit * max(1, PIECE_BYTES // len(unit))
        while not writer.is_closing():
            await self.write(writer, piece)
            await asyncio.sleep(0)

    async def drip(self, writer: asyncio.StreamWriter, unit: bytes) -> None:
        """The unit again and again, slowly, for ever."""
        while not writer.is_closing():
            await self.write(writer, unit)
            await asyncio.sleep(DRIP_SECONDS)


def flooding(start: bytes, unit: bytes) -> Attack:
    """A response that begins well and never ends."""

    async def attack(attacker: Attacker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await attacker.read_request(reader)
        await attacker.write(writer, start)
        await attacker.flood(writer, unit)

    return attack


def dripping(start: bytes, unit: bytes) -> Attack:
    """A response that begins well and goes on a little at a time."""

    async def attack(attacker: Attacker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await attacker.read_request(reader)
        await attacker.write(writer, start)
        await attacker.drip(writer, unit)

    return attack


async def silent(attacker: Attacker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes all and says nothing: a TLS handshake that hangs, a request that is not answered."""
    while await reader.read(PIECE_BYTES):
        pass


async def deaf(attacker: Attacker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the connection and reads nothing."""
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.Event().wait()


async def flooding_at_once(attacker: Attacker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Does not wait for a request: in a TLS handshake this is garbage, over HTTP an answer to nobody."""
    await attacker.flood(writer, b"\x16\x03\x03\x40\x00" + b"\x02" * 0x4000)


@contextlib.asynccontextmanager
async def attacking(attack: Attack, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Attacker]:
    attacker = Attacker(attack)
    server = await asyncio.start_server(attacker.serve, "127.0.0.1", 0, ssl=tls)
    attacker.port = server.sockets[0].getsockname()[1]
    try:
        yield attacker
    finally:
        server.close()
        for task in list(attacker._tasks):
            task.cancel()
        await asyncio.gather(*attacker._tasks, return_exceptions=True)


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the memory of a process is read from Linux's /proc")
