"""Every operation of the four dialects against every kind of credential, and against the table in the docs."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import Action
from couriermq.dialects.native.routes import OPERATIONS as NATIVE
from couriermq.server import DIALECTS
from tests.support.authorization import (
    QUEUE,
    QUEUE_PARAMS,
    TENANT,
    TENANT_PARAMS,
    Operation,
    Row,
    World,
    rows_of_every_dialect,
    table,
    tables_of,
)
from tests.support.inprocess import Response, courier_app

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "authorization.md"
ABSENT = {"queue": "absent", "queue_id": "absent", "destination": "absent", "exchange": "absent"}

pytestmark = [pytest.mark.slow]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with courier_app(tmp_path, clock=FakeClock(), dialects=DIALECTS) as app:
        world = World(app)
        await world.prepare()
        yield world


async def test_the_page_says_who_may_call_what(tmp_path: Path) -> None:
    rows = await rows_of_every_dialect(tmp_path)
    written = tables_of(PAGE.read_text())
    assert set(written) == set(rows) == set(DIALECTS)
    for dialect, found in rows.items():
        assert written[dialect] == table(found), f"write it anew: python -m tests.support.authorization {PAGE.name}"
    assert [_as_needs(row) for row in rows["native"]] == [_needs(row.operation) for row in rows["native"]]


def _needs(operation: Operation) -> tuple[str, frozenset[str]]:
    """What the reference of the native API says that an operation needs."""
    (found,) = [one for one in NATIVE if one.id == operation.id]
    scopes, _, where = found.needs.partition(", on ")
    words = frozenset(scopes.replace(" or ", ", ").split(", ")) - {""}
    return TENANT if where == "all queues" else QUEUE, words


def _as_needs(row: Row) -> tuple[str, frozenset[str]]:
    scopes = {str(action) for action in row.scopes} or ({"root"} if row.who == "root" else set())
    return TENANT if TENANT in row.scopes.values() else QUEUE, frozenset(scopes)


async def test_a_scope_for_one_queue_opens_no_other(world: World) -> None:
    for operation in world.operations:
        about = operation.is_about(QUEUE_PARAMS) or operation.id in {"create_subscription", "start_operation"}
        if operation.public or "subscription_id" in operation.params:
            continue
        for action in Action:
            here = await world.admits(operation, f"{action} here")
            elsewhere = await world.admits(operation, f"{action} elsewhere")
            free = await world.admits(operation, "nothing")
            assert elsewhere is (free if about else here), (operation, action)


async def test_who_has_no_right_cannot_tell_what_exists(world: World) -> None:
    catalog = world.catalog
    ids = {"orders": catalog.queue("default", "orders").id, "events": catalog.exchange("default", "events").id}
    for operation in world.operations:
        if operation.public or not operation.is_about(QUEUE_PARAMS):
            continue
        for caller in ("nothing", *(f"{action} elsewhere" for action in Action)):
            named = _told(await world.call(operation, caller), "orders", "events")
            by_id = {param: ids["events" if param == "exchange" else "orders"] for param in ABSENT}
            called = _told(await world.call(operation, caller, **by_id), *ids.values())
            missing = _told(await world.call(operation, caller, **ABSENT), "absent")
            assert named == called == missing, (operation, caller)
            assert missing[0] == 403, (operation, caller)


def _told(response: Response, *names: str) -> tuple[int, bytes, dict[str, str]]:
    """All that a caller is told, but for what it said itself."""
    body, headers = response.body, {key: value for key, value in response.headers.items() if key != "content-length"}
    for name in names:
        body = body.replace(name.encode(), b"*")
        headers = {key: value.replace(name, "*") for key, value in headers.items()}
    return response.status, body, headers


async def test_a_credential_that_is_no_good_opens_nothing(world: World) -> None:
    for operation in world.operations:
        if operation.public:
            continue
        for caller in ("expired", "disabled", "rotated"):
            assert (await world.call(operation, caller)).status == 401, (operation, caller)


async def test_root_may_call_everything(world: World) -> None:
    for operation in world.operations:
        assert operation.public or await world.admits(operation, "root"), operation


async def test_a_stranger_sees_and_changes_nothing(world: World) -> None:
    catalog = world.catalog
    queue_id, exchange_id = catalog.queue("default", "orders").id, catalog.exchange("default", "events").id
    theirs = {"queue": queue_id, "queue_id": queue_id, "destination": queue_id, "exchange": exchange_id}
    secrets = [queue_id, exchange_id, world.listener, world.target, world.client]
    before = (catalog.queues("default"), catalog.exchanges("default"), catalog.listeners("default"))
    for operation in world.operations:
        if operation.public:
            continue
        response = await world.call(operation, "foreign", **theirs)
        if operation.is_about(TENANT_PARAMS):
            assert response.status == 403, (operation, response)
        elif operation.dialect == "discue" and operation.is_about(("queue_id", "api_key_id")):
            assert response.status == 404, (operation, response)
        if response.status == 200:
            assert not any(secret.encode() in response.body for secret in secrets), operation
    assert before == (catalog.queues("default"), catalog.exchanges("default"), catalog.listeners("default"))
