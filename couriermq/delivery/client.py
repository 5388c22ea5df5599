"""Requests to receivers: dialled only where the guard allows, over connections that are kept and used again.

Redirects are not followed, answers are bounded, and a request is over when its time is, whatever the receiver does.
"""

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from couriermq.core.redaction import without_secrets
from couriermq.delivery.connection import Connection, NotConnected, RequestFailed, Response, StaleConnection
from couriermq.delivery.egress import Proxy, Tunnel, absolute_form
from couriermq.delivery.files import open_files
from couriermq.delivery.guard import Guard, Refused, Target, literal_address
from couriermq.delivery.idle import IdleConnections, Origin
from couriermq.delivery.model import Answer

CONNECT_SECONDS = 5.0
IDLE_SECONDS = 30.0
LIFE_SECONDS = 120.0
"""No connection is kept for longer, so that receivers can move to another address."""
ADDRESSES = 4
EXCERPT_BYTES = 512


class Withdrawn(Exception):
    """The request was not sent: its reason had gone by the time it could have been written."""


def _always() -> bool:
    return True


class Client:
    """One for the whole server. Through a proxy, it is the proxy that resolves names if `proxy_resolves`."""

    def __init__(
        self,
        guard: Guard,
        *,
        tls: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
        proxy_resolves: bool = False,
    ) -> None:
        self._guard = guard
        self._tls = tls
        self._proxy = proxy
        self._proxy_resolves = proxy_resolves
        self._idle = IdleConnections(open_files() // 4)
        self._sweeping: asyncio.TimerHandle | None = None

    async def exchange(
        self,
        target: Target,
        head: bytes,
        body: bytes = b"",
        *,
        timeout_ms: int,
        may_send: Callable[[], bool] = _always,
        secrets: Sequence[str] = (),
    ) -> Answer:
        """The receiver's answer, or in words why there is none; never raises for what a receiver does.

        Raises Withdrawn where `may_send`, which is asked right before each write of the request, says no. A receiver
        may echo what it was sent: `secrets` are hidden in the excerpt.
        """
        started = perf_counter()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                response = await self.request(target, head, body, may_send=may_send)
        except (RequestFailed, Refused) as error:
            return Answer(error=str(error), latency_ms=_since(started))
        except TimeoutError:
            return Answer(error=f"no answer within {timeout_ms} ms", latency_ms=_since(started))
        return Answer(
            status=response.status,
            retry_after=response.retry_after,
            excerpt=_excerpt(response.body, secrets) if response.body else "",
            latency_ms=_since(started),
        )

    async def request(
        self, target: Target, head: bytes, body: bytes = b"", *, may_send: Callable[[], bool] = _always
    ) -> Response:
        """Send a whole request; raises RequestFailed, Refused or Withdrawn."""
        if self._proxy is not None and self._is_forwarded(target):
            head = absolute_form(head, target, self._proxy)
        origin = (target.tenant, target.scheme, target.host, target.port)
        while (connection := self._idle.take(origin)) is not None:
            try:
                return await self._ask(origin, connection, head, body, may_send)
            except StaleConnection:
                continue
        return await self._ask(origin, await self._dial(target), head, body, may_send)

    async def _ask(
        self, origin: Origin, connection: Connection, head: bytes, body: bytes, may_send: Callable[[], bool]
    ) -> Response:
        if not may_send():  # nothing may stand between this and the write: the process can stop at any point
            self._keep(origin, connection)
            raise Withdrawn
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
            addresses = await self._addresses(target)
        except OSError as error:
            raise NotConnected(f"{target.host} could not be looked up: {error.strerror or error}") from None
        failure: RequestFailed | None = None
        for address in addresses[:ADDRESSES]:
            try:
                return await self._connect(target, address)
            except RequestFailed as error:
                failure = error
        raise NotConnected(str(failure))

    async def _addresses(self, target: Target) -> list[str]:
        """Where to connect to, judged; a proxy that resolves names judges them as well."""
        if self._proxy is not None and self._proxy_resolves and literal_address(target.host) is None:
            self._guard.check_port(target.port)
            return [target.host]
        return await self._guard.addresses(target)

    async def _connect(self, target: Target, address: str) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS) as timer:
                if self._proxy is None:
                    connection = await self._connect_directly(target, address)
                elif self._is_forwarded(target):
                    _, connection = await loop.create_connection(Connection, self._proxy.host, self._proxy.port)
                else:
                    connection = await self._connect_through(self._proxy, target, address)
        except TimeoutError:
            if not timer.expired():
                raise
            raise RequestFailed(f"no connection to {target.host} within {CONNECT_SECONDS:.0f} s") from None
        except ssl.SSLError as error:
            raise RequestFailed(f"TLS with {target.host} failed: {error.reason or error}") from None
        except OSError as error:
            raise RequestFailed(f"no connection to {target.host}: {_reason(error)}") from None
        connection.born_at = loop.time()
        return connection

    async def _connect_directly(self, target: Target, address: str) -> Connection:
        tls, name = (self._context(), target.host) if target.scheme == "https" else (None, None)
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, address, target.port, ssl=tls, server_hostname=name
        )
        return connection

    async def _connect_through(self, proxy: Proxy, target: Target, address: str) -> Connection:
        """A tunnel to the address that was judged, and TLS inside it with the receiver itself."""
        loop = asyncio.get_running_loop()
        transport, tunnel = await loop.create_connection(
            lambda: Tunnel(address, target.port, proxy), proxy.host, proxy.port
        )
        connection = Connection()
        try:
            await tunnel.opened
            transport.set_protocol(connection)
            if target.scheme == "https":
                inner = await loop.start_tls(transport, connection, self._context(), server_hostname=target.host)
                assert inner is not None
                transport = inner
        except BaseException:
            transport.abort()
            raise
        connection.connection_made(transport)
        return connection

    def _is_forwarded(self, target: Target) -> bool:
        """Whether the proxy gets the request itself: a name goes through a tunnel, unless the proxy resolves names."""
        return target.scheme == "http" and (self._proxy_resolves or literal_address(target.host) is not None)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    # -- keeping ----------------------------------------------------------------------------------------------

    def _keep(self, origin: Origin, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        if connection.idle_since - connection.born_at > LIFE_SECONDS:
            connection.close()
            return
        self._idle.put(origin, connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(IDLE_SECONDS / 3, partial(self._sweep, loop))

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what nobody has used for a while."""
        limit = loop.time() - IDLE_SECONDS
        for connection in self._idle:
            if connection.idle_since < limit or not connection.is_open:
                self._idle.discard(connection)
        self._sweeping = loop.call_later(IDLE_SECONDS / 3, partial(self._sweep, loop)) if self._idle else None

    def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection in self._idle:
            self._idle.discard(connection)


def _reason(error: OSError) -> str:
    """Why there is no connection, in the system's words without the address that asyncio adds."""
    return os.strerror(error.errno) if error.errno else "it failed"


def _excerpt(body: bytes, secrets: Sequence[str]) -> str:
    """How an answer begins; hidden before it is cut, so that no half of a secret stays."""
    text = body[: EXCERPT_BYTES + max(map(len, secrets), default=0)].decode("utf-8", "replace")
    return without_secrets(text, secrets).encode()[:EXCERPT_BYTES].decode("utf-8", "ignore")


def _since(started: float) -> float:
    return (perf_counter() - started) * 1_000
