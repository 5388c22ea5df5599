"""How the engine for many nodes keeps its data: bundles of waiting messages, tables that do not grow, short looks."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from couriermq.core.errors import LeaseLost
from couriermq.core.events import EventKind
from couriermq.core.model import Ack, Draft, Lease, Settled, State
from couriermq.storage.postgres import held, passing
from couriermq.storage.postgres.bundles import MOST_BYTES, MOST_MESSAGES
from couriermq.storage.postgres.marks import FULL_SECONDS, MARGIN_MS, Marks
from couriermq.storage.postgres.pace import MOST_REST_SECONDS, REST
from couriermq.storage.postgres.rows import Row
from couriermq.storage.postgres.store import PostgresStore
from couriermq.storage.postgres.transaction import Transaction
from tests.support.engines import Rig
from tests.support.postgres import shared_cluster

TABLES = ("message", "bundle", "held", "tally")


def schema(tmp_path: Path) -> str:
    return shared_cluster()._schemas[tmp_path]


def count(tmp_path: Path, table: str) -> int:
    ((found,),) = shared_cluster().execute(f"SELECT count(*) FROM {schema(tmp_path)}.{table}")
    assert isinstance(found, int)
    return found


# -- bundles ------------------------------------------------------------------------------------------------------


async def test_messages_that_just_wait_share_a_row(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    await node.send_all("orders", [Draft(body=b"x")] * (2 * MOST_MESSAGES))
    assert (count(tmp_path, "bundle"), count(tmp_path, "message")) == (2, 0)


async def test_what_needs_an_index_has_a_row_of_its_own(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    drafts = [Draft(body=b"x", id="mine"), Draft(body=b"x", delay_ms=1), Draft(body=b"x", retention_ms=1_000)]
    await node.send_all("orders", drafts)
    assert (count(tmp_path, "bundle"), count(tmp_path, "message")) == (0, 3)


async def test_what_a_receiver_leaves_in_a_bundle_waits_on(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    sent = await node.send_all("orders", [Draft(body=str(n).encode()) for n in range(5)])
    await node.receive("orders", limit=2)
    assert (count(tmp_path, "bundle"), count(tmp_path, "held")) == (1, 1)
    left = await node.receive("orders", limit=10)
    assert [lease.message.seq for lease in left] == [outcome.seq for outcome in sent[2:]]  # type: ignore[union-attr]
    assert count(tmp_path, "bundle") == 0
    assert await node.store.check() == []


async def test_a_message_can_be_taken_from_the_middle_of_a_bundle(node: Rig) -> None:
    await node.create("orders")
    await node.create("bills")
    sent = [outcome.seq for outcome in await node.send_all("orders", [Draft(body=b"x")] * 5)]  # type: ignore[union-attr]
    assert await node.remove("orders", [sent[2]]) == [sent[2]]
    assert await node.move("orders", "bills", [sent[0]]) == 1
    assert [message.seq for message in await node.browse("orders")] == [sent[1], sent[3], sent[4]]
    assert [message.seq for message in await node.browse("bills")] == [sent[0]]
    assert await node.store.check() == []


async def test_receivers_and_senders_of_several_queues_share_a_commit(node: Rig) -> None:
    await node.create("orders")
    await node.create("bills")
    await node.send("bills")
    bill, order, _ = await asyncio.gather(node.receive("bills"), node.receive("orders"), node.send("orders"))
    assert (len(bill), len(order)) == (1, 1)
    assert await node.store.check() == []


async def test_a_damaged_bundle_is_found(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    await node.send_all("orders", [Draft(body=b"x")] * 3)
    shared_cluster().execute(f"UPDATE {schema(tmp_path)}.bundle SET last = last + 1")
    assert [finding for finding in await node.store.check() if "bundle" in finding]


async def test_everybody_who_comes_together_shares_a_commit(node: Rig) -> None:
    await node.create("orders")
    before = node.store.metrics.commits  # type: ignore[attr-defined]
    await asyncio.gather(*(node.send("orders") for _ in range(50)))
    assert node.store.metrics.commits - before == 1  # type: ignore[attr-defined]
    parts = await asyncio.gather(*(node.receive("orders") for _ in range(50)))
    assert node.store.metrics.commits - before == 2  # type: ignore[attr-defined]
    assert len({lease.message.seq for part in parts for lease in part}) == 50


# -- leased together ----------------------------------------------------------------------------------------------


async def leased(node: Rig, many: int) -> list[Lease]:
    """So many messages, received together."""
    await node.create("orders")
    await node.send_all("orders", [Draft(body=str(number).encode()) for number in range(many)])
    return await node.receive("orders", limit=many, lease_ms=60_000)


async def test_what_is_received_together_shares_a_row_until_it_is_acked(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 10)
    assert (count(tmp_path, "held"), count(tmp_path, "message")) == (1, 0)
    assert all(isinstance(one, Settled) for one in await node.settle("orders", *(Ack(one.receipt) for one in leases)))
    assert (count(tmp_path, "held"), count(tmp_path, "message")) == (0, 0)
    assert (await node.counters("orders")).total_count == 0
    assert await node.store.check() == []


async def test_what_is_left_when_one_is_acked_stays_together(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 3)
    await node.ack("orders", leases[1])
    assert (count(tmp_path, "held"), count(tmp_path, "message")) == (1, 0)
    with pytest.raises(LeaseLost):
        await node.ack("orders", leases[1])
    await node.ack("orders", leases[2])
    await node.ack("orders", leases[0])
    assert count(tmp_path, "held") == 0
    assert await node.store.check() == []


async def test_what_is_released_or_extended_gets_a_row_of_its_own(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 4)
    await node.release("orders", leases[0], delay_ms=0)
    await node.extend("orders", leases[1], lease_ms=120_000)
    assert (count(tmp_path, "held"), count(tmp_path, "message")) == (1, 2)
    with pytest.raises(LeaseLost):
        await node.ack("orders", leases[0])
    again = await node.receive_one("orders")
    assert (again.message.body, again.message.attempts) == (b"0", 2)
    for lease in (again, *leases[1:]):
        await node.ack("orders", lease)
    assert (await node.counters("orders")).total_count == 0
    assert await node.store.check() == []


async def test_a_lease_of_many_ends_for_all_of_them(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 5)
    await node.ack("orders", leases[4])
    await node.pass_time(ms=60_000)
    assert (count(tmp_path, "held"), count(tmp_path, "message")) == (0, 4)
    with pytest.raises(LeaseLost):
        await node.ack("orders", leases[0])
    again = await node.receive("orders", limit=10)
    assert [(lease.message.body, lease.message.attempts) for lease in again] == [(b"%d" % n, 2) for n in range(4)]
    assert len(await node.events(EventKind.LEASE_EXPIRED)) == 4
    assert await node.store.check() == []


async def test_what_was_leased_with_others_and_came_back_is_found_at_once_by_its_next_receipt(
    node: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await leased(node, 3)
    await node.release("orders", first[0])
    await node.pass_time(ms=60_000)
    again = await node.receive("orders", limit=3)
    numbers = [node.engine.sealer.read_receipt(lease.receipt)[2] for lease in again]  # type: ignore[attr-defined]
    assert max(numbers) < held.FIRST_NO
    monkeypatch.setattr(Transaction, "load_named", None)  # a second question would be one too many
    for lease in again:
        await node.ack("orders", lease)
    monkeypatch.undo()
    for lease in first:
        with pytest.raises(LeaseLost):
            await node.ack("orders", lease)
    assert await node.store.check() == []


async def test_what_is_leased_together_can_be_looked_at_and_taken_out(node: Rig) -> None:
    leases = await leased(node, 5)
    seqs = [lease.message.seq for lease in leases]
    found = await node.browse("orders", limit=2)
    assert [(message.seq, message.state, message.body) for message in found] == [
        (lease.message.seq, State.LEASED, lease.message.body) for lease in leases
    ]
    (one,) = await node.browse("orders", id=leases[3].message.id)
    assert (one.seq, one.due_at) == (seqs[3], leases[3].expires_at)
    assert await node.remove("orders", [seqs[1]]) == [seqs[1]]
    await node.create("bills")
    assert await node.move("orders", "bills", [seqs[0]]) == 0
    assert [message.seq for message in await node.browse("orders")] == [seqs[0], *seqs[2:]]
    assert await node.purge("orders") == 4
    assert await node.store.check() == []


async def test_two_nodes_settle_what_one_has_leased_together(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 20)
    other = Rig(lambda: PostgresStore(shared_cluster().store_url(tmp_path)), node.clock)
    await other.open()
    try:
        settled = await asyncio.gather(
            *((node, other)[number % 2].ack("orders", lease) for number, lease in enumerate(leases)),
        )
        assert sorted(one.seq for one in settled) == sorted(lease.message.seq for lease in leases)
    finally:
        await other.close()
    assert (await node.counters("orders")).total_count == 0
    assert await node.store.check() == []


async def test_a_lease_number_that_is_taken_is_not_used_twice(node: Rig) -> None:
    leases = await leased(node, 2)
    _, _, taken = node.engine.sealer.read_receipt(leases[0].receipt)  # type: ignore[attr-defined]
    await node.send_all("orders", [Draft(body=b"x")] * 2)
    free = taken - 1  # less the count
    node.store._circle.lease_nos = iter([free, free, free + MOST_MESSAGES])  # type: ignore[attr-defined]
    more = await node.receive("orders", limit=2)
    for lease in (*leases, *more):
        await node.ack("orders", lease)
    assert await node.store.check() == []


async def test_damage_to_what_is_leased_together_is_found(node: Rig, tmp_path: Path) -> None:
    await leased(node, 3)
    shared_cluster().execute(f"UPDATE {schema(tmp_path)}.held SET last = last + 1")
    assert [finding for finding in await node.store.check() if "leased under" in finding]


@given(sizes=st.lists(st.integers(0, 2 * MOST_BYTES), min_size=1, max_size=100))
def test_parts_are_neither_too_long_nor_too_heavy(sizes: list[int]) -> None:
    rows = [Row(seq, 1, "", State.LEASED, 0, 1, 1, 0, None, size, None, None, None) for seq, size in enumerate(sizes)]
    parts = list(held.parts(rows))
    assert [row for part in parts for row in part] == rows
    assert all(len(part) <= MOST_MESSAGES for part in parts)
    assert all(len(part) == 1 or sum(row.size for row in part) <= MOST_BYTES for part in parts)


# -- tables that do not grow --------------------------------------------------------------------------------------


def size(tmp_path: Path) -> int:
    """Bytes of the tables that change most, indexes and all, once vacuum has been there."""
    names = [f"{schema(tmp_path)}.{table}" for table in TABLES]
    for name in names:
        shared_cluster().execute(f"VACUUM {name}")
    ((found,),) = shared_cluster().execute(
        f"SELECT {' + '.join(f'pg_total_relation_size({name!r})' for name in names)}"
    )
    return int(str(found))


async def cycles(rig: Rig, times: int) -> None:
    for _ in range(times):
        await rig.send_all("orders", [Draft(body=b"x" * 100)] * 20)
        leases = await rig.receive("orders", limit=20)
        await asyncio.gather(*(rig.release("orders", lease, delay_ms=0) for lease in leases[:5]))
        leases = leases[5:] + await rig.receive("orders", limit=5)
        await asyncio.gather(*(rig.ack("orders", lease) for lease in leases))
        rig.clock.advance(ms=1_000)


@pytest.mark.slow
async def test_the_tables_do_not_grow_with_what_passes_through_them(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    sizes = []
    for _ in range(8):
        await cycles(node, 20)
        sizes.append(size(tmp_path))
    assert (await node.counters("orders")).total_count == 0
    assert sizes[-1] <= 1.1 * sizes[3]  # a page of an index is used again only after the second vacuum


async def test_the_journal_leaves_nothing_behind_when_it_is_trimmed(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    await cycles(node, 5)
    span = (await node.store.spans())[0]
    assert await node.store.trim_events(before=span.next) >= span.next - 100
    assert count(tmp_path, "journal") == 1
    assert (await node.store.spans())[0].next == span.next


@contextlib.asynccontextmanager
async def held_open() -> AsyncIterator[None]:
    """Somebody's transaction, for as long as which vacuum may remove nothing."""
    connection = await psycopg.AsyncConnection.connect(shared_cluster().url())
    try:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("SELECT 1")
        yield
    finally:
        await connection.close()


@pytest.mark.slow
async def test_a_transaction_held_open_does_not_make_looks_longer(node: Rig, tmp_path: Path) -> None:
    """Of all that is dead at the front of the index a claim steps over no more than it must."""
    await node.create("orders")
    async with held_open():
        await cycles(node, 60)
        key, oldest = node.queue("orders").key, node.now - MARGIN_MS - 5_000
        ready, bundle, _ = node.store._circle.marks.claim(key)  # type: ignore[attr-defined]
        assert (ready >= oldest or ready == 0, bundle >= oldest) == (True, True)
        await node.send("orders")
        assert len(await node.receive("orders")) == 1


async def test_an_ack_waits_while_more_time_is_to_be_applied_than_one_commit_can(
    node: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passing, "STEP", 2)
    await node.create("orders")
    await node.send_all("orders", [Draft(body=b"x", id=str(number)) for number in range(6)])
    await node.receive("orders", limit=5, lease_ms=1_000)
    kept = await node.receive_one("orders", lease_ms=60_000)
    node.clock.advance(ms=2_000)
    await node.ack("orders", kept)
    assert (await node.counters("orders")).ready_count == 5
    assert [event.seq for event in await node.events(EventKind.ACKED)] == [kept.message.seq]
    assert await node.store.check() == []


# -- marks --------------------------------------------------------------------------------------------------------


def test_a_look_begins_a_little_before_the_oldest_that_was_there() -> None:
    now = [100.0]
    marks = Marks(lambda: now[0])
    look = marks.claim(1)
    assert look.is_full
    marks.claimed(1, look, ready=50_000, bundle=60_000)
    assert marks.claim(1)[:2] == (50_000 - MARGIN_MS, 60_000 - MARGIN_MS)
    now[0] += FULL_SECONDS
    assert marks.claim(1).is_full


def test_after_a_long_look_from_the_front_it_is_long_until_the_next_even_if_somebody_has_doubts() -> None:
    now = [100.0]
    marks = Marks(lambda: now[0])
    look = marks.claim(1)
    now[0] += 0.5
    marks.claimed(1, look, ready=50_000, bundle=60_000)
    now[0] += REST * 0.5 - 0.5
    marks.doubt(1)
    assert not marks.claim(1).is_full
    assert marks.claim(2).is_full  # other queues are others
    now[0] += 0.5
    assert marks.claim(1).is_full


def test_however_long_a_look_took_it_is_made_again() -> None:
    now = [100.0]
    marks = Marks(lambda: now[0])
    look = marks.claim(1)
    now[0] += 60.0
    marks.claimed(1, look, ready=50_000, bundle=60_000)
    now[0] += MOST_REST_SECONDS
    assert marks.claim(1).is_full


def test_a_look_that_was_short_lets_doubts_be_heard_at_once() -> None:
    marks = Marks(lambda: 1.0)
    marks.claimed(1, marks.claim(1), ready=50_000, bundle=60_000)
    assert not marks.claim(1).is_full
    marks.doubt(1)
    assert marks.claim(1).is_full


def test_what_becomes_ready_as_of_long_ago_is_looked_for() -> None:
    marks = Marks(lambda: 1.0)
    marks.claimed(1, marks.claim(1), ready=90_000, bundle=80_000)
    marks.told(1, 30_000)
    assert marks.claim(1)[:2] == (30_000 - MARGIN_MS, 30_000 - MARGIN_MS)


def test_what_is_told_of_while_somebody_looks_is_not_lost_on_him() -> None:
    marks = Marks(lambda: 1.0)
    look = marks.claim(1)
    marks.told(1, 30_000)  # too late to be seen by that look
    marks.claimed(1, look, ready=90_000, bundle=80_000)
    look = marks.claim(1)
    assert look[:2] == (30_000 - MARGIN_MS, 30_000 - MARGIN_MS)
    marks.claimed(1, look, ready=90_000, bundle=80_000)
    assert marks.claim(1)[:2] == (90_000 - MARGIN_MS, 80_000 - MARGIN_MS)
