"""Requests to receivers: dialled only where the guard allows, over connections that are kept and used again.

Redirects are not followed, answers are bounded, and a request is over when its time is, whatever the receiver does.
"""

import asyncio
import ssl
from collections import deque
from functools import partial
from time import perf_counter

from couriermq.delivery.connection import Connection, RequestFailed, Response, StaleConnection
from couriermq.delivery.guard import Guard, Refused, Target
from couriermq.delivery.model import Answer

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 30.0
LIFE_SECONDS = 120.0
"""No connection is kept for longer, so that receivers can move to another address."""
IDLE_COUNT = 256
ADDRESSES = 4
EXCERPT_BYTES = 512

Origin = tuple[str, str, int]


class Client:
    """One for the whole server."""

    def __init__(self, guard: Guard, *, tls: ssl.SSLContext | None = None) -> None:
        self._guard = guard
        self._tls = tls
        self._idle: dict[Origin, deque[Connection]] = {}
        self._sweeping: asyncio.TimerHandle | None = None

    async def exchange(self, target: Target, head: bytes, body: bytes = b"", *, timeout_ms: int) -> Answer:
        """The receiver's answer, or in words why there is none; never raises for what a receiver does."""
        started = perf_counter()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                response = await self.request(target, head, body)
        except (RequestFailed, Refused) as error:
            return Answer(error=str(error), latency_ms=_since(started))
        except TimeoutError:
            return Answer(error=f"no answer within {timeout_ms} ms", latency_ms=_since(started))
        return Answer(
            status=response.status,
            retry_after=response.retry_after,
            excerpt=response.body[:EXCERPT_BYTES].decode("utf-8", "replace") if response.body else "",
            latency_ms=_since(started),
        )

    async def request(self, target: Target, head: bytes, body: bytes = b"") -> Response:
        """Send a whole request; raises RequestFailed or Refused."""
        origin = (target.scheme, target.host, target.port)
        while (connection := self._kept(origin)) is not None:
            try:
                return await self._ask(origin, connection, head, body)
            except StaleConnection:
                continue
        return await self._ask(origin, await self._dial(target), head, body)

    async def _ask(self, origin: Origin, connection: Connection, head: bytes, body: bytes) -> Response:
        try:
            response = await connection.request(head, body)
        except BaseException:
            connection.close()
            raise
        if connection.reusable:
            self._keep(origin, connection)
        return response

    # -- dialling ---------------------------------------------------------------------------------------------

    async def _dial(self, target: Target) -> Connection:
        """A connection to the first address that takes one."""
        try:
            addresses = await self._guard.addresses(target)
        except TimeoutError:
            raise RequestFailed(f"{target.host} could not be looked up in time") from None
        except OSError as error:
            raise RequestFailed(f"{target.host} could not be looked up: {error.strerror or error}") from None
        failure: RequestFailed | None = None
        for address in addresses[:ADDRESSES]:
            try:
                return await self._connect(target, address)
            except RequestFailed as error:
                failure = error
        assert failure is not None
        raise failure

    async def _connect(self, target: Target, address: str) -> Connection:
        loop = asyncio.get_running_loop()
        tls, name = (self._context(), target.host) if target.scheme == "https" else (None, None)
        try:
            async with asyncio.timeout(CONNECT_SECONDS) as timer:
                _, connection = await loop.create_connection(
                    Connection, address, target.port, ssl=tls, server_hostname=name
                )
        except TimeoutError:
            if not timer.expired():
                raise
            raise RequestFailed(f"no connection to {address} within {CONNECT_SECONDS:.0f} s") from None
        except ssl.SSLError as error:
            raise RequestFailed(f"TLS with {target.host} failed: {error.reason or error}") from None
        except OSError as error:
            raise RequestFailed(f"no connection to {address}: {error.strerror or error}") from None
        connection.born_at = loop.time()
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    # -- keeping ----------------------------------------------------------------------------------------------

    def _kept(self, origin: Origin) -> Connection | None:
        """The connection that was used last, so that those not needed grow old."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.is_open:
                return connection
        return None

    def _keep(self, origin: Origin, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        idle = self._idle.setdefault(origin, deque())
        if len(idle) >= IDLE_COUNT or connection.idle_since - connection.born_at > LIFE_SECONDS:
            connection.close()
            return
        idle.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(IDLE_SECONDS / 3, partial(self._sweep, loop))

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what nobody has used for a while."""
        limit = loop.time() - IDLE_SECONDS
        for origin, idle in list(self._idle.items()):
            while idle and (idle[0].idle_since < limit or not idle[0].is_open):
                idle.popleft().close()
            if not idle:
                del self._idle[origin]
        self._sweeping = loop.call_later(IDLE_SECONDS / 3, partial(self._sweep, loop)) if self._idle else None

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for idle in self._idle.values():
            for connection in idle:
                connection.close()
        self._idle.clear()


def _since(started: float) -> float:
    return (perf_counter() - started) * 1_000
