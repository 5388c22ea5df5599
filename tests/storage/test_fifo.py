"""A FIFO queue keeps order inside a group, gives a group to one receiver at a time, and drops duplicates."""

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest

from couriermq.core.model import DEDUP_MS, Draft, Kind, Lease, Sent
from tests.support.engines import Rig


async def line(rig: Rig, **settings: object) -> None:
    await rig.create("line", kind=Kind.FIFO, **settings)


async def send(rig: Rig, *bodies: str, group: str | None = "g", **parts: object) -> None:
    for body in bodies:
        await rig.send("line", body.encode(), group=group, **parts)


def bodies(leases: list[Lease]) -> str:
    return " ".join(lease.message.body.decode() for lease in leases)


async def test_a_group_comes_out_in_the_order_in_which_it_went_in(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b", "c")
    for expected in ("a", "b", "c"):
        lease = await rig.receive_one("line")
        assert lease.message.body.decode() == expected
        await rig.ack("line", lease)


async def test_a_receive_takes_as_many_messages_of_a_group_as_fit(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b", "c")
    assert bodies(await rig.receive("line", limit=2)) == "a b"


async def test_a_group_is_locked_while_any_of_its_messages_is_leased(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b", "c")
    first, second = await rig.receive("line", limit=2)
    assert await rig.receive("line", limit=10) == []
    await rig.ack("line", first)
    assert await rig.receive("line", limit=10) == []
    await rig.ack("line", second)
    assert bodies(await rig.receive("line", limit=10)) == "c"


async def test_a_message_sent_into_a_locked_group_waits_behind_it(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a")
    lease = await rig.receive_one("line")
    await send(rig, "b")
    assert await rig.receive("line") == []
    await rig.ack("line", lease)
    assert bodies(await rig.receive("line")) == "b"


async def test_other_groups_are_unaffected_by_a_locked_one(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a1", "a2", group="a")
    await send(rig, "b1", "b2", group="b")
    assert bodies(await rig.receive("line", limit=1)) == "a1"
    assert bodies(await rig.receive("line", limit=10)) == "b1 b2"


async def test_a_receive_fills_up_from_several_groups(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a1", "a2", group="a")
    await send(rig, "b1", "b2", "b3", group="b")
    assert bodies(await rig.receive("line", limit=4)) == "a1 a2 b1 b2"


async def test_a_receiver_may_limit_how_much_of_each_group_it_takes(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a1", "a2", "a3", group="a")
    await send(rig, "b1", "b2", group="b")
    assert bodies(await rig.receive("line", limit=10, group_limit=1)) == "a1 b1"


async def test_the_group_whose_head_has_waited_longest_goes_first(rig: Rig) -> None:
    await line(rig)
    await send(rig, "late", group="late", delay_ms=500)
    rig.clock.advance(ms=100)
    await send(rig, "early", group="early")
    rig.clock.advance(ms=1_000)
    assert bodies(await rig.receive("line", limit=10)) == "early late"


async def test_messages_without_a_group_are_one_group(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b", group=None)
    lease = await rig.receive_one("line")
    assert lease.message.group is None
    assert await rig.receive("line") == []


async def test_a_released_message_is_the_head_of_its_group_again(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b")
    await rig.release("line", await rig.receive_one("line"))
    assert bodies(await rig.receive("line", limit=2)) == "a b"


async def test_order_holds_when_the_second_of_two_is_settled_first(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b", "c")
    a, b = await rig.receive("line", limit=2)
    await rig.ack("line", b)
    await rig.release("line", a)
    assert bodies(await rig.receive("line", limit=10)) == "a c"


async def test_a_released_head_waits_for_the_rest_of_its_group_that_is_leased(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b", "c")
    a, b = await rig.receive("line", limit=2)
    await rig.release("line", a)
    assert await rig.receive("line", limit=10) == []
    await rig.ack("line", b)
    assert bodies(await rig.receive("line", limit=10)) == "a c"


async def test_a_head_that_waits_for_its_retry_holds_the_group_back(rig: Rig) -> None:
    await line(rig, retry_delay_ms=1_000)
    await send(rig, "a", "b")
    await rig.release("line", await rig.receive_one("line"))
    assert await rig.receive("line") == []
    rig.clock.advance(ms=1_000)
    assert bodies(await rig.receive("line", limit=2)) == "a b"


async def test_a_delayed_head_holds_the_group_back(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", delay_ms=1_000)
    await send(rig, "b")
    assert await rig.receive("line") == []
    rig.clock.advance(ms=1_000)
    assert bodies(await rig.receive("line", limit=2)) == "a b"


async def test_a_delayed_message_in_the_middle_ends_what_a_receive_takes(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a")
    await send(rig, "b", delay_ms=1_000)
    await send(rig, "c")
    assert bodies(await rig.receive("line", limit=10)) == "a"


async def test_an_expired_lease_unlocks_the_group_at_its_instant(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b")
    await rig.receive("line", limit=1, lease_ms=500)
    rig.clock.advance(ms=499)
    assert await rig.receive("line") == []
    rig.clock.advance(ms=1)
    again = await rig.receive("line", limit=2)
    assert bodies(again) == "a b"
    assert [lease.message.attempts for lease in again] == [2, 1]


async def test_the_death_of_a_head_lets_the_group_go_on(rig: Rig) -> None:
    await rig.create("fallen", kind=Kind.FIFO)
    await line(rig, max_attempts=1, dead_letter_queue="fallen")
    await send(rig, "a", "b")
    await rig.release("line", await rig.receive_one("line"))
    assert bodies(await rig.receive("line")) == "b"
    fallen = await rig.receive_one("fallen")
    assert (fallen.message.body, fallen.message.group) == (b"a", "g")


async def test_dead_letters_keep_their_order_inside_their_group(rig: Rig) -> None:
    await rig.create("fallen", kind=Kind.FIFO)
    await line(rig, max_attempts=1, dead_letter_queue="fallen")
    await send(rig, "a", "b", "c")
    a, b, c = await rig.receive("line", limit=3)
    for lease in (c, a, b):
        await rig.release("line", lease)
        rig.clock.advance(ms=1)
    assert bodies(await rig.receive("fallen", limit=3)) == "a b c"


async def test_a_head_that_grew_too_old_lets_the_group_go_on(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", retention_ms=500)
    await send(rig, "b")
    await rig.receive("line", limit=1, lease_ms=60_000)
    rig.clock.advance(ms=500)
    assert bodies(await rig.receive("line", limit=10)) == "b"


async def test_a_message_removed_from_the_head_lets_the_group_go_on(rig: Rig) -> None:
    await line(rig)
    await send(rig, "a", "b")
    lease = await rig.receive_one("line")
    await rig.broker.remove(rig.queue("line"), [lease.message.seq], principal="operator")
    assert bodies(await rig.receive("line")) == "b"


async def test_a_message_moved_into_a_group_takes_its_place_by_its_age(rig: Rig) -> None:
    await rig.create("orders")
    await line(rig)
    await rig.send("orders", b"first", group="g")
    await send(rig, "second")
    await rig.broker.move(rig.queue("orders"), rig.queue("line"), principal="operator")
    assert bodies(await rig.receive("line", limit=2)) == "first second"


async def test_many_receivers_at_once_never_share_a_group(rig: Rig) -> None:
    await line(rig)
    for n in range(60):
        await send(rig, str(n), group=f"g{n % 6}")
    received: dict[str, list[int]] = {}
    while held := await asyncio.gather(*(rig.receive("line", limit=3) for _ in range(8))):
        if not any(held):
            break
        groups = [{lease.message.group for lease in leases} for leases in held]
        assert sum(map(len, groups)) == len(set().union(*groups))
        for lease in itertools.chain(*held):
            received.setdefault(lease.message.group or "", []).append(int(lease.message.body))
            await rig.ack("line", lease)
    assert received == {f"g{k}": list(range(k, 60, 6)) for k in range(6)}


# -- duplicates -----------------------------------------------------------------------------------------------


async def test_a_duplicate_is_dropped_and_names_the_message_that_was_kept(rig: Rig) -> None:
    await line(rig)
    first = await rig.send("line", b"one", id="same")
    again = await rig.send("line", b"two", id="same")
    assert again == Sent(first.seq, "same", duplicate=True)
    assert bodies(await rig.receive("line", limit=10)) == "one"


async def test_the_dedup_id_decides_before_the_id(rig: Rig) -> None:
    await line(rig)
    first = await rig.send("line", b"one", id="a", dedup_id="d")
    assert await rig.send("line", b"two", id="b", dedup_id="d") == Sent(first.seq, "a", duplicate=True)
    assert not (await rig.send("line", b"three", id="a", dedup_id="e")).duplicate


async def test_a_duplicate_inside_one_batch_is_dropped(rig: Rig) -> None:
    await line(rig)
    outcomes = await rig.send_all("line", [Draft(body=b"one", id="same"), Draft(body=b"two", id="same")])
    assert [outcome.duplicate for outcome in outcomes if isinstance(outcome, Sent)] == [False, True]
    assert (await rig.counters("line")).total_count == 1


async def test_an_id_is_remembered_for_five_minutes_from_the_first(rig: Rig) -> None:
    await line(rig)
    await rig.send("line", id="same")
    rig.clock.advance(ms=DEDUP_MS - 1)
    assert (await rig.send("line", id="same")).duplicate
    rig.clock.advance(ms=1)
    assert not (await rig.send("line", id="same")).duplicate


async def test_upkeep_forgets_ids_no_earlier(rig: Rig) -> None:
    await line(rig)
    await rig.send("line", id="same")
    await rig.pass_time(ms=DEDUP_MS - 1)
    assert (await rig.send("line", id="same")).duplicate


async def test_an_id_is_remembered_after_its_message_is_gone(rig: Rig) -> None:
    await line(rig)
    await rig.send("line", id="same")
    await rig.ack("line", await rig.receive_one("line"))
    assert (await rig.send("line", id="same")).duplicate
    assert (await rig.counters("line")).total_count == 0


async def test_each_queue_remembers_for_itself(rig: Rig) -> None:
    await line(rig)
    await rig.create("other", kind=Kind.FIFO)
    await rig.send("line", id="same")
    assert not (await rig.send("other", id="same")).duplicate


@pytest.mark.parametrize("group", [None, "g"])
async def test_messages_without_any_id_are_never_duplicates(rig: Rig, group: str | None) -> None:
    await line(rig)
    outcomes = [await rig.send("line", b"same", group=group) for _ in range(3)]
    assert [outcome.duplicate for outcome in outcomes] == [False] * 3


@pytest.mark.parametrize("verb", ["purge", "remove", "move"])
async def test_what_is_sent_together_with_the_removal_of_the_last_of_its_group_is_found(rig: Rig, verb: str) -> None:
    await rig.create("orders", kind=Kind.FIFO)
    await rig.create("others")
    old = await rig.send("orders", b"old", group="g")
    gone: Coroutine[Any, Any, object]
    if verb == "purge":
        gone = rig.purge("orders")
    elif verb == "remove":
        gone = rig.remove("orders", [old.seq])
    else:
        gone = rig.move("orders", "others", [old.seq])
    await asyncio.gather(gone, rig.send("orders", b"new", group="g"))
    left = (await rig.counters("orders")).ready_count
    assert len(await rig.receive("orders", limit=10)) == left


# -- clocks that differ -------------------------------------------------------------------------------------------


async def sent_ahead(rig: Rig, *bodies: str, **parts: Any) -> None:
    """As by a node whose clock is ahead of the receiver's."""
    rig.clock.advance(ms=300)
    await send(rig, *bodies, **parts)
    rig.clock.advance(ms=-300)


async def test_what_is_ready_by_another_nodes_clock_is_ready(rig: Rig) -> None:
    await line(rig)
    await sent_ahead(rig, "a", "b", group="g")
    await send(rig, "c", group="h")
    assert bodies(await rig.receive("line", limit=10)) == "c a b"
    assert await rig.receive("line", limit=10) == []


async def test_a_group_that_another_nodes_clock_made_ready_is_locked_like_any(rig: Rig) -> None:
    await line(rig)
    await sent_ahead(rig, "a", "b")
    lease = await rig.receive_one("line")
    assert await rig.receive("line") == []
    await rig.ack("line", lease)
    assert bodies(await rig.receive("line")) == "b"


async def test_what_is_delayed_hides_nothing_that_is_ready_by_another_nodes_clock(rig: Rig) -> None:
    await line(rig)
    await send(rig, "delayed", group="g", delay_ms=100)
    await send(rig, "behind it", group="g")
    await sent_ahead(rig, "ready", group="h")
    assert bodies(await rig.receive("line", limit=1)) == "ready"
    assert await rig.receive("line", limit=1) == []
