"""API clients are tenants: the key says which, and no tenant sees another."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.core.model import Action
from tests.support.discue import LIVE, NOTIFY, Organization, discue_organization, refused


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path) as organization:
        yield organization


async def test_root_creates_an_api_client_with_a_name_or_without(org: Organization) -> None:
    named = (await org.post("/api_clients", {"name": "example.com/dev"}))["api_client"]
    assert (named["name"], named["alias"], len(named["id"])) == ("example.com/dev", "example.com/dev", 21)
    unnamed = (await org.post("/api_clients"))["api_client"]
    assert unnamed["name"] == unnamed["id"]
    chosen = (await org.post("/api_clients", {"id": "acme", "name": "acme.com/prod"}))["api_client"]
    assert chosen["id"] == "acme"
    listed = (await org.get("/api_clients"))["api_clients"]
    assert {client["id"] for client in listed} == {"default", "acme", named["id"], unnamed["id"]}


async def test_an_api_client_is_renamed_and_found_by_its_name(org: Organization) -> None:
    await org.post("/api_clients", {"id": "acme", "name": "acme.com/dev"})
    changed = (await org.put("/api_clients/acme", {"id": "acme", "name": "acme.com/prod"}))["api_client"]
    assert changed["name"] == "acme.com/prod"
    assert (await org.get("/api_clients/acme.com%2Fprod"))["api_client"] == changed
    refused(await org.call("PUT", "/api_clients/acme", {"id": "other"}), 422)


async def test_names_of_api_clients_are_unique(org: Organization) -> None:
    await org.post("/api_clients", {"id": "acme", "name": "acme.com/dev"})
    refused(await org.call("POST", "/api_clients", {"name": "acme.com/dev"}), 422)
    refused(await org.call("POST", "/api_clients", {"id": "acme"}), 422)


async def test_a_tenant_sees_and_renames_itself_and_nobody_else(org: Organization) -> None:
    other = await org.tenant("other")
    assert [client["id"] for client in (await other.get("/api_clients"))["api_clients"]] == ["other"]
    assert (await other.put("/api_clients/other", {"name": "other.com/dev"}))["api_client"]["name"] == "other.com/dev"
    for asked in ("default", "nothing"):
        refused(await other.call("GET", f"/api_clients/{asked}"), 403)
    refused(await other.call("POST", "/api_clients", {"name": "more"}), 403)
    sender = await org.with_scopes(Action.SEND, tenant="other")
    refused(await sender.call("PUT", "/api_clients/other", {"name": "mine"}), 403)


async def test_a_tenant_that_renames_itself_learns_nothing_of_others_and_takes_no_name_from_root(
    org: Organization,
) -> None:
    await org.post("/api_clients", {"id": "acme", "name": "acme.com/dev"})
    other = await org.tenant("other")
    for name in ("acme", "acme.com/dev", "nobody"):
        renamed = (await other.put("/api_clients/other", {"name": name}))["api_client"]
        assert (renamed["id"], renamed["name"]) == ("other", name)
        assert (await other.get("/api_clients"))["api_clients"] == [renamed]
    assert (await other.get("/api_clients/nobody"))["api_client"]["id"] == "other"
    assert (await org.get("/api_clients/acme"))["api_client"]["id"] == "acme"
    assert (await org.post("/api_clients", {"id": "nobody"}))["api_client"]["id"] == "nobody"
    assert (await org.put("/api_clients/other", {"name": "by-root"}))["api_client"]["name"] == "by-root"


async def test_what_belongs_to_another_tenant_does_not_exist(org: Organization) -> None:
    other = await org.tenant("other")
    queue_id = await org.queue("orders")
    listener = await org.listener(queue_id)
    message_id = await org.add(queue_id)
    domain = (await org.post("/domains", {"alias": "mine", "hostname": "example.com", "port": 443}))["domain"]
    key = (await org.post("/api_keys", {"alias": "mine"}))["api_key"]
    order = {"name": "x", "notify_url": NOTIFY, "liveness_url": LIVE}
    for method, path, body in (
        ("GET", f"/queues/{queue_id}", None),
        ("GET", "/queues/orders", None),
        ("PUT", f"/queues/{queue_id}", {"name": "x"}),
        ("DELETE", f"/queues/{queue_id}", None),
        ("POST", f"/queues/{queue_id}/messages", {"data": "x"}),
        ("GET", f"/queues/{queue_id}/messages/{message_id}", None),
        ("DELETE", f"/queues/{queue_id}/messages/{message_id}", None),
        ("POST", f"/queues/{queue_id}/listeners", order),
        ("GET", f"/queues/{queue_id}/listeners/{listener['id']}", None),
        ("DELETE", f"/queues/{queue_id}/listeners/{listener['id']}", None),
        ("GET", f"/domains/{domain['id']}", None),
        ("DELETE", f"/domains/{domain['id']}", None),
        ("GET", f"/api_keys/{key['id']}", None),
        ("DELETE", f"/api_keys/{key['id']}", None),
    ):
        refused(await other.call(method, path, body), 404)
    for path, word in (("/queues", "queues"), ("/listeners", "listeners"), ("/messages", "messages"),
                       ("/domains", "domains")):  # fmt: skip
        assert (await other.get(path))[word] == []
    assert len((await other.get("/api_keys"))["api_keys"]) == 1  # its own


async def test_the_queues_of_listeners_are_nobodys_to_use(org: Organization) -> None:
    queue_id = await org.queue()
    await org.listener(queue_id)
    (listener,) = org.app.services.catalog.listeners("default")
    for hidden in (listener.outbox_id, listener.dead_letters_id):
        refused(await org.call("GET", f"/queues/{hidden}"), 404)
        refused(await org.call("POST", f"/queues/{hidden}/messages", {"data": "x"}), 404)
    assert len((await org.get("/queues"))["queues"]) == 1


async def test_two_tenants_may_use_the_same_names(org: Organization) -> None:
    other = await org.tenant("other")
    assert await org.queue("orders") != await other.queue("orders")
