"""The shorter way of the engine for many nodes: what is usual goes by it, all else does not, and nobody can tell."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.errors import LeaseLost
from couriermq.core.events import Event, EventKind
from couriermq.core.limits import Room
from couriermq.core.model import Ack, Draft, Lease, Settled
from couriermq.storage.postgres import bundles, strips
from couriermq.storage.postgres.batch import Batch
from couriermq.storage.postgres.bundles import MOST_BYTES, MOST_MESSAGES, Packed
from couriermq.storage.postgres.express import Express
from couriermq.storage.postgres.rows import encode
from couriermq.storage.postgres.store import PostgresStore
from couriermq.storage.postgres.supply import Cut, Supply
from tests.support.engines import Rig
from tests.support.postgres import shared_cluster


async def waiting(node: Rig, name: str, *bodies: bytes) -> None:
    """A queue with these messages, where nothing is due."""
    await node.create(name)
    await node.pass_time(ms=0)
    await node.send_all(name, [Draft(body=body, attributes={"of": name}) for body in bodies])


async def settle_all(node: Rig, name: str, *leases: Lease) -> list[object]:
    return list(await node.settle(name, *(Ack(lease.receipt) for lease in leases)))


def facts(event: Event) -> tuple[object, ...]:
    return event.kind, event.at, event.queue, event.seq, event.message_id, event.attempt, event.size, event.principal


async def test_what_waits_is_received_and_acked_by_the_shorter_way_alone(
    node: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [b"%d" % number for number in range(40)]
    await waiting(node, "orders", *bodies)
    monkeypatch.setattr(Batch, "run", None)
    leases = [lease for limit in (10, 25, 100) for lease in await node.receive("orders", limit=limit)]
    settled = await settle_all(node, "orders", *leases)
    monkeypatch.undo()
    assert [lease.message.body for lease in leases] == bodies
    assert {(lease.message.attempts, lease.message.attributes["of"]) for lease in leases} == {(1, "orders")}
    assert settled == [Settled(lease.message.seq, lease.message.id) for lease in leases]
    assert (await node.counters("orders")).acked_count == 40
    assert await node.store.check() == []


async def test_the_journal_does_not_tell_which_way_a_message_went(node: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def life(name: str) -> list[tuple[object, ...]]:
        await waiting(node, name, b"a", b"bc", b"")
        await settle_all(node, name, *await node.receive(name, limit=3))
        told = [event for event in await node.events(EventKind.RECEIVED, EventKind.ACKED) if event.queue == name]
        first = min(event.seq or 0 for event in told)
        return [(*facts(event)[:2], (event.seq or 0) - first, event.attempt, event.size) for event in told]

    shorter = await life("orders")
    monkeypatch.setattr(Express, "of", lambda *_: None)
    assert await life("bills") == shorter


async def test_many_receivers_and_acks_of_several_queues_share_one_commit(
    node: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("orders", "bills"):
        await waiting(node, name, *(f"{name} {number}".encode() for number in range(70)))
    monkeypatch.setattr(Batch, "run", None)
    first = dict(zip(("orders", "bills"), await receive_some(node, "orders", "bills"), strict=True))
    before = node.store.metrics.commits  # type: ignore[attr-defined]
    acked, (orders, bills, more) = await asyncio.gather(
        asyncio.gather(*(settle_all(node, name, *leases) for name, leases in first.items())),
        asyncio.gather(*receiving(node, "orders", "bills", "orders")),
    )
    assert node.store.metrics.commits - before == 1  # type: ignore[attr-defined]
    monkeypatch.undo()
    assert all(isinstance(one, Settled) for part in acked for one in part)
    assert [lease.message.body for lease in (*orders, *more)] == [b"orders %d" % number for number in range(20, 60)]
    assert [lease.message.body for lease in bills] == [b"bills %d" % number for number in range(20, 40)]
    assert await node.store.check() == []


def receiving(node: Rig, *names: str) -> list["asyncio.Task[list[Lease]]"]:
    return [asyncio.ensure_future(node.receive(name, limit=20)) for name in names]


async def receive_some(node: Rig, *names: str) -> list[list[Lease]]:
    return await asyncio.gather(*receiving(node, *names))


async def test_what_was_received_together_can_be_acked_in_any_parts(node: Rig) -> None:
    await waiting(node, "orders", *(b"%d" % number for number in range(10)))
    leases = await node.receive("orders", limit=10)
    for part in (leases[3:4], leases[5:8], leases[:3], leases[8:], leases[4:5]):
        assert all(isinstance(one, Settled) for one in await settle_all(node, "orders", *part))
    assert (await node.counters("orders")).total_count == 0
    assert await node.store.check() == []


async def test_a_call_may_ack_what_is_there_and_what_is_not(node: Rig) -> None:
    await waiting(node, "orders", *(b"%d" % number for number in range(6)))
    gone, there = await node.receive("orders", limit=3), await node.receive("orders", limit=3)
    await settle_all(node, "orders", *gone)
    outcomes = await settle_all(node, "orders", *there[:1], *gone, *there[1:])
    assert [type(outcome) for outcome in outcomes] == [Settled, *[LeaseLost] * 3, *[Settled] * 2]
    assert (await node.counters("orders")).total_count == 0
    assert await node.store.check() == []


async def test_one_receipt_in_place_of_another_settles_once(node: Rig) -> None:
    await waiting(node, "orders", b"a", b"b")
    one, other = await node.receive("orders", limit=2)
    outcomes = await settle_all(node, "orders", one, one)
    assert [type(outcome) for outcome in outcomes] == [Settled, LeaseLost]
    assert isinstance((await settle_all(node, "orders", other))[0], Settled)
    assert await node.store.check() == []


async def test_an_ended_lease_is_not_acked_by_the_shorter_way(node: Rig) -> None:
    await waiting(node, "orders", b"a", b"b")
    leases = await node.receive("orders", limit=2, lease_ms=50)
    node.clock.advance(ms=50)
    assert [type(one) for one in await settle_all(node, "orders", *leases)] == [LeaseLost] * 2
    assert [lease.message.attempts for lease in await node.receive("orders", limit=2)] == [2, 2]
    assert await node.store.check() == []


async def test_what_came_back_is_received_before_what_came_later(node: Rig) -> None:
    await waiting(node, "orders", b"first", b"second")
    (first,) = await node.receive("orders")
    await node.release("orders", first, delay_ms=0)
    assert sorted(lease.message.body for lease in await node.receive("orders", limit=5)) == [b"first", b"second"]
    await node.send("orders", b"third")
    assert [lease.message.body for lease in await node.receive("orders", limit=5)] == [b"third"]
    assert await node.store.check() == []


async def test_a_message_that_is_large_is_received_in_its_turn(node: Rig) -> None:
    bodies = [b"a", b"b", b"x" * (MOST_BYTES + 1), b"c"]
    await waiting(node, "orders", *bodies)
    received: list[bytes] = []
    while leases := await node.receive("orders", limit=2):
        received += [lease.message.body for lease in leases]
        await settle_all(node, "orders", *leases)
    assert received == bodies
    assert await node.store.check() == []


async def test_another_node_acks_all_of_what_one_has_received(
    node: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await waiting(node, "orders", *(b"%d" % number for number in range(10)))
    leases = await node.receive("orders", limit=10)
    other = Rig(lambda: PostgresStore(shared_cluster().store_url(tmp_path)), node.clock)
    await other.open()
    try:
        await other.pass_time(ms=0)
        monkeypatch.setattr(Batch, "run", None)
        assert all(isinstance(one, Settled) for one in await settle_all(other, "orders", *leases))
    finally:
        monkeypatch.undo()
        await other.close()
    assert (await node.counters("orders")).total_count == 0


async def test_two_nodes_share_a_queue_and_neither_gets_what_the_other_has(node: Rig, tmp_path: Path) -> None:
    await waiting(node, "orders", *(b"%d" % number for number in range(200)))
    other = Rig(lambda: PostgresStore(shared_cluster().store_url(tmp_path)), node.clock)
    await other.open()
    seen: list[bytes] = []

    async def drain(rig: Rig) -> None:
        empty = 0
        while empty < 3:  # what another has in hand for a moment is passed over
            leases = await rig.receive("orders", limit=7)
            empty = 0 if leases else empty + 1
            seen.extend(lease.message.body for lease in leases)
            if leases:
                await settle_all(rig, "orders", *leases)

    try:
        await asyncio.gather(*(drain(rig) for rig in (node, other) for _ in range(3)))
    finally:
        await other.close()
    assert sorted(seen, key=int) == [b"%d" % number for number in range(200)]
    assert await node.store.check() == []


# -- cutting ------------------------------------------------------------------------------------------------------

Entry = tuple[int, str, int, int, bytes]
"""seq, id, entered_at, size, content."""


def bundled(rows: list[Entry]) -> list[bundles.Packed]:
    waiting = bundles.Waiting()
    waiting.add(*zip(*rows, strict=True))
    return list(waiting.packed(7))


entries = st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 3)), min_size=1, max_size=100)


@given(entries=entries, limits=st.lists(st.integers(1, MOST_MESSAGES), max_size=12))
def test_bundles_are_cut_without_losing_or_mixing_anything(entries: list[tuple[bytes, int]], limits: list[int]) -> None:
    """What is taken and what is left are the messages that were put in, each with its own facts."""
    at, rows = 1_000, []
    for number, (body, later) in enumerate(entries, start=1):
        at += later
        rows.append((number * 3, f"{number:032x}", at, len(body), body))
    supply = Supply(7)
    for bundle in bundled(rows):
        supply.add(bundle.message_count, bundle.seqs, bundle.ids, bundle.ats, bundle.sizes, bundle.contents)
    cuts = [cut for limit in limits if (cut := supply.take(limit, Room())) is not None]
    rests = supply.rests()
    parts: list[Cut | Packed] = [*cuts, *rests]
    found = [
        fact
        for part in parts
        for fact in zip(
            strips.read_longs(part.seqs), strips.read_ids(part.ids), strips.read_longs(part.ats),
            strips.read_shorts(part.sizes), strips.pieces(part.message_count, part.contents), strict=True,
        )
    ]  # fmt: skip
    assert found == [(*facts, encode(body)) for *facts, body in rows]
    assert [cut.message_count for cut in cuts[:-1]] == limits[: max(0, len(cuts) - 1)]
    for part in parts:
        assert part.byte_count == sum(strips.read_shorts(part.sizes))
    for rest in rests:
        assert (rest.first, rest.last) == (strips.first_long(rest.seqs), strips.last_long(rest.seqs))


def test_messages_that_came_in_another_order_than_they_were_numbered_are_in_bundles_of_their_own() -> None:
    rows = [(3, "a" * 32, 10, 1, b"x"), (1, "b" * 32, 11, 1, b"y"), (2, "c" * 32, 12, 1, b"z")]
    assert [strips.read_longs(bundle.seqs) for bundle in bundled(rows)] == [(3,), (1, 2)]
    assert [strips.read_longs(bundle.seqs) for bundle in bundled(rows[::-1])] == [(3,), (1, 2)]
