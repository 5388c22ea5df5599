"""The timekeeper applies time when it is due, not before, not by polling, and survives a store that is unwell."""

import asyncio
from collections.abc import Callable

import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.events import EventKind
from couriermq.core.model import MINUTE
from couriermq.upkeep.timekeeper import RETRY_MS, TICK_MS, Timekeeper
from tests.support.engines import Rig
from tests.support.eventually import eventually


class Watched:
    """A store that counts how often time is applied, and fails when told to."""

    def __init__(self, rig: Rig) -> None:
        self.calls: asyncio.Queue[int] = asyncio.Queue()
        self.failures: list[Exception] = []
        self._advance = rig.store.advance
        rig.store.advance = self.advance  # type: ignore[method-assign]

    async def advance(self, *, now: int) -> int | None:
        if self.failures:
            self.calls.put_nowait(now)
            raise self.failures.pop()
        upcoming = await self._advance(now=now)
        self.calls.put_nowait(now)
        return upcoming


async def until_idle(check: Callable[[], bool] = lambda: True) -> None:
    for _ in range(50):
        await asyncio.sleep(0)
    assert check()


async def test_of_two_who_let_time_pass_neither_returns_before_it_is_done(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", retention_ms=1_000)
    rig.clock.advance(ms=1_000)

    async def seen_afterwards() -> int:
        await rig.store.advance(now=rig.now)
        return len(await rig.events(EventKind.DISCARDED))

    first, second = await asyncio.gather(seen_afterwards(), seen_afterwards())
    assert (first, second) == (1, 1)


async def test_time_is_applied_when_something_is_due_and_not_before(rig: Rig) -> None:
    await rig.create("orders")
    watched = Watched(rig)
    async with rig.keeping_time():
        await watched.calls.get()
        await rig.send("orders", delay_ms=5_000)
        await until_idle()
        rig.clock.advance(ms=4_999)
        await until_idle(watched.calls.empty)
        rig.clock.advance(ms=1)
        assert await watched.calls.get() == rig.now


async def test_with_nothing_due_there_is_a_look_now_and_then(rig: Rig) -> None:
    watched = Watched(rig)
    async with rig.keeping_time():
        await watched.calls.get()
        await until_idle()
        for _ in range(3):
            rig.clock.advance(ms=TICK_MS)
            assert await watched.calls.get() == rig.now
            await until_idle(watched.calls.empty)


@pytest.mark.parametrize("failure", [Unavailable("the disk is full"), RuntimeError("a bug")])
async def test_a_store_that_fails_is_asked_again_soon(rig: Rig, failure: Exception) -> None:
    await rig.create("orders")
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=1_000)
    watched = Watched(rig)
    async with rig.keeping_time():
        await watched.calls.get()
        await until_idle()
        watched.failures = [failure, failure]
        rig.clock.advance(ms=1_000)
        for _ in range(2):
            await watched.calls.get()
            await until_idle()
            rig.clock.advance(ms=RETRY_MS)
        await watched.calls.get()
    assert len(await rig.events(EventKind.LEASE_EXPIRED)) == 1


async def test_events_older_than_the_journal_is_meant_to_hold_are_forgotten(rig: Rig) -> None:
    rig.timekeeper = Timekeeper(rig.store, rig.clock, journal_ms=10 * MINUTE)
    await rig.create("orders")
    await rig.send("orders", id="old")
    rig.clock.advance(ms=6 * MINUTE)
    await rig.send("orders", id="young")
    rig.clock.advance(ms=5 * MINUTE)
    watched = Watched(rig)
    async with rig.keeping_time():
        await watched.calls.get()
        await rig.send("orders", id="new")
        await eventually(rig.store.spans, lambda spans: spans[0].oldest > 0)
    assert [event.message_id for event in await rig.events()] == ["young", "new"]
    assert (await rig.counters("orders")).total_count == 3


async def test_without_a_limit_the_journal_forgets_nothing(rig: Rig) -> None:
    await rig.create("orders")
    watched = Watched(rig)
    async with rig.keeping_time():
        await watched.calls.get()
        rig.clock.advance(ms=10_000 * MINUTE)
        await watched.calls.get()
    assert (await rig.store.spans())[0].oldest == 0


async def test_a_receiver_finds_what_becomes_ready_while_time_is_being_applied(rig: Rig) -> None:
    await rig.create("orders")
    for turns in range(60):  # of the loop, by which it comes later
        await rig.send("orders", delay_ms=1_000)
        rig.clock.advance(ms=1_000)
        applying = asyncio.create_task(rig.store.advance(now=rig.now))
        for _ in range(turns):
            await asyncio.sleep(0)
        (lease,) = await rig.receive("orders")
        await applying
        await rig.ack("orders", lease)
