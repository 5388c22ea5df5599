"""Attempts are counted when leased; the last failed one moves a message to the dead letter queue, or ends it."""

import pytest

from couriermq.core.errors import LeaseLost
from couriermq.core.model import Death, Draft, Message, Settled, State
from tests.support.engines import WHO, Rig


async def fail_once(rig: Rig, name: str, *, lease_ms: int = 10) -> None:
    """Lease the one message of a queue and let the lease expire."""
    await rig.receive_one(name, lease_ms=lease_ms)
    await rig.pass_time(ms=lease_ms)


async def only_message(rig: Rig, name: str) -> Message:
    (message,) = await rig.browse(name)
    return message


async def test_a_message_without_a_limit_may_fail_for_ever(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders")
    for _ in range(20):
        await fail_once(rig, "orders")
    assert (await only_message(rig, "orders")).attempts == 20


async def test_a_lease_that_expires_is_a_failed_attempt(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=2, dead_letter_queue="graves")
    await rig.send("orders")
    await fail_once(rig, "orders")
    assert (await only_message(rig, "orders")).state is State.READY
    await fail_once(rig, "orders")
    assert await rig.browse("orders") == []
    assert (await only_message(rig, "graves")).state is State.READY


async def test_the_retry_delay_counts_from_the_instant_at_which_the_lease_ended(rig: Rig) -> None:
    await rig.create("orders", retry_delay_ms=1_000)
    await rig.send("orders")
    lease = await rig.receive_one("orders", lease_ms=100)
    rig.clock.advance(ms=600)  # nobody looked when the lease ended
    message = await only_message(rig, "orders")
    assert (message.state, message.due_at) == (State.DELAYED, lease.expires_at + 1_000)
    rig.clock.advance(ms=500)
    assert (await only_message(rig, "orders")).state is State.READY


async def test_the_retry_delay_of_the_queue_holds_for_a_release_that_names_none(rig: Rig) -> None:
    await rig.create("orders", retry_delay_ms=1_000)
    await rig.send("orders")
    await rig.release("orders", await rig.receive_one("orders"))
    assert (await only_message(rig, "orders")).due_at == rig.now + 1_000


async def test_a_release_with_a_delay_of_zero_wins_over_the_queues_retry_delay(rig: Rig) -> None:
    await rig.create("orders", retry_delay_ms=1_000)
    await rig.send("orders")
    await rig.release("orders", await rig.receive_one("orders"), delay_ms=0)
    assert (await only_message(rig, "orders")).state is State.READY


async def test_a_release_of_the_last_attempt_says_that_the_message_is_dead(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    sent = await rig.send("orders")
    settled = await rig.release("orders", await rig.receive_one("orders"), delay_ms=5_000)
    assert settled == Settled(sent.seq, sent.id, dead=True)
    assert (await only_message(rig, "graves")).seq == sent.seq


async def test_an_exhausted_message_is_discarded_where_there_is_no_dead_letter_queue(rig: Rig) -> None:
    await rig.create("orders", max_attempts=1)
    sent = await rig.send("orders")
    settled = await rig.release("orders", await rig.receive_one("orders"))
    assert settled == Settled(sent.seq, sent.id, dead=True)
    assert (await rig.counters("orders")).total_count == 0


async def test_a_dead_letter_keeps_who_it_is_and_why_it_died(rig: Rig) -> None:
    await rig.create("graves", retention_ms=50_000, delay_ms=1_000)
    source = await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    sent = await rig.send("orders", b"body", id="order-1", attributes={"a": 1}, group="g", retention_ms=20_000)
    sent_at, died_at = rig.now, rig.now + 100
    await rig.receive_one("orders", lease_ms=100)
    await rig.pass_time(ms=700)
    assert await only_message(rig, "graves") == Message(
        seq=sent.seq,
        id="order-1",
        state=State.READY,
        body=b"body",
        content_type="application/octet-stream",
        attributes={"a": 1},
        attempts=0,
        sent_at=sent_at,
        entered_at=died_at,
        due_at=died_at,
        discard_at=died_at + 50_000,
        group="g",
        death=Death(reason="attempts exhausted", source_queue=source.id, attempts=1, died_at=died_at),
    )


async def test_a_dead_letter_can_be_received_and_acked_like_any_other(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    old = await rig.receive_one("orders", lease_ms=10)
    await rig.pass_time(ms=10)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", old)
    lease = await rig.receive_one("graves")
    assert lease.message.attempts == 1
    await rig.ack("graves", lease)
    assert (await rig.counters("graves")).total_count == 0


async def test_dead_letters_pass_through_a_chain_of_queues(rig: Rig) -> None:
    await rig.create("last")
    middle = await rig.create("middle", max_attempts=2, dead_letter_queue="last")
    await rig.create("first", max_attempts=1, dead_letter_queue="middle")
    await rig.send("first", id="m")
    for name in ("first", "middle", "middle"):
        await fail_once(rig, name)
    message = await only_message(rig, "last")
    assert message.id == "m"
    assert message.death
    assert (message.death.source_queue, message.death.attempts) == (middle.id, 2)


async def test_a_letter_that_died_long_ago_is_discarded_by_the_retention_of_its_grave(rig: Rig) -> None:
    await rig.create("graves", retention_ms=1_000)
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=10)
    await rig.pass_time(ms=1_009)
    assert (await rig.counters("graves")).ready_count == 1
    await rig.pass_time(ms=1)
    assert (await rig.counters("graves")).total_count == 0


async def test_a_letter_may_die_and_be_discarded_before_anybody_looks(rig: Rig) -> None:
    await rig.create("graves", retention_ms=1_000)
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=10)
    await rig.pass_time(ms=5_000)
    assert (await rig.counters("orders")).total_count == 0
    assert (await rig.counters("graves")).total_count == 0


async def test_a_limit_that_is_lowered_holds_from_the_next_failure_on(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send("orders")
    for _ in range(3):
        await fail_once(rig, "orders")
    settings = type(queue.settings)(max_attempts=2)
    await rig.catalog.change_queue(queue, settings=settings, principal=WHO)
    assert (await only_message(rig, "orders")).attempts == 3
    await fail_once(rig, "orders")
    assert await rig.browse("orders") == []


async def test_thousands_of_leases_that_end_together_all_count(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves", retention_ms=2_000)
    await fill(rig, "orders", 5_000)
    while await rig.receive("orders", limit=1_000, lease_ms=1_000):
        pass
    rig.clock.advance(ms=60_000)  # both leases and retention have ended; leases did so first
    counters = await rig.counters("orders")
    assert (counters.total_count, counters.byte_count) == (0, 0)
    assert (await rig.counters("graves")).ready_count == 5_000


async def fill(rig: Rig, name: str, count: int) -> None:
    for start in range(0, count, 1_000):
        await rig.send_all(name, [Draft(body=b"x") for _ in range(start, min(start + 1_000, count))])
