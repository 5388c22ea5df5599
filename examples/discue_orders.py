"""Orders that arrive by themselves: a queue of discue.io, a listener, and a receiver that checks who is calling.

    COURIER_DELIVERY_ALLOW=127.0.0.0/8 courier serve        # the receiver below is on this machine
    COURIER_URL=http://127.0.0.1:8080 COURIER_TOKEN=… python examples/discue_orders.py

The only line that differs from a program for discue.io itself is the URL. Nothing but the standard library is needed.
"""

import base64
import hashlib
import hmac
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any
from urllib.request import Request, urlopen

API = os.environ.get("COURIER_URL", "http://127.0.0.1:8080") + "/v1"
SCHEMA = {"order": {"type": "string", "pattern": "^A-[0-9]+$"}, "total": {"type": "number", "min": 0}}


def main() -> None:
    with receiver() as (url, arrived, secrets):
        queue = call("POST", "/queues", {"name": "myapp.io/orders", "schema": SCHEMA})["queue"]
        path = f"/queues/{queue['id']}"
        try:
            listener = call(
                "POST",
                f"{path}/listeners",
                {"name": "myapp.io/shop", "notify_url": f"{url}/orders", "liveness_url": f"{url}/live"},
            )["listener"]
            secrets.append(listener["secret"])
            for order, total in (("A-1", 19.9), ("A-2", 5)):
                message = {"name": order, "data": json.dumps({"order": order, "total": total})}
                call("POST", f"{path}/messages", message)
            for data in sorted(arrived.get(timeout=30) for _ in range(2)):
                print("arrived, and signed by Courier:", data)
        finally:
            call("DELETE", path)  # its listeners and messages go with it


def call(method: str, path: str, body: Any = None) -> Any:
    """One request to the API; an error is raised with its status."""
    headers = {"X-API-KEY": os.environ["COURIER_TOKEN"], "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(API + path, data=data, headers=headers, method=method)) as response:
        return json.load(response)


def verified(secret: str, headers: Any, body: bytes) -> bool:
    """Whether a delivery is signed with the listener's secret, as Standard Webhooks has it."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode()
    return any(hmac.compare_digest(one, expected) for one in headers["webhook-signature"].split())


@contextmanager
def receiver() -> Iterator[tuple[str, "Queue[str]", list[str]]]:
    """A web server: its URL, the data that arrived with a good signature, and the secrets to check it with."""
    arrived: Queue[str] = Queue()
    secrets: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            good = any(verified(secret, self.headers, body) for secret in secrets)
            self.answer(204 if good else 401)
            if good:
                arrived.put(body.decode())

        def do_GET(self) -> None:
            self.answer(204)

        def answer(self, status: int) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", arrived, secrets
    finally:
        server.shutdown()


if __name__ == "__main__":
    main()
