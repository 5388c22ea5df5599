"""The HTTP client against a server that says what the test wants."""

import json
import threading
from collections.abc import Iterator
from http.client import HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from couriermq.cli import client as client_module
from couriermq.cli.client import Client, Refused, Unreachable, body_of, route
from couriermq.cli.exits import Exit

PROBLEM = "application/problem+json"


class Script:
    """Answers in the order in which they will be given, and the requests that came."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, str, Any, dict[str, str]]] = []
        self.connections: set[object] = set()
        self.url = ""

    def answer(self, status: int, document: Any = None, kind: str = "application/json", **headers: str) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, {"Content-Type": kind} | named, body))


@pytest.fixture
def script() -> Iterator[Script]:
    told = Script()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            told.requests.append((self.command, self.path, json.loads(body) if body else None, dict(self.headers)))
            told.connections.add(self.client_address)
            status, headers, content = told.answers.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            if headers.get("X-Then") == "hang up":
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        told.url = f"http://127.0.0.1:{server.server_port}"
        yield told
        server.shutdown()


def test_a_request_carries_the_token_and_json_both_ways(script: Script) -> None:
    script.answer(201, {"name": "orders"})
    with Client(script.url, token="secret") as client:
        assert client.post(route("tenants", "a/b", "queues"), {"name": "ördêrs"}) == {"name": "orders"}
    method, path, document, headers = script.requests[0]
    assert (method, path, document) == ("POST", "/courier/v1/tenants/a%2Fb/queues", {"name": "ördêrs"})
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/json"


def test_one_connection_serves_many_requests(script: Script) -> None:
    with Client(script.url) as client:
        for _ in range(3):
            script.answer(200, {})
            client.get("/x")
    assert len(script.connections) == 1


def test_a_connection_that_the_server_has_dropped_is_replaced_before_the_next_request(script: Script) -> None:
    with Client(script.url) as client:
        script.answer(200, {}, X_Then="hang up")
        client.get("/x")
        while not client_module._is_stale(client._connection):
            pass  # the end of the connection is on its way
        script.answer(200, {"fine": True})
        assert client.post("/y", {}) == {"fine": True}
    assert [path for _, path, _, _ in script.requests] == ["/x", "/y"]


def test_an_interrupt_is_heard_even_while_an_answer_is_put_away(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    close, interrupts = HTTPResponse.close, [KeyboardInterrupt()]

    def interrupted_close(response: HTTPResponse) -> None:
        close(response)
        if interrupts:
            raise interrupts.pop()

    def ask_twice(client: Client) -> None:
        client.get("/x")
        client.get("/x")  # what the first answer left behind is put away here at the latest

    monkeypatch.setattr(HTTPResponse, "close", interrupted_close)
    for _ in range(2):
        script.answer(200, {})
    with Client(script.url) as client, pytest.raises(KeyboardInterrupt):
        ask_twice(client)


def test_the_path_of_the_url_comes_first(script: Script) -> None:
    script.answer(204)
    with Client(script.url + "/queues-of-ours/") as client:
        assert client.delete("/x") is None
    assert script.requests[0][1] == "/queues-of-ours/x"


def test_a_query_leaves_out_what_is_none_and_repeats_lists(script: Script) -> None:
    script.answer(200, {})
    with Client(script.url) as client:
        client.get("/x", {"state": ["ready", "leased"], "after": None, "limit": 5})
    assert script.requests[0][1] == "/x?state=ready&state=leased&limit=5"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, Exit.FAILED),
        (409, Exit.FAILED),
        (413, Exit.FAILED),
        (500, Exit.FAILED),
        (404, Exit.NOT_FOUND),
        (401, Exit.DENIED),
        (403, Exit.DENIED),
        (503, Exit.UNAVAILABLE),
    ],
)
def test_a_problem_becomes_its_sentence_and_an_exit_code(script: Script, status: int, code: Exit) -> None:
    script.answer(status, {"title": "No", "detail": "the reason why"}, PROBLEM)
    with Client(script.url, token="t") as client, pytest.raises(Refused) as refused:
        client.get("/x")
    assert (str(refused.value), refused.value.code, refused.value.status) == ("the reason why", code, status)


def test_who_has_no_token_is_told_where_to_put_one(script: Script) -> None:
    script.answer(401, {"detail": "a valid credential is required"}, PROBLEM)
    with Client(script.url) as client, pytest.raises(Refused, match="set COURIER_TOKEN or pass --token"):
        client.get("/x")


def test_a_server_that_asks_for_patience_is_asked_again(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(client_module, "time", SimpleNamespace(sleep=pauses.append))  # nobody else's
    script.answer(429, {"detail": "too many requests"}, PROBLEM, Retry_After="2")
    script.answer(429, {"detail": "too many requests"}, PROBLEM, Retry_After="soon")
    script.answer(200, {"done": True})
    with Client(script.url) as client:
        assert client.post("/x", {"a": 1}) == {"done": True}
    assert pauses == [2.0, 1.0]
    assert [document for _, _, document, _ in script.requests] == [{"a": 1}] * 3


def test_patience_ends(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(client_module, "time", SimpleNamespace(sleep=pauses.append))  # nobody else's
    for _ in range(3):
        script.answer(429, {"detail": "too many requests"}, PROBLEM, Retry_After="40")
    with Client(script.url) as client, pytest.raises(Refused) as refused:
        client.get("/x")
    assert refused.value.code == Exit.UNAVAILABLE
    assert sum(pauses) == client_module.PATIENCE_S


def test_somebody_else_s_server_is_not_taken_for_courier(script: Script) -> None:
    script.answer(404, "not json", "text/html")
    with Client(script.url) as client, pytest.raises(Unreachable, match="is COURIER_URL right"):
        client.get("/x")


def test_json_that_is_none_is_not_taken_for_an_answer(script: Script) -> None:
    script.answers.append((200, {"Content-Type": "application/json"}, b"<html>"))
    with Client(script.url) as client, pytest.raises(Unreachable, match="not JSON"):
        client.get("/x")


def test_an_address_needs_no_scheme(script: Script) -> None:
    script.answer(200, {})
    with Client(script.url.removeprefix("http://")) as client:
        client.get("/x")
    assert len(script.requests) == 1


def test_a_body_comes_back_as_the_bytes_it_was() -> None:
    assert body_of({"body": "ü"}) == "ü".encode()
    assert body_of({"body_base64": "/wA="}) == b"\xff\x00"
