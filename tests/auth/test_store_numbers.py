"""Numbers that count for the whole store: no operation of any dialect shows one to a tenant."""

import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pyarrow as pa
import pytest

from couriermq.clock import FakeClock
from couriermq.core.events import Event
from couriermq.core.model import Draft, Release
from couriermq.server import DIALECTS
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.connection import DATABASE, connect
from couriermq.storage.sqlite.queries import Q
from tests.support.authorization import World
from tests.support.inprocess import InProcess, Response, courier_app

OFFSET, SEQ, KEY = 7_777_777_000, 5_555_555_000, 888_888_000
"""Where the store's numbers begin, so that they can be told from all others."""
TRUE = re.compile(rb"7777777\d{3}|5555555\d{3}|888888\d{3}")
COLUMNS = ("offset", "seq")

pytestmark = pytest.mark.slow


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with courier_app(tmp_path, clock=FakeClock(), dialects=()):
        pass
    last = Event("tenant_changed", FakeClock().now(), "default", principal="root", detail={"id": "default"})
    care.continue_after(tmp_path / "data", offset=OFFSET, next_seq=SEQ, last=last)
    with contextlib.closing(connect(tmp_path / "data" / DATABASE)) as db:
        db.execute(Q.put_meta, ("next_key", KEY))
    async with courier_app(tmp_path, clock=FakeClock(), dialects=DIALECTS) as app:
        world = World(app)
        await world.prepare()
        yield world


async def live(app: InProcess) -> None:
    """Messages in every state, an erased-looking id, and deliveries that were tried."""
    catalog, broker = app.services.catalog, app.services.broker
    queue = catalog.queue("default", "orders")
    await app.services.deliveries.pause(catalog.listeners_of(queue)[0], principal="test")
    drafts = [Draft(body=b"x", id=name) for name in (None, None, "erased-3", "m1", "m2")]
    await broker.send(queue, [*drafts, Draft(body=b"y", delay_ms=9_000)], principal="test")
    await broker.receive(queue, principal="test", limit=2)
    outbox = catalog.outbox(catalog.listeners_of(queue)[0])
    for lease in await broker.receive(outbox, principal="test", limit=4):
        await broker.settle(outbox, [Release(lease.receipt, note={"verdict": "retry", "at": 5})], principal="test")
    sent = {entry.event.seq for entry in await broker.read_events(start=OFFSET, limit=500)} - {None}
    assert min(seq or 0 for seq in sent) >= SEQ
    assert queue.key >= KEY


def shown(response: Response) -> bytes:
    """Headers and body; of an Arrow stream its rows and its metadata."""
    headers = "\n".join(f"{name}: {value}" for name, value in response.headers.items())
    if "arrow" not in response.headers.get("content-type", ""):
        return headers.encode() + b"\n" + response.body
    with pa.ipc.open_stream(response.body) as stream:
        found = [(batch.to_pylist(), metadata) for batch, metadata in stream.iter_batches_with_custom_metadata()]
    return f"{headers}\n{found}".encode()


async def test_no_operation_shows_a_tenant_a_number_of_the_store(world: World) -> None:
    await live(world.app)
    for operation in world.operations:
        text = shown(await world.call(operation, "everything"))
        assert not TRUE.search(text), (operation, text)


@pytest.mark.parametrize(
    "path",
    [
        "journal?at=1",
        "journal?last=2",
        "journal/events?limit=3",
        "journal/events?format=arrow",
        "journal/events?format=arrow&columns=seq,offset,detail,message_id",
        "journal/plan?rows=2",
        "tenants/default/audit",
        "tenants/default/queues/orders/messages?limit=1",
        "tenants/default/queues/orders/messages?id=erased-3",
        "tenants/default/queues/orders/stats",
        "tenants/default/queues/orders/listeners/{listener}/deliveries?limit=1",
        "tenants/default/queues/orders/listeners/{listener}/dead-letters?limit=1",
    ],
)
async def test_only_root_is_shown_the_numbers_of_the_store(world: World, path: str) -> None:
    await live(world.app)
    whole = f"/courier/v1/{path.format(listener=world.listener)}"
    told = await world.app.get(whole, token=world.callers["everything"])
    assert told.status == 200
    assert not TRUE.search(shown(told)), shown(told)
    if "stats" not in path and "dead-letters" not in path:
        assert TRUE.search(shown(await world.app.get(whole)))


async def test_pages_of_deliveries_follow_each_other_for_a_tenant(world: World) -> None:
    await live(world.app)
    path = f"/courier/v1/tenants/default/queues/orders/listeners/{world.listener}/deliveries"
    found, before = [], ""
    for _ in range(20):
        page = (await world.app.get(f"{path}?limit=2{before}", token=world.callers["everything"])).json()
        found += [attempt["message_id"] for attempt in page["deliveries"]]
        if page["next"] is None:
            break
        before = f"&before={page['next']}"
    whole = (await world.app.get(f"{path}?limit=100")).json()
    assert found == [attempt["message_id"] for attempt in whole["deliveries"]]
    assert len(found) == 4
    for cursor in ("o7777777005", "p5-5555555001-1", "x"):
        refused = await world.app.get(f"{path}?before={cursor}", token=world.callers["everything"])
        assert (refused.status, refused.json()["field"]) == (400, "before")


async def test_events_of_discue_are_paged_by_ids_that_tell_nothing(world: World) -> None:
    await live(world.app)
    headers = {"x-api-key": world.callers["everything"]}
    listed = (await world.app.get("/v1/events", token=None, headers=headers)).json()["events"]
    assert len({event["id"] for event in listed}) == len(listed) > 5
    assert {len(event["id"]) for event in listed} == {21}
    fourth = listed[3]
    query = f"startAfter={fourth['stored_at']}&startAfterId={fourth['id']}"
    rest = (await world.app.get(f"/v1/events?{query}", token=None, headers=headers)).json()["events"]
    assert rest == listed[4:]


async def test_metrics_count_only_for_root(world: World) -> None:
    await live(world.app)
    public = (await world.app.get("/metrics", token=None)).body.decode()
    names = {line.split("{")[0].split(" ")[0] for line in public.splitlines() if not line.startswith("#")}
    assert names == {"courier_build", "courier_ready"}
    assert "courier_events_total" in (await world.app.get("/metrics")).body.decode()
    assert (await world.app.get("/metrics", token=world.callers["everything"])).status == 403
