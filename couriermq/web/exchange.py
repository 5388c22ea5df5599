"""One request and its response on a connection, as ASGI's `receive` and `send`."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from couriermq.web.asgi import TIMED_OUT, Event, Scope
from couriermq.web.call import Header

if TYPE_CHECKING:
    from couriermq.web.protocol import Connection

BUFFER_BYTES = 64 * 1024
"""How much of a body is held before its reader asks for it; and up to what size head and body are one write."""

STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"connection: close\r\n"
_BODILESS = frozenset((204, 304))


class Exchange:
    """Filled by the connection's parser on one side, read and answered by the application on the other."""

    __slots__ = (
        "_arrived",
        "_body",
        "_chunked",
        "_connection",
        "_ended",
        "_head",
        "buffered_bytes",
        "complete",
        "expects_continue",
        "gone",
        "keep_alive",
        "received",
        "scope",
        "started",
        "task",
        "timed_out",
    )

    task: asyncio.Task[None]

    def __init__(self, connection: "Connection", scope: Scope, *, keep_alive: bool, expects_continue: bool) -> None:
        self.scope = scope
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        self.received = False  # the whole request is here
        self.complete = False  # the whole response is written
        self.started = False  # some of the response is written
        self.gone = False  # the client has left
        self.timed_out = False  # the body took too long
        self.buffered_bytes = 0
        self._connection = connection
        self._body: list[bytes] = []
        self._ended = False
        self._arrived: asyncio.Future[None] | None = None
        self._head = b""
        self._chunked = False

    # -- the connection's side --------------------------------------------------------------------------------

    def add_body(self, chunk: bytes) -> None:
        if not self.complete:
            self._body.append(chunk)
            self.buffered_bytes += len(chunk)
            self.wake()

    def wake(self) -> None:
        """Something about this exchange has changed: let `receive` look again."""
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    # -- the application's side -------------------------------------------------------------------------------

    async def receive(self) -> Event:
        if self.expects_continue and not self.started:
            self.expects_continue = False
            self._connection.write(_CONTINUE)
        while not (self.gone or self.complete):
            if self._body or (self.received and not self._ended):
                return self._take()
            if self.timed_out:
                return {"type": TIMED_OUT}
            self._connection.resume_reading()
            self._arrived = self._connection.loop.create_future()
            await self._arrived
        return {"type": "http.disconnect"}

    def _take(self) -> Event:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        self.buffered_bytes = 0
        self._ended = self.received
        return {"type": "http.request", "body": body, "more_body": not self.received}

    async def send(self, event: Event) -> None:
        if self._connection.writing_paused:
            await self._connection.drained()
        if self.gone or self.complete:
            return
        if event["type"] == "http.response.start":
            self._head = self._make_head(event["status"], event["headers"])
            return
        self._write(event["body"], more=event["more_body"])
        if not event["more_body"]:
            self.complete = True
            self.wake()
            self._connection.finish(self)

    def _write(self, body: bytes, *, more: bool) -> None:
        if self._chunked and more and len(body) > BUFFER_BYTES:
            self._write_large_chunk(body)
            return
        if self._chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        if self._head:
            self.started = True
            if len(body) <= BUFFER_BYTES:
                self._connection.write(self._head + body)
            else:
                self._connection.write(self._head)
                self._connection.write(body)
            self._head = b""
        elif body:
            self._connection.write(body)

    def _write_large_chunk(self, body: bytes) -> None:
        """Without copying it: a stream of events has megabytes in each."""
        self.started = True
        for piece in (self._head + b"%x\r\n" % len(body), body, b"\r\n"):
            self._connection.write(piece)
        self._head = b""

    def _make_head(self, status: int, headers: Sequence[Header]) -> bytes:
        lines = [STATUS_LINES[status]]
        framed = status in _BODILESS or self.scope["method"] == "HEAD"
        for name, value in headers:
            lines.append(b"%b: %b\r\n" % (name, value))
            if name == b"content-length":
                framed = True
            elif name == b"connection" and value == b"close":
                self.keep_alive = False
        if not framed:
            self._frame(lines)
        if not self.keep_alive and _CLOSE not in lines:
            lines.append(_CLOSE)
        lines.append(b"\r\n")
        head = b"".join(lines)
        # No value may bring a line of its own: that would let a caller write headers, or another response.
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines):
            raise ValueError("a header of the response has a line break in it")
        return head

    def _frame(self, lines: list[bytes]) -> None:
        """A body of unknown length: in chunks, or for old clients up to the end of the connection."""
        if self.scope["http_version"] == "1.0":
            self.keep_alive = False
        else:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
