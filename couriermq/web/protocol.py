"""A client's connection: parses HTTP/1.1, starts the application, and does not wait for ever.

It takes the place of uvicorn's own protocol, under uvicorn's server. Every phase has a deadline: the head of a
request, its body, the pause until the next one, and the client's reading of what we write. One sweep checks the
deadlines of all connections, so that a request costs no timer.
"""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.config import Config
from uvicorn.server import ServerState

from couriermq.config import Settings
from couriermq.web.asgi import Scope
from couriermq.web.call import Header
from couriermq.web.exchange import BUFFER_BYTES, STATUS_LINES, Exchange

HEAD_BYTES = 64 * 1024
"""How long a request line and its headers may be."""
LAST_WORDS_SECONDS = 5.0
"""How long a connection that ran out of time has to say so and close."""

log = logging.getLogger("couriermq.web")

_Malformed = (UnicodeDecodeError, httptools.HttpParserInvalidURLError)


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """How long each phase of a connection may take, in seconds."""

    head: float
    body: float
    idle: float
    write: float
    max_connections: int

    @classmethod
    def of(cls, settings: Settings) -> "Deadlines":
        return cls(
            head=settings.header_timeout_ms / 1_000,
            body=settings.body_timeout_ms / 1_000,
            idle=settings.keep_alive_ms / 1_000,
            write=settings.write_timeout_ms / 1_000,
            max_connections=settings.max_connections,
        )


class Connection(asyncio.Protocol):
    """One client. Requests that it sends ahead of our answers wait in `_pipeline`."""

    transport: asyncio.Transport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        deadlines: Deadlines,
    ) -> None:
        self.loop = _loop or asyncio.get_running_loop()
        self.deadline = math.inf
        self.write_deadline = math.inf
        self.writing_paused = False
        self._app = config.loaded_app
        self._connections = cast("set[Connection]", server_state.connections)
        self._tasks = server_state.tasks
        self._deadlines = deadlines
        self._parser = httptools.HttpRequestParser(self)
        self._client: tuple[str, int] | None = None
        self._head_bytes = 0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._in_head = True
        self._reading: Exchange | None = None
        self._answering: Exchange | None = None
        self._pipeline: deque[Exchange] = deque()
        self._reading_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._deaf = False  # whatever still comes in is ignored
        self._closing = False

    # -- the transport's side ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass of asyncio's
        peer = transport.get_extra_info("peername")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        self._connections.add(self)
        self.deadline = self.loop.time() + self._deadlines.head
        if len(self._connections) > self._deadlines.max_connections:
            self._refuse(503, "there are too many connections", (b"retry-after", b"1"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._deaf = True
        for exchange in (self._answering, *self._pipeline):
            if exchange is not None:
                exchange.gone = True
                exchange.wake()
        self._pipeline.clear()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(error.__context__, _Malformed):
                log.error("a request could not be taken in", exc_info=error.__context__)
            self._refuse(400, "this is not HTTP/1.1 as we understand it")
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(431, f"the request line and its headers are longer than {HEAD_BYTES} bytes")

    def _stay(self, rest: bytes) -> None:
        """We speak nothing to upgrade to, and the parser skips the body of a request that offers it: read it again."""
        method = self._parser.get_method()
        if method == b"CONNECT":
            self._refuse(400, "this is not a proxy")
            return
        head = _without_upgrade(method, self._url, self._parser.get_http_version(), self._headers)
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(head + rest)

    def pause_writing(self) -> None:
        self.writing_paused = True
        self.write_deadline = self.loop.time() + self._deadlines.write

    def resume_writing(self) -> None:
        self.writing_paused = False
        if not self._closing:
            self.write_deadline = math.inf
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- the parser's side ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._expects_continue = False
        self._in_head = True
        if self._answering is None:
            self.deadline = self.loop.time() + self._deadlines.head

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect":
            self._expects_continue = value.lower() == b"100-continue"
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        self._in_head = False
        self._head_bytes = 0
        version = self._parser.get_http_version()
        exchange = Exchange(
            self,
            self._scope(version),
            keep_alive=version != "1.0" and self._parser.should_keep_alive(),
            expects_continue=self._expects_continue,
        )
        self._reading = exchange
        if self._answering is None:
            self.deadline = self.loop.time() + self._deadlines.body
            self._start(exchange)
        else:
            self._pipeline.append(exchange)
            self.pause_reading()

    def _scope(self, version: str) -> Scope:
        url = self._url
        if not url.startswith(b"/"):
            url = _origin_form(url)
        raw_path, _, query = url.partition(b"?")
        path = raw_path.decode("ascii")
        return {
            "type": "http",
            "http_version": version,
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self._headers,
            "client": self._client,
        }

    def on_body(self, body: bytes) -> None:
        exchange = self._reading
        assert exchange is not None
        exchange.add_body(body)
        if exchange.buffered_bytes > BUFFER_BYTES:
            self.pause_reading()

    def on_message_complete(self) -> None:
        exchange = self._reading
        if exchange is None:
            return  # it offered an upgrade and is read again
        self._reading = None
        exchange.received = True
        exchange.wake()
        if exchange is self._answering:
            self.deadline = math.inf
        elif self._answering is None:
            self.deadline = self.loop.time() + self._deadlines.idle

    # -- the application's side -------------------------------------------------------------------------------

    def _start(self, exchange: Exchange) -> None:
        self._answering = exchange
        exchange.task = self.loop.create_task(self._answer(exchange))
        self._tasks.add(exchange.task)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
        except Exception:
            log.exception("a request broke off")
            self.transport.abort()
        finally:
            self._tasks.discard(exchange.task)

    def finish(self, exchange: Exchange) -> None:
        """The response is written: go on with the next request, or wait for it."""
        self._answering = None
        if not exchange.keep_alive:
            self.close()
            return
        self.resume_reading()
        if self._pipeline:
            following = self._pipeline.popleft()
            self.deadline = math.inf if following.received else self.loop.time() + self._deadlines.body
            self._start(following)
        elif self._reading is None:
            self.deadline = self.loop.time() + (self._deadlines.head if self._in_head else self._deadlines.idle)

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    async def drained(self) -> None:
        """Return when the client has read enough for us to write on."""
        self._drained = self.loop.create_future()
        await self._drained

    def pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self.transport.resume_reading()

    # -- the end ----------------------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """A deadline has passed."""
        exchange = self._answering
        if self._closing or now >= self.write_deadline or (exchange is not None and exchange.timed_out):
            self.transport.abort()
        elif exchange is not None:
            exchange.timed_out = True
            exchange.wake()
            self.deadline = now + LAST_WORDS_SECONDS
        elif self._in_head and self._head_bytes:
            self._refuse(408, "the request took too long to arrive")
        else:
            self.close()

    def shutdown(self) -> None:
        """The server stops: finish the answer in hand, then close."""
        if self._answering is None:
            self.close()
        else:
            self._answering.keep_alive = False

    def close(self) -> None:
        self._deaf = self._closing = True
        self.write_deadline = self.loop.time() + self._deadlines.write
        self.transport.close()

    def _refuse(self, status: int, sentence: str, *headers: Header) -> None:
        """Answer what is not even a request, unless a good request before it is still being answered."""
        exchange = self._answering
        self._deaf = True
        if exchange is not None and exchange.received:
            exchange.keep_alive = False
            return
        if exchange is not None:
            exchange.gone = True
            exchange.wake()
        if exchange is None or not exchange.started:
            self.write(_plain(status, sentence, headers))
        self.close()


def sweep(connections: Iterable[Connection], now: float) -> None:
    """Expire every connection one of whose deadlines has passed."""
    for connection in list(connections):
        if now >= connection.deadline or now >= connection.write_deadline:
            connection.expire(now)


def _without_upgrade(method: bytes, url: bytes, version: str, headers: Iterable[Header]) -> bytes:
    kept = [b"%b %b HTTP/%b\r\n" % (method, url, version.encode())]
    for name, value in headers:
        if name not in {b"connection", b"upgrade", b"http2-settings"}:
            kept.append(b"%b: %b\r\n" % (name, value))
        elif name == b"connection" and b"close" in value.lower():
            kept.append(b"connection: close\r\n")
    return b"".join(kept) + b"\r\n"


def _origin_form(url: bytes) -> bytes:
    """The path and query of a URL that was given whole, as to a proxy."""
    parsed = httptools.parse_url(url)
    return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")


def _plain(status: int, sentence: str, headers: Iterable[Header]) -> bytes:
    body = sentence.encode()
    lines = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    head = b"".join(b"%b: %b\r\n" % line for line in (*lines, *headers))
    return STATUS_LINES[status] + head + b"\r\n" + body
