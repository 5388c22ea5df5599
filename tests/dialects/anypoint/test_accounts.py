"""The accounts service: who the caller is and which organizations and environments it may see."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import Action, Scope
from tests.support.anypoint import AnypointCaller, good
from tests.support.inprocess import ROOT_TOKEN, InProcess, Response, courier_app

NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z
DEFAULT = {
    "id": "default",
    "name": "default",
    "organizationId": "default",
    "isProduction": True,
    "type": "production",
}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, clock=FakeClock(NOON)) as app:
        for tenant, alias in [("prod", "acme/production"), ("test", "acme/sandbox")]:
            await app.services.catalog.create_tenant(tenant, aliases={"anypoint": alias}, principal="test")
        yield app


async def asked(app: InProcess, path: str, token: str | None = ROOT_TOKEN) -> Response:
    return await app.request("GET", f"/accounts/api{path}", token=token)


async def credential_of(app: InProcess, tenant: str, **options: Any) -> str:
    _, secret = await app.services.catalog.create_credential(tenant, "watcher", principal="test", **options)
    return secret


def environment(name: str, environment_id: str) -> dict[str, Any]:
    return DEFAULT | {"id": environment_id, "name": name, "organizationId": "acme"}


async def test_a_caller_finds_its_organization_and_its_environment(app: InProcess) -> None:
    token = await credential_of(app, "test", scopes=[Scope(Action.STATS)])
    user = good(await asked(app, "/me", token))["user"]
    assert (user["username"], user["organizationId"]) == ("watcher", "acme")
    assert user["organization"] == good(await asked(app, "/organizations/acme", token))
    assert user["organization"]["createdAt"] == "2023-11-15T12:00:00.000Z"
    assert user["memberOfOrganizations"] == [{"id": "acme", "name": "acme", "subOrganizationIds": []}]
    own = environment("test", "sandbox")
    assert good(await asked(app, "/organizations/acme/environments", token)) == {"data": [own], "total": 1}
    assert good(await asked(app, "/organizations/acme/environments/sandbox", token)) == own
    assert user["organization"]["environments"] == [own]


async def test_what_is_found_leads_to_the_queues(app: InProcess) -> None:
    token = await credential_of(app, "test")
    organization = good(await asked(app, "/me", token))["user"]["organization"]["id"]
    [found] = good(await asked(app, f"/organizations/{organization}/environments", token))["data"]
    caller = AnypointCaller(app, token=token, organization=organization, environment=found["id"])
    await caller.queue("orders")
    assert [one["queueId"] for one in good(await caller.admin("GET", "/destinations"))] == ["orders"]


async def test_root_sees_all_organizations(app: InProcess) -> None:
    user = good(await asked(app, "/me"))["user"]
    assert (user["username"], user["organizationId"]) == ("root", "default")
    assert user["organization"]["environments"] == [DEFAULT]
    assert [one["id"] for one in user["memberOfOrganizations"]] == ["default", "acme"]
    listed = good(await asked(app, "/organizations/acme/environments"))
    assert listed == {"data": [environment("prod", "production"), environment("test", "sandbox")], "total": 2}


async def test_a_caller_learns_nothing_of_others(app: InProcess) -> None:
    token = await credential_of(app, "test")
    for path in (
        "/organizations/default",
        "/organizations/default/environments",
        "/organizations/acme/environments/production",
    ):
        absent = path.replace("default", "nowhere").replace("production", "nowhere")
        refused, missing = await asked(app, path, token), await asked(app, absent, token)
        assert (refused.status, missing.status) == (403, 403)
        assert refused.json()["status"] == 403
    assert (await asked(app, "/organizations/nowhere")).status == 404
    for path in ("/me", "/organizations/acme", "/organizations/acme/environments"):
        assert (await asked(app, path, None)).json() == {"status": 401, "message": "Unauthorized"}


async def test_a_credential_for_another_dialect_opens_nothing(app: InProcess) -> None:
    token = await credential_of(app, "default", dialect_scopes={"cloudflare": ("queues_write",)})
    caller = AnypointCaller(app, token=token)
    assert (await asked(app, "/me", token)).status == 403
    assert (await caller.manage("GET", "/regions")).status == 403
    assert (await caller.admin("PUT", "/destinations/queues/orders", json={})).status == 403
    form = f"client_id=root&client_secret={ROOT_TOKEN}&grant_type=client_credentials".encode()
    assert (await app.request("POST", "/api/v1/authorize", body=form, token=None)).status == 200
    [credential] = app.services.catalog.credentials("default")
    form = f"client_id={credential.id}&client_secret={token}&grant_type=client_credentials".encode()
    assert (await app.request("POST", "/api/v1/authorize", body=form, token=None)).status == 403
