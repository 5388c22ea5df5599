"""Looking at a queue changes nothing, shows everything once, and finds what is asked for."""

from typing import Any

import pytest

from couriermq.core.errors import Invalid, MessageNotFound, QueueNotFound
from couriermq.core.limits import BROWSE_COUNT
from couriermq.core.model import Draft, State
from couriermq.storage.base import Filter
from tests.support.engines import WHO, Rig


async def ids(rig: Rig, **where: Any) -> list[str]:
    return [message.id for message in await rig.browse("orders", **where)]


async def one_of_each_state(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", id="leased")
    await rig.receive_one("orders")
    await rig.send("orders", id="ready", attributes={"colour": "red", "count": 1})
    await rig.send("orders", id="delayed", delay_ms=60_000, attributes={"colour": "blue", "count": 1.0})


async def test_a_look_leases_nothing_and_journals_nothing(rig: Rig) -> None:
    await one_of_each_state(rig)
    before, spans = await rig.counters("orders"), await rig.store.spans()
    assert await ids(rig) == ["leased", "ready", "delayed"]
    assert await rig.counters("orders") == before
    assert await rig.store.spans() == spans


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((State.READY,), ["ready"]),
        ((State.DELAYED,), ["delayed"]),
        ((State.LEASED,), ["leased"]),
        ((State.DELAYED, State.LEASED), ["leased", "delayed"]),
        ((), []),
    ],
)
async def test_a_look_can_choose_states(rig: Rig, states: tuple[State, ...], expected: list[str]) -> None:
    await one_of_each_state(rig)
    assert await ids(rig, states=states) == expected


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        (("colour", "red"), ["ready"]),
        (("colour", "RED"), []),
        (("count", 1), ["ready", "delayed"]),
        (("count", "1"), []),
        (("count", True), []),
        (("weight", 1), []),
    ],
)
async def test_a_look_can_choose_an_attribute(rig: Rig, attribute: tuple[str, object], expected: list[str]) -> None:
    await one_of_each_state(rig)
    assert await ids(rig, attribute=attribute) == expected


async def test_a_look_can_choose_an_id(rig: Rig) -> None:
    await one_of_each_state(rig)
    again = await rig.send("orders", id="ready")
    minted = await rig.send("orders")
    assert [message.seq for message in await rig.browse("orders", id="ready")][-1] == again.seq
    assert await ids(rig, id="ready") == ["ready", "ready"]
    assert await ids(rig, id=minted.id) == [minted.id]
    assert await ids(rig, id="nobody") == []
    assert await ids(rig, id="ready", states=(State.LEASED,)) == []
    assert await ids(rig, id="ready", attribute=("colour", "red")) == ["ready"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 11])
async def test_pages_show_every_message_once_and_in_order(rig: Rig, limit: int) -> None:
    await rig.create("orders")
    expected = []
    for n in range(10):
        expected.append((await rig.send("orders", retention_ms=None if n % 3 else 50_000)).seq)
        rig.clock.advance(ms=n % 2)
    found = await rig.browse("orders", limit=limit)
    assert [message.seq for message in found] == expected


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_pages_of_one_id_end(rig: Rig, limit: int) -> None:
    await rig.create("orders")
    for _ in range(5):
        await rig.send("orders", id="same")
        await rig.send("orders", id="other")
    assert len(await rig.browse("orders", limit=limit, id="same")) == 5


async def test_the_last_page_says_that_it_is_the_last(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"")] * 4)
    first = await rig.broker.browse(rig.queue("orders"), limit=2)
    assert first.next is not None
    second = await rig.broker.browse(rig.queue("orders"), limit=2, after=first.next)
    assert (len(second.messages), second.next) == (2, None)


async def test_a_page_goes_on_where_the_last_one_ended_whatever_happened_meanwhile(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"", id=name) for name in "abcd"])
    first = await rig.broker.browse(rig.queue("orders"), limit=2)
    await rig.broker.remove(rig.queue("orders"), [message.seq for message in first.messages], principal=WHO)
    rest = await rig.broker.browse(rig.queue("orders"), limit=2, after=first.next)
    assert [message.id for message in rest.messages] == ["c", "d"]


async def test_the_oldest_in_the_queue_comes_first_even_if_it_was_sent_last(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    await rig.send("bills", id="moved")
    await rig.send("orders", id="native")
    rig.clock.advance(ms=1)
    await rig.broker.move(rig.queue("bills"), rig.queue("orders"), principal=WHO)
    assert await ids(rig) == ["native", "moved"]


@pytest.mark.parametrize("cursor", ["x", "1", "-", "1-", "-1", "1-x", "١-١", "9" * 50 + "-1", "9999999999999999999-1"])
async def test_a_cursor_that_no_page_ended_with_is_refused(rig: Rig, cursor: str) -> None:
    await rig.create("orders")
    await rig.send("orders")
    with pytest.raises(Invalid) as refusal:
        await rig.broker.browse(rig.queue("orders"), after=cursor)
    assert refusal.value.field == "after"


@pytest.mark.parametrize("limit", [0, BROWSE_COUNT + 1])
async def test_a_page_has_a_size(rig: Rig, limit: int) -> None:
    await rig.create("orders")
    with pytest.raises(Invalid) as refusal:
        await rig.broker.browse(rig.queue("orders"), limit=limit)
    assert refusal.value.field == "limit"


async def test_a_rare_attribute_is_found_in_a_long_queue(rig: Rig) -> None:
    await rig.create("orders")
    for start in range(0, 12_000, 1_000):
        await rig.send_all("orders", [Draft(body=b"", id=str(start + n)) for n in range(1_000)])
    await rig.send("orders", id="needle", attributes={"sharp": True})
    assert await ids(rig, attribute=("sharp", True)) == ["needle"]


async def test_a_page_of_large_messages_ends_early_and_loses_none(rig: Rig) -> None:
    await rig.create("orders")
    for n in range(5):
        await rig.send("orders", b"x" * 6_000_000, id=str(n))
    page = await rig.broker.browse(rig.queue("orders"), limit=100)
    assert len(page.messages) < 5
    assert await ids(rig) == ["0", "1", "2", "3", "4"]


# -- one message ----------------------------------------------------------------------------------------------


async def test_a_message_is_read_by_its_id_whatever_its_state(rig: Rig) -> None:
    await one_of_each_state(rig)
    for name, state in (("leased", State.LEASED), ("ready", State.READY), ("delayed", State.DELAYED)):
        message = await rig.broker.read_message(rig.queue("orders"), name)
        assert (message.id, message.state) == (name, state)


async def test_a_minted_id_finds_its_message_and_only_in_its_queue(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    sent = await rig.send("orders")
    assert (await rig.broker.read_message(rig.queue("orders"), sent.id)).seq == sent.seq
    for queue, name in (("bills", sent.id), ("orders", sent.id.upper()), ("orders", sent.id[:-1])):
        with pytest.raises(MessageNotFound):
            await rig.broker.read_message(rig.queue(queue), name)


async def test_of_several_messages_with_an_id_the_oldest_is_read(rig: Rig) -> None:
    await rig.create("orders")
    first = await rig.send("orders", id="same")
    second = await rig.send("orders", id="same")
    assert (await rig.broker.read_message(rig.queue("orders"), "same")).seq == first.seq
    await rig.ack("orders", await rig.receive_one("orders"))
    assert (await rig.broker.read_message(rig.queue("orders"), "same")).seq == second.seq


async def test_an_id_that_we_minted_may_be_given_to_another_message(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    original = await rig.send("orders")
    copy = await rig.send("bills", id=original.id)
    twin = await rig.send("orders", id=original.id)
    assert (await rig.broker.read_message(rig.queue("bills"), original.id)).seq == copy.seq
    assert (await rig.broker.read_message(rig.queue("orders"), original.id)).seq == original.seq
    await rig.ack("orders", await rig.receive_one("orders"))
    assert (await rig.broker.read_message(rig.queue("orders"), original.id)).seq == twin.seq


async def test_a_minted_id_is_found_after_its_message_was_moved(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("bills")
    sent = await rig.send("orders")
    await rig.broker.move(rig.queue("orders"), rig.queue("bills"), principal=WHO)
    assert (await rig.broker.read_message(rig.queue("bills"), sent.id)).seq == sent.seq


async def test_an_unknown_id_is_not_found(rig: Rig) -> None:
    await rig.create("orders")
    for name in ("nobody", "", "0" * 32, "\0", "x" * 1_000):
        with pytest.raises(MessageNotFound):
            await rig.broker.read_message(rig.queue("orders"), name)


async def test_a_queue_that_was_deleted_cannot_be_looked_at(rig: Rig) -> None:
    queue = await rig.create("orders")
    await rig.send("orders")
    await rig.catalog.delete_queue(queue, principal=WHO)
    for _ in range(2):
        for look in (
            rig.broker.browse(queue, where=Filter()),
            rig.broker.read_message(queue, "x"),
            rig.broker.counters(queue),
            rig.broker.receive(queue, principal=WHO),
        ):
            with pytest.raises(QueueNotFound):
                await look
        await rig.store.advance(now=rig.now)  # its messages are swept away
