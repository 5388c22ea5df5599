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
        dialect_scopes={"anypoint": scopes},
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


async def test_a_connector_of_version_4_authorizes_below_its_environment(app: InProcess) -> None:
    """Version 3 has `/api/v1` for its base URL, version 4 the environment's path."""
    catalog = app.services.catalog
    await catalog.create_tenant("acme", aliases={"anypoint": "org-1/env-1"}, principal="test")
    for organization, environment in (("default", "default"), ("org-1", "env-1")):
        mine = AnypointCaller(app, organization=organization, environment=environment)
        await mine.queue("orders")
        made = good(await mine.manage("PUT", "/clients", json={"name": "billing"}))
        base = f"/api/v1{mine.environment}"
        response = await authorize(app, made["clientId"], made["clientSecret"], f"{base}/authorize")
        assert response.json()["simple_client"] == {"envId": environment, "orgId": organization}
        caller = AnypointCaller(app, token=response.json()["access_token"])
        sent = await app.request(
            "PUT", f"{base}/destinations/orders/messages/m-1", json={"body": "x"}, token=caller.token
        )
        assert sent.status == 201
    strange = "/api/v1/organizations/default/environments/default/authorize"
    assert (await authorize(app, made["clientId"], made["clientSecret"], strange)).status == 403
    assert (await authorize(app, made["clientId"], "wrong", strange)).status == 401
    root = await authorize(app, "root", ROOT_TOKEN, "/api/v1/organizations/org-1/environments/env-1/authorize")
    assert root.json()["simple_client"] == {"envId": "env-1", "orgId": "org-1"}


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


async def test_a_new_secret_may_leave_the_old_one_good_for_a_while(app: InProcess) -> None:
    client_id, secret = await client_app(app)
    token = (await authorize(app, client_id, secret)).json()["access_token"]
    response = await AnypointCaller(app).manage("POST", f"/clients/{client_id}?overlapMs=60000")
    assert (await authorize(app, client_id, secret)).status == 200
    assert (await authorize(app, client_id, response.json()["clientSecret"])).status == 200
    assert (await AnypointCaller(app, token=token).publish("orders", "m-1")).status == 201
    app.clock.advance(ms=60_000)
    assert (await authorize(app, client_id, secret)).status == 401
    assert (await AnypointCaller(app, token=token).publish("orders", "m-2")).status == 401
    assert (await authorize(app, client_id, response.json()["clientSecret"])).status == 200
    assert (await AnypointCaller(app).manage("POST", f"/clients/{client_id}?overlapMs=-1")).status == 400


async def test_replies_with_a_secret_must_not_be_stored(app: InProcess) -> None:
    made = await AnypointCaller(app).manage("PUT", "/clients", json={"name": "billing"})
    client_id, secret = made.json()["clientId"], made.json()["clientSecret"]
    person = {"username": client_id, "password": secret}
    for response in (
        made,
        await authorize(app, client_id, secret),
        await authorize(app, client_id, secret, "/accounts/oauth2/token"),
        await authorize(app, client_id, secret, "/accounts/api/v2/oauth2/token"),
        await app.request("POST", "/accounts/login", json=person, token=None),
        await AnypointCaller(app).manage("POST", f"/clients/{client_id}"),
    ):
        assert (response.status, response.headers["cache-control"]) == (200, "no-store")


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


def multipart(*parts: bytes, end: bytes = b"--XX--\r\n") -> bytes:
    return b"".join(b"--XX\r\n" + part + b"\r\n" for part in parts) + end


def form_part(name: bytes, value: bytes, *headers: bytes) -> bytes:
    disposition = b'Content-Disposition: form-data; name="' + name + b'"'
    return b"\r\n".join([disposition, *headers]) + b"\r\n\r\n" + value


MULTIPART_FORM = {"content-type": "multipart/form-data; boundary=XX"}
NESTED = b"Content-Type: multipart/mixed; boundary=YY"


@pytest.mark.parametrize("path", ["/api/v1/authorize", "/accounts/api/v2/oauth2/token", "/accounts/login"])
@pytest.mark.parametrize(
    "body",
    [
        multipart(form_part(b"client_id", b"--YY\r\n\r\nroot\r\n--YY--", NESTED)),
        multipart(form_part(b"client_id", b"cm9vdA==", b"Content-Transfer-Encoding: base64")),
        multipart(form_part(b"client_id", b"x", b"Content-Transfer-Encoding: nonsense")),
        multipart(form_part(b"client_id", b"\xff\xfe")),
        multipart(form_part(b"\xff", b"root")),
        multipart(form_part(b"", b"root")),
        multipart(b"\r\nroot"),
        multipart(form_part(b"client_id", b"a"), form_part(b"client_id", b"b")),
        multipart(*(form_part(b"f%d" % number, b"") for number in range(40))),
        multipart(form_part(b"client_id", b"x", *(b"X-%d: y" % number for number in range(100)))),
        multipart(form_part(b"client_id", b"root"), end=b""),
        multipart(b"no colon"),
        b"--XX",
        b"",
    ],
)
async def test_a_multipart_form_that_is_not_sound_is_400(app: InProcess, path: str, body: bytes) -> None:
    response = await app.request("POST", path, body=body, headers=MULTIPART_FORM, token=None)
    assert response.status == 400, response


@pytest.mark.parametrize(
    "kind", ["multipart/mixed; boundary=XX", "multipart/form-data", "multipart/form-data; boundary="]
)
async def test_a_multipart_body_of_another_kind_is_400(app: InProcess, kind: str) -> None:
    body = multipart(form_part(b"client_id", b"root"))
    response = await app.request("POST", "/api/v1/authorize", body=body, headers={"content-type": kind}, token=None)
    assert response.status == 400


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"client_id=%FF%FE", FORM),
        (b"client_id=%ED%A0%80", FORM),
        (b"client_id=a&client_id=b", FORM),
        (b"&".join(b"f%d=" % number for number in range(40)), FORM),
        (b'{"client_id": ' + b"[" * 4_000, {}),
        (b'{"client_id": "\xff"}', {}),
        (b'{"client_id": "\\ud800", "client_secret": "\\ud800"}', {}),
    ],
)
async def test_a_form_that_is_not_sound_is_400(app: InProcess, body: bytes, headers: dict[str, str]) -> None:
    response = await app.request("POST", "/api/v1/authorize", body=body, headers=headers, token=None)
    assert response.status == 400, response


@pytest.mark.parametrize("path", ["/api/v1/authorize", "/accounts/oauth2/token", "/accounts/api/login"])
@pytest.mark.parametrize("headers", [FORM, MULTIPART_FORM, {"content-type": "application/json"}])
async def test_a_token_request_has_at_most_a_few_kilobytes(app: InProcess, path: str, headers: dict[str, str]) -> None:
    response = await app.request("POST", path, body=b"a" * 8_193, headers=headers, token=None)
    assert response.status == 413


@pytest.mark.parametrize(
    "expires_in",
    ["1e308", "1e309", "-1", "0", "NaN", "-Infinity", "true", '"NaN"', '"1e999"', '"soon"', "[]", "9" * 400],
)
async def test_a_lifetime_that_is_no_duration_is_400(app: InProcess, expires_in: str) -> None:
    body = f'{{"client_id": "root", "client_secret": "{ROOT_TOKEN}", "expires_in": {expires_in}}}'.encode()
    for path in ("/api/v1/authorize", "/accounts/api/v2/oauth2/token"):
        assert (await app.request("POST", path, body=body, token=None)).status == 400
    form = f"client_id=root&client_secret={ROOT_TOKEN}&expires_in={expires_in}".encode()
    assert (await app.request("POST", "/api/v1/authorize", body=form, headers=FORM, token=None)).status == 400


async def test_a_token_lives_for_an_hour_whatever_lifetime_its_client_asks_for(app: InProcess) -> None:
    body = f'{{"client_id": "root", "client_secret": "{ROOT_TOKEN}", "expires_in": 60}}'.encode()
    response = await app.request("POST", "/accounts/api/v2/oauth2/token", body=body, token=None)
    assert (response.status, response.json()["expires_in"]) == (200, 3_600)


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
    ("PUT", f"/mq/admin/api/v1{ENVIRONMENT}/clients", {"name": "n"}, set()),  # it grants two scopes more
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


async def test_who_makes_a_client_app_must_have_what_it_gets(app: InProcess) -> None:
    order = {"name": "billing"}
    manager = await connected_app(app, "manage:clients", "publish:destinations")
    assert (await manager.manage("PUT", "/clients", json=order)).status == 403
    manager = await connected_app(app, "manage:clients", "publish:destinations", "subscribe:destinations")
    made = good(await manager.manage("PUT", "/clients", json=order))
    client = AnypointCaller(app, token=made["clientSecret"])
    assert (await client.publish("orders", "m-1")).status == 201
    assert (await client.manage("GET", "/clients")).status == 403


async def test_who_manages_cannot_take_over_a_client_app_that_may_do_more(app: InProcess) -> None:
    client_id, secret = await client_app(app)
    _, token = await app.services.catalog.create_credential(
        "default", "manager", scopes=[Scope(Action.MANAGE), Scope(Action.SEND)], principal="test"
    )
    manager = AnypointCaller(app, token=token)
    assert (await manager.manage("POST", f"/clients/{client_id}")).status == 403
    assert (await manager.manage("PUT", "/clients", json={"name": "own"})).status == 403
    assert (await authorize(app, client_id, secret)).status == 200, "its secret is still the old one"


async def test_a_client_app_ends_with_the_credential_that_made_it(app: InProcess) -> None:
    ends_at = app.clock.now() + 60_000
    _, token = await app.services.catalog.create_credential("default", "brief", expires_at=ends_at, principal="test")
    made = good(await AnypointCaller(app, token=token).manage("PUT", "/clients", json={"name": "billing"}))
    kept = app.services.catalog.credential("default", made["clientId"])
    assert kept.expires_at == ends_at


async def test_who_is_limited_to_anypoint_scopes_cannot_use_other_dialects(app: InProcess) -> None:
    caller = await connected_app(app, "clear:destinations")
    native = await app.get("/courier/v1/tenants/default/credentials", token=caller.token)
    cloudflare = await app.get("/client/v4/accounts/default/queues", token=caller.token)
    discue = await app.get("/v1/queues", token=None, headers={"x-api-key": caller.token or ""})
    assert [native.status, cloudflare.status, discue.status] == [403, 403, 403]


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


async def test_rights_on_a_queue_do_not_reach_the_queues_that_it_leads_to(app: InProcess) -> None:
    root = AnypointCaller(app)
    await root.queue("secret")
    await root.exchange("news")
    _, token = await app.services.catalog.create_credential(
        "default", "one", scopes=[Scope(Action.MANAGE, ("orders", "news"))], principal="test"
    )
    caller, queue = AnypointCaller(app, token=token), "/destinations/queues/orders"
    for method, path, body in (
        ("PATCH", queue, {"deadLetterQueueId": "{}", "maxDeliveries": 3}),
        ("PUT", "/bindings/exchanges/news/queues/{}", {}),
        ("DELETE", "/bindings/exchanges/news/queues/{}", {}),
        ("PUT", "/bindings/exchanges/news/queues/{}/rules/routing", {"routingRules": []}),
        ("GET", "/bindings/exchanges/news/queues/{}", {}),
    ):
        answers = []
        for name in ("secret", "absent"):
            json = {key: value.format(name) if isinstance(value, str) else value for key, value in body.items()}
            response = await caller.admin(method, path.format(name), json=json)
            answers.append((response.status, response.body.replace(name.encode(), b"")))
        assert answers[0] == answers[1]
        assert answers[0][0] == 403
    assert (await caller.admin("PUT", f"{queue}/fallback", json={"fallbackEnabled": True})).status == 403


async def test_bindings_are_listed_to_those_who_see_both_ends(app: InProcess) -> None:
    root = AnypointCaller(app)
    await root.queue("secret")
    await root.exchange("news", "orders", "secret")
    _, token = await app.services.catalog.create_credential(
        "default", "one", scopes=[Scope(Action.BROWSE, ("orders", "news"))], principal="test"
    )
    listed = good(await AnypointCaller(app, token=token).admin("GET", "/bindings/exchanges/news"))
    assert [one["queueId"] for one in listed] == ["orders"]
    native = await app.get("/courier/v1/tenants/default/exchanges/news/bindings", token=token)
    assert [one["queue"] for one in native.json()["bindings"]] == ["orders"]


@pytest.mark.parametrize("nonsense", ["text", 5, [1], {}, {"enabled": "no"}, {"name": 5}])
async def test_annotations_that_make_no_sense_break_nothing(app: InProcess, nonsense: Any) -> None:
    annotations = {"anypoint.fallback_of": nonsense, "anypoint.fallback": nonsense}
    path = "/courier/v1/tenants/default/queues/orders"
    assert (await app.request("PATCH", path, json={"annotations": annotations})).status == 200
    caller = AnypointCaller(app)
    assert (await caller.publish("orders", "m-1")).status == 201
    assert (await caller.admin("GET", "/destinations/queues/orders")).status == 200
    assert (
        await caller.admin("PUT", "/destinations/queues/orders/fallback", json={"fallbackEnabled": True})
    ).status < 500
