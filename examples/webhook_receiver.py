"""A receiver of deliveries that believes nobody: it verifies every signature and takes every message once.

    WEBHOOK_SECRET=whsec_… python examples/webhook_receiver.py 9000

Then have a queue's messages delivered to it (Courier must be started with COURIER_DELIVERY_ALLOW=127.0.0.0/8):

    courier listeners create orders shop http://127.0.0.1:9000/ --secret whsec_…

Only Python's own library is used. An answer of 2xx means "I have it"; anything else brings the message again.
"""

import base64
import hashlib
import hmac
import os
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOLERANCE_S = 5 * 60
REMEMBERED = 10_000


class NotGenuine(Exception):
    """The request was not made by whoever holds the secret, or it is an old one played back."""


def verify(secret: str, headers: Mapping[str, str], body: bytes) -> str:
    """The id of the message, if one of the signatures is right; during a rotation there are several."""
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdecimal() or abs(time.time() - int(timestamp)) > TOLERANCE_S:
        raise NotGenuine("the timestamp is missing or too far off")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.".encode() + body
    expected = b"v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256))
    for signature in headers.get("webhook-signature", "").split(" "):
        if hmac.compare_digest(signature.encode(), expected):
            return message_id
    raise NotGenuine("no signature is right")


class Inbox:
    """Remembers the last ids, for a message may come twice: whoever fears that an answer got lost sends again."""

    def __init__(self) -> None:
        self._seen: dict[str, None] = {}

    def is_new(self, message_id: str) -> bool:
        if message_id in self._seen:
            return False
        self._seen[message_id] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return True


def handler(secret: str, inbox: Inbox) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept and used again

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            try:
                message_id = verify(secret, {name.lower(): value for name, value in self.headers.items()}, body)
            except NotGenuine as refusal:
                print(f"refused: {refusal}", flush=True)
                self._answer(401)
                return
            if inbox.is_new(message_id):
                name = self.headers["Courier-Message-Id"]  # as its sender calls it
                print(f"took {name}: {body.decode(errors='replace')}", flush=True)  # here the work is done
            self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """We print what matters ourselves."""

    return Handler


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9000
    server = ThreadingHTTPServer(("127.0.0.1", port), handler(os.environ["WEBHOOK_SECRET"], Inbox()))
    print(f"listening on http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
