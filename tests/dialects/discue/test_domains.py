"""Domains through the Discue dialect: a file on a host proves who controls it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import DAY
from tests.support.discue import Organization, discue_organization, refused
from tests.support.receiver import Receiver, answer, receiving

ORDER = {"alias": "my-first-domain", "hostname": "discue.io", "port": 443}


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path, delivery_allow=("127.0.0.0/8",)) as organization:
        yield organization


async def local(org: Organization, receiver: Receiver) -> dict[str, Any]:
    order = {"alias": "local", "hostname": "127.0.0.1", "port": receiver.port}
    domain: dict[str, Any] = (await org.post("/domains", order))["domain"]
    return domain


async def test_a_domain_comes_with_a_challenge(org: Organization) -> None:
    domain = (await org.post("/domains", ORDER))["domain"]
    assert {key: domain[key] for key in ORDER} == ORDER
    assert domain["name"] == "my-first-domain"
    assert domain["verification"] == {"verified": False, "verified_at": 0}
    challenge = domain["challenge"]["https"]
    assert challenge["expires_at"] - challenge["created_at"] == 7 * DAY
    assert len(challenge["file_content"]) == 42
    assert challenge["context_path"].startswith("/.well-known/")
    (listed,) = (await org.get("/domains"))["domains"]
    assert listed == domain


async def test_a_host_that_serves_the_file_is_verified(org: Organization) -> None:
    async with receiving() as receiver:
        domain = await local(org, receiver)
        challenge = domain["challenge"]["https"]
        receiver.behave(answer(200, challenge["file_content"].encode()))
        org.clock.advance(ms=6_000)
        shown = (await org.get(f"/domains/{domain['id']}"))["domain"]
        assert shown["verification"] == {"verified": True, "verified_at": org.clock.now()}
        assert receiver.requests[-1].path == f"{challenge['context_path']}/{challenge['file_name']}"
        assert receiver.requests[-1].method == "GET"
        asked = len(receiver.requests)
        await org.get(f"/domains/{domain['id']}")
        assert len(receiver.requests) == asked


@pytest.mark.parametrize("status", [200, 404])
async def test_a_host_that_serves_something_else_is_not(org: Organization, status: int) -> None:
    async with receiving(answer(status, b"something else")) as receiver:
        domain = await local(org, receiver)
        shown = (await org.get(f"/domains/{domain['id']}"))["domain"]
        assert shown["verification"]["verified"] is False
        asked = len(receiver.requests)
        await org.get(f"/domains/{domain['id']}")
        assert len(receiver.requests) == asked  # not again so soon


async def test_a_challenge_that_has_expired_is_not_tried_and_is_renewed_by_a_put(org: Organization) -> None:
    async with receiving() as receiver:
        domain = await local(org, receiver)
        org.clock.advance(ms=7 * DAY)
        await org.get(f"/domains/{domain['id']}")
        assert receiver.requests == []
        renewed = (await org.put(f"/domains/{domain['id']}"))["domain"]
        assert renewed["challenge"]["https"]["file_content"] != domain["challenge"]["https"]["file_content"]
        assert renewed["challenge"]["https"]["expires_at"] == org.clock.now() + 7 * DAY


async def test_a_domain_is_renamed_but_stays_where_it_is(org: Organization) -> None:
    domain = (await org.post("/domains", ORDER))["domain"]
    path = f"/domains/{domain['id']}"
    changed = (await org.put(path, {**ORDER, "alias": "renamed"}))["domain"]
    assert (changed["alias"], changed["challenge"]) == ("renamed", domain["challenge"])
    refused(await org.call("PUT", path, {"alias": "renamed", "hostname": "example.com"}), 422)
    refused(await org.call("PUT", path, {"alias": "renamed", "port": 80}), 422)


async def test_a_domain_is_deleted(org: Organization) -> None:
    domain = (await org.post("/domains", ORDER))["domain"]
    assert list(await org.delete(f"/domains/{domain['id']}")) == ["_links"]
    refused(await org.call("GET", f"/domains/{domain['id']}"), 404)


@pytest.mark.parametrize(
    "change",
    [
        {"alias": None},
        {"alias": ""},
        {"alias": "not this"},
        {"hostname": None},
        {"hostname": "a.b"},
        {"hostname": "https://discue.io"},
        {"hostname": "x" * 254},
        {"hostname": "a" * 63 + "!"},
        {"hostname": "discue..io"},
        {"port": None},
        {"port": 0},
        {"port": 81},
        {"port": 1023},
        {"port": 65_536},
        {"port": "443"},
    ],
)
async def test_a_domain_that_cannot_be_is_refused(org: Organization, change: dict[str, Any]) -> None:
    refused(await org.call("POST", "/domains", ORDER | change), 422)
    assert (await org.get("/domains"))["domains"] == []


async def test_an_alias_is_taken_once(org: Organization) -> None:
    await org.post("/domains", ORDER)
    refused(await org.call("POST", "/domains", ORDER), 422)


async def test_a_private_address_is_not_asked(tmp_path: Path) -> None:
    async with discue_organization(tmp_path) as org, receiving() as receiver:
        domain = await local(org, receiver)
        shown = (await org.get(f"/domains/{domain['id']}"))["domain"]
        assert shown["verification"]["verified"] is False
        assert receiver.requests == []


async def test_a_scope_may_name_one_domain(org: Organization) -> None:
    mine = (await org.post("/domains", ORDER))["domain"]
    other = (await org.post("/domains", ORDER | {"alias": "other"}))["domain"]
    scopes = {"domains": {"access": "write", "targets": [mine["id"]]}}
    key = (await org.post("/api_keys", {"alias": "one-domain", "scopes": scopes}))["api_key"]["key"]
    keeper = org.with_key(key)
    assert [domain["id"] for domain in (await keeper.get("/domains"))["domains"]] == [mine["id"]]
    await keeper.put(f"/domains/{mine['id']}", {"alias": "still-mine"})
    refused(await keeper.call("DELETE", f"/domains/{other['id']}"), 403)
    refused(await keeper.call("POST", "/domains", ORDER | {"alias": "more"}), 403)
