"""The vendor's Terraform provider as a client: its requests, and how strictly it reads the answers.

The provider wants status 200 of every verb, a JSON object that has the resource under its key (deletes: `_links`),
and Go's types inside; it validates ids and aliases by the patterns below and reads back what it has written.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support.discue import LIVE, NOTIFY
from tests.support.server import ServerProcess, start_server

RESOURCE_ID = re.compile(r"[useandom26T198340PX75pxJACKVERYMINDBUSHWOLFGQZbfghjklqvwyzrict-]{21}")
SCOPES = {
    "domains": {"access": "read", "targets": ["*"]},
    "channels": {"access": "write", "targets": ["*"]},
    "topics": {"access": "read", "targets": ["*"]},
    "messages": {"access": "write", "targets": ["*"]},
}


class Provider:
    """What the provider's client does, call by call."""

    def __init__(self, server: ServerProcess) -> None:
        self.endpoint, self.key = server.url, server.token

    def send(self, method: str, path: str, json_key: str, body: Any = None) -> Any:
        headers = {"x-api-key": self.key, "content-type": "application/json", "accept": "application/json"}
        response = requests.request(method, self.endpoint + path, json=body, headers=headers, timeout=10)
        assert response.status_code == 200, response.text
        return response.json()[json_key]

    def life(self, path: str, json_key: str, new: dict[str, Any], change: dict[str, Any]) -> Iterator[Any]:
        """Create, read, update, read, delete: what an apply, a second one and a destroy do."""
        created = self.send("POST", path, json_key, new)
        assert RESOURCE_ID.fullmatch(created["id"])
        here = f"{path}/{created['id']}"
        yield self.send("GET", here, json_key)
        self.send("PUT", here, json_key, change)
        yield self.send("GET", here, json_key)
        assert isinstance(self.send("DELETE", here, "_links"), dict)


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with start_server(tmp_path_factory.mktemp("terraform")) as server:
        yield Provider(server)


@pytest.mark.slow
def test_a_queue(provider: Provider) -> None:
    created, changed = provider.life(
        "/queues", "queue", {"alias": "my-first-queue"}, {"alias": "my-first-queue-with-new-alias"}
    )
    assert (created["alias"], changed["alias"]) == ("my-first-queue", "my-first-queue-with-new-alias")
    assert created["id"] == changed["id"]


@pytest.mark.slow
def test_a_listener(provider: Provider) -> None:
    queue = provider.send("POST", "/queues", "queue", {"alias": "listened"})
    order = {"alias": "my-listener", "notify_url": NOTIFY, "liveness_url": LIVE}
    created, changed = provider.life(
        f"/queues/{queue['id']}/listeners", "listener", order, {**order, "alias": "my-new-listener"}
    )
    for listener, alias in ((created, "my-listener"), (changed, "my-new-listener")):
        assert {key: listener[key] for key in order} == {**order, "alias": alias}
        assert isinstance(listener["status"], str)


@pytest.mark.slow
def test_an_api_key(provider: Provider) -> None:
    order = {"alias": "my-first-api-key", "status": "enabled", "scopes": SCOPES}
    created, changed = provider.life("/api_keys", "api_key", order, {**order, "status": "disabled"})
    for key, status in ((created, "enabled"), (changed, "disabled")):
        assert (key["alias"], key["status"], key["scopes"]) == ("my-first-api-key", status, SCOPES)
        assert isinstance(key["key"], str)
        assert isinstance(key["created_at"], int)


@pytest.mark.slow
def test_an_api_key_without_scopes_has_scopes_all_the_same(provider: Provider) -> None:
    created, _ = provider.life("/api_keys", "api_key", {"alias": "plain", "scopes": {}}, {"alias": "plain"})
    assert created["scopes"]["queues"] == {"access": "write", "targets": ["*"]}


@pytest.mark.slow
def test_a_domain(provider: Provider) -> None:
    order = {"alias": "my-first-domain", "hostname": "localhost", "port": 443}
    created, changed = provider.life("/domains", "domain", order, {**order, "alias": "my-new-domain"})
    for domain in (created, changed):
        assert (domain["hostname"], domain["port"]) == ("localhost", 443)
        assert domain["verification"] == {"verified": False, "verified_at": 0}
        challenge = domain["challenge"]["https"]
        assert all(isinstance(challenge[key], str) for key in ("file_content", "file_name", "context_path"))
        assert all(isinstance(challenge[key], int) for key in ("created_at", "expires_at"))
    assert created["challenge"] == changed["challenge"]
