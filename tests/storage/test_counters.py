"""Counters are exact at every instant, in every situation."""

import msgspec

from couriermq.core.model import Counters, Draft, Kind
from tests.support.engines import WHO, Rig


async def live(rig: Rig, name: str = "orders") -> tuple[int, int, int, int]:
    """(ready, delayed, leased, bytes)"""
    counters = await rig.counters(name)
    return counters.ready_count, counters.delayed_count, counters.leased_count, counters.byte_count


async def ever(rig: Rig, name: str = "orders") -> tuple[int, int, int]:
    """(sent, acked, dead)"""
    counters = await rig.counters(name)
    return counters.sent_count, counters.acked_count, counters.dead_count


async def test_an_empty_queue_counts_nothing(rig: Rig) -> None:
    await rig.create("orders")
    assert await rig.counters("orders") == Counters()


async def test_a_message_is_counted_in_the_state_that_it_is_in(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", b"1234", delay_ms=100)
    assert await live(rig) == (0, 1, 0, 4)
    rig.clock.advance(ms=100)
    assert await live(rig) == (1, 0, 0, 4)
    lease = await rig.receive_one("orders", lease_ms=100)
    assert await live(rig) == (0, 0, 1, 4)
    await rig.release("orders", lease, delay_ms=50)
    assert await live(rig) == (0, 1, 0, 4)
    rig.clock.advance(ms=50)
    await rig.receive_one("orders", lease_ms=100)
    rig.clock.advance(ms=100)
    assert await live(rig) == (1, 0, 0, 4)
    await rig.ack("orders", await rig.receive_one("orders"))
    assert await live(rig) == (0, 0, 0, 0)


async def test_the_age_of_the_oldest_is_counted_from_its_coming_into_the_queue(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    first_at = rig.now
    await rig.send("orders", retention_ms=60_000)
    rig.clock.advance(ms=10)
    await rig.send("orders")
    assert (await rig.counters("orders")).oldest_at == first_at
    lease = await rig.receive_one("orders")
    assert (await rig.counters("orders")).oldest_at == first_at
    await rig.ack("orders", lease)
    assert (await rig.counters("orders")).oldest_at == first_at + 10
    rig.clock.advance(ms=10)
    await rig.broker.move(rig.queue("orders"), rig.queue("bills"), principal=WHO)
    assert (await rig.counters("bills")).oldest_at == rig.now
    assert (await rig.counters("orders")).oldest_at is None


async def test_dead_letters_leave_one_count_and_enter_another(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders", b"1234")
    await rig.release("orders", await rig.receive_one("orders"))
    assert await live(rig, "orders") == (0, 0, 0, 0)
    assert await live(rig, "graves") == (1, 0, 0, 4)
    assert await ever(rig, "orders") == (1, 0, 1)
    assert await ever(rig, "graves") == (1, 0, 0)


async def test_what_was_ever_sent_acked_and_dead_is_counted(rig: Rig) -> None:
    await rig.create("orders", max_attempts=1)
    await rig.send_all("orders", [Draft(body=b"x")] * 5)
    leases = await rig.receive("orders", limit=3)
    await rig.ack("orders", leases[0])
    await rig.release("orders", leases[1])  # dead, and discarded for want of a dead letter queue
    await rig.broker.purge(rig.queue("orders"), principal=WHO)
    assert await ever(rig) == (5, 1, 1)


async def test_a_duplicate_is_not_counted(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    for _ in range(3):
        await rig.send("line", b"1234", id="same")
    assert await live(rig, "line") == (1, 0, 0, 4)
    assert await ever(rig, "line") == (1, 0, 0)


async def test_a_refused_message_is_not_counted(rig: Rig) -> None:
    await rig.create("orders", max_body_bytes=1)
    await rig.send_all("orders", [Draft(body=b"x"), Draft(body=b"too long")])
    assert await live(rig) == (1, 0, 0, 1)


async def test_counters_survive_a_restart(rig: Rig) -> None:
    await rig.create("orders", max_attempts=1)
    await rig.send_all("orders", [Draft(body=b"1234", delay_ms=100 * (n % 2)) for n in range(6)])
    await rig.ack("orders", await rig.receive_one("orders"))
    await rig.receive_one("orders")
    before = await rig.counters("orders")
    await rig.restart()
    assert await rig.counters("orders") == before


async def test_counters_count_themselves_after_anything(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    await rig.send_all("orders", [Draft(body=b"x" * n, delay_ms=n * 10) for n in range(20)])
    await rig.pass_time(ms=100)
    leases = await rig.receive("orders", limit=6, lease_ms=50)
    await rig.ack("orders", leases[0])
    await rig.broker.remove(rig.queue("orders"), [leases[1].message.seq], principal=WHO)
    await rig.pass_time(ms=50)
    await rig.broker.move(rig.queue("orders"), rig.queue("bills"), seqs=[leases[2].message.seq], principal=WHO)
    for name in ("orders", "bills"):
        counters = await rig.counters(name)
        messages = await rig.browse(name)
        counted = msgspec.structs.replace(
            counters,
            ready_count=sum(m.state.name == "READY" for m in messages),
            delayed_count=sum(m.state.name == "DELAYED" for m in messages),
            leased_count=sum(m.state.name == "LEASED" for m in messages),
            byte_count=sum(m.size for m in messages),
            oldest_at=min(m.entered_at for m in messages),
        )
        assert counters == counted


async def test_the_counters_of_many_queues_are_those_of_each(rig: Rig) -> None:
    for name in ("empty", "orders", "delayed", "expired", "gone"):
        await rig.create(name)
    await rig.send_all("orders", [Draft(body=b"four")] * 3)
    await rig.send_all("delayed", [Draft(body=b"x", delay_ms=1_000)])
    await rig.send_all("expired", [Draft(body=b"x", retention_ms=60_000), Draft(body=b"y")])
    (lease,) = await rig.receive("orders", limit=1)
    await rig.ack("orders", lease)
    rig.clock.advance(ms=60_000)
    queues = [rig.queue(name) for name in ("empty", "orders", "delayed", "expired", "gone")]
    await rig.catalog.delete_queue(rig.queue("gone"), principal=WHO)
    found = await rig.store.counters_of(queues * 2, now=rig.clock.now())
    assert found == {queue.key: await rig.broker.counters(queue) for queue in queues[:-1]}
    assert found[rig.queue("orders").key].acked_count == 1
    assert found[rig.queue("delayed").key].ready_count == 1  # time has been applied
    assert found[rig.queue("expired").key].total_count == 1
