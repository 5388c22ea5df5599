"""What waits for another attempt can be made ready at once."""

import asyncio

from couriermq.core.model import HOUR, MINUTE, Draft, Kind
from tests.support.engines import Rig


async def fail(rig: Rig, name: str, *delays: int) -> None:
    """Receive messages and give each back with a delay of its own."""
    leases = await rig.receive(name, limit=len(delays))
    for lease, delay_ms in zip(leases, delays, strict=True):
        await rig.release(name, lease, delay_ms=delay_ms)


async def test_what_waits_for_another_attempt_is_ready_at_once(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send_all("orders", [Draft(body=str(n).encode()) for n in range(3)])
    await fail(rig, "orders", 5_000, HOUR, 10 * HOUR)
    assert await rig.receive("orders", limit=10) == []
    assert await rig.broker.hasten(queue) == 3
    assert (await rig.counters("orders")).ready_count == 3
    leases = await rig.receive("orders", limit=10)
    assert sorted((lease.message.body, lease.message.attempts) for lease in leases) == [(b"0", 2), (b"1", 2), (b"2", 2)]
    assert await rig.broker.hasten(queue) == 0


async def test_what_its_sender_delays_goes_on_waiting(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send_one("orders", Draft(body=b"tried"))
    await fail(rig, "orders", HOUR)
    await rig.send_one("orders", Draft(body=b"later", delay_ms=MINUTE))
    assert await rig.broker.hasten(queue) == 1
    assert [one.message.body for one in await rig.receive("orders", limit=10, lease_ms=HOUR)] == [b"tried"]
    rig.clock.advance(ms=MINUTE)
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"later"]


async def test_many_are_made_ready_step_by_step(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x") for _ in range(250)])
    for _ in range(3):
        await fail(rig, "orders", *(HOUR + n // 2 for n in range(await ready(rig))))
    assert await rig.broker.hasten(queue) == 250
    counters = await rig.counters("orders")
    assert (counters.ready_count, counters.delayed_count) == (250, 0)


async def ready(rig: Rig) -> int:
    return min(100, (await rig.counters("orders")).ready_count)


async def test_a_group_keeps_its_order(rig: Rig) -> None:
    queue = await rig.create("orders", kind=Kind.FIFO)
    await rig.send_all("orders", [Draft(body=str(n).encode(), group="g") for n in range(3)])
    (first,) = await rig.receive("orders", limit=1)
    await rig.release("orders", first, delay_ms=HOUR)
    assert await rig.receive("orders", limit=10) == []
    assert await rig.broker.hasten(queue) == 1
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"0", b"1", b"2"]


async def test_a_receiver_that_waits_gets_it(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send_one("orders", Draft(body=b"x"))
    await fail(rig, "orders", HOUR)
    waiting = asyncio.create_task(rig.receive("orders", wait_ms=20_000))
    await asyncio.sleep(0.05)
    assert await rig.broker.hasten(queue) == 1
    assert [lease.message.body for lease in await waiting] == [b"x"]


async def test_of_what_waits_exactly_the_named_messages_are_ready_at_once(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send_all("orders", [Draft(body=str(n).encode()) for n in range(4)])
    await fail(rig, "orders", HOUR, HOUR, HOUR, HOUR)
    later = await rig.send_one("orders", Draft(body=b"later", delay_ms=MINUTE))
    seqs = [message.seq for message in (await rig.broker.browse(queue)).messages if message.body in (b"1", b"3")]
    assert await rig.broker.hasten(queue, seqs=[*seqs, later.seq, 2**62]) == 2
    leases = await rig.receive("orders", limit=10)
    assert sorted((lease.message.body, lease.message.attempts) for lease in leases) == [(b"1", 2), (b"3", 2)]
    assert await rig.broker.hasten(queue, seqs=seqs) == 0, "what is leased stays so"
    assert await rig.broker.hasten(queue, seqs=[]) == 0


async def test_a_named_message_of_a_group_is_ready_with_those_behind_it(rig: Rig) -> None:
    queue = await rig.create("orders", kind=Kind.FIFO)
    await rig.send_all("orders", [Draft(body=str(n).encode(), group="g") for n in range(3)])
    (first,) = await rig.receive("orders", limit=1)
    await rig.release("orders", first, delay_ms=HOUR)
    assert await rig.broker.hasten(queue, seqs=[first.message.seq]) == 1
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"0", b"1", b"2"]
