"""How the Discue dialect says no: always a title and a status, and a sentence in a header."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.model import Action
from tests.support.discue import Organization, discue_organization, refused

UNKNOWN = [
    ("GET", "/queues/none"),
    ("PUT", "/queues/none"),
    ("DELETE", "/queues/none"),
    ("GET", "/queues/none/listeners"),
    ("POST", "/queues/none/listeners"),
    ("GET", "/queues/none/messages"),
    ("POST", "/queues/none/messages"),
    ("GET", "/queues/none/schemas/none"),
    ("GET", "/queues/orders/listeners/none"),
    ("PUT", "/queues/orders/listeners/none"),
    ("DELETE", "/queues/orders/listeners/none"),
    ("GET", "/queues/none/listeners/none"),
    ("GET", "/queues/orders/messages/none"),
    ("PUT", "/queues/orders/messages/none"),
    ("DELETE", "/queues/orders/messages/none"),
    ("GET", "/queues/orders/schemas/none"),
    ("GET", "/api_keys/none"),
    ("PUT", "/api_keys/none"),
    ("DELETE", "/api_keys/none"),
    ("GET", "/domains/none"),
    ("PUT", "/domains/none"),
    ("DELETE", "/domains/none"),
    ("GET", "/api_clients/none"),
    ("PUT", "/api_clients/none"),
    ("GET", "/v1/nothing"),
    ("GET", "/stats"),
    ("GET", "/schemas"),
    ("GET", "/queues/orders/topics"),
]


@pytest.fixture
async def org(tmp_path: Path) -> AsyncIterator[Organization]:
    async with discue_organization(tmp_path) as organization:
        await organization.queue("orders")
        yield organization


@pytest.mark.parametrize(("method", "path"), UNKNOWN)
async def test_what_is_not_there_is_not_found(org: Organization, method: str, path: str) -> None:
    response = await org.call(method, path)
    assert refused(response, 404)
    assert response.json() == {"title": "Not Found", "status": 404}


@pytest.mark.parametrize("key", [None, "", "wrong", "x" * 64])
async def test_a_key_that_nobody_knows_is_unauthorized(org: Organization, key: str | None) -> None:
    response = await org.with_key(key).call("GET", "/queues")
    refused(response, 401)
    assert response.json() == {"title": "Unauthorized", "status": 401}
    assert response.headers["www-authenticate"] == "ApiKey"


async def test_a_bearer_token_is_not_a_key(org: Organization) -> None:
    response = await org.app.request("GET", "/queues", token="root-token")
    assert "X-API-KEY" in refused(response, 401)


async def test_after_many_bad_keys_a_caller_is_forbidden_for_a_while_but_good_keys_work(org: Organization) -> None:
    stranger = org.with_key("wrong")
    statuses = [(await stranger.call("GET", "/queues")).status for _ in range(120)]
    assert (statuses[0], statuses[-1]) == (401, 403)
    response = await stranger.call("GET", "/queues")
    refused(response, 403)
    assert int(response.headers["retry-after"]) >= 1
    await org.get("/queues")
    org.clock.advance(ms=60_000)
    refused(await stranger.call("GET", "/queues"), 401)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PATCH", "/queues/orders"),
        ("DELETE", "/queues"),
        ("POST", "/queues/orders"),
        ("POST", "/events"),
        ("PUT", "/stats/messages"),
        ("DELETE", "/v1/messages"),
        ("POST", "/listeners"),
        ("POST", "/messages"),
        ("DELETE", "/api_clients/default"),
    ],
)
async def test_a_method_that_a_path_does_not_have_is_not_allowed(org: Organization, method: str, path: str) -> None:
    response = await org.call(method, path)
    refused(response, 405)
    assert "GET" in response.headers["allow"]


@pytest.mark.parametrize("accept", ["text/html", "application/xml, text/*", "application/json;q=0"])
async def test_only_json_can_be_had(org: Organization, accept: str) -> None:
    refused(await org.call("GET", "/queues", headers={"accept": accept}), 406)


@pytest.mark.parametrize(
    "accept", ["application/json", "*/*", "application/*", "text/html, application/json;q=0.9", "APPLICATION/JSON"]
)
async def test_json_can_be_asked_for_in_many_ways(org: Organization, accept: str) -> None:
    await org.get("/queues", headers={"accept": accept})


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "x"])
async def test_a_body_must_be_json(org: Organization, kind: str) -> None:
    response = await org.call("POST", "/queues", body=b'{"name":"x-queue"}', headers={"content-type": kind})
    refused(response, 415)
    assert len((await org.get("/queues"))["queues"]) == 1


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/json; charset=utf-8"}])
async def test_a_body_that_does_not_say_what_it_is_is_taken_for_json(
    org: Organization, headers: dict[str, str]
) -> None:
    await org.post("/queues", body=b'{"name":"x-queue"}', headers=headers)


@pytest.mark.parametrize("body", [b"{", b"nonsense", b'{"name": "\xff"}', b'{"schema": ' + b"[" * 100_000])
async def test_what_is_not_json_is_a_bad_request(org: Organization, body: bytes) -> None:
    response = await org.call("POST", "/queues", body=body, headers={"content-type": "application/json"})
    assert refused(response, 400)
    assert response.json() == {"title": "Bad Request", "status": 400}


@pytest.mark.parametrize(
    "order", [[], "x", 7, {"name": 7}, {"name": ["x"]}, {"name": "-/"}, {"name": ""}, {"alias": "ö"}]
)
async def test_json_of_the_wrong_shape_is_unprocessable(org: Organization, order: Any) -> None:
    assert refused(await org.call("POST", "/queues", order), 422)
    assert len((await org.get("/queues"))["queues"]) == 1


async def test_an_order_that_is_too_large_is_refused_unread(org: Organization) -> None:
    response = await org.call("POST", "/queues", {"name": "x" * 2_000_000})
    refused(response, 413)
    assert response.headers["connection"] == "close"


async def test_a_key_with_a_limit_is_told_how_much_is_left(org: Organization) -> None:
    slow = await org.with_scopes(*Action, requests_per_second=2.0)
    first = await slow.call("GET", "/queues")
    reset = org.clock.now() // 1_000
    assert first.headers["x-ratelimit-limit"] == "120"
    assert first.headers["x-ratelimit-remaining"] == "1"
    assert reset <= int(first.headers["x-ratelimit-reset"]) <= reset + 2
    assert (await slow.call("GET", "/queues/none")).headers["x-ratelimit-remaining"] == "0"
    over = await slow.call("GET", "/queues")
    refused(over, 429)
    assert (over.headers["x-ratelimit-remaining"], over.headers["retry-after"]) == ("0", "1")
    org.clock.advance(ms=500)
    assert (await slow.call("GET", "/queues")).status == 200


async def test_a_key_without_a_limit_is_told_of_none(org: Organization) -> None:
    assert "x-ratelimit-limit" not in (await org.call("GET", "/queues")).headers


async def test_a_store_that_takes_no_writes_is_unavailable(org: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    from couriermq.core.errors import Unavailable

    async def refuse(*_: Any, **__: Any) -> Any:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(org.app.services.broker, "send_one", refuse)
    response = await org.call("POST", "/queues/orders/messages", {"data": "x"})
    assert refused(response, 503) == "the disk is full"
    assert response.headers["retry-after"] == "1"


async def test_a_bug_of_ours_is_an_internal_server_error(org: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(org.app.services.catalog, "queues", lambda _: 1 / 0)
    response = await org.call("GET", "/queues")
    refused(response, 500)
    assert response.json()["title"] == "Internal Server Error"
