"""Credentials through the native dialect."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

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
        "dialect_scopes": {},
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


async def test_a_rotation_may_leave_the_old_secret_good_for_a_while(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "shop"})
    path = f"/credentials/{made['id']}"
    response = await root.call("POST", f"{path}/rotate", {"overlap_ms": 60_000})
    rotated = response.json()
    assert response.headers["cache-control"] == "no-store"
    assert rotated["old_secret_expires_at"] == root.clock.now() + 60_000
    assert (await root.ask("GET", path))["old_secret_expires_at"] == rotated["old_secret_expires_at"]
    assert await works(root, made["secret"])
    assert await works(root, rotated["secret"])
    root.clock.advance(ms=60_000)
    assert not await works(root, made["secret"])
    assert await works(root, rotated["secret"])


@pytest.mark.parametrize("overlap_ms", [-1, 604_800_001, "1h", 1e308])
async def test_an_overlap_lasts_up_to_a_week(root: Tenant, overlap_ms: object) -> None:
    made = await root.ask("POST", "/credentials", {"name": "shop"})
    problem = await root.refused("POST", f"/credentials/{made['id']}/rotate", {"overlap_ms": overlap_ms})
    assert (problem["status"], problem["field"]) == (400, "overlap_ms")
    assert await works(root, made["secret"])


async def test_the_journal_shows_no_hash_of_a_secret(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "shop"})
    await root.ask("POST", f"/credentials/{made['id']}/rotate", {"overlap_ms": 60_000})
    journal = (await root.call("GET", f"{PREFIX}/journal/events?limit=100")).body
    assert made["id"].encode() in journal
    assert b"secret_hash" not in journal
    assert b"old_secrets" not in journal


@pytest.mark.parametrize("rate", [1e308, 1e-308, 0, -1])
async def test_a_limit_that_nobody_can_count_is_refused(root: Tenant, rate: float) -> None:
    problem = await root.refused("POST", "/credentials", {"name": "shop", "requests_per_second": rate})
    assert (problem["status"], problem["field"]) == (400, "requests_per_second")


MANAGER = ("manage", ("*",))


async def test_nobody_grants_more_than_they_have(root: Tenant) -> None:
    manager = await root.with_scopes(MANAGER, ("send", ("orders",)))
    good = {"name": "fine", "scopes": [{"action": "send", "queues": ["orders"]}]}
    made = await manager.ask("POST", "/credentials", good)
    for scopes in (None, [{"action": "receive"}], [{"action": "send"}], [{"action": "send", "queues": ["other"]}]):
        order = {"name": "sly", "scopes": scopes}
        assert (await manager.refused("POST", "/credentials", order))["status"] == 403
        if scopes is not None:
            path = f"/credentials/{made['id']}"
            assert (await manager.refused("PATCH", path, {"scopes": scopes}))["status"] == 403


@pytest.mark.parametrize("change", [{"enabled": True}, {"expires_at": None}, {"requests_per_second": 100}])
async def test_nobody_strengthens_a_credential_that_has_more(root: Tenant, change: dict[str, Any]) -> None:
    boss = await root.ask("POST", "/credentials", {"name": "boss", "requests_per_second": 1})
    await root.ask("PATCH", f"/credentials/{boss['id']}", {"enabled": False})
    manager = await root.with_scopes(MANAGER)
    assert (await manager.refused("PATCH", f"/credentials/{boss['id']}", change))["status"] == 403
    assert (await manager.refused("POST", f"/credentials/{boss['id']}/rotate"))["status"] == 403
    await manager.ask("PATCH", f"/credentials/{boss['id']}", {"name": "former boss"})


async def test_nobody_grants_beyond_their_own_end(root: Tenant) -> None:
    ends_at = root.clock.now() + 60_000
    brief = await root.with_scopes(MANAGER, expires_at=ends_at)
    for expires_at in (None, ends_at + 1):
        order: dict[str, Any] = {"name": "lasting", "scopes": [], "expires_at": expires_at}
        assert (await brief.refused("POST", "/credentials", order))["status"] == 403
    made = await brief.ask("POST", "/credentials", {"name": "brief too", "scopes": [], "expires_at": ends_at})
    later = {"expires_at": ends_at + 1}
    assert (await brief.refused("PATCH", f"/credentials/{made['id']}", later))["status"] == 403


async def test_nobody_grants_a_higher_rate_than_their_own(root: Tenant) -> None:
    slow = await root.with_scopes(MANAGER, requests_per_second=5)
    for rate in (None, 6):
        order: dict[str, Any] = {"name": "fast", "scopes": [], "requests_per_second": rate}
        problem = await slow.refused("POST", "/credentials", order)
        assert (problem["status"], "requests_per_second up to 5" in problem["detail"]) == (403, True)
    made = await slow.ask("POST", "/credentials", {"name": "slow too", "scopes": [], "requests_per_second": 5})
    faster = {"requests_per_second": None}
    assert (await slow.refused("PATCH", f"/credentials/{made['id']}", faster))["status"] == 403


async def test_annotations_of_dialects_are_refused(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "plain", "annotations": {"team": "shop"}})
    for key in ("anypoint.scopes", "anypoint.client_app", "discue.key"):
        problem = await root.refused("PATCH", f"/credentials/{made['id']}", {"annotations": {key: True}})
        assert (problem["status"], problem["field"]) == (400, "annotations")


async def test_a_credential_is_limited_to_the_scopes_of_a_dialect(root: Tenant) -> None:
    order = {
        "name": "cleaner",
        "scopes": [{"action": "manage"}],
        "dialect_scopes": {"anypoint": ["clear:destinations"]},
    }
    made = await root.ask("POST", "/credentials", order)
    assert made["dialect_scopes"] == {"anypoint": ["clear:destinations"]}
    assert (await root.call("GET", "/credentials", token=made["secret"])).status == 403
    wider: dict[str, Any] = {"dialect_scopes": {"nonsense": []}}
    assert (await root.refused("PATCH", f"/credentials/{made['id']}", wider))["status"] == 400


async def test_the_scopes_of_a_credential_are_limited_in_bytes(root: Tenant) -> None:
    made = await root.ask("POST", "/credentials", {"name": "shop"})
    large = {"scopes": [{"action": "send", "queues": [f"queue-{number}" for number in range(30_000)]}]}
    for method, path, order in (
        ("POST", "/credentials", {"name": "large"} | large),
        ("PATCH", f"/credentials/{made['id']}", large),
    ):
        problem = await root.refused(method, path, order)
        assert (problem["status"], problem["field"]) == (400, "scopes")
        assert problem["detail"].endswith("at most 262144 are allowed; name fewer queues in its scopes")


async def test_a_page_of_large_things_ends_early(root: Tenant) -> None:
    names = [f"queue-{number:03}" for number in range(140)]
    for name in names:
        await root.ask("POST", "/queues", {"name": name, "annotations": {"note": "n" * 65_000}})
    page = await root.ask("GET", "/queues")
    assert 100 < len(page["queues"]) < 140
    rest = await root.ask("GET", f"/queues?after={page['next']}")
    assert [queue["name"] for queue in page["queues"] + rest["queues"]] == names
    assert rest["next"] is None
