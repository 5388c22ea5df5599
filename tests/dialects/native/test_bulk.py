"""Operations on all messages that match, through the native API."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from couriermq.clock import FakeClock
from couriermq.operations import runner
from tests.support.eventually import eventually
from tests.support.native import Queue, Tenant, native_tenant


@pytest.fixture
async def root(tmp_path: Path) -> AsyncIterator[Tenant]:
    async with native_tenant(tmp_path) as tenant:
        yield tenant


async def started(tenant: Tenant, **order: Any) -> dict[str, Any]:
    response = await tenant.call("POST", "/operations", order)
    assert response.status == 202, response
    operation: dict[str, Any] = response.json()
    return operation


async def done(tenant: Tenant, **order: Any) -> dict[str, Any]:
    """An operation at its end."""
    operation = await started(tenant, **order)

    async def look() -> dict[str, Any]:
        found: dict[str, Any] = await tenant.ask("GET", f"/operations/{operation['id']}")
        return found

    return await eventually(look, lambda found: found["state"] != "running")


async def die(tenant: Tenant, name: str, count: int) -> Queue:
    queue = await tenant.queue(name, dead_letter_queue="failed", max_attempts=1)
    for number in range(count):
        await queue.send(f"{name} {number}", attributes={"n": number})
        lease = await queue.receive_one()
        await queue.ask("POST", "/release", {"receipt": lease["receipt"]})
    return queue


async def test_dead_letters_of_one_source_go_back(root: Tenant) -> None:
    failed = await root.queue("failed")
    orders, mail = await die(root, "orders", 3), await die(root, "mail", 2)
    operation = await done(root, verb="redrive", queue="failed", where={"source_queue": "orders"})
    assert (operation["state"], operation["done_count"], operation["matched_count"]) == ("done", 3, 3)
    assert (operation["looked_count"], operation["total_count"], operation["where"]["source_queue"]) == (5, 5, "orders")
    assert len(await orders.bodies()) == 3
    assert await mail.bodies() == []
    assert len(await failed.bodies()) == 2


async def test_messages_that_match_are_moved_or_removed(root: Tenant) -> None:
    orders, other = await root.queue("orders"), await root.queue("other")
    for number in range(6):
        await orders.send(f"number {number}", attributes={"even": number % 2 == 0})
    moved = await done(root, verb="move", queue="orders", target="other", where={"attribute": ["even:true"]})
    assert (moved["done_count"], moved["target"]) == (3, "other")
    assert await other.bodies() == ["number 0", "number 2", "number 4"]
    removed = await done(root, verb="remove", queue="orders", where={"contains": "number 3"})
    assert removed["done_count"] == 1
    assert await orders.bodies() == ["number 1", "number 5"]


async def test_chosen_messages_are_named_by_the_numbers_that_the_caller_sees(root: Tenant) -> None:
    orders = await root.queue("orders")
    manager = await root.with_scopes(("manage", ["*"]), ("browse", ["*"]), ("send", ["*"]))
    seqs = [(await orders.of(manager).send(str(number)))["seq"] for number in range(3)]
    operation = await done(manager, verb="remove", queue="orders", where={"seqs": seqs[:2]})
    assert (operation["done_count"], operation["where"]["seqs"]) == (2, seqs[:2])
    assert await orders.bodies() == ["2"]


async def test_leased_messages_cannot_be_moved_and_count_as_failed(root: Tenant) -> None:
    orders = await root.queue("orders")
    await root.queue("other")
    await orders.send()
    await orders.receive()
    operation = await done(root, verb="move", queue="orders", target="other")
    assert (operation["done_count"], operation["failed_count"]) == (0, 1)


async def test_a_preview_counts_and_does_nothing(root: Tenant) -> None:
    orders = await root.queue("orders")
    for number in range(7):
        await orders.send("x" * 1_000, id=str(number))
    found = await root.ask("POST", "/operations", {"verb": "remove", "queue": "orders", "preview": True})
    assert (found["matched_count"], found["looked_count"], found["complete"]) == (7, 7, True)
    assert [len(message["body"]) for message in found["examples"]] == [256] * 5
    assert (await root.ask("GET", "/operations"))["operations"] == []
    assert len(await orders.bodies()) == 7
    manager = await root.with_scopes(("manage", ["*"]))
    hidden = await manager.ask("POST", "/operations", {"verb": "remove", "queue": "orders", "preview": True})
    assert "body" not in hidden["examples"][0]


async def test_a_replay_leaves_out_what_has_no_body(root: Tenant) -> None:
    private = await root.queue("private", archive_bodies=False)
    target = await root.queue("target")
    await private.send("secret")
    order = {"verb": "replay", "queue": "private", "target": "target"}
    assert (await root.ask("POST", "/operations", {**order, "preview": True}))["without_body_count"] == 1
    operation = await done(root, **order)
    assert (operation["done_count"], operation["failed_count"]) == (0, 1)
    assert await target.bodies() == []


async def test_an_operation_keeps_to_its_rate_and_can_be_cancelled(root: Tenant) -> None:
    orders = await root.queue("orders")
    for _ in range(20):
        await orders.send()
    operation = await started(root, verb="remove", queue="orders", per_second=4)
    path = f"/operations/{operation['id']}"

    async def count() -> int:
        return int((await root.ask("GET", path))["done_count"])

    await eventually(count, lambda found: found == 5)
    root.clock.advance(ms=1_000)
    assert await count() == 5
    root.clock.advance(ms=1_000)
    await eventually(count, lambda found: found == 10)
    cancelled = await root.ask("DELETE", path)
    assert (cancelled["state"], cancelled["done_count"]) == ("cancelled", 10)
    root.clock.advance(ms=10_000)
    assert len(await orders.bodies()) == 10
    listed = (await root.ask("GET", "/operations"))["operations"]
    assert [(one["id"], one["state"]) for one in listed] == [(operation["id"], "cancelled")]


async def test_an_operation_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with native_tenant(tmp_path) as root:
        orders = await root.queue("orders")
        for _ in range(12):
            await orders.send()
        operation = await started(root, verb="remove", queue="orders", per_second=4)
    async with native_tenant(tmp_path) as root:
        path = f"/operations/{operation['id']}"

        async def state() -> str:
            root.clock.advance(ms=2_000)
            return str((await root.ask("GET", path))["state"])

        await eventually(state, lambda found: found == "done")
        assert (await root.ask("GET", "/counters"))["queues"]["orders"]["total_count"] == 0


async def test_rights_are_needed_on_both_queues(root: Tenant) -> None:
    orders = await root.queue("orders")
    await root.queue("other")
    await orders.send()
    limited = await root.with_scopes(("manage", ["orders"]))
    order = {"verb": "move", "queue": "orders", "target": "other"}
    assert (await limited.refused("POST", "/operations", order))["status"] == 403
    reader = await root.with_scopes(("browse", ["*"]))
    assert (await reader.refused("POST", "/operations", {"verb": "remove", "queue": "orders"}))["status"] == 403
    operation = await done(root, verb="remove", queue="orders")
    stranger = await root.with_scopes(("manage", ["other"]))
    assert (await stranger.ask("GET", "/operations"))["operations"] == []
    for method in ("GET", "DELETE"):
        assert (await stranger.refused(method, f"/operations/{operation['id']}"))["status"] == 404


SOON = FakeClock().now() + 30_000
NEEDED = [{"action": "manage", "queues": ["orders", "other"]}, {"action": "browse", "queues": ["orders"]}]


@pytest.mark.parametrize(
    ("method", "change", "reason"),
    [
        ("DELETE", None, "was deleted"),
        ("PATCH", {"enabled": False}, "is disabled"),
        ("PATCH", {"expires_at": SOON}, "has expired"),
        ("PATCH", {"scopes": [NEEDED[1]]}, "lacks the scope manage on queue 'orders'"),
        ("PATCH", {"scopes": [NEEDED[0]]}, "lacks the scope browse on queue 'orders'"),
        ("PATCH", {"scopes": [{"action": "manage", "queues": ["orders"]}, NEEDED[1]]}, "on queue 'other'"),
    ],
)
async def test_an_operation_stops_with_the_rights_of_who_started_it(
    root: Tenant, method: str, change: dict[str, Any] | None, reason: str
) -> None:
    orders = await root.queue("orders")
    await root.queue("other")
    for _ in range(4):
        await orders.send("wanted")
    made = await root.ask("POST", "/credentials", {"name": "mover", "scopes": NEEDED})
    order = {"verb": "move", "queue": "orders", "target": "other", "per_second": 1, "where": {"contains": "wanted"}}
    started = await root.ask("POST", "/operations", order, token=made["secret"])
    path = f"/operations/{started['id']}"

    async def one() -> dict[str, Any]:
        found: dict[str, Any] = await root.ask("GET", path)
        return found

    begun = await eventually(one, lambda found: found["done_count"])
    await root.ask(method, f"/credentials/{made['id']}", change or msgspec.UNSET)
    root.clock.advance(ms=60_000)
    stopped = await eventually(one, lambda found: found["state"] != "running")
    assert (stopped["state"], stopped["done_count"]) == ("cancelled", begun["done_count"])
    assert reason in stopped["error"]
    assert (await root.ask("GET", "/counters"))["queues"]["orders"]["total_count"] == 4 - begun["done_count"]


async def test_what_is_asked_wrongly_is_refused(root: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    await root.queue("orders")
    assert (await root.refused("POST", "/operations", {"verb": "move", "queue": "orders"}))["field"] == "target"
    itself = {"verb": "move", "queue": "orders", "target": "orders"}
    assert (await root.refused("POST", "/operations", itself))["field"] == "target"
    assert (await root.refused("POST", "/operations", {"verb": "eat", "queue": "orders"}))["status"] == 400
    assert (await root.refused("GET", "/operations/unknown"))["status"] == 404
    monkeypatch.setattr(runner, "RUNNING_COUNT", 0)
    assert (await root.refused("POST", "/operations", {"verb": "remove", "queue": "orders"}))["status"] == 409


async def test_a_read_only_console_may_preview(tmp_path: Path) -> None:
    async with native_tenant(tmp_path, console_read_only=True) as root:
        await root.queue("orders")
        headers = {"Courier-Console": "1", "Sec-Fetch-Site": "same-origin"}
        signed = await root.app.request("POST", "/console/session", headers=headers)
        headers["Cookie"] = signed.headers["set-cookie"].partition(";")[0]
        order = {"verb": "remove", "queue": "orders"}
        preview = await root.call("POST", "/operations", {**order, "preview": True}, token=None, headers=headers)
        assert preview.status == 200
        assert (await root.call("POST", "/operations", order, token=None, headers=headers)).status == 403


async def test_what_messages_contain_is_for_those_who_may_browse(root: Tenant) -> None:
    orders = await root.queue("orders")
    await orders.send("secret", attributes={"name": "secret"})
    manager = await root.with_scopes(("manage", ["*"]))
    order = {"verb": "remove", "queue": "orders", "preview": True}
    for where in ({"contains": "sec"}, {"attribute": ["name:secret"]}):
        assert (await manager.refused("POST", "/operations", {**order, "where": where}))["status"] == 403
        assert (await root.ask("POST", "/operations", {**order, "where": where}))["matched_count"] == 1
    assert (await manager.ask("POST", "/operations", order))["examples"][0]["attributes"] == {}
    both = {"contains": "sec", "attribute": ["name:secret"]}
    operation = await done(root, verb="remove", queue="orders", where=both)
    assert operation["where"]["contains"] == "sec"
    watcher = await root.with_scopes(("stats", ["*"]))
    one = await watcher.ask("GET", f"/operations/{operation['id']}")
    assert [one] == (await watcher.ask("GET", "/operations"))["operations"]
    assert (one["where"]["contains"], one["where"]["attribute"]) == (None, [])


async def test_every_condition_has_a_bound(root: Tenant) -> None:
    await root.queue("orders")
    order = {"verb": "remove", "queue": "orders"}
    long = "x" * 10_000
    for name, value in {"group": long, "source_queue": long, "content_type": long, "attribute": [f"a:{long}"]}.items():
        refused = await root.refused("POST", "/operations", {**order, "where": {name: value}})
        assert (refused["status"], refused["field"].startswith(f"where.{name}")) == (400, True)
    assert (await root.refused("POST", "/operations", {**order, "per_second": 1e-320}))["field"] == "per_second"


async def test_operations_that_start_together_are_counted(root: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RUNNING_COUNT", 2)
    orders = await root.queue("orders")
    for _ in range(3):
        await orders.send()
    order = {"verb": "remove", "queue": "orders", "per_second": 0.001}
    answers = await asyncio.gather(*(root.call("POST", "/operations", order) for _ in range(6)))
    assert sorted(answer.status for answer in answers) == [202, 202, 409, 409, 409, 409]
