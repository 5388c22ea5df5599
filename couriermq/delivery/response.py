"""Reads the response of a receiver: HTTP/1.1, every part of it bounded in bytes.

The head (interim 1xx responses included) has at most HEAD_BYTES, and what follows it has at most TAIL_BYTES: body,
chunk sizes, chunk extensions and trailers together. A head that is too long is an error. A tail that is too long is
cut off, and the status counts. Trailers are discarded: after the last chunk the response is complete, and a receiver
that has more to say loses its connection, not the delivery.
"""

import re

import httptools
import msgspec

HEAD_BYTES = 64 * 1024
HEADER_COUNT = 256
INTERIM_COUNT = 16
LINE_COUNT = HEADER_COUNT + 4 * INTERIM_COUNT
"""How many lines a head may have, blank ones included: the parser gets them one at a time."""
BODY_BYTES = 64 * 1024
"""How much of a body is kept; a longer one is cut off."""
TAIL_BYTES = 128 * 1024
CHUNK_COUNT = 1_024
"""After this many chunks the tail counts as too long: tiny ones cost far more than their bytes."""
SIZE_LINE_BYTES = 32
"""How much of a chunk's first line is looked at to see how long the chunk is."""


_HEX = re.compile(rb"[0-9a-fA-F]+")


class Response(msgspec.Struct, frozen=True, gc=False):
    """The parts of a response that are used."""

    status: int
    retry_after: str | None
    body: bytes


class RequestFailed(Exception):
    """There is no response; the text says why."""


class NotConnected(RequestFailed):
    """There is no connection, so that nothing of the request was sent."""


class ResponseReader:
    """Give every piece of data to `feed` until it returns the response; `reset` prepares for the next one."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.reset()

    def reset(self) -> None:
        self._status = 0
        self._retry_after: str | None = None
        self._fault: str | None = None
        self._head_bytes = self._tail_bytes = self._line_count = self._header_count = self._interim_count = 0
        self._in_tail = self._framed = self._chunked = self._complete = self._excess = self._keeps_alive = False
        self._size_line = b""
        self._in_size_line = self._last_chunk = False
        self._chunk_count = self._chunk_left = 0
        self._body = bytearray()

    @property
    def started(self) -> bool:
        """Whether any byte of the response has arrived."""
        return self._head_bytes > 0

    @property
    def connection_reusable(self) -> bool:
        """Whether the connection is in a known state after the response."""
        return self._complete and self._keeps_alive and not self._excess

    def feed(self, data: bytes) -> Response | None:
        """The response once it is complete or too long; raises RequestFailed for what is not a response."""
        position = 0
        while position < len(data) and not self._complete:
            piece = self._next_piece(data, position)
            position += len(piece)
            self._parse(piece)
            if self._is_tail_too_long():
                break
            if not self._in_tail and (self._head_bytes >= HEAD_BYTES or self._line_count > LINE_COUNT):
                raise RequestFailed(f"the head of the answer is longer than {HEAD_BYTES} bytes or {LINE_COUNT} lines")
        else:
            self._excess = self._excess or position < len(data)
            return self._response() if self._complete or self._last_chunk else None
        return self._response()

    def _is_tail_too_long(self) -> bool:
        too_many = self._chunk_count > CHUNK_COUNT
        return too_many or self._tail_bytes >= TAIL_BYTES or len(self._body) > BODY_BYTES

    def end(self) -> Response:
        """The connection is closed: the response, if it is one that ends with its connection."""
        if self._in_tail and not self._framed:
            return self._response()
        if self._in_tail:
            raise RequestFailed("the receiver closed the connection in the middle of its answer")
        raise RequestFailed("the receiver closed the connection without an answer")

    def _response(self) -> Response:
        return Response(self._status, self._retry_after, bytes(self._body))

    # -- pieces -----------------------------------------------------------------------------------------------

    def _next_piece(self, data: bytes, position: int) -> bytes:
        """As much as may be parsed at once: a line of the head, a chunk or its first line, within the limits."""
        if self._in_tail:
            end = min(len(data), position + TAIL_BYTES - self._tail_bytes)
            if self._chunked and self._in_size_line:
                end = min(end, data.find(b"\n", position) + 1 or end)
            elif self._chunked and not self._last_chunk:
                end = min(end, position + self._chunk_left)
                self._chunk_left -= end - position
            return data[position:end]
        end = min(len(data), position + HEAD_BYTES - self._head_bytes)
        return data[position : min(end, data.find(b"\n", position) + 1 or end)]

    def _parse(self, piece: bytes) -> None:
        if self._in_tail:
            self._tail_bytes += len(piece)
            if self._in_size_line:
                self._size_line += piece[: SIZE_LINE_BYTES - len(self._size_line)]
        else:
            self._head_bytes += len(piece)
            self._line_count += piece.endswith(b"\n")
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            raise RequestFailed("the receiver wants to speak another protocol") from None
        except httptools.HttpParserError as error:
            if not self._complete and not self._last_chunk:
                raise RequestFailed(self._fault or f"the answer is not HTTP: {error}") from None
            self._complete = self._excess = True  # the body is whole, and nobody reads what follows it

    # -- what the parser tells --------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._complete:
            raise RequestFailed("a second answer to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_tail:
            return  # a trailer
        self._header_count += 1
        if self._header_count > HEADER_COUNT:
            self._fault = f"the answer has more than {HEADER_COUNT} headers"
            raise RequestFailed(self._fault)
        lowered = name.lower()
        if lowered == b"content-length":
            self._framed = True
        elif lowered == b"transfer-encoding":
            self._framed = True
            self._chunked = True
        elif lowered == b"retry-after":
            self._retry_after = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._in_tail = self._in_size_line = self._status >= 200

    def on_chunk_header(self) -> None:
        digits = _HEX.match(self._size_line)
        if digits is None or len(digits[0]) == SIZE_LINE_BYTES:
            self._fault = "the answer has a chunk without a size that can be read"
            raise RequestFailed(self._fault)
        size = int(digits[0], 16)
        self._in_size_line, self._size_line = False, b""
        self._last_chunk, self._chunk_left = size == 0, size + len(b"\r\n")
        self._chunk_count += 1

    def on_chunk_complete(self) -> None:
        self._in_size_line = True

    def on_body(self, data: bytes) -> None:
        self._body += data[: BODY_BYTES + 1 - len(self._body)]

    def on_message_complete(self) -> None:
        if self._status >= 200:
            self._complete = True
            self._keeps_alive = self._parser.should_keep_alive()  # the parser forgets it afterwards
            return
        self._interim_count += 1
        if self._interim_count > INTERIM_COUNT:
            self._fault = f"the answer begins with more than {INTERIM_COUNT} interim responses"
            raise RequestFailed(self._fault)
        self._retry_after, self._framed, self._chunked = None, False, False
