"""What only the engine for many nodes promises: nodes that share a store, and a database that comes and goes."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from couriermq.clock import FakeClock
from couriermq.core.duties import DELIVERY, DUTIES
from couriermq.core.errors import AlreadyExists, CourierError, LeaseLost, OffsetGone, QueueNotFound, Unavailable
from couriermq.core.events import EventKind
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.core.lifecycle.needs import Seqs
from couriermq.core.model import Draft, Kind, Lease, QueueSettings, Sent
from couriermq.storage.base import CannotOpen, Parcel, Span
from couriermq.storage.postgres import duties
from couriermq.storage.postgres.connection import Connection, Pool, Rows, Step
from couriermq.storage.postgres.engine import Committer
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import TENANT, WHO, Rig, forget
from tests.support.eventually import eventually
from tests.support.postgres import Cluster, shared_cluster


@contextlib.asynccontextmanager
async def nodes(url: str, count: int = 2) -> AsyncIterator[list[Rig]]:
    """Several nodes on one store, with one clock."""
    clock = FakeClock()
    rigs = [Rig(lambda: PostgresStore(url), clock) for _ in range(count)]
    for number, rig in enumerate(rigs):
        rig.clock._dice = itertools.count(1_000 * (number + 1))
        await rig.open()
    try:
        yield rigs
    finally:
        for rig in rigs:
            await rig.close()


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    yield shared_cluster().store_url(tmp_path)
    forget(tmp_path)


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A server that a test may stop."""
    cluster = Cluster()
    yield cluster
    cluster.remove()


def postgres(rig: Rig) -> PostgresStore:
    assert isinstance(rig.store, PostgresStore)
    return rig.store


async def all_heard(one: Rig, other: Rig) -> None:
    """The other node has heard all that this one had to tell: a notice that comes now is about what happens now."""
    node = postgres(one)._node
    await eventually(lambda: not node.owed_now().counts and (node._telling is None or node._telling.done()))
    queue = await one.create("told-last")
    await eventually(lambda: other.catalog.queue_of_id(queue.id))


# -- nodes share everything -----------------------------------------------------------------------------------


async def test_what_one_node_creates_another_serves(url: str) -> None:
    async with nodes(url) as (one, other):
        await one.create("orders")
        await eventually(lambda: other.catalog.queues(TENANT))
        sent = await other.send("orders", b"hello")
        lease = await one.receive_one("orders")
        assert lease.message.seq == sent.seq
        await other.ack("orders", lease)  # a receipt is good everywhere
        with pytest.raises(LeaseLost):
            await one.ack("orders", lease)
        assert await other.counters("orders") == await one.counters("orders")


async def test_a_node_never_acts_on_a_queue_that_another_has_deleted(url: str) -> None:
    async with nodes(url) as (one, other):
        queue = await one.create("orders")
        await eventually(lambda: other.catalog.queues(TENANT))
        known = other.queue("orders")
        await one.catalog.delete_queue(queue, principal=WHO)
        (outcome,) = await other.broker.send(known, [Draft(body=b"x")], principal=WHO)  # it may not have heard yet
        assert isinstance(outcome, QueueNotFound)
        with pytest.raises(QueueNotFound):
            await other.store.receive(known, limit=1, lease_ms=1, now=other.now, principal=WHO)


async def test_what_was_decided_before_a_deletion_was_heard_of_is_decided_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_seqs = Committer._seqs

    async with nodes(url) as (one, other):
        queue = await one.create("orders")
        await eventually(lambda: other.catalog.queues(TENANT))

        async def meanwhile(self: Committer, connection: Connection, need: Seqs) -> tuple[int, int]:
            monkeypatch.setattr(Committer, "_seqs", take_seqs)
            await one.catalog.delete_queue(queue, principal=WHO)
            await postgres(other).catch_up()
            return await take_seqs(self, connection, need)

        monkeypatch.setattr(Committer, "_seqs", meanwhile)
        (outcome,) = await other.broker.send(queue, [Draft(body=b"x")], principal=WHO)
        assert isinstance(outcome, CourierError)


async def test_settings_changed_at_one_node_hold_at_the_other_at_once(url: str) -> None:
    async with nodes(url) as (one, other):
        queue = await one.create("orders")
        await eventually(lambda: other.catalog.queues(TENANT))
        await one.catalog.change_queue(queue, settings=QueueSettings(delay_ms=5_000), principal=WHO)
        await other.send("orders")
        assert (await one.counters("orders")).delayed_count == 1


async def test_two_nodes_cannot_create_the_same_name(url: str) -> None:
    async with nodes(url) as (one, other):
        outcomes = await asyncio.gather(one.create("orders"), other.create("orders"), return_exceptions=True)
        assert sorted(type(outcome).__name__ for outcome in outcomes) == [AlreadyExists.__name__, "Queue"]


@pytest.mark.usefixtures("no_polls")
async def test_a_receiver_at_one_node_is_woken_by_a_send_at_another(url: str) -> None:
    async with nodes(url) as (one, other):
        await one.create("orders")
        await eventually(lambda: other.catalog.queues(TENANT))
        receiver = asyncio.create_task(other.receive("orders", wait_ms=20_000))
        await other.arrivals.waits.get()
        sent = await one.send("orders")
        async with asyncio.timeout(25):
            assert [lease.message.seq for lease in await receiver] == [sent.seq]


async def test_every_message_that_waits_is_found_by_its_id_whichever_node_took_it(url: str) -> None:
    async with nodes(url) as (one, other):
        await one.create("orders")
        await eventually(lambda: other.catalog.queues(TENANT))

        async def send(rig: Rig, each: int) -> list[str]:
            sent = []
            for _ in range(20):
                outcomes = await rig.send_all("orders", [Draft(body=b"x")] * each)
                sent += [outcome.id for outcome in outcomes if isinstance(outcome, Sent)]
            return sent

        sizes = (1, 3, 7, 5)
        parts = await asyncio.gather(*(send(rig, each) for rig in (one, other) for each in sizes))
        sent = [message_id for part in parts for message_id in part]
        assert len(set(sent)) == 2 * 20 * sum(sizes)
        for rig in (one, other):
            lost = [
                message_id
                for message_id in sent
                if [message.id for message in await rig.browse("orders", id=message_id)] != [message_id]
            ]
            assert lost == []
            assert (await rig.broker.read_message(rig.queue("orders"), sent[-1])).id == sent[-1]


# -- nobody gets in another's way ------------------------------------------------------------------------------


async def test_no_message_is_leased_twice_however_many_nodes_receive(url: str) -> None:
    async with nodes(url, 3) as rigs:
        await rigs[0].create("orders")
        await eventually(lambda: all(rig.catalog.queues(TENANT) for rig in rigs))
        await rigs[0].send_all("orders", [Draft(body=b"x")] * 300)

        async def drain(rig: Rig) -> list[Lease]:
            taken: list[Lease] = []
            while leases := await rig.receive("orders", limit=7):
                taken += leases
                await asyncio.gather(*(rig.ack("orders", lease) for lease in leases[:3]))
            return taken

        parts = await asyncio.gather(*(drain(rig) for rig in rigs))
        seqs = [lease.message.seq for part in parts for lease in part]
        assert len(seqs) == len(set(seqs)) == 300
        assert await rigs[0].store.check() == []


async def test_a_fifo_group_keeps_its_order_across_nodes(url: str) -> None:
    async with nodes(url, 3) as rigs:
        await rigs[0].create("line", kind=Kind.FIFO)
        await eventually(lambda: all(rig.catalog.queues(TENANT) for rig in rigs))
        for n in range(30):
            await rigs[n % 3].send("line", str(n).encode(), group=f"g{n % 2}")
        seen: dict[str | None, list[int]] = {}

        async def drain(rig: Rig) -> None:
            while (await rig.counters("line")).total_count:
                for lease in await rig.receive("line", limit=3):
                    seen.setdefault(lease.message.group, []).append(int(lease.message.body))
                    await rig.ack("line", lease)

        await asyncio.gather(*(drain(rig) for rig in rigs))
        assert seen == {"g0": list(range(0, 30, 2)), "g1": list(range(1, 30, 2))}
        assert await rigs[0].store.check() == []


async def test_a_duplicate_is_known_whichever_node_took_the_first(url: str) -> None:
    async with nodes(url) as (one, other):
        await one.create("line", kind=Kind.FIFO)
        await eventually(lambda: other.catalog.queues(TENANT))
        outcomes = await asyncio.gather(*(rig.send("line", id="same") for rig in (one, other) * 5))
        assert sorted(outcome.duplicate for outcome in outcomes) == [False] + [True] * 9


async def test_the_journal_has_no_gaps_and_no_reader_misses_what_commits_late(url: str) -> None:
    async with nodes(url, 3) as rigs:
        await rigs[0].create("orders")
        await eventually(lambda: all(rig.catalog.queues(TENANT) for rig in rigs))
        done = asyncio.Event()
        read: dict[int, list[int]] = {}

        async def follow() -> None:
            """Each lane from its first offset on, until all have been read that there are at the end."""
            behind = True
            while behind:
                behind = not done.is_set()  # before it is looked for lanes: one may come with the last commit
                for lane, span in (await rigs[0].store.spans()).items():
                    offsets = read.setdefault(lane, [])
                    start = first_of_lane(lane) + len(offsets)
                    offsets += [entry.offset for entry in await rigs[0].store.read_events(start=start, limit=50)]
                    behind = behind or first_of_lane(lane) + len(offsets) < span.next

        async def write(rig: Rig) -> None:
            for _ in range(30):
                await asyncio.gather(*(rig.send("orders") for _ in range(3)))

        follower = asyncio.create_task(follow())
        await asyncio.gather(*(write(rig) for rig in rigs))
        done.set()
        await follower
        for lane, offsets in read.items():
            assert offsets == list(range(first_of_lane(lane), first_of_lane(lane) + len(offsets)))
        assert len(read) >= 3  # a lane a node at least
        assert len(await rigs[1].events(EventKind.SENT)) == 270
        assert (await rigs[2].counters("orders")).ready_count == 270


async def test_one_node_leads_and_another_takes_over(url: str) -> None:
    async with nodes(url) as both:
        # PostgreSQL may let go of an earlier session's locks only after the first look.
        await eventually(lambda: sum(postgres(node).leads for node in both) == 1)
        one, other = sorted(both, key=lambda node: postgres(node).leads, reverse=True)
        await one.create("orders")
        await eventually(lambda: other.catalog.queues(TENANT))
        assert await other.store.advance(now=other.now) is None
        await one.send("orders")
        await one.receive_one("orders", lease_ms=1_000)
        await postgres(one)._duties.stop()
        await eventually(lambda: postgres(other).leads)
        # The lease was the other node's affair; the leader hears of it, and its end is applied.
        await eventually(lambda: postgres(other)._node.agenda.next_at() == one.now + 1_000)
        other.clock.advance(ms=1_000)
        await other.store.advance(now=other.now)
        assert len(await other.events(EventKind.LEASE_EXPIRED)) == 1


async def test_what_a_node_hears_late_of_the_past_is_done_before_it_says_what_comes_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url, count=1) as (node,):
        queue = await node.create("orders", retention_ms=60_000)
        await node.send("orders")
        store = postgres(node)
        await store.advance(now=node.now)
        node.clock.advance(ms=1_000)

        async def hear(now: int) -> None:
            store._node.agenda.note(queue.key, now - 500)

        monkeypatch.setattr(store, "_forget_stages", hear)
        due_at = await store.advance(now=node.now)
        assert due_at == node.now - 1_000 + 60_000


async def test_every_duty_is_held_by_one_node_and_spread_over_all(url: str) -> None:
    async with nodes(url, count=3) as rigs:
        stores = [postgres(rig) for rig in rigs]

        def held() -> list[int]:
            return [sum(store.holds(duty) for store in stores) for duty in DUTIES]

        await eventually(lambda: held() == [1] * len(DUTIES) and all(map(parts_of, stores)))
        assert all(len(parts_of(store)) < len(DELIVERY) for store in stores)
        await stores[0]._duties.stop()
        assert max(held()) == 1
        assert parts_of(stores[0]) == set()
        await eventually(lambda: held() == [1] * len(DUTIES))


async def test_a_node_relies_on_its_duties_only_while_it_hears_from_the_database(url: str) -> None:
    async with nodes(url) as (one, other):
        store = postgres(one)
        await eventually(lambda: parts_of(store) and parts_of(postgres(other)))
        frozen = store._duties._task
        assert frozen is not None
        frozen.cancel()  # its session stays open, but nobody uses it
        store._duties._heard_at -= duties.TRUST_SECONDS
        assert parts_of(store) == set()
        await eventually(lambda: parts_of(postgres(other)) == set(DELIVERY))


async def test_a_node_that_is_about_to_stop_leaves_its_duties_to_others_at_once(url: str) -> None:
    async with nodes(url) as (one, other):
        await eventually(lambda: parts_of(postgres(one)) and parts_of(postgres(other)))
        one.store.resign()
        assert not any(one.store.holds(duty) for duty in DUTIES)
        await eventually(lambda: all(other.store.holds(duty) for duty in DUTIES))
        await one.create("orders")  # it still finishes what is in hand


def parts_of(store: PostgresStore) -> set[str]:
    return {duty for duty in DELIVERY if store.holds(duty)}


# -- starting ---------------------------------------------------------------------------------------------------


async def test_nodes_that_start_together_migrate_once(url: str) -> None:
    rigs = [Rig(lambda: PostgresStore(url), FakeClock(seed=100 * n)) for n in range(4)]
    await asyncio.gather(*(rig.open() for rig in rigs))
    try:
        assert len(await rigs[0].events(EventKind.TENANT_ADDED)) == 1
        assert len({postgres(rig).sealer.message_id(7) for rig in rigs}) == 1
    finally:
        await asyncio.gather(*(rig.close() for rig in rigs))


async def test_data_of_a_newer_courier_is_refused(url: str, tmp_path: Path) -> None:
    async with nodes(url, 1):
        pass
    schema = shared_cluster()._schemas[tmp_path]
    shared_cluster().execute(f"UPDATE {schema}.schema_version SET version = version + 1")
    with pytest.raises(CannotOpen, match="newer Courier"):
        await Rig(lambda: PostgresStore(url)).open()
    shared_cluster().execute(f"UPDATE {schema}.schema_version SET version = version - 1")


async def test_a_database_that_is_not_there_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match="the database cannot be opened"):
        await Rig(lambda: PostgresStore(f"postgresql://courier@/postgres?host={tmp_path}")).open()


# -- a database that comes and goes -----------------------------------------------------------------------------


@pytest.mark.slow
async def test_work_goes_on_by_itself_after_the_server_was_restarted(own_cluster: Cluster, tmp_path: Path) -> None:
    async with nodes(own_cluster.store_url(tmp_path), 1) as (rig,):
        await rig.create("orders")
        sent = await rig.send("orders", b"before")
        own_cluster.stop()
        for _ in range(3):
            with pytest.raises(Unavailable):
                await rig.send("orders", b"meanwhile")
        assert postgres(rig).unavailable_reason
        own_cluster.start()
        after = await persistent(rig, b"after")
        assert postgres(rig).unavailable_reason is None
        leases = await rig.receive("orders", limit=10)
        assert [lease.message.seq for lease in leases] == [sent.seq, after]
        assert await rig.store.check() == []


@pytest.mark.slow
async def test_a_node_that_nobody_asks_knows_whether_it_could_serve(own_cluster: Cluster, tmp_path: Path) -> None:
    async with nodes(own_cluster.store_url(tmp_path), 1) as (rig,):
        assert postgres(rig).unavailable_reason is None
        own_cluster.stop()
        await eventually(lambda: postgres(rig).unavailable_reason)
        own_cluster.start()
        await eventually(lambda: postgres(rig).unavailable_reason is None)


async def persistent(rig: Rig, body: bytes) -> int:
    """Send as a client does that is told to come back later."""
    async with asyncio.timeout(60):
        while True:
            try:
                return (await rig.send("orders", body)).seq
            except Unavailable:
                await asyncio.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["terminated", "crashed"])
async def test_nothing_that_was_accepted_is_lost_and_nothing_settles_twice(
    own_cluster: Cluster, tmp_path: Path, how: str
) -> None:
    """Senders and consumers at two nodes, while backends are terminated or the whole server crashes."""
    async with nodes(own_cluster.store_url(tmp_path)) as rigs:
        await rigs[0].create("orders")
        await eventually(lambda: rigs[1].catalog.queues(TENANT))
        accepted: set[int] = set()
        acked: list[int] = []
        stop = asyncio.Event()

        async def send(rig: Rig) -> None:
            while not stop.is_set():
                with contextlib.suppress(Unavailable):
                    accepted.add((await rig.send("orders")).seq)
                await asyncio.sleep(0)

        async def consume(rig: Rig) -> None:
            while not stop.is_set():
                with contextlib.suppress(Unavailable, LeaseLost):
                    for lease in await rig.receive("orders", limit=5, lease_ms=60_000):
                        await rig.ack("orders", lease)
                        acked.append(lease.message.seq)
                await asyncio.sleep(0)

        work = [asyncio.create_task(job(rig)) for rig in rigs for job in (send, send, consume)]
        for _ in range(3):
            await asyncio.sleep(0.25)
            await asyncio.to_thread(disturb, own_cluster, how)
        await asyncio.sleep(0.25)
        stop.set()
        await asyncio.gather(*work)
        await persistent(rigs[0], b"the last")
        left = {message.seq for message in await rigs[0].browse("orders")}
        gone = {event.seq for event in await rigs[0].events(EventKind.ACKED)}
        assert accepted - left - gone == set()
        assert len(acked) == len(set(acked))
        assert set(acked) <= gone
        assert left & gone == set()
        assert await rigs[0].store.check() == []


def disturb(cluster: Cluster, how: str) -> None:
    if how == "terminated":
        cluster.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'courier %'"
        )
    else:
        cluster.restart("immediate")


async def test_what_another_node_trims_in_the_moment_of_reading_is_gone_and_not_the_end(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with nodes(url) as (reader, sealer):
        for number in range(3):
            await reader.create(f"q{number}")
        store = postgres(reader)
        ((lane, before),) = [(lane, span) for lane, span in (await store.spans()).items() if span.next > span.oldest]
        look = store._journal.span_of

        async def then_trimmed(offset: int) -> Span:
            monkeypatch.setattr(store._journal, "span_of", look)
            await sealer.store.trim_events(before=before.next)
            return before

        monkeypatch.setattr(store._journal, "span_of", then_trimmed)
        with pytest.raises(OffsetGone) as gone:
            await store.read_events(start=before.oldest, limit=10)
        assert gone.value.oldest == before.next
        assert lane_of(gone.value.oldest) == lane


async def test_time_is_applied_up_to_the_latest_instant_that_anybody_asks_for(node: Rig) -> None:
    queue = await node.create("orders", retention_ms=60_000)
    store = postgres(node)
    await store._watch.stop()
    await node.send("orders")
    earlier = node.now
    node.clock.advance(ms=60_000)
    for now in (earlier, node.now):
        await asyncio.gather(store._pass_time(queue.key, earlier), store._pass_time(queue.key, now))
    assert await store._due_of([queue], node.now) == set()
    assert [event.kind for event in await node.events(EventKind.DISCARDED)] == ["discarded"]


async def test_the_counters_of_many_queues_are_few_round_trips(node: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    queues = [await node.create(f"queue-{number}") for number in range(40)]
    await postgres(node)._watch.stop()  # it asks too
    asked, ask = [], Pool.ask

    async def counting(pool: Pool, *steps: Step) -> list[Rows]:
        asked.append(steps)
        return await ask(pool, *steps)

    monkeypatch.setattr(Pool, "ask", counting)
    found = await node.store.counters_of(queues, now=node.now)
    assert (len(found), len(asked)) == (40, 2)  # whether anything is due, and the figures


async def test_the_last_copies_that_two_nodes_deliver_at_once_take_the_original_with_them(url: str) -> None:
    async with nodes(url) as (one, two):
        await one.create("news", keep_delivered=False)
        for name in ("first", "second"):
            await one.create(name)
        await two.store.catch_up()
        for _ in range(20):
            parcels = [Parcel(one.queue("news"), Draft(body=b"x"))]
            parcels += [Parcel(one.queue(name), Draft(body=b"x"), copy_of=0) for name in ("first", "second")]
            await one.store.send(parcels, now=one.now, principal=WHO)
            first, second = await one.receive_one("first"), await two.receive_one("second")
            await asyncio.gather(one.ack("first", first), two.ack("second", second))
        assert (await one.counters("news")).total_count == 0
