"""A client's connection: parses HTTP/1.1, starts the application, and bounds what a client can cost.

Every phase has a deadline: the head of a request, its body, the pause until the next one, and the client's reading of
what we write. One sweep checks the deadlines of all connections, so that a request costs no timer. Every phase has a
bound in bytes: the head, the framing of chunks and the trailers, the body that nobody has asked for yet, and what is
received ahead of our answers.
"""

import asyncio
import logging
import math
from collections import deque
from typing import cast
from urllib.parse import unquote

import httptools

from couriermq.web.asgi import Scope
from couriermq.web.call import Header
from couriermq.web.errors import WireError
from couriermq.web.exchange import Exchange, plain_response
from couriermq.web.head import HEAD_BYTES, HEADER_COUNT, SINGLE, Refused, check_head, origin_form, without_upgrade
from couriermq.web.state import Guest, ServerState

PIECE_BYTES = 2 * 1024
"""How much is parsed before we look again whether requests wait: a piece can hold many of them."""
CHUNKED_PIECE_BYTES = 8 * 1024
"""The same inside a body in chunks, which is one request."""
FRAMING_RATIO = 16
"""A body in chunks may have this many bytes of framing for each byte of body, and HEAD_BYTES more."""
LINGER_BYTES = 16 * 1024 * 1024
LINGER_SECONDS = 2.0
"""How much and how long we still read after the last response: closing at once would reset it on its way."""
LAST_WORDS_SECONDS = 5.0
"""How long a connection has for its error response after a timeout, and for an unfinished request when we stop."""

TOO_LONG = f"a request may have {HEAD_BYTES} bytes before its body, and {HEADER_COUNT} headers"
NO_ROOM = "the server holds as many request bytes as it may; send the request again later"

log = logging.getLogger("couriermq.web")

_Malformed = (UnicodeDecodeError, httptools.HttpParserInvalidURLError)


class Connection(asyncio.Protocol):
    """One client. Requests that it sends ahead of our answers wait, parsed in `_pipeline` or as bytes in `_ahead`."""

    # Beyond thirty attributes, instances no longer share the keys of their dictionaries, and each access costs more.
    __slots__ = (
        "_ahead", "_answering", "_client", "_closing", "_deadlines", "_deaf", "_discarded_bytes", "_drained",
        "_ended", "_expects_continue", "_framing_bytes", "_handshake", "_head_bytes", "_head_held", "_headers",
        "_host", "_in_head", "_last_words", "_lingering", "_parser", "_pipeline", "_reading", "_reading_paused",
        "_single", "_state", "_url", "budget", "deadline", "loop", "transport", "write_deadline", "writing_paused",
    )  # fmt: skip

    transport: asyncio.Transport

    def __init__(self, state: ServerState, *, handshake: Guest | None = None) -> None:
        """`handshake` is what this connection was counted as before."""
        self.loop = asyncio.get_running_loop()
        self.budget = state.budget
        self.deadline = math.inf
        self.write_deadline = math.inf
        self.writing_paused = False
        self._state = state
        self._handshake = handshake
        self._deadlines = state.deadlines
        self._parser = httptools.HttpRequestParser(self)
        self._client: tuple[str, int] | None = None
        self._host: bytes | None = None
        self._url = b""
        self._headers: list[Header] = []
        self._single: dict[bytes, bytes] = {}
        self._expects_continue = False
        self._in_head = True
        self._head_bytes = 0
        self._head_held = 0  # counted in the budget
        self._framing_bytes = 0
        self._reading: Exchange | None = None
        self._answering: Exchange | None = None
        self._pipeline: deque[Exchange] = deque()
        self._ahead = b""
        self._reading_paused = False
        self._drained: asyncio.Future[None] | None = None
        self._last_words = b""  # the answer to what is not a request, once those before it are answered
        self._discarded_bytes = 0
        self._deaf = False  # further input is ignored
        self._ended = False  # the client sends nothing more
        self._lingering = False
        self._closing = False

    # -- the transport's side ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass of asyncio's
        peer = transport.get_extra_info("peername")
        self._client = (str(peer[0]), int(peer[1])) if isinstance(peer, tuple) else None
        if self._handshake is not None:
            self._state.connections.discard(self._handshake)
        self._state.connections.add(self)
        self.deadline = self.loop.time() + self._deadlines.head
        if self._state.is_full:
            self.write(plain_response(503, "there are too many connections", (b"retry-after", b"1")))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._deaf = True
        for exchange in (self._answering, *self._pipeline):
            if exchange is not None:
                exchange.gone = True
                exchange.wake()
        self._forget_requests()
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            self._discard(len(data))
        elif self._ahead or ((self._pipeline or self._reading is not None) and self._is_blocked()):
            self._keep(data)  # TLS may have had more when we stopped reading
        elif len(data) <= PIECE_BYTES:
            self._feed(data)
        else:
            self._parse(data)

    def eof_received(self) -> bool:
        """The client sends nothing more. What it has asked is answered, unless TLS ends both directions."""
        self._ended = True
        unfinished = self._reading is not None or (self._in_head and self._head_bytes > 0)
        if unfinished and not (self._deaf or self._ahead):
            self._refuse(400, "the client stopped sending before the request was complete")
        elif self._lingering or self._answering is None:
            self.close()
        for exchange in (self._answering, *self._pipeline):
            if exchange is not None:
                exchange.half_closed = True
                exchange.wake()
        return not self._closing and self.transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        self.writing_paused = True
        self.write_deadline = self.loop.time() + self._deadlines.write

    def resume_writing(self) -> None:
        self.writing_paused = False
        if not self._closing:
            self.write_deadline = math.inf
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- parsing ----------------------------------------------------------------------------------------------

    def _is_blocked(self) -> bool:
        """Whether what is received must be answered or taken before more is parsed."""
        return bool(self._pipeline) or (self._reading is not None and self._reading.is_full)

    @property
    def is_ahead(self) -> bool:
        """Whether bytes wait to be parsed."""
        return bool(self._ahead)

    def _keep(self, data: bytes) -> None:
        """Hold bytes until they can be parsed; at most one read of the transport comes after the pause."""
        if not self.budget.take(len(data)):
            self._refuse(503, NO_ROOM, (b"retry-after", b"1"))
            return
        self._ahead += data
        self._pause_reading()

    def _parse(self, data: bytes) -> None:
        start = 0
        while start < len(data) and not self._deaf:
            if self._is_blocked():
                self._keep(data[start:])
                return
            stop = start + self._stride()
            self._feed(data[start:stop])
            start = stop

    def _stride(self) -> int:
        reading = self._reading
        if reading is None:
            return PIECE_BYTES
        return CHUNKED_PIECE_BYTES if reading.length is None else max(PIECE_BYTES, reading.length - reading.body_bytes)

    def _feed(self, piece: bytes) -> None:
        body_bytes = 0 if self._reading is None else self._reading.body_bytes
        while True:
            try:
                self._parser.feed_data(piece)
                break
            except httptools.HttpParserUpgrade as upgrade:
                if self._deaf or not self._in_head or self._parser.get_method() == b"CONNECT":
                    self._refuse(400, "this server does not open tunnels or change the protocol")
                    return
                piece = self._head_without_upgrade() + piece[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                self._refuse_malformed(error)
                return
        if self._reading is None:
            if self._in_head or self._answering is None:
                self._count_head(len(piece))
        elif self._reading.length is None:
            self._count_framing(len(piece), self._reading.body_bytes - body_bytes)
        if (self._pipeline or self._reading is not None) and self._is_blocked():
            self._pause_reading()

    def _head_without_upgrade(self) -> bytes:
        """There is nothing to upgrade to, and the parser skips the body of a request that offers it: read it again."""
        parser, self._parser = self._parser, httptools.HttpRequestParser(self)
        return without_upgrade(parser.get_method(), self._url, parser.get_http_version(), self._headers)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > HEAD_BYTES or len(self._headers) > HEADER_COUNT:
            self._refuse(431, TOO_LONG)
        elif self.budget.take(size):
            self._head_held += size
        else:
            self._refuse(503, NO_ROOM, (b"retry-after", b"1"))

    def _release_head(self) -> None:
        self.budget.give(self._head_held)
        self._head_held = 0

    def _count_framing(self, size: int, body_bytes: int) -> None:
        """Chunk sizes, extensions and trailers: what is fed and is not body."""
        self._framing_bytes = max(0, self._framing_bytes + size - (1 + FRAMING_RATIO) * body_bytes)
        if self._framing_bytes > HEAD_BYTES:
            self._refuse(431, f"the chunk extensions or trailers are longer than {HEAD_BYTES} bytes")

    def _refuse_malformed(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
        if isinstance(cause, Refused):
            self._refuse(cause.status, str(cause))
            return
        if cause is not None and not isinstance(cause, _Malformed | WireError):
            log.error("a request could not be taken in", exc_info=cause)
        self._refuse(400, "the request is not valid HTTP/1.1")

    # -- the parser's side ------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._single = {}
        self._expects_continue = False
        self._in_head = True
        self._head_bytes = 0
        if self._answering is None:
            self.deadline = self.loop.time() + self._deadlines.head

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: it came after the request was judged by its head
        name = name.lower()
        if name in SINGLE:
            if name in self._single:
                raise Refused(400, f"the request has more than one {name.decode()} header")
            self._single[name] = value
        elif name == b"expect":
            self._expects_continue = value.lower() == b"100-continue"
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.should_upgrade():
            return
        version, single = self._parser.get_http_version(), self._single
        if len(self._headers) > HEADER_COUNT:
            raise Refused(431, TOO_LONG)
        host = single.get(b"host")
        if host is None or host != self._host or version != "1.1" or b"transfer-encoding" in single:
            check_head(version, single)  # most heads are like the last one of their connection
            self._host = host
        exchange = Exchange(
            self,
            self._scope(version),
            keep_alive=version != "1.0" and self._parser.should_keep_alive(),
            expects_continue=self._expects_continue and version == "1.1",
            length=None if b"transfer-encoding" in single else int(single.get(b"content-length", 0)),
        )
        self._in_head = False
        self._framing_bytes = 0
        if self._head_held:
            self._release_head()
        self._reading = exchange
        if self._answering is None:
            self.deadline = self.loop.time() + self._deadlines.body
            self._start(exchange)
        else:
            self._pipeline.append(exchange)

    def _scope(self, version: str) -> Scope:
        url = self._url
        if not url.startswith(b"/"):
            url = origin_form(url)
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
        assert self._reading is not None
        self._reading.add_body(body)

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
        # With a name, and not through the loop: minting a name and uvloop's `create_task` take half a microsecond.
        exchange.task = asyncio.Task(self._answer(exchange), loop=self.loop, name="request")
        self._state.tasks.add(exchange.task)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self._state.app(exchange.scope, exchange.receive, exchange.send)
            if not (exchange.complete or exchange.gone):
                self.close()  # the application takes the client for gone, and there will be no answer
        except Exception:
            log.exception("a request broke off")
            self.transport.abort()
        finally:
            exchange.release()
            self._state.tasks.discard(exchange.task)

    def finish(self, exchange: Exchange) -> None:
        """The response is written: go on with the next request, or wait for it."""
        self._answering = None
        if not exchange.keep_alive:
            self._end(received=exchange.received)
            return
        if self._pipeline:
            following = self._pipeline.popleft()
            self.deadline = math.inf if following.received else self.loop.time() + self._deadlines.body
            self._start(following)
        if self._ahead or self._reading_paused:
            self.read_on()
        if self._answering is None and not self._closing:
            self._await_next()

    def _await_next(self) -> None:
        """Every request that is here has been answered."""
        now = self.loop.time()
        if self._last_words:
            self.write(self._last_words)
            self._end(received=False)
        elif self._ended:
            self.close()
        elif self._reading is not None:
            self.deadline = min(self.deadline, now + LINGER_SECONDS)  # the rest of a body that nobody wants
        else:
            begun = self._in_head and self._head_bytes
            self.deadline = now + (self._deadlines.head if begun else self._deadlines.idle)

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    async def drained(self) -> None:
        """Return when the client has read enough for us to write on."""
        self._drained = self.loop.create_future()
        await self._drained

    def read_on(self) -> None:
        """Parse what was received ahead, and read more of it, as far as there is somebody to take it."""
        if self._ahead and not self._is_blocked():
            data, self._ahead = self._ahead, b""
            self.budget.give(len(data))
            self._parse(data)
        wanted = self._lingering or not (self._deaf or self._ahead or self._is_blocked())
        if self._reading_paused and wanted and not self._ended:
            self._reading_paused = False
            self.transport.resume_reading()

    def pause_deadline(self) -> None:
        """The client waits for us, not we for the client."""
        self.deadline = math.inf

    def await_body(self, exchange: Exchange) -> None:
        """Give the client the whole time for its body, if it is still to come."""
        if exchange is self._answering and exchange is self._reading and not self._closing:
            self.deadline = self.loop.time() + self._deadlines.body

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    # -- the end ----------------------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """A deadline has passed."""
        exchange = self._answering
        if self._lingering and now < self.write_deadline:
            self.close()
        elif self._closing or now >= self.write_deadline or (exchange is not None and exchange.timed_out):
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
        """The server stops: finish the answer in hand, then close. A request that is still coming in must be quick."""
        if self._answering is None:
            self.close()
            return
        self._answering.keep_alive = False
        if not self._answering.received:
            self.deadline = min(self.deadline, self.loop.time() + LAST_WORDS_SECONDS)

    def cut(self) -> None:
        """The server stops: do not wait for a client that reads a stream or does not read its response."""
        exchange = self._answering
        if exchange is None or exchange.responding or self.writing_paused or self._closing:
            if exchange is not None:
                exchange.task.cancel()
            self.transport.abort()

    def close(self) -> None:
        self._deaf = self._closing = True
        self._lingering = False
        self.deadline = math.inf
        self.write_deadline = self.loop.time() + self._deadlines.write
        self._forget_requests()
        self.transport.close()

    def _end(self, *, received: bool) -> None:
        """Close after the last response; read on for a moment where the client may still be sending."""
        if received or self._ended:
            self.close()
            return
        self._deaf = self._lingering = True
        self._reading = None
        self.deadline = self.loop.time() + LINGER_SECONDS
        self._forget_requests()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.read_on()

    def _discard(self, size: int) -> None:
        self._discarded_bytes += size
        if self._lingering and self._discarded_bytes > LINGER_BYTES:
            self.close()

    def _forget_requests(self) -> None:
        """Those that were received ahead will never be answered."""
        for exchange in self._pipeline:
            exchange.release()
        self._pipeline.clear()
        self.budget.give(len(self._ahead))
        self._ahead = b""
        self._release_head()

    def _refuse(self, status: int, sentence: str, *headers: Header) -> None:
        """Answer what is not a request, after the good requests before it."""
        self._deaf = True
        words = plain_response(status, sentence, *headers)
        broken, self._reading = self._reading, None
        if broken is not None:
            broken.gone = True
            broken.wake()
            if broken.started:
                words = b""
            if broken in self._pipeline:
                self._pipeline.remove(broken)
                broken.release()
        if self._answering is None or self._answering is broken:
            self.write(words)
            self._end(received=False)
        else:
            self._last_words = words
            self._pause_reading()
