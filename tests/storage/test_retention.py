"""A message that has grown too old is discarded, at its instant, whatever it is doing."""

import pytest

from couriermq.core.errors import LeaseLost
from couriermq.core.events import EventKind
from couriermq.core.model import SECOND, Draft, QueueSettings, State
from tests.support.engines import WHO, Rig


async def test_a_message_is_discarded_when_the_queues_retention_ends(rig: Rig) -> None:
    await rig.create("orders", retention_ms=60 * SECOND)
    await rig.send("orders")
    assert (await rig.browse("orders"))[0].discard_at == rig.now + 60 * SECOND
    rig.clock.advance(ms=60 * SECOND - 1)
    assert (await rig.counters("orders")).ready_count == 1
    rig.clock.advance(ms=1)
    assert await rig.receive("orders") == []
    assert (await rig.counters("orders")).total_count == 0


@pytest.mark.parametrize("own_ms", [1, 500, 120 * SECOND])
async def test_a_messages_own_retention_wins_over_the_queues(rig: Rig, own_ms: int) -> None:
    await rig.create("orders", retention_ms=60 * SECOND)
    await rig.send("orders", retention_ms=own_ms)
    (message,) = await rig.browse("orders")
    assert (message.retention_ms, message.discard_at) == (own_ms, rig.now + own_ms)
    rig.clock.advance(ms=own_ms - 1)
    assert len(await rig.browse("orders")) == 1
    rig.clock.advance(ms=1)
    assert await rig.browse("orders") == []


async def test_a_delayed_message_is_discarded_too(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    await rig.send("orders", delay_ms=5_000)
    rig.clock.advance(ms=1_000)
    assert (await rig.counters("orders")).total_count == 0
    rig.clock.advance(ms=5_000)
    assert await rig.receive("orders") == []


@pytest.mark.parametrize("id_", [None, "m1"])
async def test_a_delay_that_is_longer_than_the_retention_is_not_waited_for(rig: Rig, id_: str | None) -> None:
    await rig.create("orders", retention_ms=60 * SECOND)
    await rig.send("orders", id=id_, delay_ms=600 * SECOND)
    await rig.pass_time(ms=60 * SECOND)
    assert await rig.browse("orders") == []


async def test_a_leased_message_is_discarded_from_its_receivers_hands(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    await rig.send("orders")
    lease = await rig.receive_one("orders", lease_ms=60_000)
    assert lease.expires_at == rig.now + 60_000
    rig.clock.advance(ms=1_000)
    with pytest.raises(LeaseLost):
        await rig.ack("orders", lease)
    assert (await rig.counters("orders")).total_count == 0


async def test_a_message_that_grew_too_old_while_leased_does_not_become_a_dead_letter(rig: Rig) -> None:
    await rig.create("graves")
    await rig.create("orders", retention_ms=1_000, max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=1_001)
    await rig.pass_time(ms=9_000)
    assert (await rig.counters("graves")).total_count == 0


@pytest.mark.parametrize("lease_ms", [999, 1_000])
async def test_a_lease_that_ends_no_later_than_retention_is_a_failed_attempt_first(rig: Rig, lease_ms: int) -> None:
    await rig.create("graves")
    await rig.create("orders", retention_ms=1_000, max_attempts=1, dead_letter_queue="graves")
    await rig.send("orders")
    await rig.receive_one("orders", lease_ms=lease_ms)
    await rig.pass_time(ms=9_000)
    assert (await rig.browse("graves"))[0].entered_at == rig.now - 9_000 + lease_ms


async def test_an_extension_does_not_keep_a_message_beyond_its_retention(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    await rig.send("orders")
    lease = await rig.receive_one("orders", lease_ms=500)
    await rig.extend("orders", lease, lease_ms=5_000)
    rig.clock.advance(ms=1_000)
    assert await rig.browse("orders") == []


async def test_a_retry_does_not_prolong_a_messages_life(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    await rig.send("orders")
    await rig.release("orders", await rig.receive_one("orders"), delay_ms=800)
    (message,) = await rig.browse("orders")
    assert (message.state, message.discard_at) == (State.DELAYED, rig.now + 1_000)
    rig.clock.advance(ms=1_000)
    assert await rig.browse("orders") == []


@pytest.mark.parametrize(("retention_ms", "left"), [(1_000, 0), (10_000, 1)])
async def test_a_change_of_retention_holds_for_messages_that_are_there(rig: Rig, retention_ms: int, left: int) -> None:
    queue = await rig.create("orders", retention_ms=5_000)
    await rig.send("orders")
    rig.clock.advance(ms=2_000)
    await rig.catalog.change_queue(queue, settings=QueueSettings(retention_ms=retention_ms), principal=WHO)
    rig.clock.advance(ms=4_000)
    assert (await rig.counters("orders")).total_count == left


async def test_a_change_of_retention_is_noticed_without_a_look(rig: Rig) -> None:
    queue = await rig.create("orders", retention_ms=50_000)
    await rig.send("orders")
    await rig.store.advance(now=rig.now)
    await rig.catalog.change_queue(queue, settings=QueueSettings(retention_ms=1_000), principal=WHO)
    assert await rig.store.advance(now=rig.now) == rig.now + 1_000


async def test_old_and_young_messages_part(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    await rig.send("orders", id="old")
    rig.clock.advance(ms=600)
    await rig.send("orders", id="young")
    await rig.send("orders", id="brief", retention_ms=100)
    rig.clock.advance(ms=400)
    assert [message.id for message in await rig.browse("orders")] == ["young"]


async def test_of_thousands_that_grew_too_old_together_none_is_given_out(rig: Rig) -> None:
    await rig.create("orders", retention_ms=1_000)
    for _ in range(5):
        await rig.send_all("orders", [Draft(body=b"x")] * 1_000)
    rig.clock.advance(ms=1_000)
    assert await rig.receive("orders", limit=10) == []
    assert (await rig.counters("orders")).total_count == 0
    assert len(await rig.events(EventKind.DISCARDED)) == 5_000
