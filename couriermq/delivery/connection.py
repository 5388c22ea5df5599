"""One connection to a receiver: HTTP/1.1, one request at a time, bounded answers."""

import asyncio
from typing import cast

import httptools
import msgspec

HEAD_BYTES = 64 * 1024
BODY_BYTES = 64 * 1024
"""How much of an answer is read; what has more is cut off with its connection."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """What came back, as far as anybody needs it."""

    status: int
    retry_after: str | None
    body: bytes


class RequestFailed(Exception):
    """There is no answer; the text says why."""


class StaleConnection(RequestFailed):
    """The receiver had given up a connection that was kept for reuse: the request can go over a new one."""


class Connection(asyncio.Protocol):
    """Made by `loop.create_connection`; once a request is answered it may take the next, if it is `reusable`."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._served = 0
        self.reusable = False
        self.born_at = self.idle_since = 0.0
        self._reset()

    def _reset(self) -> None:
        self._status = 0
        self._retry_after: str | None = None
        self._framed = self._in_body = self._complete = self._excess = self._keeps_alive = False
        self._head_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0

    def request(self, head: bytes, body: bytes) -> "asyncio.Future[Response]":
        """Send a request; the future is its answer, or raises RequestFailed."""
        assert self._waiter is None, "one request at a time"
        self._reset()
        self.reusable = False
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        if self._transport is None or self._transport.is_closing():
            self._fail(StaleConnection("the connection was closed"))
        elif len(body) < HEAD_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines([head, body])
        return waiter

    def close(self) -> None:
        """Let go of the connection at once; whoever waits for an answer gets none."""
        self.reusable = False
        self._waiter = None
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    # -- what the transport tells -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # nobody has asked anything
            return
        if not self._in_body:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES + len(data):
                self._fail(RequestFailed(f"the head of the answer is longer than {HEAD_BYTES} bytes"))
                return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(RequestFailed("the receiver wants to speak another protocol"))
            return
        except httptools.HttpParserError as error:
            if not self._complete:
                self._fail(RequestFailed(f"the answer is not HTTP: {error}"))
                return
            self._excess = True
        if self._complete or self._body_bytes > BODY_BYTES:
            self._finish()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._waiter is None:
            return
        if self._in_body and not self._framed:
            self._finish()  # such an answer ends with its connection
        elif self._in_body:
            self._fail(RequestFailed("the receiver closed the connection in the middle of its answer"))
        elif self._served and not self._head_bytes:
            self._fail(StaleConnection("the receiver closed the connection"))
        else:
            self._fail(RequestFailed("the receiver closed the connection without an answer"))

    # -- what the parser tells --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._excess = self._complete  # an answer that nobody has asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if self._excess:
            return
        if lowered in (b"content-length", b"transfer-encoding"):
            self._framed = True
        elif lowered == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._excess:
            return
        self._status = self._parser.get_status_code()
        self._in_body = self._status >= 200

    def on_body(self, data: bytes) -> None:
        if self._excess:
            return
        self._body_bytes += len(data)
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self._excess:
            return
        if self._status >= 200:
            self._complete = True
            self._keeps_alive = self._parser.should_keep_alive()  # afterwards the parser has forgotten
        else:  # 100 Continue and its like announce the answer
            head_bytes = self._head_bytes
            self._reset()
            self._head_bytes = head_bytes

    # -- the end of a request ---------------------------------------------------------------------------------

    def _finish(self) -> None:
        waiter, self._waiter = self._waiter, None
        self._served += 1
        transport = self._transport
        self.reusable = (
            self._complete
            and not self._excess
            and self._keeps_alive
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )
        if waiter is not None and not waiter.done():
            waiter.set_result(Response(self._status, self._retry_after, b"".join(self._body)))
        if not self.reusable:
            self.close()

    def _fail(self, error: RequestFailed) -> None:
        waiter = self._waiter
        self.close()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
