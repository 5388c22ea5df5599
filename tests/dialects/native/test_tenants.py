"""Tenants, the caller itself, and what the server is, through the native dialect."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq import __version__
from couriermq.core import quotas
from tests.support.native import PREFIX, Tenant, native_tenant

NO_QUOTAS = {"quotas": dict.fromkeys(quotas.NAMES)}


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def test_anybody_can_ask_what_this_is(root: Tenant) -> None:
    assert await root.ask("GET", PREFIX, token=None) == {"name": "courier", "version": __version__}


async def test_a_caller_can_ask_who_it_is(root: Tenant) -> None:
    me = await root.ask("GET", f"{PREFIX}/whoami")
    assert (me["id"], me["tenant"], {scope["action"] for scope in me["scopes"]}) == (
        "root",
        None,
        {"send", "receive", "browse", "manage", "stats", "audit"},
    )
    limited = await root.with_scopes(("send", ["orders"]))
    me = await limited.ask("GET", f"{PREFIX}/whoami")
    assert (me["tenant"], me["scopes"]) == ("default", [{"action": "send", "queues": ["orders"]}])


async def test_a_tenant_can_be_created_read_changed_and_deleted(root: Tenant) -> None:
    answer = await root.call("POST", f"{PREFIX}/tenants", {"id": "acme", "aliases": {"cloudflare": "023e"}})
    made = {
        "id": "acme",
        "aliases": {"cloudflare": "023e"},
        "created_at": root.clock.now(),
        "delivery_allow": [],
    } | NO_QUOTAS
    assert (answer.status, answer.json()) == (201, made)
    assert answer.headers["location"] == f"{PREFIX}/tenants/acme"
    assert await root.ask("GET", f"{PREFIX}/tenants/acme") == made
    changed = await root.ask("PATCH", f"{PREFIX}/tenants/acme", {"aliases": {}})
    assert changed == made | {"aliases": {}}
    assert (await root.call("DELETE", f"{PREFIX}/tenants/acme")).status == 204
    problem = await root.refused("GET", f"{PREFIX}/tenants/acme")
    assert (problem["status"], problem["type"]) == (404, "urn:courier:problem:tenant-not-found")


async def test_tenants_are_listed_by_id(root: Tenant) -> None:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": "acme"})
    first = await root.ask("GET", f"{PREFIX}/tenants?limit=1")
    assert ([tenant["id"] for tenant in first["tenants"]], first["next"]) == (["acme"], "acme")
    rest = await root.ask("GET", f"{PREFIX}/tenants?after=acme")
    assert ([tenant["id"] for tenant in rest["tenants"]], rest["next"]) == (["default"], None)


async def test_a_tenant_that_cannot_be_is_refused(root: Tenant) -> None:
    assert (await root.refused("POST", f"{PREFIX}/tenants", {"id": "a b"}))["status"] == 400
    assert (await root.refused("POST", f"{PREFIX}/tenants", {"id": "default"}))["status"] == 409
    assert (await root.refused("DELETE", f"{PREFIX}/tenants/default"))["status"] == 400


async def test_a_tenant_that_owns_something_stays(root: Tenant) -> None:
    await root.ask("POST", f"{PREFIX}/tenants", {"id": "acme"})
    await Tenant(root.app, "acme").queue("orders")
    problem = await root.refused("DELETE", f"{PREFIX}/tenants/acme")
    assert (problem["status"], problem["type"]) == (409, "urn:courier:problem:in-use")


async def test_a_path_that_leads_nowhere_is_a_problem_too(root: Tenant) -> None:
    assert (await root.refused("GET", f"{PREFIX}/nowhere"))["status"] == 404
    answer = await root.call("PUT", f"{PREFIX}/tenants")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, POST")


async def test_without_a_credential_nothing_but_the_name_is_told(root: Tenant) -> None:
    for token in (None, "made-up"):
        answer = await root.call("GET", f"{PREFIX}/tenants", token=token)
        assert answer.status == 401
        assert "bearer" in answer.headers["www-authenticate"].lower()
