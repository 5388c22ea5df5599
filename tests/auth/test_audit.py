"""Audit events: what they tell, who may read them, and that nobody can fill the disk with them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.auth import audit
from couriermq.core.events import AUDIT_KINDS
from couriermq.core.model import MINUTE
from tests.support.inprocess import InProcess, courier_app

pytestmark = [pytest.mark.every_engine, pytest.mark.usefixtures("_one_lane")]

TENANT = "/courier/v1/tenants/default"
ADDRESS = "198.51.100.7"
KINDS = "kind=signed_in&kind=denied&kind=secret_read"
LISTENER = {"name": "shop", "url": "https://shop.example/hooks"}


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path, trusted_proxies=("10.0.0.0/8",)) as app:
        yield app


async def credential(app: InProcess, *actions: str) -> dict[str, Any]:
    scopes = [{"action": action, "queues": ["*"]} for action in actions]
    made: dict[str, Any] = (await app.post(f"{TENANT}/credentials", {"name": "one", "scopes": scopes})).json()
    return made


async def events(app: InProcess, query: str = KINDS, **options: Any) -> list[dict[str, Any]]:
    """The audit events of the tenant, once all that was counted is written."""
    await app.services.audit.flush()
    response = await app.get(f"{TENANT}/audit?{query}", **options)
    assert response.status == 200, response
    found: list[dict[str, Any]] = response.json()["events"]
    return found


async def test_a_grant_of_a_token_is_told_with_the_address_behind_the_proxy(app: InProcess) -> None:
    made = await credential(app, "send")
    form = {"client_id": made["id"], "client_secret": made["secret"]}
    headers = {"x-forwarded-for": ADDRESS}
    for _ in range(3):
        await app.post("/api/v1/authorize", form, token=None, client="10.0.0.1", headers=headers)
    (event,) = await events(app)
    assert (event["kind"], event["principal"], event["tenant"]) == ("signed_in", made["id"], "default")
    assert event["detail"] == {"address": ADDRESS, "count": 3, "path": "POST /api"}


async def test_denied_calls_are_told_with_principal_address_and_status(app: InProcess) -> None:
    made = await credential(app, "send")
    await app.get(f"{TENANT}/queues", token=None, client=ADDRESS)
    await app.get(f"{TENANT}/queues", token="wrong", client=ADDRESS)
    await app.get(f"{TENANT}/credentials", token=made["secret"], client=ADDRESS)
    await app.get("/v1/queues", headers={"x-api-key": "wrong"}, token=None, client=ADDRESS)
    told = [(e["kind"], e["principal"], e["detail"]["status"], e["detail"]["count"]) for e in await events(app)]
    assert told == [("denied", "anonymous", 401, 2), ("denied", made["id"], 403, 1), ("denied", "anonymous", 401, 1)]


async def test_a_secret_that_is_read_is_told_before_it_is_shown(app: InProcess) -> None:
    queue = f"{TENANT}/queues/orders"
    await app.post(f"{TENANT}/queues", {"name": "orders"})
    made = (await app.post(f"{queue}/listeners", LISTENER)).json()
    await app.get(f"{queue}/listeners/shop?reveal=true", client=ADDRESS)
    path = f"/v1/queues/{made['queue_id']}/listeners/{made['id']}?reveal=true"
    await app.get(path, headers={"x-api-key": "root-token"}, token=None, client=ADDRESS)
    told = [event for event in await events(app) if event["kind"] == "secret_read"]
    assert [event["principal"] for event in told] == ["root", "root"]
    assert told[0]["detail"] == {"address": ADDRESS, "listener": made["id"], "count": 1}
    assert told[0]["queue_id"] == made["queue_id"]
    assert "whsec_" not in str(told)


async def test_changes_are_told_with_their_address(app: InProcess) -> None:
    await app.post(f"{TENANT}/queues", {"name": "orders"}, client=ADDRESS)
    (event,) = await events(app, "kind=queue_added")
    assert (event["queue"], event["principal"], event["detail"]["address"]) == ("orders", "root", ADDRESS)
    everything = {event["kind"] for event in await events(app, "")}
    assert everything == {"tenant_added", "record_added", "queue_added"}


async def test_only_the_scope_audit_opens_audit_events(app: InProcess) -> None:
    auditor, others = await credential(app, "audit"), await credential(app, "manage", "stats", "browse", "send")
    assert (await app.get(f"{TENANT}/audit", token=others["secret"], client=ADDRESS)).status == 403
    assert {event["kind"] for event in await events(app, token=auditor["secret"])} == {"denied"}
    assert (await app.get(f"{TENANT}/queues", token=auditor["secret"])).status == 403
    for query in ("", "?format=arrow", "?kind=denied"):
        seen = await app.get(f"/courier/v1/journal/events{query}", token=others["secret"])
        assert (seen.status, b"denied" in seen.body) == (200, False), query
    assert b"denied" in (await app.get("/courier/v1/journal/events")).body
    assert (await app.get("/courier/v1/tenants/other/audit", token=auditor["secret"])).status == 403


async def test_nobody_grants_audit_without_having_it(app: InProcess) -> None:
    manager = await credential(app, "manage")
    order = {"name": "spy", "scopes": [{"action": "audit", "queues": ["*"]}]}
    assert (await app.post(f"{TENANT}/credentials", order, token=manager["secret"])).status == 403
    everything = (await app.post(f"{TENANT}/credentials", {"name": "all"})).json()
    assert (await app.get(f"{TENANT}/audit", token=everything["secret"])).status == 403


async def test_an_attacker_adds_a_bounded_number_of_events(app: InProcess) -> None:
    made = [await credential(app, "send") for _ in range(audit.KEYS_PER_ADDRESS + 10)]
    for each in made:
        for _ in range(10):
            await app.get(f"{TENANT}/credentials", token=each["secret"], client=ADDRESS)
    told = await events(app)
    assert len(told) == audit.KEYS_PER_ADDRESS + 1
    assert sum(event["detail"]["count"] for event in told) == 10 * len(made)
    assert (told[-1]["principal"], told[-1]["detail"]["address"]) == ("others", ADDRESS)


async def test_many_addresses_add_a_bounded_number_of_events(app: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "KEY_COUNT", 50)
    for number in range(500):
        await app.get(f"{TENANT}/queues", token=None, client=f"203.0.{number // 250}.{number % 250}")
    told = await events(app)
    assert len(told) == 51
    assert told[-1]["detail"] == {"address": "others", "count": 450}


async def test_what_was_counted_is_written_within_a_minute_and_at_the_end(tmp_path: Path) -> None:
    async with courier_app(tmp_path, min_free_bytes=0) as app:
        await app.get(f"{TENANT}/queues", token=None)
        app.clock.advance(ms=MINUTE)
    async with courier_app(tmp_path, min_free_bytes=0) as app:
        entries = await app.services.history.read_events(start=0, limit=100)
        assert [entry.event.kind for entry in entries if entry.event.kind in AUDIT_KINDS] == ["denied"]


@pytest.mark.parametrize("query", ["kind=sent", "limit=0", "limit=1000000", "from=-1", "from=x"])
async def test_a_question_that_makes_no_sense_is_400(app: InProcess, query: str) -> None:
    assert (await app.get(f"{TENANT}/audit?{query}")).status == 400
