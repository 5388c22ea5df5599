"""API keys through the Discue dialect: both generations, what their scopes allow, and what not."""

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import Action
from tests.support.discue import LIVE, NOTIFY, Organization, discue_organization, refused

FIELDS = {"id", "name", "alias", "status", "key", "scopes", "created_at", "updated_at", "last_used_at"}
RESOURCES = {"queues", "listeners", "messages", "schemas", "events", "stats", "domains"}
NUMBERS = count()
LISTENER = {"name": "shop", "notify_url": NOTIFY, "liveness_url": LIVE}


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path) as organization:
        yield organization


async def scoped(org: Organization, **scopes: Any) -> Organization:
    """The organization in the eyes of a key with these scopes: `messages=("write", [ids])`."""
    written = {
        resource: {"access": scope} if isinstance(scope, str) else {"access": scope[0], "targets": scope[1]}
        for resource, scope in scopes.items()
    }
    made = await org.post("/api_keys", {"alias": f"key-{next(NUMBERS)}", "scopes": written})
    return org.with_key(made["api_key"]["key"])


async def test_the_older_generation_gets_the_key_itself(org: Organization) -> None:
    made = await org.post("/api_keys", {"name": "shop"})
    assert len(made["api_key"]) == 64
    shown = (await org.get(f"/api_keys/{made['id']}"))["api_key"]
    assert set(shown) == FIELDS
    assert (shown["name"], shown["status"], shown["key"]) == ("shop", "enabled", made["api_key"][:3])
    assert {scope["resource"] for scope in shown["scopes"]} == RESOURCES
    assert await org.with_key(made["api_key"]).queue()


async def test_the_newer_generation_gets_an_object_that_holds_the_key_once(org: Organization) -> None:
    scopes = {"messages": {"access": "write", "targets": ["*"]}}
    made = (await org.post("/api_keys", {"alias": "shop", "status": "enabled", "scopes": scopes}))["api_key"]
    assert set(made) == FIELDS
    assert (len(made["key"]), made["alias"], made["scopes"]) == (64, "shop", scopes)
    shown = (await org.get(f"/api_keys/{made['id']}"))["api_key"]
    assert (shown["key"], shown["scopes"]) == (made["key"][:3], scopes)


async def test_scopes_come_back_in_the_form_in_which_they_were_given(org: Organization) -> None:
    scopes: list[dict[str, Any]] = [
        {"resource": "queues", "access": "write", "targets": ["*"]},
        {"resource": "messages", "access": "read", "targets": "*"},
        {"resource": "listeners", "access": "read", "targets": ["MbCS6UB_m7NdvyDOE8stT"]},
    ]
    made = await org.post("/api_keys", {"name": "shop", "scopes": scopes})
    shown = (await org.get(f"/api_keys/{made['id']}"))["api_key"]
    assert shown["scopes"] == [{**scope, "targets": list(scope["targets"])} for scope in scopes]


async def test_a_key_is_made_disabled_and_enabled_later(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "shop", "status": "disabled"}))["api_key"]
    shop = org.with_key(made["key"])
    refused(await shop.call("GET", "/queues"), 401)
    assert (await org.put(f"/api_keys/{made['id']}", {"status": "enabled"}))["api_key"]["status"] == "enabled"
    await shop.get("/queues")
    await org.put(f"/api_keys/{made['id']}", {"status": "disabled"})
    refused(await shop.call("GET", "/queues"), 401)


async def test_a_key_tells_when_it_was_last_used(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "shop"}))["api_key"]
    assert made["last_used_at"] is None
    org.clock.advance(ms=1_000)
    await org.with_key(made["key"]).get("/queues")
    assert (await org.get(f"/api_keys/{made['id']}"))["api_key"]["last_used_at"] == org.clock.now()


async def test_scopes_are_replaced_whole_and_a_key_keeps_its_name(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "shop", "scopes": {"messages": {"access": "write"}}}))["api_key"]
    changed = await org.put(f"/api_keys/{made['id']}", {"scopes": {"queues": {"access": "read", "targets": []}}})
    assert changed["api_key"]["scopes"] == {"queues": {"access": "read", "targets": ["*"]}}
    assert changed["api_key"]["alias"] == "shop"
    queue_id = await org.queue()
    shop = org.with_key(made["key"])
    await shop.get("/queues")
    refused(await shop.call("POST", f"/queues/{queue_id}/messages", {"data": "x"}), 403)


async def test_a_key_is_deleted(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "shop"}))["api_key"]
    assert list(await org.delete(f"/api_keys/{made['id']}")) == ["_links"]
    refused(await org.call("GET", f"/api_keys/{made['id']}"), 404)
    refused(await org.with_key(made["key"]).call("GET", "/queues"), 401)


async def test_keys_are_listed_and_never_shown_whole(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "shop"}))["api_key"]
    listed = await org.call("GET", "/api_keys")
    assert [key["alias"] for key in listed.json()["api_keys"]] == ["shop"]
    assert made["key"].encode() not in listed.body


async def test_a_credential_of_another_dialect_is_a_key_too(org: Organization) -> None:
    await org.with_scopes(Action.SEND, Action.BROWSE, queues=("orders",))
    (key,) = (await org.get("/api_keys"))["api_keys"]
    assert {scope["resource"]: (scope["access"], scope["targets"]) for scope in key["scopes"]} == {
        "queues": ("read", ["orders"]),
        "listeners": ("read", ["orders"]),
        "messages": ("read", ["orders"]),
        "schemas": ("read", ["orders"]),
    }


@pytest.mark.parametrize(
    "order",
    [
        {"name": "x", "scopes": {"api_keys": {"access": "write"}}},
        {"name": "x", "scopes": [{"resource": "api_clients", "access": "read"}]},
        {"name": "x", "scopes": {"subscriptions": {"access": "read"}}},
        {"name": "x", "scopes": {"everything": {"access": "read"}}},
        {"name": "x", "scopes": [{"access": "read"}]},
        {"name": "x", "scopes": [{"resource": "queues"}, {"resource": "queues"}]},
        {"name": "x", "scopes": {"queues": {"access": "own"}}},
        {"name": "x", "scopes": "all"},
        {"name": "x", "status": "asleep"},
        {"name": ""},
        {"name": 7},
    ],
)
async def test_a_key_that_cannot_be_is_refused(org: Organization, order: dict[str, Any]) -> None:
    refused(await org.call("POST", "/api_keys", order), 422)
    assert (await org.get("/api_keys"))["api_keys"] == []


async def test_a_key_name_is_taken_once(org: Organization) -> None:
    await org.post("/api_keys", {"alias": "shop"})
    refused(await org.call("POST", "/api_keys", {"name": "shop"}), 422)
    other = (await org.post("/api_keys", {"alias": "other"}))["api_key"]
    refused(await org.call("PUT", f"/api_keys/{other['id']}", {"alias": "shop"}), 422)


# -- what scopes allow ----------------------------------------------------------------------------------------


async def test_writing_messages_includes_reading_them_and_nothing_else(org: Organization) -> None:
    queue_id = await org.queue()
    shop = await scoped(org, messages="write")
    message_id = await shop.add(queue_id)
    path = f"/queues/{queue_id}/messages/{message_id}"
    await shop.get(path)
    await shop.put(path, {"name": "new"})
    await shop.delete(path)
    for method, other in (
        ("GET", "/queues"),
        ("GET", f"/queues/{queue_id}"),
        ("DELETE", f"/queues/{queue_id}"),
        ("GET", "/listeners"),
        ("POST", f"/queues/{queue_id}/listeners"),
        ("GET", "/events"),
        ("GET", "/stats/messages"),
        ("GET", "/domains"),
        ("POST", "/domains"),
        ("GET", "/api_keys"),
        ("POST", "/api_keys"),
        ("POST", "/api_clients"),
    ):
        refused(await shop.call(method, other), 403)


async def test_reading_does_not_include_writing(org: Organization) -> None:
    queue_id = await org.queue()
    reader = await scoped(org, queues="read", messages="read", listeners="read", domains="read")
    await reader.get(f"/queues/{queue_id}")
    await reader.get(f"/queues/{queue_id}/messages")
    await reader.get(f"/queues/{queue_id}/listeners")
    await reader.get("/domains")
    for method, path, order in (
        ("POST", "/queues", {"name": "x"}),
        ("PUT", f"/queues/{queue_id}", {"name": "x"}),
        ("DELETE", f"/queues/{queue_id}", None),
        ("POST", f"/queues/{queue_id}/messages", {"data": "x"}),
        ("POST", f"/queues/{queue_id}/listeners", LISTENER),
        ("POST", "/domains", {"alias": "x", "hostname": "example.com", "port": 443}),
    ):
        refused(await reader.call(method, path, order), 403)


async def test_targets_name_the_queues_that_a_key_is_for(org: Organization) -> None:
    orders, invoices = await org.queue("orders"), await org.queue("invoices")
    shop = await scoped(org, queues=("read", [orders]), messages=("write", [orders]))
    await shop.add(orders)
    assert [queue["id"] for queue in (await shop.get("/queues"))["queues"]] == [orders]
    assert len((await shop.get("/messages"))["messages"]) == 1
    refused(await shop.call("POST", f"/queues/{invoices}/messages", {"data": "x"}), 403)
    refused(await shop.call("GET", f"/queues/{invoices}"), 403)
    refused(await shop.call("GET", "/queues/nothing"), 403)


async def test_targets_may_name_a_listener(org: Organization) -> None:
    queue_id = await org.queue()
    mine, other = await org.listener(queue_id, "mine"), await org.listener(queue_id, "other")
    keeper = await scoped(org, listeners=("write", [mine["id"]]), queues="read")
    path = f"/queues/{queue_id}/listeners"
    assert [one["name"] for one in (await keeper.get(path))["listeners"]] == ["mine"]
    await keeper.put(f"{path}/{mine['id']}", {"alias": "still-mine"})
    refused(await keeper.call("PUT", f"{path}/{other['id']}", {"alias": "mine-too"}), 403)
    refused(await keeper.call("POST", path, LISTENER), 403)


async def test_a_scope_for_what_is_not_served_is_kept_and_allows_nothing(org: Organization) -> None:
    scopes = {"topics": {"access": "read", "targets": ["*"]}, "channels": {"access": "write", "targets": ["*"]}}
    made = (await org.post("/api_keys", {"alias": "shop", "scopes": scopes}))["api_key"]
    assert made["scopes"] == scopes
    refused(await org.with_key(made["key"]).call("GET", "/queues"), 403)


async def test_a_key_may_do_no_more_through_other_dialects(org: Organization) -> None:
    queue_id = await org.queue()
    await org.add(queue_id)
    keeper = await scoped(org, listeners="write")
    native = "/courier/v1/tenants/default/queues/orders"
    for method, path in (("DELETE", native), ("POST", f"{native}/purge"), ("GET", f"{native}/messages")):
        assert (await org.app.request(method, path, token=keeper.key)).status == 403
    sender = await scoped(org, messages="write")
    assert (await org.app.post(f"{native}/messages", {"body": "x"}, token=sender.key)).status == 201
    assert (await org.app.post(f"{native}/purge", token=sender.key)).status == 403


async def test_whoever_changes_the_scopes_in_our_words_has_the_last_word(org: Organization) -> None:
    queue_id = await org.queue()
    made = (await org.post("/api_keys", {"alias": "shop", "scopes": {"messages": {"access": "write"}}}))["api_key"]
    path = f"/courier/v1/tenants/default/credentials/{made['id']}"
    await org.app.request("PATCH", path, json={"scopes": [{"action": "stats"}]})
    shop = org.with_key(made["key"])
    refused(await shop.call("POST", f"/queues/{queue_id}/messages", {"data": "x"}), 403)
    await shop.get("/stats/messages")


async def test_nobody_hands_out_more_than_he_has(org: Organization) -> None:
    manager = await org.with_scopes(Action.MANAGE)
    refused(await manager.call("POST", "/api_keys", {"alias": "all"}), 403)
    refused(await manager.call("POST", "/api_keys", {"alias": "a", "scopes": {"messages": {"access": "read"}}}), 403)
    made = await manager.post("/api_keys", {"alias": "queues", "scopes": {"queues": {"access": "write"}}})
    refused(await manager.call("PUT", f"/api_keys/{made['api_key']['id']}", {"scopes": {"stats": {}}}), 403)
    partial = await org.with_scopes(Action.MANAGE, queues=("orders",))
    refused(await partial.call("POST", "/api_keys", {"alias": "b", "scopes": {"queues": {"access": "write"}}}), 403)


async def test_a_key_for_listeners_alone_can_list_them(org: Organization) -> None:
    queue_id, other = await org.queue("orders"), await org.queue("invoices")
    mine = await org.listener(queue_id, "mine")
    keeper = await scoped(org, listeners="read")
    assert len((await keeper.get(f"/queues/{queue_id}/listeners"))["listeners"]) == 1
    assert (await keeper.get(f"/queues/{other}/listeners"))["listeners"] == []
    refused(await keeper.call("GET", "/queues/nothing/listeners"), 404)
    partial = await scoped(org, listeners=("read", [mine["id"]]))
    assert len((await partial.get(f"/queues/{queue_id}/listeners"))["listeners"]) == 1
    refused(await partial.call("GET", f"/queues/{other}/listeners"), 403)


async def test_annotations_give_no_rights(org: Organization) -> None:
    queue_id = await org.queue()
    message_id = await org.add(queue_id)
    manager = await org.with_scopes(Action.MANAGE)
    facts = {"grants": {"messages": {"access": "read", "targets": ["*"]}}, "scopes": []}
    credentials = "/courier/v1/tenants/default/credentials"
    for key in ("discue", "discue.key", "anypoint.scopes", "anypoint.client_app", "cloudflare.x"):
        order = {"name": "sly", "scopes": [], "annotations": {key: facts}}
        made = await org.app.post(credentials, order, token=manager.key)
        if key != "discue":
            assert (made.status, made.json()["field"]) == (400, "annotations")
            continue
        sly = org.with_key(made.json()["secret"])
        refused(await sly.call("GET", f"/queues/{queue_id}/messages/{message_id}"), 403)


async def test_the_rights_of_a_key_are_not_shown_as_annotations(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "shop"}))["api_key"]
    shown = (await org.app.get(f"/courier/v1/tenants/default/credentials/{made['id']}")).json()
    assert shown["annotations"] == {}
    assert "dialect_facts" not in shown


async def test_who_manages_cannot_enable_a_key_that_may_do_more(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "boss", "status": "disabled"}))["api_key"]
    manager = await org.with_scopes(Action.MANAGE)
    refused(await manager.call("PUT", f"/api_keys/{made['id']}", {"status": "enabled"}), 403)
    path = f"/courier/v1/tenants/default/credentials/{made['id']}"
    for change in ({"enabled": True}, {"expires_at": None}, {"requests_per_second": None}):
        assert (await org.app.request("PATCH", path, json=change, token=manager.key)).status == 403
    await manager.put(f"/api_keys/{made['id']}", {"name": "renamed", "status": "disabled"})


async def test_a_key_that_may_read_queues_reads_no_figures_elsewhere(org: Organization) -> None:
    queue_id = await org.queue()
    await org.add(queue_id, "secret")
    reader = await scoped(org, queues="read")
    await reader.get(f"/queues/{queue_id}")
    for path in ("/journal/events", f"/tenants/default/queues/{queue_id}", f"/tenants/default/queues/{queue_id}/stats"):
        assert (await org.app.get(f"/courier/v1{path}", token=reader.key)).status == 403


async def test_a_key_that_may_write_everything_does_not_manage_credentials_elsewhere(org: Organization) -> None:
    writer = await scoped(org, queues="write", listeners="write", messages="write")
    path = "/courier/v1/tenants/default/credentials"
    assert (await org.app.get(path, token=writer.key)).status == 403
    await org.queue("orders")
    partial = await scoped(org, **dict.fromkeys(("queues", "listeners", "messages"), ("write", ["orders"])))
    changed = await org.app.request("PATCH", "/courier/v1/tenants/default/queues/orders", json={}, token=partial.key)
    assert changed.status == 200


async def test_a_message_is_called_by_its_id_where_its_name_may_not_be_read(org: Organization) -> None:
    message_id = await org.add(await org.queue(), name="attribute")
    for actions, name in (((Action.STATS,), message_id), ((Action.STATS, Action.BROWSE), "attribute")):
        reader = await org.with_scopes(*actions)
        (event,) = (await reader.get("/events?events=messages"))["events"]
        assert event["message"]["name"] == name


async def test_a_key_of_an_older_store_keeps_the_grants_of_its_record(org: Organization) -> None:
    catalog = org.app.services.catalog
    queue_id = await org.queue()
    made = (await org.post("/api_keys", {"alias": "old", "scopes": {"messages": {"access": "write"}}}))["api_key"]
    credential = catalog.credential("default", made["id"])
    facts = credential.dialect_facts["discue"]
    await catalog.change_credential(credential, dialect_facts={}, principal="test")
    await catalog.put_record("discue.key", "default", facts, record_id=credential.id, principal="test")
    old = org.with_key(made["key"])
    await old.add(queue_id)
    refused(await old.call("GET", f"/queues/{queue_id}"), 403)


async def test_a_key_that_was_replaced_is_not_shown_by_its_old_beginning(org: Organization) -> None:
    made = (await org.post("/api_keys", {"alias": "shop"}))["api_key"]
    await org.app.post(f"/courier/v1/tenants/default/credentials/{made['id']}/rotate")
    assert (await org.get(f"/api_keys/{made['id']}"))["api_key"]["key"] == ""


async def test_what_was_known_of_a_key_goes_with_it(org: Organization) -> None:
    one, other = [(await org.post("/api_keys", {"alias": name}))["api_key"] for name in ("one", "other")]
    await org.app.request("DELETE", f"/courier/v1/tenants/default/credentials/{one['id']}")
    await org.delete(f"/api_keys/{other['id']}")
    assert org.app.services.catalog.records("discue.key", "default") == []


@pytest.mark.parametrize("resource", ["stats", "events"])
async def test_who_may_not_read_figures_gets_no_key_that_does(org: Organization, resource: str) -> None:
    made = (await org.post("/api_keys", {"alias": "figures", "scopes": {resource: {"access": "read"}}}))["api_key"]
    path = f"/courier/v1/tenants/default/credentials/{made['id']}"
    manager = await org.with_scopes(Action.MANAGE)
    assert (await org.app.post(f"{path}/rotate", token=manager.key)).status == 403
    assert (await org.app.request("PATCH", path, json={"enabled": True}, token=manager.key)).status == 403
    reader = await org.with_scopes(Action.MANAGE, Action.STATS)
    assert (await org.app.post(f"{path}/rotate", token=reader.key)).status == 200
