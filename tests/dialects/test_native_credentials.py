"""Credentials through the native dialect."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.native import ALL, PREFIX, Tenant, native_tenant


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def works(tenant: Tenant, secret: str) -> bool:
    return (await tenant.call("GET", f"{PREFIX}/whoami", token=secret)).status == 200


async def test_the_secret_is_shown_once(root: Tenant) -> None:
    order = {"name": "shop", "scopes": [{"action": "send", "queues": ["orders"]}], "requests_per_second": 5}
    answer = await root.call("POST", "/credentials", order)
    made = answer.json()
    secret = made.pop("secret")
    assert answer.status == 201
    assert answer.headers["location"] == f"{PREFIX}/tenants/default/credentials/{made['id']}"
    assert made == {
        "id": made["id"],
        "name": "shop",
        "tenant": "default",
        "scopes": [{"action": "send", "queues": ["orders"]}],
        "enabled": True,
        "expires_at": None,
        "requests_per_second": 5.0,
        "annotations": {},
        "created_at": root.clock.now(),
        "changed_at": root.clock.now(),
    }
    assert await works(root, secret)
    assert await root.ask("GET", f"/credentials/{made['id']}") == made
    assert await root.ask("GET", "/credentials") == {"credentials": [made], "next": None}


async def test_without_scopes_a_credential_may_do_everything_in_its_tenant(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "owner"})
    assert [scope["action"] for scope in made["scopes"]] == ["send", "receive", "browse", "manage", "stats"]


async def test_a_rotated_credential_has_a_new_secret_and_not_the_old_one(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "shop"})
    rotated = await root.ask("POST", f"/credentials/{made['id']}/rotate")
    assert rotated["id"] == made["id"]
    assert await works(root, rotated["secret"])
    assert not await works(root, made["secret"])


async def test_a_disabled_credential_is_refused_until_it_is_enabled(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "shop"})
    await root.ask("PATCH", f"/credentials/{made['id']}", {"enabled": False})
    assert not await works(root, made["secret"])
    await root.ask("PATCH", f"/credentials/{made['id']}", {"enabled": True})
    assert await works(root, made["secret"])


async def test_a_credential_ends_when_it_expires(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "guest", "expires_at": root.clock.now() + 1_000})
    assert await works(root, made["secret"])
    root.clock.advance(ms=1_000)
    assert not await works(root, made["secret"])
    await root.ask("PATCH", f"/credentials/{made['id']}", {"expires_at": None})
    assert await works(root, made["secret"])


async def test_a_deleted_credential_is_gone(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "shop"})
    assert (await root.call("DELETE", f"/credentials/{made['id']}")).status == 204
    assert not await works(root, made["secret"])
    problem = await root.refused("GET", f"/credentials/{made['id']}")
    assert (problem["status"], problem["type"]) == (404, "urn:courier:problem:credential-not-found")


async def test_credentials_are_listed_by_age(root: Tenant) -> None:
    for name in ("first", "second", "third"):
        await root.ask("POST", "/credentials", {"name": name})
        root.clock.advance(ms=1)
    page = await root.ask("GET", "/credentials?limit=2")
    rest = await root.ask("GET", f"/credentials?limit=2&after={page['next']}")
    assert [c["name"] for c in page["credentials"] + rest["credentials"]] == ["first", "second", "third"]
    assert rest["next"] is None


async def test_too_many_requests_say_when_to_come_back(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "slow", "requests_per_second": 0.5})
    assert await works(root, made["secret"])
    answer = await root.call("GET", f"{PREFIX}/whoami", token=made["secret"])
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")
    assert answer.json()["type"] == "urn:courier:problem:too-many-requests"


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "a", "scopes": [{"action": "fly"}]}, "scopes[0].action"),
        ({"name": "a", "scopes": [{"action": "send", "topics": []}]}, "scopes[0].topics"),
        ({"name": "a", "requests_per_second": 0}, "requests_per_second"),
        ({"name": "a", "expires_at": -1}, "expires_at"),
        ({"name": "a", "secret": "mine"}, "secret"),
    ],
)
async def test_a_credential_that_cannot_be_is_refused(root: Tenant, order: object, field: str) -> None:
    problem = await root.refused("POST", "/credentials", order)
    assert (problem["status"], problem["field"]) == (400, field)


async def test_nobody_hands_out_more_than_he_has(root: Tenant) -> None:
    strong = await root.ask("POST", "/credentials", {"name": "strong"})
    manager = await root.with_scopes(("manage", ALL), ("send", ["orders"]))
    grant = {"name": "friend", "scopes": [{"action": "send", "queues": ["orders"]}]}
    friend = await manager.ask("POST", "/credentials", grant)
    for scopes in ([{"action": "send"}], [{"action": "receive", "queues": ["orders"]}]):
        assert (await manager.refused("POST", "/credentials", {"name": "x", "scopes": scopes}))["status"] == 403
        assert (await manager.refused("PATCH", f"/credentials/{friend['id']}", {"scopes": scopes}))["status"] == 403
    assert (await manager.refused("POST", "/credentials", {"name": "everything"}))["status"] == 403
    assert (await manager.refused("POST", f"/credentials/{strong['id']}/rotate"))["status"] == 403
    assert (await manager.call("PATCH", f"/credentials/{strong['id']}", {"enabled": False})).status == 200
