"""How the engine for many nodes keeps its data: packs of messages, tables that do not grow, damage that is found."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from couriermq.core.errors import LeaseLost
from couriermq.core.events import EventKind
from couriermq.core.lanes import lane_of
from couriermq.core.model import Ack, Draft, Kind, Lease, Settled, State
from couriermq.storage import group_commit
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import WHO, Rig
from tests.support.postgres import shared_cluster

TABLES = ("pack", "message", "payload", "tally", "fifo")


def schema(tmp_path: Path) -> str:
    return shared_cluster()._schemas[tmp_path]


def count(tmp_path: Path, table: str) -> int:
    ((found,),) = shared_cluster().execute(f"SELECT count(*) FROM {schema(tmp_path)}.{table}")
    assert isinstance(found, int)
    return found


def rows(tmp_path: Path) -> tuple[int, int]:
    """How many packs and single messages there are."""
    return count(tmp_path, "pack"), count(tmp_path, "message")


async def leased(node: Rig, many: int) -> list[Lease]:
    """So many messages, received together."""
    await node.create("orders")
    await node.send_all("orders", [Draft(body=str(number).encode()) for number in range(many)])
    return await node.receive("orders", limit=many, lease_ms=60_000)


# -- packs --------------------------------------------------------------------------------------------------------


async def test_messages_that_just_wait_share_a_row(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    await node.send_all("orders", [Draft(body=b"x")] * 200)
    assert rows(tmp_path) == (1, 0)


async def test_what_needs_an_index_has_a_row_of_its_own(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    drafts = [Draft(body=b"x", id="mine"), Draft(body=b"x", group="g"), Draft(body=b"x", retention_ms=1_000)]
    await node.send_all("orders", drafts)
    assert rows(tmp_path) == (0, 3)


async def test_what_is_received_together_shares_a_row_until_it_is_acked(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 10)
    assert rows(tmp_path) == (1, 0)
    assert all(isinstance(one, Settled) for one in await node.settle("orders", *(Ack(one.receipt) for one in leases)))
    assert rows(tmp_path) == (0, 0)
    assert await node.store.check() == []


async def test_what_a_receiver_leaves_in_a_pack_waits_on(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    sent = await node.send_all("orders", [Draft(body=str(n).encode()) for n in range(5)])
    await node.receive("orders", limit=2)
    assert rows(tmp_path) == (2, 0)
    left = await node.receive("orders", limit=10)
    assert [lease.message.seq for lease in left] == [outcome.seq for outcome in sent[2:]]  # type: ignore[union-attr]
    assert await node.store.check() == []


async def test_what_was_received_together_can_be_acked_in_any_parts(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 10)
    for part in (leases[3:4], leases[5:8], leases[:3], leases[8:], leases[4:5]):
        settled = await node.settle("orders", *(Ack(lease.receipt) for lease in part))
        assert all(isinstance(one, Settled) for one in settled)
    assert rows(tmp_path) == (0, 0)
    with pytest.raises(LeaseLost):
        await node.ack("orders", leases[0])
    assert await node.store.check() == []


async def test_what_is_released_or_extended_gets_a_row_of_its_own(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 4)
    await node.release("orders", leases[0], delay_ms=0)
    await node.extend("orders", leases[1], lease_ms=120_000)
    assert rows(tmp_path) == (1, 2)
    with pytest.raises(LeaseLost):
        await node.ack("orders", leases[0])
    again = await node.receive_one("orders")
    assert (again.message.body, again.message.attempts) == (b"0", 2)
    for lease in (again, *leases[1:]):
        await node.ack("orders", lease)
    assert rows(tmp_path) == (0, 0)
    assert await node.store.check() == []


async def test_a_lease_of_many_ends_for_all_of_them(node: Rig, tmp_path: Path) -> None:
    leases = await leased(node, 5)
    await node.ack("orders", leases[4])
    await node.pass_time(ms=60_000)
    assert rows(tmp_path) == (1, 0)
    with pytest.raises(LeaseLost):
        await node.ack("orders", leases[0])
    again = await node.receive("orders", limit=10)
    assert [(lease.message.body, lease.message.attempts) for lease in again] == [(b"%d" % n, 2) for n in range(4)]
    assert len(await node.events(EventKind.LEASE_EXPIRED)) == 4
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
    assert rows(tmp_path) == (0, 0)
    assert await node.store.check() == []


async def test_everybody_who_comes_together_shares_a_commit(node: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "TURN_SECONDS", 60.0)  # so that a busy machine does not part them
    await node.create("orders")
    before = node.store.metrics.commits  # type: ignore[attr-defined]
    await asyncio.gather(*(node.send("orders") for _ in range(50)))
    assert node.store.metrics.commits - before == 1  # type: ignore[attr-defined]
    parts = await asyncio.gather(*(node.receive("orders") for _ in range(50)))
    assert node.store.metrics.commits - before == 2  # type: ignore[attr-defined]
    assert len({lease.message.seq for part in parts for lease in part}) == 50


# -- damage -------------------------------------------------------------------------------------------------------

DAMAGE = {
    "UPDATE pack SET remaining = remaining - 1, bytes = bytes": "does not add up",
    "UPDATE pack SET count = count + 50": "does not add up",
    "UPDATE tally SET ready = ready + 1": "but holds",
    "INSERT INTO tally SELECT queue, lane, 0, 0, 0, 0, 0, 0, 0, 0, 9 FROM tally WHERE queue = 1": "a row too many",
    "UPDATE tally SET lane = 15 WHERE lane = (SELECT min(lane) FROM tally)": "a row too many",
    "UPDATE journal SET events = set_byte(events, 8, get_byte(events, 8) # 255)": "the journal",
    "UPDATE journal SET crc = crc + 1 WHERE first_seq IS NOT NULL": "the journal is damaged at offset",
    "DELETE FROM journal WHERE first_seq IS NOT NULL": "lost their bodies",
    "DELETE FROM journal WHERE start = (SELECT min(start) FROM journal, lane WHERE start > oldest)": "has a gap",
    "UPDATE payload SET body = 'other'": "are damaged",
    "DELETE FROM payload": "lost their bodies",
    "INSERT INTO payload VALUES (999999, 'x', 0)": "belong to no message",
    "UPDATE fifo SET head = head + 1": "FIFO groups",
    "DELETE FROM fifo": "FIFO groups",
    "DELETE FROM claim_part": "held by a claim that is not there",
    "INSERT INTO quarantine VALUES (1, 1, 3, NULL, 0)": "3 messages of queue 1 were damaged and are set aside",
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damage_is_found(node: Rig, tmp_path: Path, damage: str) -> None:
    for name in ("orders", "claimed"):
        await node.create(name)
        await node.send_all(name, [Draft(body=b"x" * 50) for _ in range(3)])
    await node.create("line", kind=Kind.FIFO)
    await node.send("line", b"copied out", group="g")
    await node.create("more")
    for span in (await node.store.spans()).values():
        await node.store.trim_events(before=span.next)
    await node.send("orders")
    await node.create("last")
    job = await node.claims.open(node.queue("claimed"), "spark")
    await node.claims.claim(node.queue("claimed"), "spark", 1, epoch=job.epoch, limit=1, principal=WHO)
    assert await node.store.check() == []
    shared_cluster().change(tmp_path, damage)
    findings = await node.store.check()
    assert [finding for finding in findings if DAMAGE[damage] in finding], findings


async def test_readers_of_the_journal_are_told_which_events_are_damaged(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    for number in range(3):
        await node.send_all("orders", [Draft(body=f"{number}".encode())] * 2)
    before = await node.events(EventKind.SENT)
    shared_cluster().change(tmp_path, "UPDATE journal SET crc = crc + 1 WHERE first_seq = 3")
    told = await node.events(EventKind.SENT, EventKind.DAMAGED)
    kinds = ["sent", "sent", "damaged", "damaged", "sent", "sent"]
    assert [event.kind for event in told] == kinds
    assert [event for event in told if event.kind == "sent"] == before[:2] + before[4:]
    await node.events()
    assert node.store.metrics.damaged_events == 2  # type: ignore[attr-defined]


async def test_a_removed_body_leaves_the_row_in_which_others_wait(node: Rig, tmp_path: Path) -> None:
    await node.create("orders")
    secret, kept = b"a secret " * 300, b"stays " * 300
    await node.send_all("orders", [Draft(body=kept), Draft(body=secret), Draft(body=kept)])
    seqs = [message.seq for message in await node.browse("orders")]
    await node.create("bills")
    await seal(node)
    await node.remove("orders", [seqs[1]])
    await seal(node)
    assert [message.body for message in await node.browse("orders")] == [kept, kept]
    assert await node.store.check() == []
    assert rows_with(tmp_path, secret) == 0
    assert rows_with(tmp_path, kept) == 1
    leases = await node.receive("orders", limit=10)
    assert [(lease.message.seq, lease.message.body) for lease in leases] == [(seqs[0], kept), (seqs[2], kept)]


def rows_with(tmp_path: Path, body: bytes) -> int:
    with psycopg.connect(shared_cluster().store_url(tmp_path)) as connection:
        return sum(body in events for (events,) in connection.execute("SELECT events FROM journal", binary=True))


async def seal(node: Rig) -> None:
    """As after everything was archived."""
    for span in (await node.store.spans()).values():
        await node.store.trim_events(before=span.next)


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
    before = await node.store.spans()
    for lane, span in before.items():
        assert lane_of(await node.store.trim_events(before=span.next)) == lane
    assert count(tmp_path, "journal") == 0
    assert {lane: span.next for lane, span in (await node.store.spans()).items()} == {
        lane: span.next for lane, span in before.items()
    }


async def test_a_lane_goes_on_behind_what_was_trimmed_while_an_older_row_is_retained(node: Rig) -> None:
    await node.create("orders")
    await node.create("others")
    await node.send("orders", b"waits")
    await node.send("others")
    await node.ack("others", await node.receive_one("others"))
    before = await node.store.spans()
    for span in before.values():
        await node.store.trim_events(before=span.next)
    await node.restart()
    assert {lane: span.next for lane, span in (await node.store.spans()).items()} == {
        lane: span.next for lane, span in before.items()
    }
    await node.send("others")
    assert [event.kind for event in await node.events()] == [EventKind.SENT]
    assert (await node.receive_one("orders")).message.body == b"waits"


async def test_two_who_trim_the_same_rows_do_not_stand_in_each_others_way(node: Rig, tmp_path: Path) -> None:
    for number in range(40):
        await node.create(f"queue-{number}")
    ((lane, span),) = (await node.store.spans()).items()
    await asyncio.gather(*(node.store.trim_events(before=span.next) for _ in range(3)))
    assert (await node.store.spans())[lane].oldest == span.next
    assert count(tmp_path, "journal") == count(tmp_path, "retained") == 0
