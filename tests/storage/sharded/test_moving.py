"""Several databases as one store: where queues live, and how they move while they are used."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from couriermq.core.errors import AlreadyExists, CourierError, InUse, Invalid, LeaseLost, Unavailable
from couriermq.core.model import SECOND, Draft, Kind, Lease, ListenerSettings, Queue, Sent, State
from couriermq.core.sharding import Relocation, RelocationState, Shard, ShardState
from couriermq.core.shards import first_of, shard_of
from couriermq.storage.base import CannotOpen, Parcel, StoredRecord
from couriermq.storage.postgres.store import PostgresStore
from couriermq.storage.sharded.carrier import pack
from couriermq.storage.sharded.moving import Move, begin, family_of
from couriermq.storage.sharded.places import FENCE, PLACE
from couriermq.storage.staging import pack as pack_stage
from tests.support.engines import TENANT, WHO, Rig, TwoShards, forget
from tests.support.eventually import eventually
from tests.support.postgres import shared_cluster

LOAD = 400
T = TypeVar("T")


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[list[Rig]]:
    """Two nodes on the same two shards, which get queues in turn."""
    first = Rig(lambda: TwoShards(tmp_path, home_weight=1, second_weight=1))
    await first.open()
    second = Rig(lambda: TwoShards(tmp_path, home_weight=1, second_weight=1), first.clock)
    await second.open()
    yield [first, second]
    assert await first.store.check() == []
    for rig in (first, second):
        await rig.close()
    forget(tmp_path)


def sharded(rig: Rig) -> TwoShards:
    assert isinstance(rig.store, TwoShards)
    return rig.store


def place_of(rig: Rig, name: str) -> str:
    return sharded(rig).shards.shard_of(rig.queue(name)).name


def other_place(rig: Rig, name: str) -> str:
    return "home" if place_of(rig, name) == "second" else "second"


async def move(rig: Rig, name: str) -> Relocation:
    """Move a queue to the other shard, and wait until it is there."""
    shards = sharded(rig).shards
    await shards.move(rig.queue(name), other_place(rig, name))
    return await ended(rig, name)


async def ended(rig: Rig, name: str) -> Relocation:
    found = await eventually(
        lambda: sharded(rig).shards.relocation(rig.queue(name)),
        lambda relocation: relocation is not None and relocation.state.is_over,
        seconds=30,
    )
    assert found is not None
    return found


async def known_to(rig: Rig, *names: str) -> None:
    """The other node has heard of the queues."""
    await sharded(rig).routing.home.refresh()
    await sharded(rig).routing.members[1].engine.refresh()
    assert all(rig.queue(name) for name in names)


# -- where queues live --------------------------------------------------------------------------------------------


async def test_new_queues_are_placed_by_weight(nodes: list[Rig]) -> None:
    rig = nodes[0]
    await sharded(rig).shards.change("second", weight=3)
    for n in range(8):
        await rig.create(f"q{n}")
    assert sorted(place_of(rig, f"q{n}") for n in range(8)) == ["home"] * 2 + ["second"] * 6


async def test_a_listeners_queues_live_where_its_queue_does(nodes: list[Rig]) -> None:
    rig = nodes[0]
    for name in ("one", "two", "three"):
        queue = await rig.create(name)
        await rig.catalog.create_listener(queue, "hook", "http://127.0.0.1:9", principal=WHO)
        places = sharded(rig).routing.places
        assert len({places.of(one.key) for one in family_of(sharded(rig).routing, queue)}) == 1
    assert {place_of(rig, name) for name in ("one", "two", "three")} == {"home", "second"}


async def test_every_number_says_on_which_shard_it_was_given(nodes: list[Rig]) -> None:
    rig = nodes[0]
    await rig.create("near")
    await rig.create("far")
    seqs = {place_of(rig, name): (await rig.send(name)).seq for name in ("near", "far")}
    assert {name: shard_of(seq) for name, seq in seqs.items()} == {"home": 0, "second": 1}
    spans = [await journal.spans() for journal in rig.store.journals()]
    assert [span.oldest for lanes in spans for span in lanes.values()] == [0, first_of(1)]
    entries = await rig.store.read_events(start=first_of(1), limit=10)
    assert [(entry.offset, entry.event.kind) for entry in entries] == [(first_of(1), "sent")]


async def test_what_one_node_leases_another_settles_wherever_it_lives(nodes: list[Rig]) -> None:
    one, other = nodes
    for name in ("near", "far"):
        await one.create(name)
        await one.send(name)
    await known_to(other, "near", "far")
    for name in ("near", "far"):
        lease = await one.receive_one(name)
        await other.ack(name, lease)
        with pytest.raises(LeaseLost):
            await one.ack(name, lease)


async def test_a_queue_deleted_at_one_node_takes_nothing_at_the_other(nodes: list[Rig]) -> None:
    one, other = nodes
    queues = [await one.create(name) for name in ("near", "far")]
    await known_to(other, "near", "far")
    for queue in queues:
        await one.catalog.delete_queue(queue, principal=WHO)
        outcomes = await other.broker.send(queue, [Draft(body=b"x")], principal=WHO)
        assert isinstance(outcomes[0], CourierError)


async def test_a_database_is_a_shard_of_one_store_only(nodes: list[Rig], tmp_path: Path) -> None:
    shards = sharded(nodes[0]).shards
    used = shared_cluster().store_url(tmp_path / "second")
    with pytest.raises(Invalid, match="it is shard 1"):
        await shards.add("third", used, weight=1)
    with pytest.raises(Invalid, match="holds data of its own"):
        await shards.add("third", shared_cluster().store_url(tmp_path), weight=1)
    with pytest.raises(AlreadyExists):
        await shards.add("second", shared_cluster().store_url(tmp_path / "third"), weight=1)
    with pytest.raises(CannotOpen, match="shard 1 of another store"):
        await PostgresStore(used).open(directory=nodes[0].catalog, signals=nodes[0])


async def test_a_shard_that_is_added_is_used_by_every_node(nodes: list[Rig], tmp_path: Path) -> None:
    one, other = nodes
    third = await sharded(one).shards.add("third", shared_cluster().store_url(tmp_path / "third"), weight=100)
    assert third == Shard(number=2, name="third", url=third.url, weight=100)
    await one.create("orders")
    assert place_of(one, "orders") == "third"
    await sharded(other).routing.home.refresh()
    await other.send("orders", b"from the other node")
    assert [message.body for message in await one.browse("orders")] == [b"from the other node"]
    shared_cluster().empty(tmp_path / "third")


# -- moving -------------------------------------------------------------------------------------------------------


async def fill(rig: Rig, name: str, kind: Kind) -> tuple[Queue, Lease]:
    """A queue in which there is one of everything; and a lease of it."""
    grave = await rig.create(f"{name}-dead")
    queue = await rig.create(name, kind=kind, dead_letter_queue=grave.name, max_attempts=3, retention_ms=3_600 * SECOND)
    groups: tuple[str | None, ...] = ("a", "b", "b", "c") if kind is Kind.FIFO else (None,) * 4
    for n, group in enumerate(groups):
        await rig.send(name, b"x" * n, id=f"m{n}", group=group, attributes={"n": n})
    await rig.release(name, await rig.receive_one(name), delay_ms=0)
    lease = await rig.receive_one(name, lease_ms=60 * SECOND)
    await rig.send(name, b"later", delay_ms=30 * SECOND, retention_ms=1_800 * SECOND, group="d")
    await rig.send(name, b"soon", delay_ms=SECOND, group="e")
    return queue, lease


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("start", ["home", "second"])
async def test_a_moved_queue_is_the_same_queue(nodes: list[Rig], kind: Kind, start: str) -> None:
    rig, other = nodes
    await sharded(rig).shards.change("home" if start == "second" else "second", weight=0)
    await fill(rig, "orders", kind)
    await sharded(rig).shards.change("home", weight=1)
    before = await rig.browse("orders"), await rig.counters("orders")
    assert place_of(rig, "orders") == start
    relocation = await move(rig, "orders")
    assert (relocation.state, relocation.reason, place_of(rig, "orders") != start) == ("done", None, True)
    assert (await rig.browse("orders"), await rig.counters("orders")) == before
    await known_to(other, "orders")
    assert (await other.browse("orders"), await other.counters("orders")) == before


@pytest.mark.parametrize("kind", list(Kind))
async def test_leases_delays_and_duplicates_hold_across_a_move(nodes: list[Rig], kind: Kind) -> None:
    rig, other = nodes
    _, lease = await fill(rig, "orders", kind)
    await move(rig, "orders")
    await known_to(other, "orders")
    await other.extend("orders", lease, lease_ms=90 * SECOND)
    await rig.ack("orders", lease)
    if kind is Kind.FIFO:
        assert (await other.broker.send_one(other.queue("orders"), Draft(body=b"", id="m3"), principal=WHO)).duplicate
    await rig.pass_time(ms=2 * SECOND)
    assert (await rig.counters("orders")).delayed_count == 1
    await rig.pass_time(ms=40 * SECOND)
    bodies = {one.message.body for one in await rig.receive("orders", limit=10)}
    assert {b"later", b"soon"} <= bodies


async def load(
    sender: Rig, receiver: Rig, name: str, moves: Callable[[], Awaitable[object]], *, groups: int
) -> list[list[str]]:
    """Send and receive all the time while something else happens; the ids received, by group, in their order."""
    received: list[list[str]] = [[] for _ in range(groups)]
    sent = asyncio.Event()

    async def send(group: int) -> None:
        for n in range(LOAD // groups):
            await trying(partial(sender.send, name, b"x" * 100, id=f"{group}-{n}", group=f"g{group}"))

    async def receive() -> None:
        while not sent.is_set() or (await trying(lambda: receiver.counters(name))).total_count:
            for lease in await trying(lambda: receiver.receive(name, limit=7, lease_ms=600 * SECOND)):
                group, _, _ = lease.message.id.partition("-")
                received[int(group)].append(lease.message.id)
                await trying(partial(receiver.ack, name, lease))
            await asyncio.sleep(0.002)

    receivers = [asyncio.create_task(receive()) for _ in range(3)]
    senders = [asyncio.create_task(send(group)) for group in range(groups)]
    await moves()
    await asyncio.gather(*senders)
    sent.set()
    await asyncio.gather(*receivers)
    return received


async def trying(call: Callable[[], Awaitable[T]]) -> T:
    """As a client does: what is unavailable is tried again."""
    for _ in range(600):
        try:
            return await call()
        except Unavailable:
            await asyncio.sleep(0.05)
    raise AssertionError("it stayed unavailable")


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
async def test_a_queue_moves_there_and_back_under_load(nodes: list[Rig], kind: Kind) -> None:
    rig, other = nodes
    await rig.create("orders", kind=kind)
    await rig.send_all("orders", [Draft(body=b"x", id=f"0-early{n}", group="g0") for n in range(100)])
    await known_to(other, "orders")
    frozen: list[int | None] = []

    async def moves() -> None:
        for _ in range(4):
            relocation = await move(rig, "orders")
            assert relocation.state is RelocationState.DONE, relocation.reason
            frozen.append(relocation.frozen_ms)

    received = await load(other, rig, "orders", moves, groups=4)
    expected = [[f"{group}-{n}" for n in range(LOAD // 4)] for group in range(4)]
    expected[0] = [f"0-early{n}" for n in range(100)] + expected[0]
    assert received == expected if kind is Kind.FIFO else list(map(sorted, received)) == list(map(sorted, expected))
    counters = await rig.counters("orders")
    assert (counters.total_count, counters.sent_count, counters.acked_count) == (0, LOAD + 100, LOAD + 100)
    assert all(ms is not None and ms < 5_000 for ms in frozen)


# -- exchanges ----------------------------------------------------------------------------------------------------


async def bound(rig: Rig, *kinds: Kind) -> list[str]:
    """An exchange and queues in turn on both shards."""
    exchange = await rig.catalog.create_exchange(TENANT, "news", principal=WHO)
    names = [f"q{n}" for n in range(len(kinds))]
    for name, kind in zip(names, kinds, strict=True):
        await rig.catalog.bind(exchange, await rig.create(name, kind=kind), principal=WHO)
    assert {place_of(rig, name) for name in names} == {"home", "second"}
    return names


async def publish(rig: Rig, *ids: str) -> None:
    exchange = rig.catalog.exchange(TENANT, "news")
    drafts = [Draft(body=b"x", id=one, group="g") for one in ids]
    outcomes = await rig.broker.publish(exchange, drafts, principal=WHO)
    assert not [outcome for outcome in outcomes if isinstance(outcome, CourierError)]


async def ids_in(rig: Rig, name: str) -> list[str]:
    return [message.id for message in await rig.browse(name)]


async def test_an_exchange_reaches_queues_on_both_shards(nodes: list[Rig]) -> None:
    rig = nodes[0]
    names = await bound(rig, Kind.STANDARD, Kind.STANDARD, Kind.FIFO, Kind.FIFO)
    for n in range(20):
        await publish(rig, f"m{n}", f"n{n}")
    expected = [f"{letter}{n}" for n in range(20) for letter in "mn"]
    for name in names:
        assert await ids_in(rig, name) == expected


async def test_a_publication_waits_for_a_shard_that_is_away(nodes: list[Rig]) -> None:
    rig = nodes[0]
    names = await bound(rig, Kind.STANDARD, Kind.STANDARD, Kind.STANDARD)
    target = next(name for name in names if place_of(rig, name) == "second")
    engine = sharded(rig).routing.members[1].engine
    send = engine.send

    refused: list[object] = []

    async def away(*args: object, **kwargs: object) -> None:
        refused.append(args)
        raise Unavailable("the shard is away")

    engine.send = away  # type: ignore[method-assign,assignment]
    publication = asyncio.create_task(publish(rig, "m"))
    await eventually(lambda: refused)
    engine.send = send  # type: ignore[method-assign]
    await publication
    await eventually(partial(ids_in, rig, target), lambda ids: ids == ["m"])  # at the next attempt


async def test_a_parcel_that_is_carried_twice_arrives_once(nodes: list[Rig]) -> None:
    """The carrier may die after it has delivered and before it has said so."""
    rig = nodes[0]
    names = await bound(rig, Kind.STANDARD, Kind.STANDARD, Kind.STANDARD)
    home = sharded(rig).routing.home
    settle, failures = home.settle, iter([Unavailable("the answer was lost")])

    async def forgetful(*args: object, **kwargs: object) -> object:
        for failure in failures:
            raise failure
        return await settle(*args, **kwargs)  # type: ignore[arg-type]

    home.settle = forgetful  # type: ignore[method-assign,assignment]
    await publish(rig, "m")
    rig.clock.advance(ms=20 * SECOND)
    await publish(rig, "n")
    for name in names:
        await eventually(partial(ids_in, rig, name), lambda ids: ids == ["m", "n"])


async def test_what_was_staged_for_a_queue_that_has_moved_since_must_be_staged_again(nodes: list[Rig]) -> None:
    """As it was staged while the store had one shard: each message says the queue that it goes to."""
    rig = nodes[0]
    names = await bound(rig, Kind.STANDARD, Kind.STANDARD)
    exchange = rig.catalog.exchange(TENANT, "news")
    parcels, events, _ = rig.broker.address(exchange, [Draft(body=b"x")], principal=WHO)
    chunk = pack_stage(parcels, events, count=1)
    await sharded(rig).routing.home.stage(exchange.id, stage="s", part=0, chunks=[chunk], now=rig.now)
    with pytest.raises(Invalid, match="stage them again"):
        await rig.stages.publish(exchange, "series", 1, ["s"], principal=WHO)
    for name in names:
        assert await ids_in(rig, name) == []


async def test_a_parcel_keeps_its_name_on_a_second_leg(nodes: list[Rig]) -> None:
    """Its queue may have moved on when it is carried: whatever leg is repeated, it arrives once."""
    rig = nodes[0]
    names = await bound(rig, Kind.STANDARD, Kind.STANDARD)
    (away,) = (name for name in names if place_of(rig, name) == "second")
    routing = sharded(rig).routing
    parcel = Parcel(rig.queue(away), Draft(body=b"x", id="m"), once="0:7:0")
    for _ in range(2):
        (sent,) = await routing.home.send([pack([parcel], 1, principal=WHO)], now=rig.now, principal=WHO)
        assert isinstance(sent, Sent)
        await routing.carrier.delivered(0, 1, sent.seq, now=rig.now)
    assert await ids_in(rig, away) == ["m"]


@pytest.mark.slow
async def test_a_bound_queue_moves_while_the_exchange_is_used(nodes: list[Rig]) -> None:
    rig, other = nodes
    names = await bound(rig, Kind.STANDARD, Kind.STANDARD, Kind.FIFO)
    await known_to(other, *names)
    published: list[str] = []

    async def publishing() -> None:
        for n in range(60):
            published.append(f"m{n}")
            await trying(partial(publish, other, f"m{n}"))

    busy = asyncio.create_task(publishing())
    for name in names:
        assert (await move(rig, name)).state is RelocationState.DONE
    await busy
    for name in names:  # what a carrier met on the way of a queue comes at its next attempt
        await eventually(partial(ids_in, rig, name), lambda ids: len(ids) == len(published))
    assert await ids_in(rig, names[2]) == published
    for name in names:
        assert sorted(await ids_in(rig, name)) == sorted(published)


async def test_a_trim_meanwhile_takes_nothing_that_the_move_needs(nodes: list[Rig]) -> None:
    rig, other = nodes
    await fill(rig, "orders", Kind.STANDARD)
    await known_to(other, "orders")
    routing, queue = sharded(rig).routing, rig.queue("orders")

    async def reached(point: str) -> None:
        if point == "copied":
            await other.send("orders", b"meanwhile")
            for journal in other.store.journals():
                for span in (await journal.spans()).values():
                    await journal.trim_events(before=span.next)
            await other.send("orders", b"and later")

    to = routing.places.shard_named(other_place(rig, "orders")).number
    relocation = await begin(routing, rig.clock, queue, to)
    await Move(routing, rig.clock, relocation, family_of(routing, queue), reached=reached).run()
    assert routing.places.of(queue.key) == to
    assert {b"meanwhile", b"and later"} <= {message.body for message in await rig.browse("orders")}


# -- the mover dies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("point", ["copied", "fenced", "whole", "flipped"])
async def test_a_mover_that_dies_leaves_the_queue_whole_in_one_place(nodes: list[Rig], point: str, kind: Kind) -> None:
    rig, other = nodes
    _, lease = await fill(rig, "orders", kind)
    before = await rig.browse("orders"), await rig.counters("orders")
    start, goal = place_of(rig, "orders"), other_place(rig, "orders")
    dead = await stopped_at(rig, "orders", point)
    await known_to(other, "orders")
    shards = sharded(other).shards
    for _ in range(12):
        await shards.tick()
    over = await ended(other, "orders")
    assert over.state is (RelocationState.DONE if point == "flipped" else RelocationState.FAILED)
    assert place_of(other, "orders") == (goal if point == "flipped" else start)
    assert (await other.browse("orders"), await other.counters("orders")) == before
    await other.send("orders", b"more", id="more", group="z")
    dead.cancel()  # a node that was only slow wakes up and finds that others have gone on without it
    with contextlib.suppress(BaseException):
        await dead
    await known_to(rig, "orders")
    await rig.ack("orders", lease)
    assert (await move(rig, "orders")).state is RelocationState.DONE
    assert (await rig.counters("orders")).total_count == before[1].total_count
    assert "more" in await ids_in(rig, "orders")


async def stopped_at(rig: Rig, name: str, point: str) -> "asyncio.Task[None]":
    """A move that has come to a point and does nothing any more."""
    there, never = asyncio.Event(), asyncio.Event()

    async def reached(here: str) -> None:
        if here == point:
            there.set()
            await never.wait()

    routing, queue = sharded(rig).routing, rig.queue(name)
    to = sharded(rig).routing.places.shard_named(other_place(rig, name)).number
    relocation = await begin(routing, rig.clock, queue, to)
    run = Move(routing, rig.clock, relocation, family_of(routing, queue), reached=reached).run()
    task = asyncio.create_task(run)
    await asyncio.wait([task, asyncio.create_task(there.wait())], return_when=asyncio.FIRST_COMPLETED)
    assert there.is_set(), task.exception()
    return task


@pytest.mark.parametrize("changed", [True, False])
async def test_a_mover_that_cannot_know_whether_the_map_has_changed_keeps_the_queue_fenced(
    nodes: list[Rig], monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    """Nodes that have not heard of a change would go on at the source, which is then erased."""
    rig, other = nodes
    await fill(rig, "orders", Kind.STANDARD)
    before = await rig.browse("orders"), await rig.counters("orders")
    start, goal = place_of(rig, "orders"), other_place(rig, "orders")
    routing, queue = sharded(rig).routing, rig.queue("orders")
    relocation = await begin(routing, rig.clock, queue, routing.places.shard_named(goal).number)
    assert isinstance(routing.home, PostgresStore)
    commits, change = routing.home._records._commit, routing.home.change_records
    commit = commits.submit

    async def lost(order: Any) -> None:
        if changed:
            await commit(order)
        raise Unavailable("the answer was lost")

    async def forgetful(*, put: Sequence[StoredRecord], **given: Any) -> None:
        with monkeypatch.context() as deeper:
            if any(record.kind == PLACE for record in put):
                deeper.setattr(commits, "submit", lost)
            await change(put=put, **given)

    with monkeypatch.context() as patch:
        patch.setattr(routing.home, "change_records", forgetful)
        with pytest.raises(Unavailable):
            await Move(routing, rig.clock, relocation, family_of(routing, queue)).run()
    source = await routing.engine(relocation.source)
    assert [record.kind for record in await source.load_records() if record.kind == FENCE] == [FENCE]
    for _ in range(12):
        await sharded(rig).shards.tick()
    assert (await ended(rig, "orders")).state is (RelocationState.DONE if changed else RelocationState.FAILED)
    assert place_of(rig, "orders") == (goal if changed else start)
    assert [record for record in await source.load_records() if record.kind == FENCE] == []
    await known_to(other, "orders")
    assert (await other.browse("orders"), await other.counters("orders")) == before
    await other.send("orders")


async def test_callers_of_a_queue_that_is_frozen_wait_and_then_hear_so(
    nodes: list[Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, other = nodes
    monkeypatch.setattr("couriermq.storage.sharded.routing.PATIENCE_SECONDS", 0.3)
    await rig.create("orders")
    await known_to(other, "orders")
    task = await stopped_at(rig, "orders", "fenced")
    for node in nodes:
        with pytest.raises(Unavailable, match="being moved"):
            await node.send("orders")
        with pytest.raises(Unavailable, match="being moved"):
            await node.receive("orders")
    with pytest.raises(InUse):
        await sharded(other).shards.move(other.queue("orders"), other_place(other, "orders"))
    with pytest.raises(Unavailable, match="being moved"):
        await other.catalog.delete_queue(other.queue("orders"), principal=WHO)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await rig.send("orders")
    await other.send("orders")


async def test_the_queues_of_listeners_move_along(nodes: list[Rig]) -> None:
    rig, other = nodes
    queue = await rig.create("orders", keep_delivered=False)
    settings = ListenerSettings(ordered=True)
    listener = await rig.catalog.create_listener(queue, "hook", "http://127.0.0.1:9", settings=settings, principal=WHO)
    await rig.send("orders", b"x")
    await move(rig, "orders")
    await known_to(other, "orders")
    outbox = other.catalog.outbox(listener)
    (lease,) = await other.broker.receive(outbox, principal=WHO)
    await other.broker.ack(outbox, lease.receipt, principal=WHO)
    assert (await other.counters("orders")).total_count == 0


async def test_a_drained_shard_is_emptied_and_gets_nothing_new(nodes: list[Rig]) -> None:
    rig = nodes[0]
    for n in range(4):
        await rig.create(f"q{n}")
        await rig.send(f"q{n}", f"{n}".encode())
    shards = sharded(rig).shards
    await shards.change("second", state=ShardState.DRAINING)
    await rig.create("new")
    for _ in range(4):
        await shards.tick()
        for n in range(4):
            if shards.relocation(rig.queue(f"q{n}")):
                await ended(rig, f"q{n}")
    assert {figures.shard.name: figures.queue_count for figures in shards.figures()} == {"home": 5, "second": 0}
    for n in range(4):
        (message,) = await rig.browse(f"q{n}")
        assert (message.body, message.state) == (f"{n}".encode(), State.READY)


async def test_queues_whose_messages_came_in_one_commit_move_one_after_the_other(nodes: list[Rig]) -> None:
    rig = nodes[0]
    for name in ("first", "second"):
        await rig.create(name)
        if place_of(rig, name) != "home":
            await move(rig, name)
    parcels = [Parcel(rig.queue(name), Draft(body=name.encode())) for name in ("first", "second")]
    home = await sharded(rig).routing.engine(0)
    await home.send(parcels, now=rig.now, principal=WHO)
    await move(rig, "first")
    goal = await sharded(rig).routing.engine(1)
    await rig.send("first", b"more")
    for span in (await goal.spans()).values():
        await goal.trim_events(before=span.next)
    await move(rig, "second")
    for name in ("first", "second"):
        assert (await nodes[1].receive_one(name)).message.body == name.encode()
