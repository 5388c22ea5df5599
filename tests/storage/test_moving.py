"""Taking messages out by hand: purge, remove, cancel, move, and the way back from the dead."""

from typing import Any

import pytest

from couriermq.core.errors import BatchTooLarge, Invalid, LeaseLost, MessageNotFound
from couriermq.core.events import EventKind
from couriermq.core.model import Draft, Kind, LateAck, Lease, Message, Queue, State
from couriermq.core.shards import Newest
from tests.support.engines import WHO, Rig


async def two_queues(rig: Rig, **settings: Any) -> None:
    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves", **settings)


async def bury(rig: Rig, *ids: str) -> None:
    """Send messages to `orders` and let them die there."""
    for name in ids:
        await rig.send("orders", id=name)
        await rig.release("orders", await rig.receive_one("orders"))


async def ids(rig: Rig, name: str) -> list[str]:
    return [message.id for message in await rig.browse(name)]


async def move(rig: Rig, source: str, target: str, seqs: list[int] | None = None) -> int:
    return await rig.broker.move(rig.queue(source), rig.queue(target), seqs=seqs, principal=WHO)


async def redrive(rig: Rig, name: str, *, seqs: list[int] | None = None, target: str | None = None) -> int:
    goal = rig.queue(target) if target else None
    return await rig.broker.redrive(rig.queue(name), seqs=seqs, target=goal, principal=WHO)


# -- purge and remove -----------------------------------------------------------------------------------------


async def test_a_purge_removes_everything_whatever_its_state(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders")
    lease = await rig.receive_one("orders")
    await rig.send("orders")
    await rig.send("orders", delay_ms=60_000)
    assert await rig.broker.purge(rig.queue("orders"), principal=WHO) == 3
    assert (await rig.counters("orders")).total_count == 0
    with pytest.raises(LeaseLost):
        await rig.ack("orders", lease)


async def test_a_purge_of_thousands_leaves_other_queues_alone(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    await rig.send("bills")
    for _ in range(3):
        await rig.send_all("orders", [Draft(body=b"x")] * 1_000)
    assert await rig.broker.purge(rig.queue("orders"), principal=WHO) == 3_000
    assert (await rig.counters("orders")).byte_count == 0
    assert (await rig.counters("bills")).total_count == 1


async def test_an_empty_queue_can_be_purged(rig: Rig) -> None:
    await rig.create("orders")
    assert await rig.broker.purge(rig.queue("orders"), principal=WHO) == 0


async def test_a_purge_takes_only_what_was_sent_before_it_began(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", id="before")
    upto = Newest(await rig.store.last_seq(rig.queue("orders")), rig.now)
    await rig.send("orders", id="after")
    step = await rig.store.purge(rig.queue("orders"), upto=upto, after=None, limit=10, now=rig.now, principal=WHO)
    assert step.count == 1
    assert await ids(rig, "orders") == ["after"]


async def test_chosen_messages_are_removed_whatever_their_state(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    sent = [await rig.send("orders", id=name) for name in "abc"]
    elsewhere = await rig.send("bills")
    await rig.receive_one("orders")
    chosen = [sent[0].seq, sent[2].seq, sent[0].seq, elsewhere.seq, 10**6, 0, -1, 2**63, 2**70]
    assert await rig.remove("orders", chosen) == [sent[0].seq, sent[2].seq]
    assert await ids(rig, "orders") == ["b"]
    assert (await rig.counters("bills")).total_count == 1


# -- cancel ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay_ms", [0, 60_000])
async def test_a_message_that_nobody_has_received_can_be_cancelled(rig: Rig, delay_ms: int) -> None:
    await rig.create("orders")
    sent = await rig.send("orders", id="order-1", delay_ms=delay_ms)
    cancelled = await rig.broker.cancel(rig.queue("orders"), "order-1", principal=WHO)
    assert cancelled.seq == sent.seq
    assert await ids(rig, "orders") == []
    with pytest.raises(MessageNotFound):
        await rig.broker.cancel(rig.queue("orders"), "order-1", principal=WHO)


async def test_a_message_that_was_received_cannot_be_cancelled(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", id="order-1")
    lease = await rig.receive_one("orders")
    with pytest.raises(Invalid):
        await rig.broker.cancel(rig.queue("orders"), "order-1", principal=WHO)
    await rig.release("orders", lease)
    with pytest.raises(Invalid):
        await rig.broker.cancel(rig.queue("orders"), "order-1", principal=WHO)
    assert await ids(rig, "orders") == ["order-1"]


async def test_a_message_that_is_received_while_it_is_being_cancelled_stays_with_its_receiver(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.create("orders")
    await rig.send("orders", id="order-1")
    leases: list[Lease] = []
    read_message = rig.store.read_message

    async def read_before_a_receiver(queue: Queue, **order: Any) -> Message:
        message = await read_message(queue, **order)
        leases.append(await rig.receive_one("orders"))
        return message

    monkeypatch.setattr(rig.store, "read_message", read_before_a_receiver)
    with pytest.raises(Invalid):
        await rig.cancel("orders", "order-1")
    assert (await rig.ack("orders", leases[0])).id == "order-1"


# -- move -----------------------------------------------------------------------------------------------------


async def test_a_moved_message_starts_afresh_in_its_new_queue(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills", retention_ms=70_000, delay_ms=9_000)
    sent = await rig.send("orders", b"body", id="m", attributes={"a": 1}, group="g", retention_ms=50_000)
    sent_at = rig.now
    await rig.release("orders", await rig.receive_one("orders"), delay_ms=20_000)
    rig.clock.advance(ms=5)
    assert await move(rig, "orders", "bills") == 1
    assert await rig.browse("orders") == []
    assert await rig.browse("bills") == [
        Message(
            seq=sent.seq, id="m", state=State.READY, body=b"body", content_type="application/octet-stream",
            attributes={"a": 1}, attempts=0, sent_at=sent_at, entered_at=rig.now, due_at=rig.now,
            discard_at=rig.now + 70_000, group="g",
        )
    ]  # fmt: skip


async def test_a_leased_message_is_not_moved(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    await rig.send_all("orders", [Draft(body=b"", id=name) for name in "ab"])
    lease = await rig.receive_one("orders")
    assert await move(rig, "orders", "bills") == 1
    assert (await ids(rig, "orders"), await ids(rig, "bills")) == (["a"], ["b"])
    await rig.ack("orders", lease)


async def test_chosen_messages_are_moved(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    sent = [await rig.send("orders", id=name) for name in "abc"]
    assert await move(rig, "orders", "bills", [sent[0].seq, sent[2].seq, 10**6, 2**63]) == 2
    assert (await ids(rig, "orders"), await ids(rig, "bills")) == (["b"], ["a", "c"])


async def test_thousands_are_moved(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    for _ in range(3):
        await rig.send_all("orders", [Draft(body=b"x")] * 1_000)
    leases = await rig.receive("orders", limit=1_000)
    assert await move(rig, "orders", "bills") == 2_000
    assert (await rig.counters("orders")).leased_count == len(leases)
    assert (await rig.counters("bills")).ready_count == 2_000


async def test_messages_cannot_be_moved_or_redriven_to_their_own_queue(rig: Rig) -> None:
    await rig.create("orders")
    for attempt in (move(rig, "orders", "orders"), redrive(rig, "orders", target="orders")):
        with pytest.raises(Invalid) as refusal:
            await attempt
        assert refusal.value.field == "target"


async def test_no_choice_is_not_everything(rig: Rig) -> None:
    await two_queues(rig)
    await bury(rig, "a")
    for attempt in (move(rig, "graves", "orders", []), redrive(rig, "graves", seqs=[])):
        with pytest.raises(BatchTooLarge):
            await attempt
    assert await ids(rig, "graves") == ["a"]


async def test_a_receipt_from_before_a_move_does_not_fit_a_lease_from_after_it(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    await rig.send("orders")
    old = await rig.receive_one("orders")
    await rig.release("orders", old)
    await move(rig, "orders", "bills")
    with pytest.raises(LeaseLost):
        await rig.ack("orders", old)
    await move(rig, "bills", "orders")
    new = await rig.receive_one("orders")
    assert (new.message.attempts, old.message.attempts) == (1, 1)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", old)
    await rig.ack("orders", new)


# -- redrive --------------------------------------------------------------------------------------------------


async def test_dead_letters_go_back_to_where_they_died(rig: Rig) -> None:
    await rig.create("graves")
    for name in ("orders", "bills"):
        await rig.create(name, max_attempts=1, dead_letter_queue="graves")
        await rig.send(name, id=f"of {name}")
        await rig.release(name, await rig.receive_one(name))
    rig.clock.advance(ms=5)
    assert await redrive(rig, "graves") == 2
    assert await ids(rig, "graves") == []
    (message,) = await rig.browse("bills")
    assert (message.id, message.attempts, message.death, message.entered_at) == ("of bills", 0, None, rig.now)
    assert await ids(rig, "orders") == ["of orders"]


async def test_a_redriven_message_has_all_its_attempts_again(rig: Rig) -> None:
    await two_queues(rig)
    await bury(rig, "a")
    await redrive(rig, "graves")
    lease = await rig.receive_one("orders")
    assert lease.message.attempts == 1
    await rig.release("orders", lease)
    assert await ids(rig, "graves") == ["a"]


async def test_chosen_dead_letters_go_back(rig: Rig) -> None:
    await two_queues(rig)
    await bury(rig, "a", "b", "c")
    seqs = [message.seq for message in await rig.browse("graves")]
    assert await redrive(rig, "graves", seqs=[seqs[1]]) == 1
    assert (await ids(rig, "orders"), await ids(rig, "graves")) == (["b"], ["a", "c"])


async def test_dead_letters_may_be_sent_elsewhere(rig: Rig) -> None:
    await two_queues(rig)
    await rig.create("second-chance")
    await bury(rig, "a")
    await rig.send("graves", id="never died")
    assert await redrive(rig, "graves", target="second-chance") == 2
    assert await ids(rig, "second-chance") == ["a", "never died"]


async def test_what_never_died_stays_where_it_is(rig: Rig) -> None:
    await two_queues(rig)
    await rig.send("graves", id="visitor")
    await bury(rig, "a")
    assert await redrive(rig, "graves") == 1
    assert await ids(rig, "graves") == ["visitor"]


async def test_dead_letters_behind_a_thousand_visitors_go_back_too(rig: Rig) -> None:
    await two_queues(rig)
    await rig.send_all("graves", [Draft(body=b"")] * 1_000)
    rig.clock.advance(ms=1)
    await bury(rig, "a")
    assert await redrive(rig, "graves") == 1
    assert await ids(rig, "orders") == ["a"]


async def test_a_dead_letter_whose_queue_is_gone_stays(rig: Rig) -> None:
    await two_queues(rig)
    await bury(rig, "a")
    await rig.catalog.delete_queue(rig.queue("orders"), principal=WHO)
    assert await redrive(rig, "graves") == 0
    assert await ids(rig, "graves") == ["a"]


async def test_a_leased_dead_letter_stays(rig: Rig) -> None:
    await two_queues(rig)
    await bury(rig, "a")
    lease = await rig.receive_one("graves")
    assert await redrive(rig, "graves") == 0
    await rig.ack("graves", lease)


@pytest.mark.parametrize("late_ack", list(LateAck))
async def test_a_receipt_from_before_its_death_does_not_fit_a_redriven_message(rig: Rig, late_ack: LateAck) -> None:
    await two_queues(rig, late_ack=late_ack)
    await rig.send("orders")
    old = await rig.receive_one("orders")
    await rig.release("orders", old)
    await redrive(rig, "graves")
    new = await rig.receive_one("orders")
    for settle in (rig.release("orders", old), rig.extend("orders", old, lease_ms=1)):
        with pytest.raises(LeaseLost):
            await settle
    await rig.ack("orders", new)


async def test_a_redriven_fifo_message_is_the_head_of_its_group_again(rig: Rig) -> None:
    await rig.create("fallen", kind=Kind.FIFO)
    await rig.create("line", kind=Kind.FIFO, max_attempts=1, dead_letter_queue="fallen")
    for name in "ab":
        await rig.send("line", id=name, group="g")
    await rig.release("line", await rig.receive_one("line"))
    await redrive(rig, "fallen")
    assert [lease.message.id for lease in await rig.receive("line", limit=2)] == ["a", "b"]


async def test_a_cancelled_and_a_purged_message_differ_only_in_the_journal(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", id="a")
    await rig.send("orders", id="b")
    await rig.broker.cancel(rig.queue("orders"), "a", principal=WHO)
    await rig.broker.purge(rig.queue("orders"), principal=WHO)
    events = await rig.events(EventKind.CANCELLED, EventKind.PURGED)
    assert [(event.kind, event.message_id) for event in events] == [("cancelled", "a"), ("purged", "b")]
