"""The ASGI application: from a request to its route, its caller, its handler, and back. No framework in between."""

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from couriermq.catalog.shelf import CALLER
from couriermq.core.errors import (
    BindingNotFound,
    CourierError,
    CredentialNotFound,
    CursorNotFound,
    ExchangeNotFound,
    Forbidden,
    ListenerNotFound,
    QueueNotFound,
    RecordNotFound,
    TenantNotFound,
    Throttled,
    Unauthenticated,
    WorkerNotFound,
)
from couriermq.telemetry.traffic import RouteTraffic, Traffic
from couriermq.web.asgi import Disconnected, Receive, Scope, Send, send_stream, watched
from couriermq.web.body import read_body
from couriermq.web.budget import largest_body
from couriermq.web.call import ANONYMOUS, Call, Dialect, Header, Reply, Route
from couriermq.web.cors import Cors
from couriermq.web.errors import MethodNotAllowed, RequestTimeout, RequestTooLarge, WireError
from couriermq.web.product import Product
from couriermq.web.routing import RouteTable
from couriermq.web.services import Services

Trace = Callable[[str, str, Call, Awaitable[Reply]], Coroutine[Any, Any, Reply]]
"""Wraps an answer to a route of a dialect in a span."""

log = logging.getLogger("couriermq.web")

MISSED = (
    TenantNotFound, QueueNotFound, ExchangeNotFound, BindingNotFound, ListenerNotFound, CredentialNotFound,
    RecordNotFound, WorkerNotFound, CursorNotFound, Unauthenticated,
)  # fmt: skip

PUBLIC_BODY_BYTES = 16 * 1024
"""What a route that asks for no credential takes unless it says so itself."""

_CLOSE: Header = (b"connection", b"close")
_BODILESS = frozenset((204, 304))


class Endpoint:
    """A route with everything that serving it takes."""

    __slots__ = ("body_limit", "dialect", "handler", "public", "traffic", "waits")

    def __init__(self, dialect: Dialect, route: Route, traffic: RouteTraffic, *, body_limit: int) -> None:
        self.dialect = dialect
        self.handler = route.handler
        self.public = route.public
        self.waits = route.waits
        self.body_limit = _limit_of(route, body_limit)
        self.traffic = traffic


class App:
    """Serves dialects over HTTP."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        services: Services,
        traffic: Traffic | None = None,
        *,
        trace: Trace | None = None,
    ) -> None:
        settings = services.settings
        self._trace = trace
        self._services = services
        self._cors = Cors(settings.cors_origins) if settings.cors_origins else None
        self.traffic = traffic or Traffic()
        self._debugging = log.isEnabledFor(logging.DEBUG)
        self._table: RouteTable[Endpoint] = RouteTable()
        self._prefixes: list[tuple[str, Dialect]] = [("", Product())]
        body_limit = min(settings.max_request_bytes, largest_body(settings.max_buffered_bytes))
        for dialect in dialects:
            self._prefixes += [(prefix.rstrip("/") + "/", dialect) for prefix in dialect.prefixes]
            for route in dialect.routes:
                traffic_of_route = self.traffic.route(dialect.name, route.method, route.pattern)
                endpoint = Endpoint(dialect, route, traffic_of_route, body_limit=body_limit)
                self._table.add(route.method, route.pattern, endpoint)
                if route.trailing_slash:
                    self._table.add(route.method, route.pattern + "/", endpoint)
        self._prefixes.sort(key=lambda pair: len(pair[0]), reverse=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        method: str = scope["method"]
        found = self._find(method, scope["raw_path"].decode("ascii"))
        if isinstance(found, WireError):
            await self._turn_away(found, scope, receive, send)
            return
        endpoint, params = found
        call = Call(
            method="GET" if method == "HEAD" else method,
            path=scope["path"],
            raw_query=scope["query_string"],
            raw_headers=scope["headers"],
            body=b"",
            params=params,
            services=self._services,
            principal=ANONYMOUS,
            peer=_peer(scope),
        )
        answer = self._answer(endpoint, call, scope, receive)
        if self._trace is not None:
            answer = self._trace(endpoint.traffic.pattern, endpoint.dialect.name, call, answer)
        try:
            reply = await answer
        except Disconnected:
            return
        if self._services.proxies:
            reply = _located(reply, call)
        seconds = time.perf_counter() - started
        endpoint.traffic.observe(reply.status, seconds)
        if self._debugging:
            _log_answer(call, reply, seconds)
        await self._send(reply, scope, receive, send)

    def _find(self, method: str, raw_path: str) -> tuple[Endpoint, dict[str, str]] | WireError:
        """The endpoint, or why there is none.

        The error is returned because a response lets the parser go on with the next request of the connection: inside
        an `except` block, Python would give that error to the parser's as its context.
        """
        try:
            return self._table.find(method, raw_path)
        except WireError as error:
            return error

    async def _answer(self, endpoint: Endpoint, call: Call, scope: Scope, receive: Receive) -> Reply:
        try:
            if not endpoint.public:
                try:
                    call.principal = endpoint.dialect.authenticate(call)
                except CourierError as error:
                    if not await self._has_news(error, call):
                        raise
                    call.principal = endpoint.dialect.authenticate(call)
                if call.method != "GET":
                    CALLER.set((call.principal.id, call.origin.address))
            call.body = await read_body(call, receive, endpoint.body_limit)
            try:
                return await self._handle(endpoint, call, receive)
            except CourierError as error:
                if not await self._has_news(error, call):
                    raise
                return await self._handle(endpoint, call, receive)  # another node has made what was missing
        except CourierError as error:
            return self._failure(endpoint.dialect, error, call)
        except Disconnected:
            raise
        except Exception:
            log.exception("a handler failed", extra={"method": call.method, "path": call.path})
            return _crash(endpoint.dialect, call)

    async def _has_news(self, error: CourierError, call: Call) -> bool:
        """Whether the catalog has just learnt something from other nodes, after a call has missed something here."""
        if isinstance(error, Unauthenticated) and not self._services.auth.may_be_news(call):
            return False
        return _misses(error) and await self._services.catalog.catch_up()

    def _handle(self, endpoint: Endpoint, call: Call, receive: Receive) -> Awaitable[Reply]:
        answer = endpoint.handler(call)
        return watched(answer, receive, half_closed_is_gone=True) if endpoint.waits else answer

    # -- when it does not go well -----------------------------------------------------------------------------

    def _failure(self, dialect: Dialect, error: CourierError, call: Call) -> Reply:
        try:
            reply = dialect.failure(error, call)
        except Exception:
            log.exception(
                "the dialect could not answer an error", extra={"dialect": dialect.name, "error": type(error).__name__}
            )
            return _crash(dialect, call)
        if isinstance(error, Unauthenticated | Forbidden | Throttled):
            self._services.audit.denied(call, reply.status)
        return _with_hints(reply, error)

    async def _turn_away(self, error: WireError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that has no route, in the words of the dialect it seems to speak."""
        if self._cors is not None and scope["method"] == "OPTIONS":
            reply = self._cors.preflight(scope["headers"])
            if reply is not None:
                await self._send(reply, scope, receive, send)
                return
        path: str = scope["path"]
        dialect = next(dialect for prefix, dialect in self._prefixes if (path + "/").startswith(prefix))
        call = Call(
            method=scope["method"],
            path=path,
            raw_query=scope["query_string"],
            raw_headers=scope["headers"],
            body=b"",
            params={},
            services=self._services,
            principal=ANONYMOUS,
            peer=_peer(scope),
        )
        reply = self._failure(dialect, error, call)
        self.traffic.unrouted(dialect.name).observe(reply.status, 0.0)
        await self._send(reply, scope, receive, send)

    # -- out --------------------------------------------------------------------------------------------------

    async def _send(self, reply: Reply, scope: Scope, receive: Receive, send: Send) -> None:
        headers = list(reply.headers)
        if self._cors is not None:
            headers += self._cors.marks(dict(scope["headers"]).get(b"origin"))
        body = reply.body
        try:
            if not isinstance(body, bytes):
                await send_stream(Reply(reply.status, body, headers), scope, receive, send)
                return
            if reply.status not in _BODILESS:
                headers.append((b"content-length", b"%d" % len(body)))
            if scope["method"] == "HEAD":
                body = b""
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": body, "more_body": False})
        except Disconnected:
            if reply.unsent is not None:
                await reply.unsent()


def _limit_of(route: Route, body_limit: int) -> int:
    """How large a body may be; 0 where a body has no meaning, as in GET."""
    if route.method in {"GET", "HEAD"} or route.body_limit == 0:
        return 0
    if route.body_limit is None:
        return min(body_limit, PUBLIC_BODY_BYTES) if route.public else body_limit
    return min(route.body_limit, body_limit)


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _located(reply: Reply, call: Call) -> Reply:
    """The reply with its `Location` below the path prefix under which a proxy shows this server."""
    if not call.origin.prefix or all(name != b"location" for name, _ in reply.headers):
        return reply
    prefix = call.origin.prefix.encode()
    headers = [
        (name, prefix + value if name == b"location" and value.startswith(b"/") else value)
        for name, value in reply.headers
    ]
    return Reply(reply.status, reply.body, headers)


def _misses(error: CourierError) -> bool:
    """Whether something is not known here, which another node may have made a moment ago."""
    return isinstance(error, MISSED) or isinstance(error.__context__, MISSED)


def _with_hints(reply: Reply, error: CourierError) -> Reply:
    """The reply with what HTTP itself wants said, where the dialect has not."""
    headers = list(reply.headers)
    said = {name for name, _ in headers}
    retry_after_ms = getattr(error, "retry_after_ms", None)
    if retry_after_ms is not None and b"retry-after" not in said:
        headers.append((b"retry-after", b"%d" % max(1, -(-retry_after_ms // 1_000))))
    if reply.status == 401 and b"www-authenticate" not in said:
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, MethodNotAllowed) and b"allow" not in said:
        headers.append((b"allow", ", ".join(error.allowed).encode()))
    if isinstance(error, RequestTooLarge | RequestTimeout):
        headers.append(_CLOSE)
    return Reply(reply.status, reply.body, headers)


def _log_answer(call: Call, reply: Reply, seconds: float) -> None:
    facts = {
        "principal": call.principal.id,
        "address": call.origin.address,
        "status": reply.status,
        "ms": round(seconds * 1_000, 1),
    }
    log.debug("%s %s", call.method, call.path, extra=facts)


def _crash(dialect: Dialect, call: Call) -> Reply:
    try:
        return dialect.crash(call)
    except Exception:
        log.exception("the dialect could not answer a crash", extra={"dialect": dialect.name})
        return Product().crash(call)
