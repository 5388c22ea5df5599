"""Courier without a socket: the whole application, called directly."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from couriermq.clock import Clock, FakeClock
from couriermq.config import DialectSettings, Settings
from couriermq.server import DIALECTS, Node, running
from couriermq.web.asgi import Event
from tests.support.stores import store_settings

ROOT_TOKEN = "root-token"


class Response:
    """What came back; header names are lower case."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self.status = status
        self.headers = {name.decode(): value.decode() for name, value in headers}
        self.body = body

    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:200]!r}>"


class InProcess:
    """A running Courier and a client of it."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self.node = node
        self.services = node.services
        self.store = node.store
        self._clock = clock

    @property
    def clock(self) -> FakeClock:
        """The clock of a test that moves it by hand."""
        assert isinstance(self._clock, FakeClock)
        return self._clock

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = msgspec.UNSET,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        token: str | None = ROOT_TOKEN,
        client: str = "127.0.0.1",
    ) -> Response:
        """One request; `path` is as on the wire, query included. `token=None` sends no credential."""
        content = msgspec.json.encode(json) if json is not msgspec.UNSET else body
        sent = _headers(headers or {}, content, token, is_json=json is not msgspec.UNSET)
        raw_path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": unquote(raw_path),
            "raw_path": raw_path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": sent,
            "client": (client, 40_000),
            "scheme": "http",
        }
        exchange = _Exchange(content or b"")
        if raw_path.endswith("/live"):  # a stream without an end: how it begins is enough
            with contextlib.suppress(_Enough):
                await self.node.app(scope, exchange.receive, exchange.send_first)
        else:
            await self.node.app(scope, exchange.receive, exchange.send)
        return exchange.response()

    async def get(self, path: str, **options: Any) -> Response:
        return await self.request("GET", path, **options)

    async def post(self, path: str, json: Any = msgspec.UNSET, **options: Any) -> Response:
        return await self.request("POST", path, json=json, **options)


class _Enough(Exception):
    """The client has read enough of a stream."""


class _Exchange:
    """The two callables of ASGI for one request."""

    def __init__(self, content: bytes) -> None:
        self._events = [{"type": "http.request", "body": content, "more_body": False}]
        self._sent: list[Event] = []
        self._done = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        """The request, and nothing more before it is answered: this client does not hang up."""
        if self._events:
            return self._events.pop()
        await self._done.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: Event) -> None:
        self._sent.append(event)
        if not event.get("more_body", True) or (b"connection", b"close") in self._sent[0]["headers"]:
            self._done.set()

    async def send_first(self, event: Event) -> None:
        """Hang up after the first piece of a body."""
        await self.send(event)
        if event["type"] == "http.response.body" and event.get("more_body"):
            raise _Enough

    def response(self) -> Response:
        start = self._sent[0]
        body = b"".join(event.get("body", b"") for event in self._sent[1:])
        return Response(start["status"], list(start["headers"]), body)


def _headers(
    given: Mapping[str, str], content: bytes | None, token: str | None, *, is_json: bool
) -> list[tuple[bytes, bytes]]:
    sent = {name.lower(): value for name, value in given.items()}
    if content is not None:
        sent.setdefault("content-length", str(len(content)))
    if is_json:
        sent.setdefault("content-type", "application/json")
    if token is not None:
        sent.setdefault("authorization", f"Bearer {token}")
    return [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]


@contextlib.asynccontextmanager
async def courier_app(
    tmp_path: Path,
    *,
    clock: Clock | None = None,
    dialects: Sequence[str] = DIALECTS,
    tracing: Any = None,
    dialect_settings: DialectSettings | None = None,
    **settings: Any,
) -> AsyncIterator[InProcess]:
    """A Courier on a store in `tmp_path` that speaks `dialects`; `settings` override the defaults."""
    data = settings.get("data", tmp_path / "data")
    settings = {"data": data, "root_token": ROOT_TOKEN} | store_settings(data) | settings
    if dialect_settings is not None:
        settings["dialects"] = dialect_settings
    clock = clock or FakeClock()
    async with running(Settings(**settings), clock=clock, dialects=dialects, tracing=tracing) as node:
        yield InProcess(node, clock)
