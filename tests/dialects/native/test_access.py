"""Who may do what through the native dialect, and what those who may not can learn: nothing."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.native import ALL, PREFIX, Tenant, native_tenant

MESSAGE = {"body": "x"}
RECEIPT = {"receipt": "x"}

NEEDS: list[tuple[str, str, Any, str]] = [
    ("POST", "/queues/orders/messages", MESSAGE, "send"),
    ("DELETE", "/queues/orders/messages/x", None, "send"),
    ("POST", "/exchanges/events/messages", MESSAGE, "send"),
    ("POST", "/queues/orders/receive", {}, "receive"),
    ("POST", "/queues/orders/ack", RECEIPT, "receive"),
    ("POST", "/queues/orders/release", RECEIPT, "receive"),
    ("POST", "/queues/orders/extend", RECEIPT | {"lease_ms": 1}, "receive"),
    ("POST", "/queues/orders/settle", {"settlements": [{"do": "ack", "receipt": "x"}]}, "receive"),
    ("GET", "/queues/orders/messages", None, "browse"),
    ("GET", "/queues/orders/messages/x", None, "browse"),
    ("GET", "/queues/orders/counters", None, "stats"),
    ("GET", "/counters", None, "stats"),
    ("PATCH", "/queues/orders", {}, "manage"),
    ("DELETE", "/queues/orders", None, "manage"),
    ("POST", "/queues/orders/purge", None, "manage"),
    ("POST", "/queues/orders/remove", {"seqs": [1]}, "manage"),
    ("POST", "/queues/orders/move", {"target": "other"}, "manage"),
    ("POST", "/queues/orders/redrive", None, "manage"),
    ("POST", "/queues", {"name": "new"}, "manage"),
    ("POST", "/exchanges", {"name": "new"}, "manage"),
    ("PATCH", "/exchanges/events", {"annotations": {}}, "manage"),
    ("DELETE", "/exchanges/events", None, "manage"),
    ("PUT", "/exchanges/events/bindings/orders", None, "manage"),
    ("DELETE", "/exchanges/events/bindings/orders", None, "manage"),
    ("GET", "/credentials", None, "manage"),
    ("POST", "/credentials", {"name": "new", "scopes": []}, "manage"),
    ("GET", "/credentials/x", None, "manage"),
    ("PATCH", "/credentials/x", {}, "manage"),
    ("DELETE", "/credentials/x", None, "manage"),
    ("POST", "/credentials/x/rotate", None, "manage"),
    ("GET", f"{PREFIX}/journal", None, "stats"),
    ("GET", f"{PREFIX}/journal/events", None, "stats"),
]
READS = ["/queues", "/queues/orders", "/exchanges", "/exchanges/events", "/exchanges/events/bindings"]
ACTIONS = ("send", "receive", "browse", "manage", "stats")


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        await tenant.queue("orders")
        await tenant.queue("other")
        await tenant.ask("POST", "/exchanges", {"name": "events"})
        yield tenant


async def status(tenant: Tenant, method: str, path: str, json: Any) -> int:
    return (await tenant.call(method, path, **({} if json is None else {"json": json}))).status


@pytest.mark.parametrize(("method", "path", "json", "action"), NEEDS, ids=str)
async def test_an_operation_is_open_to_those_who_have_its_scope(
    root: Tenant, method: str, path: str, json: Any, action: str
) -> None:
    others = await root.with_scopes(*((other, ALL) for other in ACTIONS if other != action))
    assert await status(others, method, path, json) == 403
    holder = await root.with_scopes((action, ALL))
    assert await status(holder, method, path, json) != 403


@pytest.mark.parametrize("path", READS)
async def test_reading_is_open_to_those_who_manage_browse_or_count(root: Tenant, path: str) -> None:
    for action in ("manage", "browse", "stats"):
        assert await status(await root.with_scopes((action, ALL)), "GET", path, None) == 200
    others = await root.with_scopes(("send", ALL), ("receive", ALL))
    assert await status(others, "GET", path, None) == 403


async def test_tenants_are_roots_affair(root: Tenant) -> None:
    owner = await root.with_scopes(*((action, ALL) for action in ACTIONS))
    assert await status(owner, "POST", f"{PREFIX}/tenants", {"id": "mine"}) == 403
    assert await status(owner, "PATCH", f"{PREFIX}/tenants/default", {"aliases": {}}) == 403
    assert await status(owner, "DELETE", f"{PREFIX}/tenants/default", None) == 403
    listed = (await owner.ask("GET", f"{PREFIX}/tenants"))["tenants"]
    assert [tenant["id"] for tenant in listed] == ["default"]


async def test_a_scope_on_one_queue_is_no_scope_on_another(root: Tenant) -> None:
    sender = await root.with_scopes(("send", ["orders"]), ("browse", ["orders"]))
    assert await status(sender, "POST", "/queues/orders/messages", MESSAGE) == 201
    assert await status(sender, "POST", "/queues/other/messages", MESSAGE) == 403
    assert [queue["name"] for queue in (await sender.ask("GET", "/queues"))["queues"]] == ["orders"]
    assert (await sender.ask("GET", "/exchanges"))["exchanges"] == []


async def test_a_queue_that_is_not_there_looks_like_one_that_is_forbidden(root: Tenant) -> None:
    sender = await root.with_scopes(("send", ["orders"]))
    there = await sender.refused("POST", "/queues/other/messages", MESSAGE)
    nowhere = await sender.refused("POST", "/queues/thing/messages", MESSAGE)
    assert nowhere == there | {"detail": there["detail"].replace("other", "thing")}
    assert (await (await root.with_scopes(("send", ALL))).refused("POST", "/queues/thing/messages", MESSAGE))[
        "status"
    ] == 404


@pytest.mark.parametrize("field", ["name", "aliases"])
async def test_a_queue_takes_no_name_that_its_manager_has_no_right_to(root: Tenant, field: str) -> None:
    async def refusal(manager: Tenant, name: str) -> Any:
        value = name if field == "name" else {"cloudflare": name}
        return await manager.refused("PATCH", "/queues/orders", {field: value})

    manager = await root.with_scopes(("manage", ["orders"]))
    taken, free = await refusal(manager, "other"), await refusal(manager, "thing")
    assert taken["status"] == 403
    assert free == taken | {"detail": taken["detail"].replace("other", "thing")}
    assert (await refusal(await root.with_scopes(("manage", ["orders", "other"])), "other"))["status"] == 409
    await manager.ask("PATCH", "/queues/orders", {"name": "orders", "aliases": {"cloudflare": "orders"}})
    both = await root.with_scopes(("manage", ["orders", "thing"]))
    assert (await both.ask("PATCH", "/queues/orders", {"name": "thing"}))["name"] == "thing"


async def test_a_stranger_cannot_tell_a_tenant_that_is_there_from_one_that_is_not(root: Tenant) -> None:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": "acme"})
    secret = await Tenant(root.app, "acme").queue("secret")
    stranger = await root.with_scopes(*((action, ALL) for action in ACTIONS))
    for method, path, json, _ in NEEDS:
        if path.startswith(PREFIX):
            continue
        hidden = path.replace("/queues/orders", f"/queues/{secret.name}")
        answers = [
            await stranger.call(
                method, f"{PREFIX}/tenants/{tenant}{hidden}", **({} if json is None else {"json": json})
            )
            for tenant in ("acme", "nobd")
        ]
        assert [answer.status for answer in answers] == [403, 403]
        assert answers[0].body.replace(b"acme", b"nobd") == answers[1].body


async def test_another_tenants_queue_does_not_exist_by_its_id_either(root: Tenant) -> None:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": "acme"})
    secret = await Tenant(root.app, "acme").ask("POST", "/queues", {"name": "secret"})
    stranger = await root.with_scopes(*((action, ALL) for action in ACTIONS))
    assert await status(stranger, "POST", f"/queues/{secret['id']}/messages", MESSAGE) == 404
    assert (await stranger.refused("POST", "/queues/orders/move", {"target": secret["id"]}))["field"] == "target"
    assert (await stranger.refused("PATCH", "/queues/orders", {"settings": {"dead_letter_queue": secret["id"]}}))[
        "field"
    ] == "settings.dead_letter_queue"


async def test_messages_move_only_to_queues_that_the_caller_may_send_to(root: Tenant) -> None:
    manager = await root.with_scopes(("manage", ["orders"]))
    assert await status(manager, "POST", "/queues/orders/move", {"target": "other"}) == 403
    assert await status(manager, "POST", "/queues/orders/move", {"target": "nowhere"}) == 403
    assert await status(manager, "POST", "/queues/orders/redrive", {"target": "other"}) == 403
    order = {"settings": {"dead_letter_queue": "other"}}
    assert await status(manager, "PATCH", "/queues/orders", order) == 403
    both = await root.with_scopes(("manage", ["orders"]), ("send", ["other"]))
    assert await status(both, "POST", "/queues/orders/move", {"target": "other"}) == 200
    assert await status(both, "PATCH", "/queues/orders", order) == 200


async def test_a_binding_needs_the_right_to_both_of_its_ends(root: Tenant) -> None:
    for scopes in (["events"], ["orders"]):
        half = await root.with_scopes(("manage", scopes))
        assert await status(half, "PUT", "/exchanges/events/bindings/orders", None) == 403
    whole = await root.with_scopes(("manage", ["events", "orders"]))
    assert await status(whole, "PUT", "/exchanges/events/bindings/orders", None) == 200
