"""ASGI by hand: one request whose body, pauses and departure the test decides."""

import asyncio
from typing import Any

from couriermq.web.asgi import HALF_CLOSED, OVERLOADED, TIMED_OUT, Event, Scope


class Wire:
    """The client's end of one request. `receive` and `send` go to the application."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.sent: list[Event] = []

    def body(self, chunk: bytes, *, more: bool = False) -> "Wire":
        self._events.put_nowait({"type": "http.request", "body": chunk, "more_body": more})
        return self

    def leave(self) -> "Wire":
        self._events.put_nowait({"type": "http.disconnect"})
        return self

    def take_too_long(self) -> "Wire":
        self._events.put_nowait({"type": TIMED_OUT})
        return self

    def run_out_of_room(self) -> "Wire":
        self._events.put_nowait({"type": OVERLOADED})
        return self

    def half_close(self) -> "Wire":
        self._events.put_nowait({"type": HALF_CLOSED})
        return self

    async def receive(self) -> dict[str, Any]:
        return await self._events.get()

    async def send(self, event: Event) -> None:
        self.sent.append(event)

    @property
    def unread(self) -> int:
        return self._events.qsize()

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def content(self) -> bytes:
        return b"".join(event["body"] for event in self.sent[1:])

    @property
    def finished(self) -> bool:
        return bool(self.sent) and self.sent[-1].get("more_body") is False


def request(method: str, path: str, *headers: tuple[bytes, bytes], client: str = "127.0.0.1") -> Scope:
    """The scope of a request; a path may have a query."""
    raw_path, _, query = path.partition("?")
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "path": raw_path,
        "raw_path": raw_path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": list(headers),
        "client": (client, 40_000),
    }
