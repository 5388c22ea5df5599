"""Root gives one tenant networks of its own; nobody else may set or see them."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.inprocess import InProcess, courier_app
from tests.support.receiver import Receiver

TENANT = "/courier/v1/tenants/acme"
LISTENER = {"name": "one", "url": "http://127.0.0.1:9/"}


async def _queue(app: InProcess, tenant: str) -> str:
    made = await app.post(f"/courier/v1/tenants/{tenant}/queues", {"name": "orders"})
    assert made.status == 201, made
    return f"/courier/v1/tenants/{tenant}/queues/orders"


async def _listen(app: InProcess, queue: str, **facts: Any) -> int:
    return (await app.post(f"{queue}/listeners", LISTENER | facts)).status


async def _manager(app: InProcess) -> str:
    made = await app.post(
        f"{TENANT}/credentials",
        {"name": "manager", "scopes": [{"action": action} for action in ("manage", "browse", "stats")]},
    )
    assert made.status == 201, made
    return str(made.json()["secret"])


async def test_a_network_is_allowed_to_one_tenant_alone(tmp_path: Path, receiver: Receiver) -> None:
    async with courier_app(tmp_path) as app:
        made = await app.post("/courier/v1/tenants", {"id": "acme", "delivery_allow": ["127.0.0.0/8"]})
        assert made.json()["delivery_allow"] == ["127.0.0.0/8"]
        ours, others = await _queue(app, "acme"), await _queue(app, "default")
        assert await _listen(app, ours, url=receiver.url) == 201
        assert await _listen(app, others, url=receiver.url) == 400
        await app.post(f"{ours}/messages", {"body": "hello"})
        await eventually(lambda: receiver.bodies)


async def test_a_network_that_is_taken_away_is_not_dialled(tmp_path: Path, receiver: Receiver) -> None:
    async with courier_app(tmp_path) as app:
        await app.post("/courier/v1/tenants", {"id": "acme", "delivery_allow": ["127.0.0.0/8"]})
        queue = await _queue(app, "acme")
        assert await _listen(app, queue, url=receiver.url) == 201
        changed = await app.request("PATCH", TENANT, json={"delivery_allow": []})
        assert (changed.status, changed.json()["delivery_allow"]) == (200, [])
        await app.post(f"{queue}/messages", {"body": "hello"})
        lines: list[dict[str, Any]] = []
        while not lines:
            lines = (await app.get(f"{queue}/listeners/one/deliveries")).json()["deliveries"]
        assert "COURIER_DELIVERY_ALLOW" in lines[0]["error"]
        assert receiver.connection_count == 0


async def test_only_root_sets_and_sees_them(tmp_path: Path) -> None:
    async with courier_app(tmp_path) as app:
        await app.post("/courier/v1/tenants", {"id": "acme", "delivery_allow": ["10.1.0.0/16"]})
        token = await _manager(app)
        seen = await app.get(TENANT, token=token)
        assert (seen.status, "delivery_allow" in seen.json()) == (200, False)
        refused = await app.request("PATCH", TENANT, json={"delivery_allow": ["10.0.0.0/8"]}, token=token)
        assert refused.status == 403
        listed = (await app.get("/courier/v1/tenants", token=token)).body
        journal = await app.get("/courier/v1/journal/events", token=token)
        assert journal.status == 200
        assert b"10.1.0.0" not in listed + journal.body


@pytest.mark.parametrize("networks", [["ten"], ["10.0.0.1/8"], ["10.0.0.0/8"] * 101, [""]])
async def test_what_is_no_network_is_named(tmp_path: Path, networks: list[str]) -> None:
    async with courier_app(tmp_path) as app:
        refused = await app.post("/courier/v1/tenants", {"id": "acme", "delivery_allow": networks})
        assert refused.status == 400
        assert "delivery_allow" in refused.json()["field"]


@pytest.mark.parametrize("port", [22, 25, 587, 3306, 5432, 6379, 27017])
async def test_ports_of_other_services_are_refused(tmp_path: Path, port: int) -> None:
    async with courier_app(tmp_path) as app:
        queue = await _queue(app, "default")
        refused = await app.post(f"{queue}/listeners", {"name": "spy", "url": f"http://shop.example:{port}/"})
        assert (refused.status, refused.json()["field"]) == (400, "url")


class Inside:
    """A name server for which every name is inside."""

    async def resolve(self, host: str, port: int, *, tenant: str = "") -> list[str]:
        return ["10.9.8.7"]


async def test_a_url_with_a_name_that_points_inside_is_refused_when_it_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with courier_app(tmp_path) as app:
        monkeypatch.setattr(app.services.deliveries.guard, "_resolver", Inside())
        queue = await _queue(app, "default")
        good = {"name": "one", "url": "https://93.184.216.34/"}
        assert (await app.post(f"{queue}/listeners", good)).status == 201
        token_url = {"type": "oauth", "token_url": "https://in.example", "client_id": "a", "client_secret": "b"}
        for field, change in (
            ("url", {"url": "https://in.example/"}),
            ("liveness_url", {"liveness_url": "https://in.example/"}),
            ("settings.authorization.token_url", {"settings": {"authorization": token_url}}),
        ):
            for response in (
                await app.post(f"{queue}/listeners", {**good, "name": "two", **change}),
                await app.request("PATCH", f"{queue}/listeners/one", json=change),
            ):
                assert response.status == 400
                assert "in.example resolves to an address that is not allowed" in response.body.decode()
                assert "10.9" not in response.body.decode()
                assert field in response.body.decode()
