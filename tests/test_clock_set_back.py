"""The wall clock is set back while Courier is stopped: time goes on from the newest event in the journal."""

import logging
from pathlib import Path
from typing import Any

import pytest

from couriermq.clock import FakeClock, SystemClock
from tests.support.inprocess import InProcess, courier_app

QUEUES = "/courier/v1/tenants/default/queues"
HOUR = 3_600_000


async def receive(app: InProcess, queue: str, **order: Any) -> list[dict[str, Any]]:
    leases: list[dict[str, Any]] = (await app.post(f"{QUEUES}/{queue}/receive", order)).json()["leases"]
    return leases


async def send(app: InProcess, queue: str, body: str, **parts: Any) -> None:
    assert (await app.post(f"{QUEUES}/{queue}/messages", {"body": body, **parts})).status == 201


async def test_queues_leases_and_delays_work_after_the_clock_was_set_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FakeClock()
    async with courier_app(tmp_path, clock=clock) as app:
        for name, kind in (("orders", "standard"), ("line", "fifo")):
            assert (await app.post(QUEUES, {"name": name, "kind": kind})).status == 201
        await send(app, "orders", "leased")
        await send(app, "line", "first", group="g")
        await send(app, "line", "second", group="g")
        (lease,) = await receive(app, "orders", lease_ms=10_000)
        await send(app, "orders", "delayed", delay_ms=5_000)
    stopped_at = clock.now()
    set_back = FakeClock(stopped_at - HOUR)
    with caplog.at_level(logging.WARNING):
        async with courier_app(tmp_path, clock=set_back) as app:
            assert app.clock.now() >= stopped_at
            assert "ahead of the system's clock" in caplog.text
            await send(app, "line", "third", group="g")
            assert [one["message"]["body"] for one in await receive(app, "line", limit=3)] == [
                "first",
                "second",
                "third",
            ]
            assert await receive(app, "orders") == []
            app.clock.advance(ms=5_000)
            assert [one["message"]["body"] for one in await receive(app, "orders", lease_ms=60_000)] == ["delayed"]
            app.clock.advance(ms=5_000)
            (again,) = await receive(app, "orders")
            assert (again["message"]["body"], again["receipt"] == lease["receipt"]) == ("leased", False)
            events = (await app.get("/courier/v1/journal/events?limit=1000")).json()["events"]
    sent = [event["at"] for event in events if event["kind"] == "sent"]
    assert sent == sorted(sent)


async def test_a_clock_that_was_not_set_back_stays_as_it_is(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    async with courier_app(tmp_path, clock=clock) as app:
        await app.post(QUEUES, {"name": "orders"})
    later = FakeClock(clock.now() + HOUR)
    async with courier_app(tmp_path, clock=later):
        assert later.now() == clock.now() + HOUR
    assert "set back" not in caplog.text


def test_the_systems_clock_goes_on_from_a_later_instant_and_never_back() -> None:
    clock = SystemClock()
    later = clock.now() + HOUR
    clock.start_at(later)
    assert later <= clock.now() < later + HOUR
    assert clock.wall() < later
    clock.start_at(later - 2 * HOUR)
    assert clock.now() >= later
