"""A lease is held by its receipt alone, until its time; then somebody else may have the message."""

from typing import Any

import pytest

from couriermq.core.errors import BatchTooLarge, Invalid, InvalidReceipt, LeaseLost, QueueNotFound, QueuePaused
from couriermq.core.limits import BATCH_COUNT, LEASE_MS, RECEIVE_COUNT
from couriermq.core.model import Ack, Draft, Extend, LateAck, Lease, Release, Settled, State
from tests.support.engines import WHO, Rig


async def one_lease(rig: Rig, *, lease_ms: int = 30_000, **settings: Any) -> Lease:
    """A queue `orders` with one message, and that message leased."""
    await rig.create("orders", **settings)
    await rig.send("orders", id="order-1")
    return await rig.receive_one("orders", lease_ms=lease_ms)


async def test_a_leased_message_is_shown_as_leased_until_its_time(rig: Rig) -> None:
    lease = await one_lease(rig)
    assert lease.expires_at == rig.now + 30_000
    assert (lease.message.state, lease.message.due_at) == (State.LEASED, lease.expires_at)
    assert await rig.browse("orders") == [lease.message]


async def test_a_leased_message_is_not_given_to_anybody_else(rig: Rig) -> None:
    await one_lease(rig)
    rig.clock.advance(ms=29_999)
    assert await rig.receive("orders", limit=10) == []


async def test_a_message_comes_back_when_its_lease_expires(rig: Rig) -> None:
    first = await one_lease(rig)
    rig.clock.advance(ms=30_000)
    again = await rig.receive_one("orders")
    assert (again.message.id, again.message.attempts) == (first.message.id, 2)
    assert again.receipt != first.receipt


async def test_the_queue_says_how_long_a_lease_lasts_when_the_receiver_does_not(rig: Rig) -> None:
    await rig.create("orders", lease_ms=7_000)
    await rig.send("orders")
    assert (await rig.receive_one("orders")).expires_at == rig.now + 7_000


async def test_a_lease_of_no_time_is_over_at_once(rig: Rig) -> None:
    lease = await one_lease(rig, lease_ms=0)
    assert lease.expires_at == rig.now
    with pytest.raises(LeaseLost):
        await rig.ack("orders", lease)
    assert (await rig.receive_one("orders")).message.attempts == 2


async def test_a_receive_takes_no_more_than_its_limit(rig: Rig) -> None:
    await rig.create("orders")
    sent = [await rig.send("orders") for _ in range(5)]
    first, rest = await rig.receive("orders", limit=2), await rig.receive("orders", limit=10)
    assert [lease.message.seq for lease in first + rest] == [each.seq for each in sent]
    assert len(first) == 2


async def test_an_empty_queue_gives_nothing(rig: Rig) -> None:
    await rig.create("orders")
    assert await rig.receive("orders", limit=10) == []


@pytest.mark.parametrize(
    ("field", "order"),
    [
        ("limit", {"limit": 0}),
        ("limit", {"limit": RECEIVE_COUNT + 1}),
        ("lease_ms", {"lease_ms": -1}),
        ("lease_ms", {"lease_ms": LEASE_MS + 1}),
        ("wait_ms", {"wait_ms": -1}),
        ("wait_ms", {"wait_ms": 60_001}),
    ],
)
async def test_an_order_out_of_range_is_refused(rig: Rig, field: str, order: dict[str, int]) -> None:
    await rig.create("orders")
    with pytest.raises(Invalid) as refusal:
        await rig.receive("orders", **order)
    assert refusal.value.field == field


async def test_a_paused_queue_takes_messages_and_gives_none(rig: Rig) -> None:
    await rig.create("orders", paused=True)
    await rig.send("orders")
    with pytest.raises(QueuePaused):
        await rig.receive("orders")
    assert (await rig.counters("orders")).ready_count == 1


# -- ack ------------------------------------------------------------------------------------------------------


async def test_an_acked_message_is_gone_for_good(rig: Rig) -> None:
    lease = await one_lease(rig)
    assert await rig.ack("orders", lease) == Settled(lease.message.seq, "order-1")
    await rig.pass_time(ms=60_000)
    assert await rig.receive("orders") == []
    assert await rig.browse("orders") == []


async def test_a_receipt_settles_once(rig: Rig) -> None:
    lease = await one_lease(rig)
    await rig.ack("orders", lease)
    for settle in (rig.ack("orders", lease), rig.release("orders", lease), rig.extend("orders", lease, lease_ms=1)):
        with pytest.raises(LeaseLost):
            await settle


async def test_a_receipt_used_twice_in_one_batch_settles_once(rig: Rig) -> None:
    lease = await one_lease(rig)
    outcomes = await rig.settle("orders", Ack(lease.receipt), Ack(lease.receipt), Release(lease.receipt))
    assert [type(outcome) for outcome in outcomes] == [Settled, LeaseLost, LeaseLost]


async def test_a_receipt_is_dead_from_the_instant_at_which_the_lease_ends(rig: Rig) -> None:
    lease = await one_lease(rig)
    rig.clock.advance(ms=30_000)
    for settle in (rig.ack("orders", lease), rig.release("orders", lease), rig.extend("orders", lease, lease_ms=1)):
        with pytest.raises(LeaseLost):
            await settle
    assert len(await rig.browse("orders")) == 1


async def test_a_receipt_is_good_until_just_before_the_lease_ends(rig: Rig) -> None:
    lease = await one_lease(rig)
    rig.clock.advance(ms=29_999)
    await rig.ack("orders", lease)


async def test_a_dead_receipt_cannot_touch_the_lease_that_came_after(rig: Rig) -> None:
    old = await one_lease(rig)
    rig.clock.advance(ms=30_000)
    new = await rig.receive_one("orders")
    for settle in (rig.ack("orders", old), rig.release("orders", old), rig.extend("orders", old, lease_ms=1)):
        with pytest.raises(LeaseLost):
            await settle
    await rig.ack("orders", new)


async def test_a_receipt_of_another_queue_is_not_ours(rig: Rig) -> None:
    lease = await one_lease(rig)
    await rig.create("bills")
    with pytest.raises(InvalidReceipt):
        await rig.ack("bills", lease)
    await rig.ack("orders", lease)


@pytest.mark.parametrize("receipt", ["", "made-up", "A" * 40, "é", "x" * 10_000, "\0"])
async def test_a_made_up_receipt_is_refused(rig: Rig, receipt: str) -> None:
    await one_lease(rig)
    for settlement in (Ack(receipt), Release(receipt), Extend(receipt, 1)):
        (outcome,) = await rig.settle("orders", settlement)
        assert isinstance(outcome, InvalidReceipt)


async def test_a_changed_receipt_is_refused(rig: Rig) -> None:
    lease = await one_lease(rig)
    for position, letter in enumerate(lease.receipt):
        changed = lease.receipt[:position] + ("A" if letter != "A" else "B") + lease.receipt[position + 1 :]
        (outcome,) = await rig.settle("orders", Ack(changed))
        assert isinstance(outcome, InvalidReceipt)


async def test_nothing_can_be_settled_in_a_queue_that_was_deleted(rig: Rig) -> None:
    lease = await one_lease(rig)
    queue = rig.queue("orders")
    await rig.catalog.delete_queue(queue, principal=WHO)
    with pytest.raises(QueueNotFound):
        await rig.broker.ack(queue, lease.receipt, principal=WHO)


# -- late ack -------------------------------------------------------------------------------------------------


async def test_where_late_acks_are_accepted_a_message_that_came_back_is_removed(rig: Rig) -> None:
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT)
    rig.clock.advance(ms=30_000)
    assert await rig.ack("orders", lease) == Settled(lease.message.seq, "order-1")
    assert await rig.browse("orders") == []


async def test_a_late_ack_removes_a_message_even_from_the_hands_of_another(rig: Rig) -> None:
    first = await one_lease(rig, late_ack=LateAck.ACCEPT)
    rig.clock.advance(ms=30_000)
    second = await rig.receive_one("orders")
    await rig.ack("orders", first)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", second)
    assert (await rig.counters("orders")).total_count == 0


async def test_a_late_ack_removes_a_message_that_waits_for_its_next_attempt(rig: Rig) -> None:
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT)
    await rig.release("orders", lease, delay_ms=60_000)
    await rig.ack("orders", lease)
    assert (await rig.counters("orders")).total_count == 0


async def test_a_late_ack_of_a_message_that_is_gone_is_lost(rig: Rig) -> None:
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT)
    await rig.ack("orders", lease)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", lease)


async def test_a_lease_that_has_ended_cannot_be_extended(rig: Rig) -> None:
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT)
    rig.clock.advance(ms=30_000)
    with pytest.raises(LeaseLost):
        await rig.extend("orders", lease, lease_ms=1)


async def test_a_late_release_delays_a_message_that_nobody_holds(rig: Rig) -> None:
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT)
    rig.clock.advance(ms=30_000)
    await rig.release("orders", lease, delay_ms=60_000)
    counters = await rig.counters("orders")
    assert (counters.delayed_count, counters.ready_count, counters.leased_count) == (1, 0, 0)
    rig.clock.advance(ms=59_999)
    assert await rig.receive("orders") == []
    rig.clock.advance(ms=1)
    (again,) = await rig.receive("orders")
    assert (again.message.id, again.message.attempts) == (lease.message.id, 2)


async def test_a_late_release_without_delay_ends_the_wait_for_the_next_attempt(rig: Rig) -> None:
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT, retry_delay_ms=600_000)
    rig.clock.advance(ms=30_000)
    await rig.release("orders", lease, delay_ms=0)
    (again,) = await rig.receive("orders")
    assert again.message.attempts == 2


async def test_a_late_release_gives_no_attempt_back(rig: Rig) -> None:
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT)
    rig.clock.advance(ms=30_000)
    await rig.broker.settle(rig.queue("orders"), [Release(lease.receipt, untried=True)], principal=WHO)
    (again,) = await rig.receive("orders")
    assert again.message.attempts == 2


async def test_a_late_release_does_not_take_a_message_from_its_holder(rig: Rig) -> None:
    first = await one_lease(rig, late_ack=LateAck.ACCEPT)
    rig.clock.advance(ms=30_000)
    (second,) = await rig.receive("orders")
    with pytest.raises(LeaseLost):
        await rig.release("orders", first, delay_ms=60_000)
    await rig.ack("orders", second)


async def test_where_late_acks_are_refused_so_are_late_releases(rig: Rig) -> None:
    lease = await one_lease(rig)
    rig.clock.advance(ms=30_000)
    with pytest.raises(LeaseLost):
        await rig.release("orders", lease, delay_ms=60_000)
    assert (await rig.counters("orders")).ready_count == 1


async def test_a_late_ack_does_not_reach_into_the_dead_letter_queue(rig: Rig) -> None:
    await rig.create("graves")
    lease = await one_lease(rig, late_ack=LateAck.ACCEPT, max_attempts=1, dead_letter_queue="graves")
    rig.clock.advance(ms=30_000)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", lease)
    assert (await rig.counters("graves")).ready_count == 1


# -- release and extend ---------------------------------------------------------------------------------------


async def test_a_released_message_can_be_had_at_once(rig: Rig) -> None:
    lease = await one_lease(rig)
    assert await rig.release("orders", lease) == Settled(lease.message.seq, "order-1")
    assert (await rig.receive_one("orders")).message.attempts == 2


async def test_a_released_message_stands_behind_those_that_were_ready_before(rig: Rig) -> None:
    lease = await one_lease(rig)
    rig.clock.advance(ms=1)
    other = await rig.send("orders")
    rig.clock.advance(ms=1)
    await rig.release("orders", lease)
    received = await rig.receive("orders", limit=2)
    assert [each.message.seq for each in received] == [other.seq, lease.message.seq]


async def test_a_message_released_with_a_delay_comes_back_after_it(rig: Rig) -> None:
    lease = await one_lease(rig)
    await rig.release("orders", lease, delay_ms=500)
    rig.clock.advance(ms=499)
    assert await rig.receive("orders") == []
    rig.clock.advance(ms=1)
    assert (await rig.receive_one("orders")).message.id == "order-1"


async def test_an_extended_lease_lasts_from_now(rig: Rig) -> None:
    lease = await one_lease(rig)
    rig.clock.advance(ms=20_000)
    settled = await rig.extend("orders", lease, lease_ms=25_000)
    assert settled == Settled(lease.message.seq, "order-1", expires_at=rig.now + 25_000)
    rig.clock.advance(ms=24_999)
    assert await rig.receive("orders") == []
    await rig.ack("orders", lease)


async def test_an_extension_may_shorten_a_lease(rig: Rig) -> None:
    lease = await one_lease(rig)
    await rig.extend("orders", lease, lease_ms=10)
    rig.clock.advance(ms=10)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", lease)
    assert (await rig.receive_one("orders")).message.attempts == 2


async def test_an_extension_uses_up_no_attempt(rig: Rig) -> None:
    lease = await one_lease(rig, max_attempts=1)
    for _ in range(3):
        await rig.extend("orders", lease, lease_ms=1_000)
    assert (await rig.browse("orders"))[0].attempts == 1


# -- batches --------------------------------------------------------------------------------------------------


async def test_each_settlement_of_a_batch_has_its_own_outcome(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"", id=name) for name in "abcd"])
    a, b, c, d = await rig.receive("orders", limit=4)
    await rig.ack("orders", d)
    outcomes = await rig.settle(
        "orders",
        Ack(a.receipt),
        Release(b.receipt, 1_000),
        Extend(c.receipt, 9_000),
        Ack(d.receipt),
        Ack("made-up"),
        Extend(c.receipt, LEASE_MS + 1),
        Release(c.receipt, -1),
    )
    assert outcomes[:3] == [
        Settled(a.message.seq, "a"),
        Settled(b.message.seq, "b"),
        Settled(c.message.seq, "c", expires_at=rig.now + 9_000),
    ]
    assert [type(outcome) for outcome in outcomes[3:]] == [LeaseLost, InvalidReceipt, Invalid, Invalid]
    states = {message.id: message.state for message in await rig.browse("orders")}
    assert states == {"b": State.DELAYED, "c": State.LEASED}


@pytest.mark.parametrize("count", [0, BATCH_COUNT + 1])
async def test_a_batch_of_settlements_has_a_size(rig: Rig, count: int) -> None:
    await rig.create("orders")
    with pytest.raises(BatchTooLarge):
        await rig.settle("orders", *[Ack("x")] * count)


async def test_a_message_given_back_untried_has_used_up_no_attempt(rig: Rig) -> None:
    await rig.create("orders", max_attempts=1)
    await rig.send("orders")
    for _ in range(3):
        lease = await rig.receive_one("orders")
        (settled,) = await rig.settle("orders", Release(lease.receipt, 0, untried=True))
        assert isinstance(settled, Settled)
        assert (lease.message.attempts, settled.dead) == (1, False)
    lease = await rig.receive_one("orders")
    (settled,) = await rig.settle("orders", Release(lease.receipt, 0))
    assert isinstance(settled, Settled)
    assert settled.dead
