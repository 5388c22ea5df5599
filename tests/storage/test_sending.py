"""What a sender says is kept to the letter; what it leaves open the queue decides."""

import asyncio

import pytest

from couriermq.core.errors import BatchTooLarge, BodyTooLarge, Invalid, QueueNotFound
from couriermq.core.limits import BATCH_COUNT
from couriermq.core.model import Attribute, Draft, Kind, Sent, State
from tests.support.engines import WHO, Rig


async def test_a_message_is_received_as_it_was_sent(rig: Rig) -> None:
    await rig.create("orders")
    sent = await rig.send(
        "orders",
        b"\x00\xff body",
        content_type="text/plain; charset=utf-8",
        attributes={"colour": "grün", "count": 3, "weight": 1.5, "fragile": True},
        id="order-1",
        group="g",
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )
    message = (await rig.receive_one("orders")).message
    assert (message.seq, message.id) == (sent.seq, "order-1")
    assert (message.body, message.content_type) == (b"\x00\xff body", "text/plain; charset=utf-8")
    assert message.attributes == {"colour": "grün", "count": 3, "weight": 1.5, "fragile": True}
    assert (message.group, message.trace) == ("g", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    assert (message.sent_at, message.entered_at) == (rig.now, rig.now)


async def test_what_many_send_at_once_is_told_to_each_as_if_it_had_come_alone(rig: Rig) -> None:
    """Calls may share a commit: of one queue and another, plain and not, of one message and of several."""
    for name in ("orders", "bills"):
        await rig.create(name)
    calls: list[tuple[str, list[Draft]]] = []
    for number in range(60):
        drafts = [Draft(body=b"%d-%d" % (number, part)) for part in range(1 + number % 3)]
        if number % 7 == 0:
            drafts = [Draft(body=b"%d-0" % number, id=f"mine-{number}")]
        calls.append(("bills" if number % 5 == 0 else "orders", drafts))
    answers = await asyncio.gather(*(rig.send_all(name, drafts) for name, drafts in calls))
    for name in ("orders", "bills"):
        kept = {message.seq: (message.id, message.body) for message in await rig.browse(name)}
        told = [
            (one.seq, (one.id, draft.body))
            for (target, drafts), answer in zip(calls, answers, strict=True)
            for draft, one in zip(drafts, answer, strict=True)
            if target == name and isinstance(one, Sent)
        ]
        assert dict(told) == kept
        assert len(told) == len(kept) == sum(len(drafts) for target, drafts in calls if target == name)


@pytest.mark.parametrize(
    "value", ["", "text", "\0", "1", 0, 1, -1, 2**63 - 1, -(2**63), 0.0, 1.0, -2.5, 1e300, True, False]
)
async def test_an_attribute_keeps_its_value_and_its_type(rig: Rig, value: Attribute) -> None:
    await rig.create("orders")
    await rig.send("orders", attributes={"a": value})
    kept = (await rig.receive_one("orders")).message.attributes["a"]
    assert (kept, type(kept)) == (value, type(value))


@pytest.mark.parametrize("size", [0, 1, 2_047, 2_048, 2_049, 4_096, 100_000, 3_000_000])
async def test_a_body_of_any_size_is_kept_to_the_byte(rig: Rig, size: int) -> None:
    await rig.create("orders")
    body = bytes(n % 251 for n in range(size))
    await rig.send("orders", body)
    lease = await rig.receive_one("orders")
    assert (lease.message.body, lease.message.size) == (body, size)
    assert (await rig.browse("orders"))[0].body == body
    assert (await rig.counters("orders")).byte_count == size
    await rig.ack("orders", lease)
    assert (await rig.counters("orders")).byte_count == 0


async def test_a_message_without_an_id_gets_one_that_suits_every_dialect(rig: Rig) -> None:
    await rig.create("orders")
    sent = [await rig.send("orders") for _ in range(20)]
    assert len({each.id for each in sent}) == 20
    assert all(1 <= len(each.id) <= 32 and each.id.isalnum() and each.id.isascii() for each in sent)


ODD = ["a", "A", "a ", " a", "a\0", "a\0b", "a\0c", "ä", "a\u0308", "%", "_", "a'b", "\u2028", "\U0001f4ee", "x" * 256]


async def test_ids_that_look_alike_are_kept_apart(rig: Rig) -> None:
    await rig.create("orders")
    seqs = {id_: (await rig.send("orders", id=id_)).seq for id_ in ODD}
    for id_, seq in seqs.items():
        found = await rig.broker.read_message(rig.queue("orders"), id_)
        assert (found.id, found.seq) == (id_, seq)
        assert [message.seq for message in await rig.browse("orders", id=id_)] == [seq]


async def test_groups_that_look_alike_are_kept_apart(rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    groups = [group[:128] for group in ODD]
    for group in groups:
        await rig.send("line", group=group)
    received = await rig.receive("line", limit=100, group_limit=1)
    assert [lease.message.group for lease in received] == groups
    assert await rig.store.check() == []


async def test_seqs_grow_over_all_queues(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    seqs = [(await rig.send(name)).seq for name in ("orders", "bills", "orders", "bills")]
    assert seqs == sorted(set(seqs))
    assert await rig.store.last_seq(rig.queue("orders")) == seqs[-1]


async def test_a_standard_queue_takes_the_same_id_twice(rig: Rig) -> None:
    await rig.create("orders")
    first, second = await rig.send("orders", id="same"), await rig.send("orders", id="same")
    assert first.seq < second.seq
    assert not second.duplicate
    assert len(await rig.receive("orders", limit=10)) == 2


async def test_the_queues_delay_holds_a_message_back(rig: Rig) -> None:
    await rig.create("orders", delay_ms=5_000)
    await rig.send("orders")
    (message,) = await rig.browse("orders")
    assert (message.state, message.due_at, message.delay_ms) == (State.DELAYED, rig.now + 5_000, 5_000)
    rig.clock.advance(ms=4_999)
    assert await rig.receive("orders") == []
    rig.clock.advance(ms=1)
    assert len(await rig.receive("orders")) == 1


@pytest.mark.parametrize(("own_ms", "state"), [(0, State.READY), (7_000, State.DELAYED)])
async def test_a_messages_own_delay_wins_over_the_queues(rig: Rig, own_ms: int, state: State) -> None:
    await rig.create("orders", delay_ms=5_000)
    await rig.send("orders", delay_ms=own_ms)
    (message,) = await rig.browse("orders")
    assert (message.state, message.due_at) == (state, rig.now + own_ms)


async def test_a_delayed_message_counts_as_ready_since_its_delay_ended(rig: Rig) -> None:
    await rig.create("orders")
    late = await rig.send("orders", delay_ms=1_000)
    rig.clock.advance(ms=1_500)
    early = await rig.send("orders")
    assert [lease.message.seq for lease in await rig.receive("orders", limit=2)] == [late.seq, early.seq]


async def test_messages_come_out_in_the_order_in_which_they_became_ready(rig: Rig) -> None:
    await rig.create("orders")
    third = await rig.send("orders", delay_ms=300)
    first = await rig.send("orders")
    fourth = await rig.send("orders", delay_ms=400)
    second = await rig.send("orders")
    rig.clock.advance(ms=500)
    received = [lease.message.seq for lease in await rig.receive("orders", limit=10)]
    assert received == [first.seq, second.seq, third.seq, fourth.seq]


async def test_an_item_that_is_refused_leaves_the_others_stored(rig: Rig) -> None:
    await rig.create("orders", max_body_bytes=5)
    drafts = [Draft(body=b"one"), Draft(body=b"far too long"), Draft(body=b"two"), Draft(body=b"x", delay_ms=-1)]
    outcomes = await rig.send_all("orders", drafts)
    assert [type(outcome) for outcome in outcomes] == [Sent, BodyTooLarge, Sent, Invalid]
    assert [message.body for message in await rig.browse("orders")] == [b"one", b"two"]


async def test_a_batch_where_everything_is_refused_changes_nothing(rig: Rig) -> None:
    await rig.create("orders", max_body_bytes=1)
    before = await rig.store.spans()
    outcomes = await rig.send_all("orders", [Draft(body=b"too long"), Draft(body=b"as well")])
    assert [type(outcome) for outcome in outcomes] == [BodyTooLarge, BodyTooLarge]
    assert await rig.store.spans() == before


@pytest.mark.parametrize("count", [0, BATCH_COUNT + 1])
async def test_a_batch_has_at_least_one_message_and_no_more_than_the_limit(rig: Rig, count: int) -> None:
    await rig.create("orders")
    with pytest.raises(BatchTooLarge):
        await rig.send_all("orders", [Draft(body=b"")] * count)


async def test_a_full_batch_is_stored_in_its_order(rig: Rig) -> None:
    await rig.create("orders")
    outcomes = await rig.send_all("orders", [Draft(body=str(n).encode()) for n in range(BATCH_COUNT)])
    seqs = [outcome.seq for outcome in outcomes if isinstance(outcome, Sent)]
    assert seqs == sorted(set(seqs))
    received = await rig.receive("orders", limit=1_000)
    assert [lease.message.body for lease in received] == [str(n).encode() for n in range(BATCH_COUNT)]


async def test_a_message_for_a_queue_that_was_deleted_meanwhile_is_refused(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.catalog.delete_queue(queue, principal=WHO)
    with pytest.raises(QueueNotFound):
        await rig.broker.send_one(queue, Draft(body=b"late"), principal=WHO)
