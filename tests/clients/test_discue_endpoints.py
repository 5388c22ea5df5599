"""Every endpoint of discue.io against a real server, in the words of both generations."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue as Mailbox
from typing import Any

import pytest
import requests

from tests.support.eventually import eventually_sync
from tests.support.server import ServerProcess, start_server

PATIENCE_S = 20

REFERENCE = {"id", "name", "alias"}
LISTENER = REFERENCE | {"status", "liveness", "messages", "notify_url", "liveness_url", "secret"}
KEY = REFERENCE | {"created_at", "updated_at", "last_used_at", "key", "status", "scopes"}
DOMAIN = REFERENCE | {"hostname", "port", "challenge", "verification"}
SPANS = {"last_24_hours", "last_1_hours", "today_so_far"}
SCHEMA = {"userId": {"type": "string", "min": 1}}
DATA = '{ "userId": "481512342" }'

Delivery = tuple[dict[str, str], bytes]


class Discue:
    """A program that speaks to the API as its documents say."""

    def __init__(self, server: ServerProcess, prefix: str) -> None:
        self.url = server.url + prefix
        self.session = requests.Session()
        self.session.headers.update({"X-API-KEY": server.token, "Accept": "application/json"})

    def call(self, method: str, path: str, order: Any = None) -> requests.Response:
        return self.session.request(method, self.url + path, json=order, timeout=PATIENCE_S)

    def good(self, method: str, path: str, order: Any = None) -> Any:
        response = self.call(method, path, order)
        assert response.status_code == 200, (method, path, response.text, response.headers)
        answer = response.json()
        assert answer["_links"]["self"]["href"].startswith("http://")
        return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with start_server(tmp_path_factory.mktemp("discue"), delivery_allow="127.0.0.0/8") as server:
        yield server


@pytest.fixture(params=["/v1", ""], ids=["v1", "bare"])
def discue(server: ServerProcess, request: pytest.FixtureRequest) -> Discue:
    return Discue(server, request.param)


@contextlib.contextmanager
def receiver() -> Iterator[tuple[str, "Mailbox[Delivery]", dict[str, bytes]]]:
    """A web server: its URL, what was posted to it, and the files that it serves."""
    mailbox: Mailbox[Delivery] = Mailbox()
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            mailbox.put(({name.lower(): value for name, value in self.headers.items()}, body))
            self._answer(b"thanks")

        def do_GET(self) -> None:
            self._answer(files.get(self.path, b"alive"))

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}", mailbox, files
    finally:
        listening.shutdown()
        listening.server_close()


@pytest.mark.slow
def test_queues_and_schemas(discue: Discue) -> None:
    for word, method in (("name", "POST"), ("alias", "POST"), ("name", "PUT")):
        queue = discue.good(method, "/queues", {word: f"q-{word}-{method}", "schema": SCHEMA})["queue"]
        assert REFERENCE | {"schema", "listeners"} <= set(queue)
        path = f"/queues/{queue['id']}"
        assert discue.good("GET", path)["queue"] == queue
        assert queue["id"] in {one["id"] for one in discue.good("GET", "/queues")["queues"]}
        assert discue.good("GET", f"{path}/schemas/{queue['schema_id']}")["schema"] == SCHEMA
        changed = discue.good("PUT", path, {word: f"renamed-{word}", "schema": None})["queue"]
        assert changed["name"] == changed["alias"] == f"renamed-{word}"
        assert "schema" not in changed
        assert "_links" in discue.good("DELETE", path)
        assert discue.call("GET", path).json() == {"title": "Not Found", "status": 404}


@pytest.mark.slow
def test_listeners_messages_and_their_delivery(discue: Discue) -> None:
    queue = discue.good("POST", "/queues", {"name": "deliveries"})["queue"]
    path = f"/queues/{queue['id']}"
    with receiver() as (url, mailbox, _):
        order = {"name": "shop", "notify_url": f"{url}/notify", "liveness_url": f"{url}/live"}
        listener = discue.good("POST", f"{path}/listeners", order)["listener"]
        assert set(listener) >= LISTENER
        assert {"state", "success_count", "failure_count"} <= set(listener["liveness"])
        assert {"acknowledged_count", "missed", "missed_count"} <= set(listener["messages"])
        listener_path = f"{path}/listeners/{listener['id']}"
        renamed = discue.good("PUT", listener_path, {"alias": "till"})["listener"]
        assert (renamed["name"], "secret" in renamed) == ("till", False)
        assert discue.good("GET", f"{listener_path}?reveal=true")["listener"]["secret"] == listener["secret"]
        for listing in (f"{path}/listeners", "/listeners"):
            assert [one["id"] for one in discue.good("GET", listing)["listeners"]] == [listener["id"]]

        message = discue.good("POST", f"{path}/messages", {"name": "request-1", "data": DATA})["message"]
        assert set(message) == REFERENCE
        headers, body = mailbox.get(timeout=PATIENCE_S)
        assert (body.decode(), headers["content-type"], headers["webhook-id"]) == (
            DATA,
            "application/json",
            message["id"],
        )
        assert headers["webhook-signature"].startswith("v1,")
        eventually_sync(lambda: discue.good("GET", listener_path)["listener"]["messages"]["acknowledged_count"] == 1)
        eventually_sync(lambda: not discue.good("GET", f"{path}/messages")["messages"])
        delivered = discue.good("GET", f"{path}/messages/{message['id']}")["message"]
        assert (delivered["name"], delivered["data"], delivered["state"]) == ("request-1", DATA, "delivered")
        eventually_sync(lambda: discue.good("GET", listener_path)["listener"]["liveness"]["state"] == "stable")
        discue.good("DELETE", listener_path)

    waiting = discue.good("PUT", f"{path}/messages", {"data": "stays"})["message"]
    message_path = f"{path}/messages/{waiting['id']}"
    assert discue.good("PUT", message_path, {"name": "renamed"})["message"]["name"] == "renamed"
    for listing in (f"{path}/messages", "/messages"):
        assert [one["name"] for one in discue.good("GET", listing)["messages"]] == ["renamed"]
    discue.good("DELETE", message_path)
    assert discue.call("GET", message_path).status_code == 404
    discue.good("DELETE", path)
    assert discue.call("GET", f"{path}/listeners").status_code == 404


@pytest.mark.slow
def test_api_keys(discue: Discue) -> None:
    made = discue.good("POST", "/api_keys", {"name": "older"})
    assert len(made["api_key"]) == 64
    assert made["_links"]["self"]["href"].endswith(f"/api_keys/{made['id']}")
    scopes = {"queues": {"access": "read", "targets": ["*"]}}
    newer = discue.good("POST", "/api_keys", {"alias": "newer", "scopes": scopes})["api_key"]
    assert set(newer) == KEY
    assert newer["scopes"] == scopes
    for key_id, kind in ((made["id"], list), (newer["id"], dict)):
        key = discue.good("GET", f"/api_keys/{key_id}")["api_key"]
        assert (set(key), len(key["key"]), type(key["scopes"])) == (KEY, 3, kind)
    assert {one["name"] for one in discue.good("GET", "/api_keys")["api_keys"]} >= {"older", "newer"}
    limited = requests.get(f"{discue.url}/queues", headers={"X-API-KEY": newer["key"]}, timeout=PATIENCE_S)
    assert limited.status_code == 200
    created = requests.post(f"{discue.url}/queues", headers={"X-API-KEY": newer["key"]}, timeout=PATIENCE_S)
    assert created.json() == {"title": "Forbidden", "status": 403}
    changed = discue.good("PUT", f"/api_keys/{newer['id']}", {"status": "disabled"})["api_key"]
    assert (changed["status"], changed["scopes"]) == ("disabled", scopes)
    for key_id in (made["id"], newer["id"]):
        discue.good("DELETE", f"/api_keys/{key_id}")
        assert discue.call("GET", f"/api_keys/{key_id}").status_code == 404


@pytest.mark.slow
def test_api_clients(discue: Discue) -> None:
    client = discue.good("POST", "/api_clients", {"name": f"example.com{discue.url[-3:]}"})["api_client"]
    path = f"/api_clients/{client['id']}"
    changed = discue.good("PUT", path, {"id": client["id"], "name": f"other.com{discue.url[-3:]}"})["api_client"]
    assert changed["name"].startswith("other.com")
    assert discue.good("GET", path)["api_client"] == changed
    assert changed in discue.good("GET", "/api_clients")["api_clients"]


@pytest.mark.slow
def test_domains(discue: Discue) -> None:
    with receiver() as (url, _, files):
        port = int(url.rpartition(":")[2])
        order = {"alias": "mine", "hostname": "127.0.0.1", "port": port}
        domain = discue.good("POST", "/domains", order)["domain"]
        assert set(domain) >= DOMAIN
        challenge = domain["challenge"]["https"]
        files[f"{challenge['context_path']}/{challenge['file_name']}"] = challenge["file_content"].encode()
        path = f"/domains/{domain['id']}"
        shown = eventually_sync(lambda: (d := discue.good("GET", path)["domain"])["verification"]["verified"] and d)
        assert shown["verification"]["verified_at"] >= challenge["created_at"]
        assert [one["id"] for one in discue.good("GET", "/domains")["domains"]] == [domain["id"]]
        renamed = discue.good("PUT", path, {"alias": "ours"})["domain"]
        assert (renamed["alias"], renamed["verification"]["verified"]) == ("ours", True)
        discue.good("DELETE", path)


@pytest.mark.slow
def test_events_and_stats(discue: Discue) -> None:
    queue = discue.good("POST", "/queues", {"name": "watched"})["queue"]
    discue.good("DELETE", f"/queues/{queue['id']}")
    counts = discue.good("GET", "/stats/messages")["aggregated_api_usage_events"]
    assert set(counts) == SPANS
    assert {len(span) for span in counts.values()} == {12}
    assert counts["last_1_hours"]["queue_added"] >= 1
    events = discue.good("GET", "/events?events=queues&limit=1000")["events"]
    mine = [event["type"] for event in events if event["queue"]["id"] == queue["id"]]
    assert mine == ["queue_added", "queue_deleted"]
    before = events[-2]
    page = discue.good("GET", f"/events?events=queues&startAfter={before['stored_at']}&startAfterId={before['id']}")
    assert page["events"] == events[-1:]


@pytest.mark.slow
def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        discue = Discue(server, "/v1")
        queue = discue.good("POST", "/queues", {"name": "orders", "schema": SCHEMA})["queue"]
        path = f"/queues/{queue['id']}"
        message = discue.good("POST", f"{path}/messages", {"data": DATA})["message"]
        discue.good("PUT", f"{path}/messages/{message['id']}", {"name": "renamed"})
        domain = discue.good("POST", "/domains", {"alias": "mine", "hostname": "localhost", "port": 443})["domain"]
        key = discue.good("POST", "/api_keys", {"alias": "k", "scopes": {"queues": {"access": "read"}}})["api_key"]
        server.kill()
        server.restart()
        discue = Discue(server, "/v1")
        assert discue.good("GET", path)["queue"] == queue
        assert discue.good("GET", f"{path}/messages/{message['id']}")["message"]["name"] == "renamed"
        assert discue.good("GET", f"/domains/{domain['id']}")["domain"]["challenge"] == domain["challenge"]
        assert discue.good("GET", f"/api_keys/{key['id']}")["api_key"]["scopes"] == key["scopes"]
        assert discue.good("GET", "/stats/messages")["aggregated_api_usage_events"]["last_1_hours"]["queue_added"] == 1
        assert discue.call("POST", f"{path}/messages", {"data": "{}"}).status_code == 422
