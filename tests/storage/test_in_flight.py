"""No more messages of a queue are leased at the same time than its `max_leased` allows, and never fewer for long."""

import asyncio

import msgspec

from couriermq.core.model import Draft, Kind, Lease, Queue
from tests.support.engines import WHO, Rig

WAIT_MS = 20_000


async def filled(rig: Rig, count: int = 10, **settings: object) -> None:
    """A queue `orders` with messages."""
    await rig.create("orders", **settings)  # type: ignore[arg-type]
    await rig.send_all("orders", [Draft(body=b"%d" % n) for n in range(count)])


async def set_limit(rig: Rig, most: int | None) -> Queue:
    queue = rig.queue("orders")
    settings = msgspec.structs.replace(queue.settings, max_leased=most)
    return await rig.catalog.change_queue(queue, settings=settings, principal=WHO)


async def parked(rig: Rig, **order: object) -> "asyncio.Task[list[Lease]]":
    """A receiver that has looked in vain and waits."""
    receiver = asyncio.create_task(rig.receive("orders", wait_ms=WAIT_MS, **order))
    await rig.arrivals.waits.get()
    return receiver


async def leased_count(rig: Rig) -> int:
    return (await rig.counters("orders")).leased_count


async def test_receivers_get_what_the_limit_leaves(rig: Rig) -> None:
    await filled(rig, max_leased=3)
    assert len(await rig.receive("orders", limit=2)) == 2
    assert len(await rig.receive("orders", limit=2)) == 1
    assert await rig.receive("orders", limit=2) == []
    assert await leased_count(rig) == 3


async def test_messages_that_are_settled_make_room(rig: Rig) -> None:
    await filled(rig, max_leased=3)
    first, second, third = await rig.receive("orders", limit=10)
    await rig.ack("orders", first)
    assert len(await rig.receive("orders", limit=10)) == 1
    await rig.release("orders", second)
    await rig.release("orders", third, delay_ms=60_000)
    assert len(await rig.receive("orders", limit=10)) == 2


async def test_leases_that_expire_make_room(rig: Rig) -> None:
    await filled(rig, max_leased=3)
    await rig.receive("orders", limit=10, lease_ms=5_000)
    await rig.pass_time(ms=4_999)
    assert await rig.receive("orders", limit=10) == []
    await rig.pass_time(ms=1)
    assert len(await rig.receive("orders", limit=10)) == 3


async def test_a_lower_limit_takes_nothing_back(rig: Rig) -> None:
    await filled(rig)
    leases = await rig.receive("orders", limit=5)
    await set_limit(rig, 2)
    assert await rig.receive("orders", limit=10) == []
    for lease in leases[:4]:
        await rig.ack("orders", lease)
    assert len(await rig.receive("orders", limit=10)) == 1


async def test_the_limit_outlives_a_restart(rig: Rig) -> None:
    await filled(rig, max_leased=3)
    await rig.receive("orders", limit=2)
    await rig.restart()
    assert len(await rig.receive("orders", limit=10)) == 1


async def test_a_queue_that_is_deleted_takes_its_leases_with_it(rig: Rig) -> None:
    await filled(rig, max_leased=3)
    await rig.receive("orders", limit=3)
    await rig.catalog.delete_queue(rig.queue("orders"), principal=WHO)
    await rig.store.advance(now=rig.now)
    assert await rig.store.check() == []
    await rig.create("orders", max_leased=1)
    assert await leased_count(rig) == 0


async def test_the_limit_holds_over_the_groups_of_a_fifo_queue(rig: Rig) -> None:
    await rig.create("orders", kind=Kind.FIFO, max_leased=3)
    await rig.send_all("orders", [Draft(body=b"x", group=group) for group in "aabbccdd"])
    first = await rig.receive("orders", limit=10, group_limit=1)
    assert [lease.message.group for lease in first] == ["a", "b", "c"]
    assert await rig.receive("orders", limit=10) == []
    await rig.ack("orders", first[0])
    (again,) = await rig.receive("orders", limit=10, group_limit=1)
    assert again.message.group in {"a", "d"}


async def test_jobs_and_receivers_share_the_limit(rig: Rig) -> None:
    await filled(rig, max_leased=4)
    queue = rig.queue("orders")
    (lease,) = await rig.receive("orders", limit=1)
    job = await rig.claims.open(queue, "spark")
    claim = await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=10, principal=WHO)
    assert claim.count == 3
    assert await rig.receive("orders", limit=10) == []
    assert (await rig.claims.claim(queue, "spark", 2, epoch=job.epoch, limit=10, principal=WHO)).count == 0
    await rig.ack("orders", lease)
    assert (await rig.claims.claim(queue, "spark", 2, epoch=job.epoch, limit=10, principal=WHO)).count == 1
    await rig.claims.ack(queue, "spark", upto=2, epoch=job.epoch, principal=WHO)
    assert len(await rig.receive("orders", limit=10)) == 4


async def test_a_large_claim_is_cut_at_the_limit(rig: Rig) -> None:
    await rig.create("orders", max_leased=1_500)
    for _ in range(2):
        await rig.send_all("orders", [Draft(body=b"x")] * 1_000)
    queue = rig.queue("orders")
    job = await rig.claims.open(queue, "spark")
    claim = await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=5_000, principal=WHO)
    assert claim.count == 1_500
    assert await leased_count(rig) == 1_500


async def test_many_receivers_at_once_reach_the_limit_and_never_exceed_it(rig: Rig) -> None:
    await filled(rig, 200, max_leased=7)
    for _ in range(5):
        found = await asyncio.gather(*(rig.receive("orders", limit=3) for _ in range(20)))
        leases = [lease for some in found for lease in some]
        assert len(leases) == await leased_count(rig) == 7
        await asyncio.gather(*(rig.ack("orders", lease) for lease in leases))


async def test_acks_and_receives_of_one_moment_never_exceed_the_limit(rig: Rig) -> None:
    await filled(rig, 100, max_leased=5)
    leases = await rig.receive("orders", limit=10)
    for _ in range(10):
        receives = asyncio.gather(*(rig.receive("orders", limit=2) for _ in range(4)))
        acks = asyncio.gather(*(rig.ack("orders", lease) for lease in leases[:3]))
        found, _ = await asyncio.gather(receives, acks)
        leases = leases[3:] + [lease for some in found for lease in some]
        assert len(leases) == await leased_count(rig) <= 5
        leases += await rig.receive("orders", limit=10)
        assert len(leases) == 5


# -- receivers that wait: the clock stands still, so that one who were not woken would wait for ever ----------


async def test_a_waiting_receiver_is_woken_by_an_ack(rig: Rig) -> None:
    await filled(rig, max_leased=1)
    lease = await rig.receive_one("orders")
    receiver = await parked(rig)
    await rig.ack("orders", lease)
    assert len(await receiver) == 1


async def test_a_waiting_receiver_is_woken_by_a_release_for_later(rig: Rig) -> None:
    await filled(rig, max_leased=1)
    lease = await rig.receive_one("orders")
    receiver = await parked(rig)
    await rig.release("orders", lease, delay_ms=60_000)
    assert len(await receiver) == 1


async def test_a_waiting_receiver_is_woken_by_a_lease_that_expires_with_the_last_attempt(rig: Rig) -> None:
    await filled(rig, max_leased=1, max_attempts=1)
    await rig.receive_one("orders", lease_ms=5_000)
    async with rig.keeping_time():
        receiver = await parked(rig)
        rig.clock.advance(ms=5_000)
        assert len(await receiver) == 1


async def test_a_waiting_receiver_is_woken_by_the_removal_of_a_leased_message(rig: Rig) -> None:
    await filled(rig, max_leased=1)
    lease = await rig.receive_one("orders")
    receiver = await parked(rig)
    await rig.remove("orders", [lease.message.seq])
    assert len(await receiver) == 1


async def test_a_waiting_receiver_is_woken_by_the_end_of_a_claim(rig: Rig) -> None:
    queue = await rig.create("orders", max_leased=2)
    await rig.send_all("orders", [Draft(body=b"x")] * 5)
    job = await rig.claims.open(queue, "spark")
    await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=10, principal=WHO)
    receiver = await parked(rig)
    await rig.claims.ack(queue, "spark", upto=1, epoch=job.epoch, principal=WHO)
    assert len(await receiver) == 1


async def test_as_many_receivers_are_woken_as_leases_end(rig: Rig) -> None:
    await filled(rig, max_leased=3)
    leases = await rig.receive("orders", limit=10)
    receivers = [await parked(rig) for _ in range(3)]
    await asyncio.gather(*(rig.ack("orders", lease) for lease in leases))
    assert [len(found) for found in await asyncio.gather(*receivers)] == [1, 1, 1]


async def test_waiting_receivers_are_woken_by_a_higher_limit(rig: Rig) -> None:
    await filled(rig, max_leased=1)
    await rig.receive_one("orders")
    receivers = [await parked(rig) for _ in range(2)]
    await set_limit(rig, 3)
    assert [len(found) for found in await asyncio.gather(*receivers)] == [1, 1]


async def test_waiting_receivers_are_woken_when_the_limit_is_lifted(rig: Rig) -> None:
    await filled(rig, max_leased=1)
    await rig.receive_one("orders")
    receivers = [await parked(rig) for _ in range(4)]
    await set_limit(rig, None)
    assert [len(found) for found in await asyncio.gather(*receivers)] == [1] * 4


async def test_receivers_and_an_ack_of_one_moment_leave_nobody_waiting(rig: Rig) -> None:
    await filled(rig, max_leased=2)
    lease = await rig.receive_one("orders")
    waiting = [rig.receive("orders", wait_ms=WAIT_MS) for _ in range(2)]
    found, _ = await asyncio.gather(asyncio.gather(*waiting), rig.ack("orders", lease))
    assert [len(leases) for leases in found] == [1, 1]


async def test_a_waiting_receiver_that_was_passed_by_waits_on(rig: Rig) -> None:
    await filled(rig, max_leased=1)
    lease = await rig.receive_one("orders")
    receiver = await parked(rig)
    _, (faster,) = await asyncio.gather(rig.ack("orders", lease), rig.receive("orders"))
    assert not receiver.done()
    await rig.ack("orders", faster)
    assert len(await receiver) == 1
