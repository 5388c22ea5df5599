"""A request is sent, and goes on, only while its lease lasts: afterwards another node may deliver the message."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from couriermq.broker import Broker
from couriermq.clock import FakeClock
from couriermq.core.errors import Unavailable
from couriermq.core.model import SECOND, Extend, Lease, Listener, Message, Queue, Settled
from couriermq.delivery import envelope
from couriermq.delivery.alarms import Alarms
from couriermq.delivery.deliveries import STORE_CALLS
from couriermq.delivery.fairness import FairWork
from couriermq.delivery.headers import message_lines
from couriermq.delivery.lane import LEASE_MS, Lane
from couriermq.delivery.renewing import Renewals
from couriermq.delivery.tasks import Tasks
from tests.delivery.conftest import Post
from tests.support.eventually import eventually
from tests.support.receiver import Receiver, answer, hang_up, held_until

FROZEN_MS = LEASE_MS + SECOND


async def delivered_by_another(post: Post, listener: Listener) -> None:
    """What another node does with a message whose lease has ended."""
    outbox = post.catalog.outbox(listener)
    (lease,) = await post.broker.receive(outbox, principal="another node")
    assert isinstance(lease, Lease)
    await post.broker.ack(outbox, lease.receipt, principal="another node")


async def test_a_request_is_not_sent_when_the_node_stood_still_between_lease_and_write(
    post: Post, receiver: Receiver, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, ordered=True)
    await post.send(queue, b"first")
    await post.delivered(listener, 1)  # its connection is kept: the next request is written without any wait
    stops = [FROZEN_MS]

    def stand_still(*args: Any, **facts: Any) -> bytes:
        lines = message_lines(*args, **facts)
        clock.advance(ms=stops.pop() if stops else 0)
        return lines

    monkeypatch.setattr(envelope, "message_lines", stand_still)
    thawed_at = clock.now() + FROZEN_MS
    await post.send(queue, b"second", b"third")
    await post.delivered(listener, 3)
    assert receiver.bodies == [b"first", b"second", b"third"]
    signed_at = [int(request.headers["webhook-timestamp"]) * SECOND for request in receiver.requests]
    assert min(signed_at[1:]) >= thawed_at // SECOND * SECOND


async def test_a_request_is_not_sent_again_when_its_connection_turns_out_dead_after_its_lease(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    queue, go_on = await post.queue(), asyncio.Event()
    receiver.behave(answer(), held_until(go_on, hang_up), answer())
    listener = await post.listen(queue, receiver.url, ordered=True, timeout_ms=60 * SECOND)
    await post.send(queue, b"first")
    await post.delivered(listener, 1)
    await post.send(queue, b"second")
    await receiver.wait(2)
    clock.advance(ms=FROZEN_MS)
    await delivered_by_another(post, listener)
    go_on.set()
    await post.send(queue, b"third")
    await post.delivered(listener, 3)
    assert receiver.bodies == [b"first", b"second", b"third"]


@contextlib.asynccontextmanager
async def open_requests() -> AsyncIterator[tuple[str, list[str]]]:
    """The URL of a receiver that never answers, and what it sees of its connections."""
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        seen.append("begun")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        seen.append("ended")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", seen


async def test_a_request_ends_before_its_lease_does_when_the_store_cannot_make_it_longer(
    post: Post, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = post.broker.settle
    refused: list[Any] = []

    async def fail(queue: Any, settlements: Any, **facts: Any) -> Any:
        if any(isinstance(each, Extend) for each in settlements):
            refused.append(settlements)
            raise Unavailable("the database is away")
        return await settle(queue, settlements, **facts)

    async with open_requests() as (url, seen):
        queue = await post.queue()
        await post.listen(queue, url, timeout_ms=60 * SECOND)
        await post.send(queue, b"hello")
        await eventually(lambda: seen == ["begun"])
        monkeypatch.setattr(post.broker, "settle", fail)
        clock.advance(ms=LEASE_MS // 2)
        await eventually(lambda: refused)
        clock.advance(ms=LEASE_MS // 2 - 1)
        await eventually(lambda: len(seen) > 1)
        assert seen == ["begun", "ended"]
        clock.advance(ms=1)
        await eventually(lambda: len(seen) > 2)
        assert seen[:3] == ["begun", "ended", "begun"]


async def test_each_request_ends_before_its_own_lease_does_while_the_store_does_not_answer(
    post: Post, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, hung, apart_ms = post.broker.settle, asyncio.Event(), 2 * SECOND

    async def hang(queue: Any, settlements: Any, **facts: Any) -> Any:
        if any(isinstance(each, Extend) for each in settlements):
            hung.set()
            await asyncio.Event().wait()
        return await settle(queue, settlements, **facts)

    monkeypatch.setattr(post.broker, "settle", hang)
    async with open_requests() as (url, seen):
        queue = await post.queue()
        await post.listen(queue, url, timeout_ms=60 * SECOND)
        await post.send(queue, b"first")
        await eventually(lambda: seen == ["begun"])
        clock.advance(ms=apart_ms)
        await post.send(queue, b"second")
        await eventually(lambda: seen == ["begun"] * 2)
        clock.advance(ms=LEASE_MS // 2 - apart_ms)
        await hung.wait()
        clock.advance(ms=LEASE_MS // 2 - 1)
        await eventually(lambda: "ended" in seen)
        assert seen.count("ended") == 1
        clock.advance(ms=apart_ms)
        await eventually(lambda: seen.count("ended") == 2)


async def test_a_request_ends_before_its_lease_does_when_its_tenant_has_no_place_left_with_the_store(
    post: Post, clock: FakeClock
) -> None:
    go_on = asyncio.Event()

    async def stuck() -> None:
        await go_on.wait()

    async with open_requests() as (url, seen):
        queue = await post.queue()
        listener = await post.listen(queue, url, timeout_ms=60 * SECOND)
        await post.send(queue, b"hello")
        await eventually(lambda: seen == ["begun"])
        for _ in range(STORE_CALLS):
            post.deliveries._store_work.add(listener.tenant, stuck)
        clock.advance(ms=LEASE_MS - 1)
        await eventually(lambda: seen == ["begun", "ended"])
        go_on.set()


async def test_a_slow_delivery_keeps_its_lease_though_renewals_come_late(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    queue, go_on = await post.queue(), asyncio.Event()
    receiver.behave(held_until(go_on, answer()))
    listener = await post.listen(queue, receiver.url, timeout_ms=60 * SECOND)
    await post.send(queue, b"first")
    await receiver.wait(1)
    clock.advance(ms=100)
    await post.send(queue, b"second")
    await receiver.wait(2)
    lane = post.deliveries._dispatcher.lane_of(listener)
    assert lane is not None
    for step_ms in (LEASE_MS // 2 - 100, LEASE_MS // 2 + 150):
        clock.advance(ms=step_ms)
        await eventually(lambda: all(until > clock.now() + LEASE_MS // 2 for until in lane.leases.values()))
    go_on.set()
    await post.delivered(listener, 2)
    assert [line.attempt for line in await post.deliveries.log(listener)] == [1, 1]


async def test_messages_that_were_leased_by_a_node_that_was_killed_are_delivered_though_they_have_one_attempt(
    post: Post, receiver: Receiver, clock: FakeClock
) -> None:
    queue = await post.queue()
    listener = await post.listen(queue, receiver.url, schedule_ms=())
    await post.deliveries.pause(listener, principal="test")
    await post.send(queue, b"one", b"two", b"three")
    outbox = post.catalog.outbox(listener)
    assert len(await post.broker.receive(outbox, limit=2, lease_ms=LEASE_MS, principal="a node that is killed")) == 2
    clock.advance(ms=LEASE_MS)
    await post.deliveries.resume(listener, principal="test")
    await post.delivered(listener, 3)
    assert sorted(receiver.bodies) == [b"one", b"three", b"two"]
    assert (await post.dead(listener)).total_count == 0


class SlowStore:
    """Extends leases by the span that is asked for, when it is told to answer."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.asked_count = 0
        self.answers = asyncio.Event()

    async def settle(self, queue: Queue, orders: list[Extend], *, principal: str) -> list[Settled]:
        self.asked_count += 1
        expires_at = self.clock.now() + orders[0].lease_ms
        await self.answers.wait()
        self.answers.clear()
        return [Settled(1, "id", expires_at=expires_at) for _ in orders]


async def test_a_request_is_looked_after_though_the_store_answered_the_extension_before_it_late(
    clock: FakeClock,
) -> None:
    store, alarms, tasks = SlowStore(clock), Alarms(clock), Tasks()
    renewals = Renewals(cast("Broker", store), clock, alarms, FairWork(tasks, total=1, each=1, burst=1))
    lane = Lane(
        Listener(id="l", tenant="t", queue_id="q", name="l", url="", outbox_id="o", dead_letters_id="d"),
        Queue(key=1, id="o", tenant="t", name="o"),
    )
    ringing = asyncio.create_task(alarms.run())
    renewals.hold(lane, [Lease(cast("Message", None), "receipt", clock.now() + LEASE_MS)])
    clock.advance(ms=LEASE_MS // 2)
    await eventually(lambda: store.asked_count == 1)
    clock.advance(ms=LEASE_MS // 2 - 1)
    await eventually(lambda: lane.lose_at is None)
    store.answers.set()
    await eventually(lambda: lane.holds("receipt", now=clock.now()))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(None) as limit:
            lane.requests["receipt"] = limit
            await eventually(lambda: any(at > clock.now() for at, *_ in alarms._heap))
            clock.advance(ms=LEASE_MS // 2)
            await eventually(lambda: not lane.requests)
    assert limit.expired()
    ringing.cancel()
    await tasks.finish(seconds=0)
