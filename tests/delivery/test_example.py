"""The example receiver, run as its reader would run it, and the code that the documentation prints."""

import base64
import hashlib
import hmac
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support.server import start_server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "concepts" / "delivery.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
QUEUES = "/courier/v1/tenants/default/queues"


@pytest.mark.slow
def test_the_example_takes_what_is_genuine_and_refuses_what_is_not(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "webhook_receiver.py"), "0"]
    environ = {**os.environ, "WEBHOOK_SECRET": SECRET}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, text=True) as example,
        start_server(tmp_path, delivery_allow="127.0.0.0/8") as server,
    ):
        assert example.stdout is not None
        url = example.stdout.readline().removeprefix("listening on ").strip()
        try:
            http = server.session
            http.post(server.url + QUEUES, json={"name": "orders"})
            order = {"name": "shop", "url": url, "secret": SECRET}
            assert http.post(f"{server.url}{QUEUES}/orders/listeners", json=order).status_code == 201
            http.post(f"{server.url}{QUEUES}/orders/messages", json={"id": "order-7", "json": {"total": 12}})
            assert example.stdout.readline() == 'took order-7: {"total": 12}\n'
            forged = requests.post(url, b"evil", headers={"webhook-id": "x", "webhook-timestamp": "1"}, timeout=5)
            assert forged.status_code == 401
            assert example.stdout.readline().startswith("refused: ")
        finally:
            example.terminate()


def signed(body: bytes) -> dict[str, str]:
    timestamp = str(int(time.time()))
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = hmac.digest(key, b"m1." + timestamp.encode() + b"." + body, hashlib.sha256)
    signature = "v1,AAAA v1," + base64.b64encode(digest).decode()
    return {"webhook-id": "m1", "webhook-timestamp": timestamp, "webhook-signature": signature}


def test_the_python_of_the_documentation_verifies_a_signature() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["is_genuine"](SECRET, signed(b"hello"), b"hello")
    assert not names["is_genuine"](SECRET, signed(b"hello"), b"hello!")
    assert not names["is_genuine"](SECRET, {**signed(b"hello"), "webhook-timestamp": "1"}, b"hello")
