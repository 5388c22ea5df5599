"""One request and its response on a connection, as ASGI's `receive` and `send`."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from couriermq.web.asgi import HALF_CLOSED, OVERLOADED, TIMED_OUT, Disconnected, Event, Scope
from couriermq.web.budget import LARGE_BYTES
from couriermq.web.call import Header

if TYPE_CHECKING:
    from couriermq.web.protocol import Connection

BUFFER_BYTES = 64 * 1024
"""How much of a body is held before its reader asks for it; and up to what size head and body are one write."""
BUFFER_PIECES = 512
"""How many chunks of a body are held before its reader asks for it: small ones cost far more than their bytes."""
DRAIN_BYTES = 64 * 1024
"""After a response, an unread rest of the body up to this size is passed over; a longer one ends the connection."""

UNCOUNTED_BYTES = 2 * 1024
"""Bodies up to this length are left out of the budget: the number of connections bounds them."""

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
        "_held",
        "body_bytes",
        "buffered_bytes",
        "complete",
        "expects_continue",
        "gone",
        "half_closed",
        "keep_alive",
        "length",
        "overloaded",
        "received",
        "scope",
        "started",
        "task",
        "timed_out",
    )

    task: asyncio.Task[None]

    def __init__(
        self,
        connection: "Connection",
        scope: Scope,
        *,
        keep_alive: bool,
        expects_continue: bool,
        length: int | None,
    ) -> None:
        self.scope = scope
        self.length = length  # of the body; None when it comes in chunks
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        self.received = False  # the whole request is here
        self.complete = False  # the whole response is written
        self.started = False  # some of the response is written
        self.gone = False  # the client has left
        self.half_closed = False  # the client sends nothing more, but may still read
        self.timed_out = False  # the body took too long
        self.overloaded = False  # there is no memory for the body
        self.body_bytes = 0  # received so far
        self.buffered_bytes = 0  # received and not yet taken by the application
        self._held = 0  # counted in the budget
        self._connection = connection
        self._body: list[bytes] = []
        self._ended = False
        self._arrived: asyncio.Future[None] | None = None
        self._head = b""
        self._chunked = False

    # -- the connection's side --------------------------------------------------------------------------------

    def add_body(self, chunk: bytes) -> None:
        self.body_bytes += len(chunk)
        if self.complete or self.overloaded:
            return
        counted = self.length is None or self.length > UNCOUNTED_BYTES
        if counted and self.body_bytes > self._held and not self._hold(self.body_bytes - self._held):
            self.overloaded = True
            self._drop_body()
        else:
            self._body.append(chunk)
            self.buffered_bytes += len(chunk)
        self.wake()

    def _hold(self, count: int) -> bool:
        """Count bytes that came before room was reserved for them: those of a known length are at most one read."""
        large = self.length is None and self.body_bytes > LARGE_BYTES
        held = self._connection.budget.take(count, large=large)
        if held:
            self._held += count
        return held

    def _drop_body(self) -> None:
        self._body = []
        self.buffered_bytes = 0

    def release(self) -> None:
        """The application is done with the request, or will never see it."""
        if self._held:
            self._connection.budget.give(self._held)
            self._held = 0

    def wake(self) -> None:
        """Something about this exchange has changed: let `receive` look again."""
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    @property
    def is_full(self) -> bool:
        """Whether the application must take some of the body before more of it is parsed."""
        return self.buffered_bytes > BUFFER_BYTES or len(self._body) > BUFFER_PIECES

    @property
    def responding(self) -> bool:
        """Whether the response has begun."""
        return self.started or bool(self._head)

    # -- the application's side -------------------------------------------------------------------------------

    async def receive(self) -> Event:
        if self.length is not None and self.length > LARGE_BYTES and self.length > self._held:
            await self._reserve(self.length - self._held)
        if self.expects_continue and not self.started and not self.overloaded:
            self.expects_continue = False
            self._connection.write(_CONTINUE)
        while not (self.gone or self.complete):
            if self._body and not self.overloaded:
                return self._take()
            if (event := self._next()) is not None:
                return event
            if self._connection.is_ahead:
                await asyncio.sleep(0)  # parsing many small chunks takes time: others have their turn in between
            self._connection.read_on()
            if (event := self._next()) is not None:
                return event
            self._arrived = self._connection.loop.create_future()
            await self._arrived
        return {"type": "http.disconnect"}

    async def _reserve(self, count: int) -> None:
        """Find room for the whole of a large body, so that it can be read to its end once it is begun."""
        if self.overloaded or self.gone or self.complete:
            return
        self._connection.pause_deadline()
        try:
            if not await self._connection.budget.reserve(count):
                self.overloaded = True
                return
        finally:
            self._connection.await_body(self)
        self._held += count
        needed = 0 if self.gone or self.complete else self.length or 0
        surplus = max(0, self._held - needed)  # what came meanwhile was counted too
        self._connection.budget.give(surplus)
        self._held -= surplus

    def _next(self) -> Event | None:
        """What there is to tell the application now."""
        if self.overloaded:
            return {"type": OVERLOADED}
        if self._body or (self.received and not self._ended):
            return self._take()
        if self.timed_out:
            return {"type": TIMED_OUT}
        if self.half_closed:
            self.half_closed = False
            return {"type": HALF_CLOSED}
        return None

    def _take(self) -> Event:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        self.buffered_bytes = 0
        self._ended = self.received
        return {"type": "http.request", "body": body, "more_body": not self.received}

    async def send(self, event: Event) -> None:
        if self._connection.writing_paused:
            await self._connection.drained()
        if self.complete:
            return
        if self.gone:
            raise Disconnected
        if event["type"] == "http.response.start":
            self._head = self._make_head(event["status"], event["headers"])
            return
        self._write(event["body"], more=event["more_body"])
        if not event["more_body"]:
            self.complete = True
            if self.buffered_bytes:
                self._drop_body()
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
        if not (self.received or self._leaves_little()):
            self.keep_alive = False
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

    def _leaves_little(self) -> bool:
        """Whether the rest of the request is short enough to be passed over, so that another can follow it."""
        if self.expects_continue:
            return False  # nobody asked for the body, and the client may send it or leave it out
        return self.length is not None and self.length - self.body_bytes <= DRAIN_BYTES

    def _frame(self, lines: list[bytes]) -> None:
        """A body of unknown length: in chunks, or for old clients up to the end of the connection."""
        if self.scope["http_version"] == "1.0":
            self.keep_alive = False
        else:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")


def plain_response(status: int, sentence: str, *headers: Header) -> bytes:
    """A whole response of one sentence, after which the connection closes."""
    body = sentence.encode()
    lines = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    head = b"".join(b"%b: %b\r\n" % line for line in (*lines, *headers))
    return STATUS_LINES[status] + head + b"\r\n" + body
