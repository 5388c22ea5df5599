"""What tests of the console do on its pages, and beside them over HTTP."""

import contextlib
import itertools
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect

from tests.support.server import ServerProcess

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "/usr/bin/chromium")

_numbers = itertools.count(1)


class Console:
    """One page of a browser, and the API that other programs call meanwhile."""

    def __init__(self, page: Page, server: ServerProcess, *, base: str | None = None) -> None:
        self.page = page
        self.server = server
        self._base = base

    @property
    def base(self) -> str:
        return self._base or self.server.url

    def sign_in(self, token: str | None = None) -> Self:
        self.page.goto(f"{self.base}/console")
        self.page.get_by_label("Token").fill(token or self.server.token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("button", name="Sign out")).to_be_visible()
        return self

    def open(self, *parts: str, **chosen: str) -> Self:
        """Go to a page by its address."""
        query = "&".join(f"{name}={quote(value)}" for name, value in chosen.items())
        self.page.goto(
            f"{self.base}/console/{'/'.join(quote(part, safe='') for part in parts)}{'?' * bool(query)}{query}"
        )
        expect(self.page.locator("main h1")).to_be_visible()
        return self

    def click(self, name: str, *, exact: bool = True) -> None:
        self.page.get_by_role("button", name=name, exact=exact).first.click()

    def say(self, text: str) -> None:
        """The text comes into sight."""
        expect(self.page.get_by_text(text).first).to_be_visible()

    @property
    def dialog(self) -> Locator:
        return self.page.get_by_role("dialog")

    # -- over HTTP ------------------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The answer of the native API below the tenant."""
        url = f"{self.server.url}/courier/v1/tenants/default{path}"
        response = self.server.session.request(method, url, json=body, timeout=60, **options)
        assert response.ok, response.text
        return response.json() if response.content else None

    def queue(self, name: str | None = None, **settings: Any) -> str:
        """A new queue."""
        name = name or f"queue-{next(_numbers)}"
        self.call("POST", "/queues", {"name": name, "settings": settings})
        return name

    def send(self, queue: str, **message: Any) -> dict[str, Any]:
        sent: dict[str, Any] = self.call(
            "POST", f"/queues/{quote(queue, safe='')}/messages", message or {"body": "hello"}
        )
        return sent

    def receive(self, queue: str, **order: Any) -> list[dict[str, Any]]:
        leases: list[dict[str, Any]] = self.call("POST", f"/queues/{queue}/receive", order)["leases"]
        return leases


class Receiver:
    """A URL that deliveries go to; it answers as it is told."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/hook"
        self.status, self.body = 200, b""

    def answer(self, status: int, body: bytes) -> None:
        self.status, self.body = status, body


@contextlib.contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(receiver.status)
            self.send_header("content-length", str(len(receiver.body)))
            self.end_headers()
            self.wfile.write(receiver.body)

        def log_message(self, *_: object) -> None:
            """A test prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield receiver
    server.shutdown()
    server.server_close()
    thread.join()
