"""Who calls and which accounts there are, as the vendor's tools ask first."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.hex_ids import HEX_ID, hex_of
from couriermq.core.model import Action, Scope
from tests.support.cloudflare import Account, accepted, cloudflare_account, refused

VENDORS = "023e105f4ecef8ad9ca31a8372d0c353"


@pytest.fixture
async def account(tmp_path: Path) -> AsyncIterator[Account]:
    async with cloudflare_account(tmp_path) as account:
        yield account


async def ask(account: Account, path: str, token: str | None = None) -> Any:
    options: dict[str, Any] = {} if token is None else {"token": token}
    return accepted(await account.app.request("GET", f"/client/v4{path}", **options))


async def credential(account: Account, tenant: str, *actions: Action, **facts: Any) -> str:
    scopes = [Scope(action) for action in actions]
    _, secret = await account.app.services.catalog.create_credential(
        tenant, "Night Shift", scopes=scopes, principal="test", **facts
    )
    return secret


async def test_root_sees_every_account_and_its_own_name(account: Account) -> None:
    await account.app.services.catalog.create_tenant("acme", aliases={"cloudflare": VENDORS}, principal="test")
    assert [(one["id"], one["name"]) for one in await ask(account, "/accounts")] == [
        (VENDORS, "acme"),
        (hex_of("default"), "default"),
    ]
    assert [one["name"] for one in await ask(account, "/accounts?name=acme")] == ["acme"]
    assert [one["name"] for one in await ask(account, "/accounts?per_page=1&page=2")] == ["default"]
    user = await ask(account, "/user")
    assert HEX_ID.fullmatch(user["id"])
    assert user["email"] == "root@courier.invalid"


async def test_a_credential_sees_its_own_account_only(account: Account) -> None:
    await account.app.services.catalog.create_tenant("acme", aliases={"cloudflare": VENDORS}, principal="test")
    secret = await credential(account, "acme", Action.STATS)
    (mine,) = await ask(account, "/accounts", secret)
    assert (mine["id"], mine["name"], mine["type"]) == (VENDORS, "acme", "standard")
    assert await ask(account, f"/accounts/{VENDORS}", secret) == mine
    assert await ask(account, "/accounts/acme", secret) == mine
    (membership,) = await ask(account, "/memberships", secret)
    assert (membership["account"], membership["status"]) == (mine, "accepted")
    assert membership["permissions"] == {"queues": {"read": True, "write": False}}
    assert (await ask(account, "/user", secret))["email"] == "night-shift@courier.invalid"
    stranger = await account.app.request("GET", "/client/v4/accounts/default", token=secret)
    assert refused(stranger)[:2] == (403, 10000)


async def test_a_token_is_verified(account: Account) -> None:
    ends_at = account.clock.now() + 60_000
    secret = await credential(account, "default", expires_at=ends_at)
    found = await ask(account, "/user/tokens/verify", secret)
    assert (found["status"], found["expires_on"]) == ("active", "2023-11-14T22:14:20.000000Z")
    assert HEX_ID.fullmatch(found["id"])
    assert await ask(account, "/accounts/default/tokens/verify", secret) == found
    account.clock.advance(ms=60_000)
    ended = await account.app.request("GET", "/client/v4/user/tokens/verify", token=secret)
    assert refused(ended)[:2] == (401, 10000)


async def test_a_path_may_end_in_a_slash(account: Account) -> None:
    queue = await account.queue()
    assert [one["queue_name"] for one in await account.result("GET", "/queues/")] == ["orders"]
    await queue.result("POST", "/messages/", {"body": {"n": 1}})
    assert (await queue.result("POST", "/messages/pull/", {}))["messages"][0]["body"] == '{"n":1}'
    assert len(await ask(account, "/accounts/")) == 1
    assert refused(await account.call("GET", "/queues//"))[:2] == (404, 7003)
    assert refused(await account.call("GET", "/queues/none/"))[:2] == (404, 11000)
