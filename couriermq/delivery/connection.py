"""One connection to a receiver: one request at a time, bounded answers."""

import asyncio
from typing import cast

from couriermq.delivery.response import NotConnected, RequestFailed, Response, ResponseReader

__all__ = ["Connection", "NotConnected", "RequestFailed", "Response", "StaleConnection"]

JOINED_BYTES = 64 * 1024
"""A body that is shorter than this is sent in one piece with its head."""


class StaleConnection(RequestFailed):
    """The receiver had given up a connection that was kept for reuse: the request can go over a new one."""


class Connection(asyncio.Protocol):
    """Made by `loop.create_connection`; once a request is answered it may take the next, if it is `reusable`."""

    def __init__(self) -> None:
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Response] | None = None
        self._served = 0
        self.reusable = False
        self.born_at = self.idle_since = 0.0

    def request(self, head: bytes, body: bytes) -> "asyncio.Future[Response]":
        """Send a request; the future is its answer, or raises RequestFailed."""
        assert self._waiter is None, "one request at a time"
        self._reader.reset()
        self.reusable = False
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        if self._transport is None or self._transport.is_closing():
            self._fail(StaleConnection("the connection was closed"))
        elif len(body) < JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines([head, body])
        return waiter

    def close(self) -> None:
        """Close the connection at once; a caller that waits for an answer gets none."""
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
        try:
            response = self._reader.feed(data)
        except RequestFailed as error:
            self._fail(error)
            return
        if response is not None:
            self._finish(response)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._waiter is None:
            return
        if self._served and not self._reader.started:
            self._fail(StaleConnection("the receiver closed the connection"))
            return
        try:
            self._finish(self._reader.end())
        except RequestFailed as failure:
            self._fail(failure)

    # -- the end of a request ---------------------------------------------------------------------------------

    def _finish(self, response: Response) -> None:
        waiter, self._waiter = self._waiter, None
        self._served += 1
        transport = self._transport
        self.reusable = (
            self._reader.connection_reusable
            and transport is not None
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )
        if waiter is not None and not waiter.done():
            waiter.set_result(response)
        if not self.reusable:
            self.close()

    def _fail(self, error: RequestFailed) -> None:
        waiter = self._waiter
        self.close()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
