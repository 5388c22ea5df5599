"""Damaged requests, byte by byte: the server answers each with an error of the caller, and stays as it was."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fuzzing import IMPATIENT, fuzz, seconds
from tests.support.mutating import mutate
from tests.support.server import ROOT_TOKEN, ServerProcess, start_server

TENANT = "/courier/v1/tenants/default"
ACCOUNT = "/client/v4/accounts/default/queues"
BROKER = "/api/v1/organizations/default/environments/default/destinations/orders"


def recorded(method: str, path: str, body: str = "", *lines: str) -> bytes:
    head = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", f"authorization: Bearer {ROOT_TOKEN}", *lines]
    if body:
        head += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*head, "", body]).encode()


CHUNKS = '4\r\n{"bo\r\na;x=y\r\ndy": "hi"}\r\n0\r\nexpires: never\r\n\r\n'

REQUESTS = (
    recorded("GET", "/healthz"),
    recorded("GET", "/metrics"),
    recorded("GET", "/docs"),
    recorded("GET", "/openapi/native.json", "", "if-none-match: x"),
    recorded("GET", f"{TENANT}/queues?limit=3&after=b"),
    recorded("GET", f"{TENANT}/queues/orders/messages?limit=3"),
    recorded("POST", f"{TENANT}/queues/orders/messages", '{"body": "hi", "delay_ms": 5, "attributes": {"a": "b"}}'),
    recorded("POST", f"{TENANT}/queues/orders/messages", '{"messages": [{"body": "1"}, {"body": "2", "id": "x"}]}'),
    recorded("POST", f"{TENANT}/queues/orders/messages", "", "transfer-encoding: chunked") + CHUNKS.encode(),
    recorded("POST", f"{TENANT}/queues/orders/receive", '{"limit": 2, "lease_ms": 1000}'),
    recorded("POST", f"{TENANT}/queues/orders/ack", '{"receipts": ["abc"]}'),
    recorded("PATCH", f"{TENANT}/queues/orders", '{"max_attempts": 4, "lease_ms": 30000}'),
    recorded("GET", "/courier/v1/journal/events?from=0&limit=5"),
    recorded("POST", f"{ACCOUNT}/{{queue}}/messages", '{"body": {"a": 1}, "content_type": "json"}'),
    recorded("POST", f"{ACCOUNT}/{{queue}}/messages/batch", '{"messages": [{"body": "a", "delay_seconds": 1}]}'),
    recorded("POST", f"{ACCOUNT}/{{queue}}/messages/pull", '{"batch_size": 2, "visibility_timeout_ms": 500}'),
    recorded("PUT", f"{BROKER}/messages/m-1", '{"headers": {"messageId": "m-1"}, "body": "hi"}'),
    recorded("GET", f"{BROKER}/messages?batchSize=2&pollingTime=0&lockTtl=1000"),
    recorded("POST", "/api/v1/authorize", "client_id=root&client_secret=root-token&grant_type=client_credentials"),
    recorded("POST", "/accounts/oauth2/token", '{"client_id": "root", "client_secret": "x"}'),
    recorded("GET", "/v1/queues?limit=2", "", f"x-api-key: {ROOT_TOKEN}"),
    recorded("POST", "/v1/queues/orders/messages", '{"name": "n", "data": {}}', f"x-api-key: {ROOT_TOKEN}"),
    recorded("GET", "/healthz") * 3,
    recorded("POST", f"{TENANT}/queues/orders/receive", '{"limit": 1}', "expect: 100-continue"),
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, journal_bytes=1_000_000, archive_enabled="false", **IMPATIENT) as server:
        yield server


def test_no_damaged_request_breaks_the_server(server: ServerProcess) -> None:
    answer = server.session.post(f"{server.url}{TENANT}/queues", json={"name": "orders"}, timeout=10)
    requests = [request.replace(b"{queue}", answer.json()["id"].encode()) for request in REQUESTS]
    assert fuzz(server, lambda dice: mutate(requests, dice), seconds=seconds(8)) > 0
