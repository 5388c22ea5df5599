"""Who gets in and who may do what: tokens in every form, scopes, isolation."""

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import HOUR, Action, Scope
from couriermq.dialects.anypoint.rights import ACTIONS
from tests.support.anypoint import AnypointCaller, good
from tests.support.inprocess import ROOT_TOKEN, InProcess, Response, courier_app

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, clock=FakeClock()) as app:
        await AnypointCaller(app).queue("orders")
        yield app


async def client_app(app: InProcess) -> tuple[str, str]:
    made = good(await AnypointCaller(app).manage("PUT", "/clients", json={"name": "billing"}))
    return made["clientId"], made["clientSecret"]


async def connected_app(app: InProcess, *scopes: str) -> AnypointCaller:
    """A caller whose credential is limited to Anypoint scopes."""
    allowed = {ACTIONS[scope] for scope in scopes}
    _, secret = await app.services.catalog.create_credential(
        "default",
        "app",
        scopes=[Scope(action) for action in Action if action in allowed],
        annotations={"anypoint.scopes": list(scopes)},
        principal="test",
    )
    return AnypointCaller(app, token=secret)


async def authorize(app: InProcess, client_id: str, secret: str, path: str = "/api/v1/authorize") -> Response:
    form = f"client_id={client_id}&client_secret={secret}&grant_type=client_credentials"
    return await app.request("POST", path, body=form.encode(), headers=FORM, token=None)


# -- tokens ---------------------------------------------------------------------------------------------------


async def test_a_client_app_gets_a_token_and_learns_its_place(app: InProcess) -> None:
    response = await authorize(app, *await client_app(app))
    assert response.status == 200
    answer = response.json()
    assert answer["token_type"] == "bearer"
    assert answer["simple_client"] == {"envId": "default", "orgId": "default"}
    caller = AnypointCaller(app, token=answer["access_token"])
    assert (await caller.publish("orders", "m-1")).status == 201
    assert len(await caller.consume("orders")) == 1


async def test_the_place_of_a_client_app_is_the_tenants_alias(app: InProcess) -> None:
    catalog = app.services.catalog
    await catalog.create_tenant("acme", aliases={"anypoint": "org-1/env-1"}, principal="test")
    mine = AnypointCaller(app, organization="org-1", environment="env-1")
    await mine.queue("orders")
    made = good(await mine.manage("PUT", "/clients", json={"name": "billing"}))
    answer = (await authorize(app, made["clientId"], made["clientSecret"])).json()
    assert answer["simple_client"] == {"envId": "env-1", "orgId": "org-1"}
    caller = AnypointCaller(app, token=answer["access_token"], organization="org-1", environment="env-1")
    assert (await caller.publish("orders", "m-1")).status == 201


async def test_the_same_client_gets_the_same_token_and_each_use_gives_it_another_hour(app: InProcess) -> None:
    client = await client_app(app)
    first = (await authorize(app, *client)).json()["access_token"]
    assert (await authorize(app, *client)).json()["access_token"] == first
    caller = AnypointCaller(app, token=first)
    for _ in range(3):
        app.clock.advance(ms=HOUR - 1)
        assert (await caller.broker("GET", "orders", "?pollingTime=0")).status == 204
    app.clock.advance(ms=HOUR)
    assert (await caller.broker("GET", "orders", "?pollingTime=0")).status == 401
    assert (await authorize(app, *client)).json()["access_token"] != first


async def test_a_new_secret_ends_the_old_one_and_its_tokens(app: InProcess) -> None:
    client_id, secret = await client_app(app)
    token = (await authorize(app, client_id, secret)).json()["access_token"]
    await AnypointCaller(app).manage("POST", f"/clients/{client_id}")
    assert (await authorize(app, client_id, secret)).status == 401
    assert (await AnypointCaller(app, token=token).publish("orders", "m-1")).status == 401


async def test_basic_credentials_with_only_a_grant_type(app: InProcess) -> None:
    client_id, secret = await client_app(app)
    basic = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    headers = FORM | {"authorization": f"Basic {basic}"}
    response = await app.request(
        "POST", "/api/v1/authorize", body=b"grant_type=client_credentials", headers=headers, token=None
    )
    assert response.json()["token_type"] == "bearer"


async def test_a_multipart_form(app: InProcess) -> None:
    client_id, secret = await client_app(app)
    fields = {"client_id": client_id, "client_secret": secret, "grant_type": "client_credentials"}
    parts = "".join(
        f'--XX\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    )
    headers = {"content-type": "multipart/form-data; boundary=XX"}
    body = (parts + "--XX--\r\n").encode()
    response = await app.request("POST", "/api/v1/authorize", body=body, headers=headers, token=None)
    assert response.json()["token_type"] == "bearer"


async def test_json_to_the_accounts_service(app: InProcess) -> None:
    client_id, secret = await client_app(app)
    fields = {"client_id": client_id, "client_secret": secret, "grant_type": "client_credentials"}
    response = await app.request("POST", "/accounts/oauth2/token", json=fields, token=None)
    assert response.json()["simple_client"] == {"envId": "default", "orgId": "default"}


@pytest.mark.parametrize("as_json", [True, False])
async def test_a_connected_app_gets_a_token_that_says_how_long_it_lasts(app: InProcess, as_json: bool) -> None:
    credential, secret = await app.services.catalog.create_credential("default", "ci", principal="test")
    path = "/accounts/api/v2/oauth2/token"
    fields = {"client_id": credential.id, "client_secret": secret, "grant_type": "client_credentials"}
    if as_json:
        response = await app.request("POST", path, json=fields, token=None)
    else:
        response = await authorize(app, credential.id, secret, path)
    answer = response.json()
    assert (answer["expires_in"], answer["token_type"]) == (3600, "bearer")
    caller = AnypointCaller(app, token=answer["access_token"])
    assert (await caller.admin("GET", "/destinations")).status == 200


@pytest.mark.parametrize("path", ["/accounts/login", "/accounts/api/login"])
async def test_a_person_logs_in(app: InProcess, path: str) -> None:
    response = await app.request("POST", path, json={"username": "root", "password": ROOT_TOKEN}, token=None)
    answer = response.json()
    assert (response.status, set(answer)) == (200, {"access_token", "token_type", "redirectUrl"})
    assert (await AnypointCaller(app, token=answer["access_token"]).admin("GET", "/destinations")).status == 200
    wrong = await app.request("POST", path, json={"username": "root", "password": "x"}, token=None)
    assert (wrong.status, wrong.json()) == (401, {"status": 401, "message": "Unauthorized"})


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", {}, 401),
        (b"client_id=x&client_secret=y&grant_type=client_credentials", FORM, 401),
        (b"client_id=root&client_secret=y", FORM, 401),
        (b"client_id=root&client_secret=root-token&grant_type=password", FORM, 400),
        (b"{", {"content-type": "application/json"}, 400),
        (b"[]", {"content-type": "application/json"}, 400),
        (b"\xff\xfe=1", FORM, 400),
        (b"x", {"content-type": "multipart/form-data"}, 400),
        (b"x", {"content-type": "multipart/form-data; boundary=XX"}, 400),
        (b"", {"authorization": "Basic !!!"}, 401),
        (b"", {"authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()}, 401),
        (b'{"client_id": 5, "client_secret": null}', {}, 401),
    ],
)
async def test_bad_credentials_get_no_token(app: InProcess, body: bytes, headers: dict[str, str], status: int) -> None:
    response = await app.request("POST", "/api/v1/authorize", body=body, headers=headers, token=None)
    assert response.status == status
    assert response.json()["status"] == "failure"


@pytest.mark.parametrize("spelling", ["Bearer {}", "bearer {}", "BEARER   {}", "bearer{}", "Bearer {} "])
async def test_the_bearer_header_is_read_as_clients_write_it(app: InProcess, spelling: str) -> None:
    headers = {"authorization": spelling.format(ROOT_TOKEN)}
    path = "/api/v1/organizations/default/environments/default/destinations/orders/messages?pollingTime=0"
    assert (await app.request("GET", path, headers=headers, token=None)).status == 204


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Basic cm9vdDpyb290LXRva2Vu", "root-token"])
async def test_without_a_good_token_everything_is_401(app: InProcess, header: str | None) -> None:
    environment = "/organizations/default/environments/default"
    for path in (
        f"/api/v1{environment}/destinations/orders/messages",
        f"/mq/admin/api/v1{environment}/clients",
        f"/mq/stats/api/v1{environment}",
    ):
        headers = {} if header is None else {"authorization": header}
        response = await app.request("GET", path, headers=headers, token=None)
        assert response.status == 401
        assert response.headers["www-authenticate"] == "Bearer"


# -- scopes ---------------------------------------------------------------------------------------------------

REGION = "/organizations/default/environments/default/regions/us-east-1"
ENVIRONMENT = "/organizations/default/environments/default"
WINDOW = "startDate=2023-11-14T00:00:00Z&endDate=2023-11-15T00:00:00Z"
MESSAGES = f"/api/v1{ENVIRONMENT}/destinations/orders/messages"

OPERATIONS: list[tuple[str, str, Any, set[str]]] = [
    ("GET", f"{MESSAGES}?pollingTime=0", None, {"subscribe:destinations"}),
    ("PUT", f"{MESSAGES}/m", {"body": ""}, {"publish:destinations"}),
    ("PUT", MESSAGES, [{"headers": {"messageId": "m"}, "body": ""}], {"publish:destinations"}),
    ("DELETE", MESSAGES, [{"lockId": "x"}], {"subscribe:destinations"}),
    ("DELETE", f"{MESSAGES}/locks", [{"lockId": "x"}], {"subscribe:destinations"}),
    ("PATCH", f"{MESSAGES}/locks", [{"lockId": "x", "ttl": 1}], {"subscribe:destinations", "publish:destinations"}),
    ("GET", f"/mq/admin/api/v1{REGION}/destinations", None, {"view:destinations", "administer:destinations"}),
    (
        "GET",
        f"/mq/admin/api/v1{REGION}/destinations/queues/orders",
        None,
        {"view:destinations", "administer:destinations"},
    ),
    ("PUT", f"/mq/admin/api/v1{REGION}/destinations/queues/orders", {}, {"administer:destinations"}),
    ("PATCH", f"/mq/admin/api/v1{REGION}/destinations/queues/orders", {}, {"administer:destinations"}),
    (
        "DELETE",
        f"/mq/admin/api/v1{REGION}/destinations/queues/orders/messages",
        None,
        {"administer:destinations", "clear:destinations"},
    ),
    ("PUT", f"/mq/admin/api/v1{REGION}/destinations/exchanges/news", {}, {"administer:destinations"}),
    ("GET", f"/mq/admin/api/v1{ENVIRONMENT}/clients", None, {"view:clients", "manage:clients"}),
    ("PUT", f"/mq/admin/api/v1{ENVIRONMENT}/clients", {"name": "n"}, {"manage:clients"}),
    (
        "GET",
        f"/mq/stats/api/v1{REGION}/queues?destinationIds=orders",
        None,
        {"view:destinations", "administer:destinations", "read:stats"},
    ),
    (
        "GET",
        f"/mq/stats/api/v1{REGION}/queues/orders?{WINDOW}&period=60",
        None,
        {"view:destinations", "administer:destinations", "read:stats"},
    ),
    ("GET", f"/mq/stats/api/v1{ENVIRONMENT}?{WINDOW}&period=1day", None, {"read:stats"}),
    ("GET", f"/mq/admin/api/v1{ENVIRONMENT}/regions", None, set(ACTIONS)),
]


@pytest.mark.parametrize("scope", sorted(ACTIONS))
async def test_a_scope_opens_what_it_should_and_nothing_else(app: InProcess, scope: str) -> None:
    caller = await connected_app(app, scope)
    for method, path, body, scopes in OPERATIONS:
        options = {} if body is None else {"json": body}
        response = await app.request(method, path, token=caller.token, **options)
        assert (response.status != 403) is (scope in scopes), (method, path, response)


async def test_a_client_app_cannot_use_admin_and_stats(app: InProcess) -> None:
    token = (await authorize(app, *await client_app(app))).json()["access_token"]
    for method, path, body, _ in OPERATIONS:
        if path.startswith("/mq/") and "regions" not in path.split("/")[-1:]:
            options = {} if body is None else {"json": body}
            assert (await app.request(method, path, token=token, **options)).status == 403


async def test_a_scope_for_one_queue_shows_only_that_queue(app: InProcess) -> None:
    root = AnypointCaller(app)
    await root.queue("secret")
    _, token = await app.services.catalog.create_credential(
        "default",
        "one",
        scopes=[Scope(Action.BROWSE, ("orders",)), Scope(Action.SEND, ("orders",))],
        principal="test",
    )
    caller = AnypointCaller(app, token=token)
    assert [one["queueId"] for one in good(await caller.admin("GET", "/destinations"))] == ["orders"]
    assert (await caller.publish("orders", "m-1")).status == 201
    assert (await caller.publish("secret", "m-1")).status == 403
    assert (await caller.admin("GET", "/destinations/queues/secret")).status == 403
    live = good(await caller.stats("/queues?destinationIds=orders,secret"))
    assert [one["destination"] for one in live] == ["orders"]


# -- isolation ------------------------------------------------------------------------------------------------


async def test_a_stranger_cannot_tell_an_environment_that_exists_from_one_that_does_not(app: InProcess) -> None:
    catalog = app.services.catalog
    await catalog.create_tenant("acme", principal="test")
    _, token = await catalog.create_credential("acme", "spy", principal="test")
    answers = []
    for place in ("default", "nowhere"):
        caller = AnypointCaller(app, token=token, organization=place)
        for response in (
            await caller.publish("orders", "m-1"),
            await caller.broker("GET", "orders"),
            await caller.admin("GET", "/destinations"),
            await caller.manage("GET", "/regions"),
            await caller.stats("/queues?destinationIds=orders"),
            await app.request("DELETE", f"/mq/admin/api/v1/organizations/{place}", token=token),
        ):
            assert response.status == 403
            answers.append(response.body.replace(place.encode(), b""))
    assert answers[: len(answers) // 2] == answers[len(answers) // 2 :]


async def test_an_environment_that_does_not_exist_is_404_for_root(app: InProcess) -> None:
    caller = AnypointCaller(app, organization="nowhere")
    response = await caller.publish("orders", "m-1")
    assert (response.status, response.json()["statusMessage"]) == (404, "Environment not found")
    assert (await caller.admin("GET", "/destinations")).json() == {"message": "environment not found"}


async def test_organization_and_environment_must_belong_together(app: InProcess) -> None:
    catalog = app.services.catalog
    await catalog.create_tenant("acme", aliases={"anypoint": "org-1/env-1"}, principal="test")
    assert (await AnypointCaller(app, organization="org-1", environment="env-1").queue("q"))["queueId"] == "q"
    assert (await AnypointCaller(app, organization="acme").admin("GET", "/destinations")).status == 200
    for organization, environment in [("org-1", "env-2"), ("org-2", "env-1"), ("acme", "env-1"), ("org-1", "acme")]:
        caller = AnypointCaller(app, organization=organization, environment=environment)
        assert (await caller.admin("GET", "/destinations")).status == 404


async def test_a_credential_over_its_limit_is_429_with_a_hint(app: InProcess) -> None:
    _, token = await app.services.catalog.create_credential("default", "slow", requests_per_second=1, principal="test")
    caller = AnypointCaller(app, token=token)
    assert (await caller.publish("orders", "m-1")).status == 201
    response = await caller.publish("orders", "m-2")
    assert response.status == 429
    assert response.json()["status"] == "failure"
    assert int(response.headers["retry-after"]) >= 1


async def test_unknown_paths_and_methods_are_answered_in_the_services_own_words(app: InProcess) -> None:
    assert (await app.request("GET", "/api/v1/nothing")).json()["status"] == "failure"
    assert set((await app.request("GET", "/mq/admin/api/v1/nothing")).json()) == {"message"}
    assert (await app.request("GET", "/accounts/nothing")).json()["status"] == 404
    response = await app.request("POST", MESSAGES, json={})
    assert response.status == 405
    assert response.headers["allow"] == "DELETE, GET, HEAD, PUT"
