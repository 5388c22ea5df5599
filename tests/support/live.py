"""A page that reads a live stream of a Courier in the same process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from couriermq.web.asgi import Event as AsgiEvent
from tests.support.inprocess import ROOT_TOKEN, InProcess

PATIENCE_SECONDS = 20


class LivePage:
    """Frames as they come: the name of each event, its data and its id."""

    def __init__(self) -> None:
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.headers: dict[str, str] = {}
        self.left = asyncio.Event()
        self.body = b""
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._buffer = b""

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: AsgiEvent) -> None:
        if event["type"] == "http.response.start":
            self.headers = {name.decode(): value.decode() for name, value in event["headers"]}
            self.status.set_result(event["status"])
            return
        self.body += event["body"]
        self._chunks.put_nowait(event["body"])
        if not event["more_body"]:
            self._chunks.put_nowait(None)

    async def next(self, *wanted: str) -> dict[str, Any]:
        """The next frame, or the next of the wanted events; raises EOFError at the end of the stream."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                frame = await self._frame()
                if not wanted or frame.get("event") in wanted:
                    return frame

    async def _frame(self) -> dict[str, Any]:
        while b"\n\n" not in self._buffer:
            chunk = await self._chunks.get()
            if chunk is None:
                raise EOFError
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\n\n")
        fields = dict(line.split(": ", 1) for line in text.decode().splitlines() if ": " in line)
        if "data" in fields:
            fields["data"] = msgspec.json.decode(fields["data"])
        return fields | ({"comment": True} if text.startswith(b":") else {})


@contextlib.asynccontextmanager
async def live(
    app: InProcess, query: str = "", *, token: str = ROOT_TOKEN, tenant: str = "default", **headers: str
) -> AsyncIterator[LivePage]:
    """A page that is open inside the block."""
    given = {"authorization": f"Bearer {token}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"/courier/v1/tenants/{tenant}/live"
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 40_000),
        "scheme": "http",
    }
    page = LivePage()
    task = asyncio.create_task(app.node.app(scope, page.receive, page.send))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await page.status
        yield page
    finally:
        page.left.set()
        await task
