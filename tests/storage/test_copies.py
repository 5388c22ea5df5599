"""Copies for listeners: made with the original in one commit, and the end of the original where it is not kept."""

from typing import Any

from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.events import EventKind
from couriermq.core.model import Ack, Draft, Kind, Sent
from couriermq.storage.base import Parcel
from tests.support.engines import WHO, Rig


async def copied(rig: Rig, draft: Draft, source: str, *outboxes: str) -> list[Sent | CourierError]:
    """Send one message to a queue and copies of it to others, as the broker does for listeners."""
    parcels = [Parcel(rig.queue(source), draft)]
    parcels += [Parcel(rig.queue(name), Draft(body=draft.body, id=draft.id), copy_of=0) for name in outboxes]
    return await rig.store.send(parcels, now=rig.now, principal=WHO)


async def queues(rig: Rig, **settings: Any) -> None:
    await rig.create("orders", **settings)
    for name in ("first", "second"):
        await rig.create(name)


async def test_a_copy_lives_a_life_of_its_own(rig: Rig) -> None:
    await queues(rig)
    original, copy = await copied(rig, Draft(body=b"x", id="m"), "orders", "first")
    assert isinstance(original, Sent)
    assert isinstance(copy, Sent)
    assert original.seq != copy.seq
    await rig.ack("first", await rig.receive_one("first"))
    assert (await rig.counters("orders")).ready_count == 1


async def test_where_delivered_messages_are_not_kept_the_original_leaves_with_its_last_copy(rig: Rig) -> None:
    await queues(rig, keep_delivered=False)
    await copied(rig, Draft(body=b"x", id="m"), "orders", "first", "second")
    await rig.ack("first", await rig.receive_one("first"))
    assert (await rig.counters("orders")).ready_count == 1
    await rig.ack("second", await rig.receive_one("second"))
    counters = await rig.counters("orders")
    assert (counters.total_count, counters.byte_count, counters.acked_count) == (0, 0, 1)
    last = (await rig.events(EventKind.ACKED))[-1]
    assert (last.queue, last.detail) == ("orders", {"delivered": True})


async def test_an_original_that_somebody_holds_is_left_to_its_holder(rig: Rig) -> None:
    await queues(rig, keep_delivered=False)
    await copied(rig, Draft(body=b"x", id="m"), "orders", "first")
    held = await rig.receive_one("orders")
    await rig.ack("first", await rig.receive_one("first"))
    assert (await rig.counters("orders")).leased_count == 1
    await rig.ack("orders", held)


async def test_a_copy_that_was_released_is_not_delivered(rig: Rig) -> None:
    await queues(rig, keep_delivered=False)
    await copied(rig, Draft(body=b"x", id="m"), "orders", "first")
    await rig.release("first", await rig.receive_one("first"))
    assert (await rig.counters("orders")).ready_count == 1


async def test_acks_of_several_copies_in_one_call_end_their_originals(rig: Rig) -> None:
    await queues(rig, keep_delivered=False)
    for name in "abc":
        await copied(rig, Draft(body=b"x", id=name), "orders", "first")
    leases = await rig.receive("first", limit=3)
    await rig.settle("first", *(Ack(lease.receipt) for lease in leases[:2]))
    assert [message.id for message in await rig.browse("orders")] == ["c"]


async def test_an_original_leaves_wherever_it_has_been_moved(rig: Rig) -> None:
    await queues(rig, keep_delivered=False)
    await copied(rig, Draft(body=b"x", id="m"), "orders", "first")
    await rig.broker.move(rig.queue("orders"), rig.queue("second"), principal=WHO)
    await rig.ack("first", await rig.receive_one("first"))
    assert (await rig.counters("second")).total_count == 0


async def test_a_fifo_original_that_leaves_lets_its_group_go_on(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO, keep_delivered=False)
    await rig.create("first")
    await copied(rig, Draft(body=b"a", id="a", group="g"), "line", "first")
    await rig.send("line", b"b", group="g")
    await rig.ack("first", await rig.receive_one("first"))
    assert [lease.message.body for lease in await rig.receive("line", limit=5)] == [b"b"]
    assert await rig.store.check() == []


async def test_no_copy_is_made_of_a_duplicate(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    await rig.create("first")
    for _ in range(2):
        await copied(rig, Draft(body=b"x", id="same"), "line", "first")
    assert (await rig.counters("first")).total_count == 1


async def test_no_copy_is_made_of_what_was_refused(rig: Rig) -> None:
    await queues(rig)
    gone = rig.queue("orders")
    await rig.catalog.delete_queue(gone, principal=WHO)
    parcels = [Parcel(gone, Draft(body=b"x")), Parcel(rig.queue("first"), Draft(body=b"x"), copy_of=0)]
    outcomes = await rig.store.send(parcels, now=rig.now, principal=WHO)
    assert [type(outcome) for outcome in outcomes] == [QueueNotFound, QueueNotFound]
    assert (await rig.counters("first")).total_count == 0


async def test_originals_and_copies_survive_a_restart(rig: Rig) -> None:
    await queues(rig, keep_delivered=False)
    await copied(rig, Draft(body=b"x", id="m"), "orders", "first")
    await rig.restart()
    await rig.ack("first", await rig.receive_one("first"))
    assert (await rig.counters("orders")).total_count == 0
