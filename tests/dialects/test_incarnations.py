"""A restore as callers of each API see it: what an earlier incarnation gave them is refused in that API's own words."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from couriermq.clock import FakeClock
from couriermq.storage.sqlite import care
from tests.support.anypoint import AnypointCaller
from tests.support.cloudflare import Account, Queue
from tests.support.inprocess import InProcess, courier_app
from tests.support.native import Tenant

Served = Callable[[Path], AbstractAsyncContextManager[InProcess]]

JOURNAL = "/courier/v1/journal"


@pytest.fixture
def served() -> Served:
    """A Courier on a data directory; all that one test serves share a clock."""
    clock = FakeClock()

    @asynccontextmanager
    async def serve(data: Path) -> AsyncIterator[InProcess]:
        async with courier_app(data, clock=clock, data=data, store="sqlite:") as app:
            yield app

    return serve


def back_up(tmp_path: Path) -> None:
    care.backup(tmp_path / "data", tmp_path / "copy")


def restore(tmp_path: Path) -> Path:
    care.restore(tmp_path / "copy", tmp_path / "restored")
    return tmp_path / "restored"


async def test_native_receipts_ids_positions_and_cursors_are_refused(served: Served, tmp_path: Path) -> None:
    async with served(tmp_path / "data") as app:
        root = Tenant(app)
        queue = await root.queue("orders")
        await queue.ask("POST", "/messages", {"messages": [{"body": "a"}, {"body": "b"}]})
        reader = await root.with_scopes(("stats", ["*"]), ("browse", ["*"]))
        back_up(tmp_path)
        lost = (await queue.ask("POST", "/messages", {"messages": [{"body": "c"}]}))["results"][0]
        lease = (await queue.ask("POST", "/receive", {"limit": 1}))["leases"][0]
        end = (await root.ask("GET", JOURNAL))["next"]
        position = (await reader.ask("GET", JOURNAL))["next"]
        cursor = (await queue.of(reader).ask("GET", "/messages?limit=1"))["next"]
    async with served(restore(tmp_path)) as app:
        root, reader = Tenant(app), Tenant(app, token=reader._options["token"])
        assert (await root.call("POST", "/queues/orders/ack", {"receipts": [lease["receipt"]]})).json()["results"][0][
            "error"
        ]
        assert (await root.call("GET", f"/queues/orders/messages/{lost['id']}")).status == 404
        gone = await root.refused("GET", f"{JOURNAL}/events?from={end}")
        assert (gone["status"], "earlier incarnation" in gone["detail"]) == (410, True)
        gone = await root.refused("PUT", f"{JOURNAL}/cursors/me", {"offset": end})
        assert (gone["status"], "earlier incarnation" in gone["detail"]) == (410, True)
        refused = await reader.refused("GET", f"{JOURNAL}/events?from={position}")
        assert (refused["status"], "earlier incarnation" in refused["detail"]) == (400, True)
        refused = await reader.refused("GET", f"/queues/orders/messages?limit=1&after={cursor}")
        assert (refused["status"], "before the store was restored" in refused["detail"]) == (400, True)


async def test_the_journal_says_which_incarnation_it_is(served: Served, tmp_path: Path) -> None:
    async with served(tmp_path / "data") as app:
        root = Tenant(app)
        await root.queue("orders")
        before = await root.ask("GET", JOURNAL)
        back_up(tmp_path)
    async with served(restore(tmp_path)) as app:
        root = Tenant(app)
        now = await root.ask("GET", JOURNAL)
        answer = await root.call("GET", f"{JOURNAL}/events?from=0&format=arrow")
        page = await root.ask("GET", f"{JOURNAL}/events?from=0")
        rest = await root.ask("GET", f"{JOURNAL}/events?from={page['next']}")
        last = await root.ask("GET", f"{JOURNAL}?last=2")
    assert before["store"] == now["store"]
    assert (before["incarnation"], now["incarnation"].partition("-")[0]) == ("1", "2")
    assert answer.headers["courier-store"] == now["store"]
    assert answer.headers["courier-incarnation"] == now["incarnation"]
    (jump,) = now["jumps"]
    assert (page["next"], page["at_end"]) == (jump["next"], False)
    assert [event["kind"] for event in rest["events"]] == ["incarnation_began"]
    assert rest["events"][0]["offset"] == jump["next"]
    assert rest["at_end"]
    assert last["offset"] == jump["end"] - 1


async def test_a_cloudflare_lease_and_preview_of_before_settle_nothing(served: Served, tmp_path: Path) -> None:
    async with served(tmp_path / "data") as app:
        queue = await Account(app).queue("orders")
        await queue.push({"n": 1})
        back_up(tmp_path)
        lease = await queue.pull_one()
    async with served(restore(tmp_path)) as app:
        queue = Queue(Account(app), queue.id, "orders")
        taken = await queue.pull_one()
        assert taken["id"] == lease["id"]
        await queue.ack(lease["lease_id"])
        assert await queue.count() == 1  # an ack of a lease that is over changes nothing
        await queue.ack(taken["lease_id"])
        assert await queue.count() == 0


async def test_an_anypoint_lock_of_before_is_gone(served: Served, tmp_path: Path) -> None:
    async with served(tmp_path / "data") as app:
        client = AnypointCaller(app)
        await client.queue("orders")
        await client.publish("orders", "m-1")
        back_up(tmp_path)
        (message,) = await client.consume("orders")
    async with served(restore(tmp_path)) as app:
        client = AnypointCaller(app)
        (again,) = await client.consume("orders")
        assert again["headers"]["messageId"] == message["headers"]["messageId"]
        refused = await client.ack("orders", message)
        app.clock.advance(ms=24 * 3_600_000)
        expired = await client.ack("orders", again)
        assert refused.status == expired.status == 400
        assert all(answer.json()["statusMessage"].endswith("is expired") for answer in (refused, expired))
