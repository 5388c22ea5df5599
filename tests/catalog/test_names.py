"""Names and ids share one address space: an id wins, and no name can take another's id."""

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from couriermq.clock import FakeClock, mint_id
from couriermq.core.errors import AlreadyExists, QueueNotFound
from couriermq.core.events import EventKind
from couriermq.core.model import Action, Draft, Scope
from tests.support.inprocess import InProcess, courier_app

NATIVE = "/courier/v1/tenants/default"
CLOUDFLARE = "/client/v4/accounts/default/queues"
ANYPOINT = "/organizations/default/environments/default"
BROKER = f"/api/v1{ANYPOINT}/destinations"
ADMIN = f"/mq/admin/api/v1{ANYPOINT}/regions/us-east-1"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[InProcess]:
    async with courier_app(tmp_path) as app:
        for name in ("victim", "attacker"):
            await app.services.catalog.create_queue("default", name, principal="test")
        yield app


def id_of(app: InProcess, name: str) -> str:
    return app.services.catalog.queue("default", name).id


async def test_no_dialect_gives_a_queue_the_id_of_another_as_its_name(app: InProcess) -> None:
    victim, attacker = id_of(app, "victim"), id_of(app, "attacker")
    key = {"headers": {"x-api-key": "root-token"}, "token": None}
    calls: list[tuple[str, str, Any, dict[str, Any]]] = [
        ("PATCH", f"{NATIVE}/queues/{attacker}", {"name": victim}, {}),
        ("POST", f"{NATIVE}/queues", {"name": victim}, {}),
        ("POST", f"{NATIVE}/exchanges", {"name": victim}, {}),
        ("PUT", f"/v1/queues/{attacker}", {"name": victim}, key),
        ("POST", "/v1/queues", {"name": victim}, key),
        ("PUT", f"{ADMIN}/destinations/exchanges/{victim}", {}, {}),
    ]
    statuses = [(await app.request(method, path, json=json, **more)).status for method, path, json, more in calls]
    assert statuses == [409, 409, 409, 422, 422, 409]


async def test_the_vendors_rules_for_names_do_not_help_either(app: InProcess) -> None:
    """Cloudflare's names are lower case, so an id of that form has to be made for it."""
    catalog = app.services.catalog
    victim = msgspec.structs.replace(catalog.queue("default", "victim"), id="abcdefghij0123456789k", key=99)
    await catalog._put(msgspec.structs.replace(victim, name="lower"), EventKind.QUEUE_ADDED, "test")
    rename = {"queue_name": "abcdefghij0123456789k"}
    assert (await app.request("PATCH", f"{CLOUDFLARE}/{id_of(app, 'attacker')}", json=rename)).status == 409
    assert (await app.post(CLOUDFLARE, rename)).status == 409


async def test_every_dialect_finds_the_same_queue_by_an_id(app: InProcess) -> None:
    """Also in a store in which an older Courier let a queue take the id of another as its name."""
    catalog, victim = app.services.catalog, id_of(app, "victim")
    impostor = msgspec.structs.replace(catalog.queue("default", "attacker"), name=victim)
    await catalog._put(impostor, EventKind.QUEUE_CHANGED, "test")
    key = {"headers": {"x-api-key": "root-token"}, "token": None}
    for method, path, json, more in (
        ("POST", f"{NATIVE}/queues/{victim}/messages", {"body": "x"}, {}),
        ("POST", f"{CLOUDFLARE}/{victim}/messages", {"body": "x", "content_type": "text"}, {}),
        ("PUT", f"{BROKER}/{victim}/messages/m-1", {"body": "x"}, {}),
        ("POST", f"/v1/queues/{victim}/messages", {"data": "x"}, key),
    ):
        response = await app.request(method, path, json=json, **more)  # type: ignore[arg-type]
        assert response.status in {200, 201}, response
    broker = app.services.broker
    assert (await broker.counters(catalog.queue_by_id("default", victim))).ready_count == 4
    assert (await broker.counters(catalog.queue_by_id("default", impostor.id))).ready_count == 0


async def test_a_right_on_a_queue_by_its_id_stays_with_that_queue(app: InProcess) -> None:
    catalog, victim = app.services.catalog, id_of(app, "victim")
    _, secret = await catalog.create_credential(
        "default", "manager", scopes=[Scope(Action.MANAGE, ("attacker",)), Scope(Action.MANAGE)], principal="test"
    )
    answer = await app.request("PATCH", f"{NATIVE}/queues/attacker", json={"name": victim}, token=secret)
    assert answer.status == 409
    await app.services.broker.send_one(catalog.queue("default", victim), Draft(body=b"x"), principal="test")


async def test_a_new_id_is_no_name_of_the_tenant(app: InProcess) -> None:
    catalog, clock = app.services.catalog, app.clock
    assert isinstance(clock, FakeClock)
    clock._dice = itertools.count(5_000)
    soon = mint_id(clock)
    await catalog.create_queue("default", soon, principal="test")
    clock._dice = itertools.count(5_000)
    assert (await catalog.create_queue("default", "late", principal="test")).id != soon
    clock._dice = itertools.count(5_000)
    assert (await catalog.create_exchange("default", "later", principal="test")).id != soon
    clock._dice = itertools.count(5_000)
    listener = await catalog.create_listener(
        catalog.queue("default", "late"), "hook", "https://shop.example", principal="test"
    )
    assert listener.id != soon


async def test_a_listener_cannot_take_the_id_of_another_as_its_name(app: InProcess) -> None:
    catalog = app.services.catalog
    queue = catalog.queue("default", "victim")
    one, two = [
        await catalog.create_listener(queue, name, "https://shop.example", principal="test") for name in ("one", "two")
    ]
    with pytest.raises(AlreadyExists):
        await catalog.change_listener(two, name=one.id, principal="test")
    with pytest.raises(AlreadyExists):
        await catalog.create_listener(queue, one.id, "https://shop.example", principal="test")
    assert catalog.listener(queue, one.id) == one


async def test_another_tenants_id_is_a_name_like_any_other(app: InProcess) -> None:
    """Else a tenant could find out which ids exist elsewhere."""
    catalog = app.services.catalog
    await catalog.create_tenant("acme", principal="test")
    victim = id_of(app, "victim")
    queue = await catalog.create_queue("acme", victim, principal="test")
    assert catalog.queue("acme", victim) == queue
    assert catalog.queue("default", victim).name == "victim"
    with pytest.raises(QueueNotFound):
        catalog.queue("acme", id_of(app, "attacker"))
