"""A store that an earlier Courier has written goes on as if nothing had happened."""

import contextlib
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from couriermq.clock import FakeClock
from couriermq.core.errors import Fenced
from couriermq.core.events import EventKind
from couriermq.core.model import Ack, Job, Settled
from couriermq.journal.cursors import Cursors
from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres import care
from couriermq.storage.postgres.connection import migrations
from couriermq.storage.postgres.dumping import PostgresDump
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import TENANT, WHO, Rig
from tests.support.postgres import shared_cluster

SCHEMA_3 = Path(__file__).parent / "data" / "schema_3.sql.gz"
"""What a Courier of schema 3 left behind; `make_schema_3.py` says how."""
NAME = "courier_schema_3"
KNOWN: dict[str, Any] = json.loads(gzip.decompress(SCHEMA_3.with_name("schema_3.json.gz").read_bytes()))


@pytest.fixture
def url() -> Iterator[str]:
    """A database as the earlier Courier has left it."""
    dump = gzip.decompress(SCHEMA_3.read_bytes()).decode()
    drop = f"DROP SCHEMA IF EXISTS {NAME} CASCADE"
    commands = "\n".join(line for line in dump.splitlines() if not line.startswith("\\"))  # those are for psql
    shared_cluster().execute(f"{drop}; {commands}")
    yield shared_cluster().url(NAME)
    shared_cluster().execute(drop)


@contextlib.asynccontextmanager
async def opened(url: str) -> AsyncIterator[Rig]:
    rig = Rig(lambda: PostgresStore(url), FakeClock(KNOWN["now"], seed=1_000))
    await rig.open()
    try:
        yield rig
    finally:
        await rig.close()


@pytest.fixture
async def rig(url: str) -> AsyncIterator[Rig]:
    async with opened(url) as rig:
        yield rig


async def acked(rig: Rig, name: str, receipts: list[str]) -> bool:
    settled = await rig.settle(name, *map(Ack, receipts))
    return all(isinstance(outcome, Settled) for outcome in settled)


async def bodies(rig: Rig, name: str) -> list[bytes]:
    return [lease.message.body for lease in await rig.receive(name, limit=100)]


async def test_every_message_is_as_it_was(rig: Rig) -> None:
    assert await rig.store.check() == []
    assert {queue.name for queue in rig.catalog.queues(TENANT)} == set(KNOWN["queues"])
    for name, known in KNOWN["queues"].items():
        assert [msgspec.to_builtins(message) for message in await rig.browse(name)] == known["messages"]
        assert msgspec.to_builtins(await rig.counters(name)) == known["counters"]


async def test_every_message_is_found_by_its_id(rig: Rig) -> None:
    for name, known in KNOWN["queues"].items():
        for message in known["messages"]:
            found = await rig.browse(name, id=message["id"])
            assert message["seq"] in [one.seq for one in found]


async def test_the_journal_and_its_cursors_keep_their_offsets(rig: Rig) -> None:
    assert msgspec.to_builtins(await rig.store.spans())[0] == KNOWN["span"]
    assert [[event.kind, event.at, event.queue, event.seq] for event in await rig.events()] == KNOWN["events"]
    cursors = Cursors(rig.store, rig.clock)
    await cursors.load()
    assert [(cursor.name, cursor.offset) for cursor in cursors.all()] == [("reader", KNOWN["span"]["next"] - 10)]


async def test_new_messages_come_behind_the_old_ones(rig: Rig) -> None:
    sent = await rig.send("shared", b"new")
    assert sent.seq > KNOWN["last_seq"]
    received = await bodies(rig, "shared")
    assert received[-1] == b"new"
    assert len(received) == len(KNOWN["queues"]["shared"]["messages"]) + 1


async def test_receipts_settle_what_they_were_given_for(rig: Rig) -> None:
    receipts = KNOWN["receipts"]
    leased = (await rig.counters("packed")).leased_count
    assert await acked(rig, "orders", [receipts["orders"]])
    assert await acked(rig, "packed", receipts["packed"][:2])
    assert await acked(rig, "packed", receipts["partly acked"])
    assert (await rig.counters("packed")).leased_count == leased - 2 - len(receipts["partly acked"])
    assert await acked(rig, "packed", receipts["packed"][2:])
    assert (await rig.counters("packed")).leased_count == 0
    assert await rig.store.check() == []


async def test_leases_and_delays_end_at_their_time(rig: Rig) -> None:
    await rig.receive("orders", limit=100, lease_ms=10_000_000)
    assert await bodies(rig, "late") == []
    await rig.pass_time(ms=45_000)
    assert len(await bodies(rig, "late")) == 3
    await rig.pass_time(ms=45_000)
    assert sorted(await bodies(rig, "orders")) == [b"later", b"tried 2"]
    assert (await rig.counters("packed")).leased_count == len(KNOWN["receipts"]["packed"]) + 3
    await rig.pass_time(ms=600_000)
    again = {message.body for message in await rig.browse("packed") if message.attempts == 1}
    assert {b"packed 0", b"packed 4", b"packed 5", b"packed 10"} <= again
    assert (await rig.counters("packed")).leased_count == 0
    assert await rig.store.check() == []


async def test_attempts_go_on_counting_and_the_dead_go_home(rig: Rig) -> None:
    received = await rig.receive("orders", limit=100)
    (tried,) = [lease for lease in received if lease.message.body == b"tried 1"]
    assert tried.message.attempts == 2
    await rig.release("orders", tried)
    assert [message.body for message in await rig.browse("dead")] == [b"dies", b"tried 1"]
    assert await rig.redrive("dead") == 2
    assert sorted(await bodies(rig, "orders")) == [b"dies", b"tried 1"]
    assert await rig.store.check() == []


async def test_groups_keep_their_order_and_repeated_ids_are_dropped(rig: Rig) -> None:
    await rig.send("line", b"again", group="a", id="line-1")
    assert [lease.message.group for lease in await rig.receive("line", limit=10)] == ["b", "\u00e9t\u00e9"]
    assert await acked(rig, "line", [KNOWN["receipts"]["line"]])
    assert await bodies(rig, "line") == [b"a 1", b"a 3"]
    await rig.pass_time(ms=30_000)
    assert (await bodies(rig, "line"))[-2:] == [b"delayed head", b"behind it"]
    assert await rig.store.check() == []


async def test_an_own_retention_ends_at_its_time(rig: Rig) -> None:
    await rig.pass_time(ms=3_600_000)
    assert b"kept" not in [message.body for message in await rig.browse("orders")]


async def test_an_original_leaves_with_its_last_copy(rig: Rig) -> None:
    assert (await rig.counters("listened")).ready_count == 1
    await rig.ack("second", await rig.receive_one("second"))
    assert (await rig.counters("listened")).total_count == 0


async def test_claims_hold_their_messages(rig: Rig) -> None:
    queue, epoch = rig.queue("jobs"), KNOWN["epoch"]
    assert await rig.claims.jobs(queue) == msgspec.convert(KNOWN["jobs"], list[Job])
    held = await rig.claims.read(queue, "spark", 2, epoch=epoch, start=0, stop=10)
    assert [message.body for _, message in held.messages] == [b"job 2", b"job 3"]
    with pytest.raises(Fenced):
        await rig.claims.read(queue, "spark", 2, epoch=epoch - 1, start=0, stop=10)
    assert await rig.claims.ack(queue, "spark", upto=3, epoch=epoch, principal=WHO) == 4
    assert await bodies(rig, "jobs") == [b"job 6", b"job 7"]
    assert await rig.store.check() == []


async def test_stages_can_be_published_and_series_go_on(rig: Rig) -> None:
    queue = rig.queue("staged")
    assert (await rig.stages.publication(queue, "query")).number == 3
    assert (await rig.stages.publish(queue, "query", 4, ["s2"], principal=WHO)).count == 2
    assert await bodies(rig, "staged") == [b"published", b"staged 0", b"staged 1"]


async def test_what_a_deleted_queue_has_left_goes(rig: Rig) -> None:
    await rig.pass_time(ms=1_000)
    purged = [event for event in await rig.events(EventKind.PURGED) if event.queue == "doomed"]
    assert len(purged) == 4
    assert await rig.store.check() == []


async def test_it_is_converted_once(url: str) -> None:
    for _ in range(2):
        async with opened(url) as rig:
            assert await rig.store.check() == []
            assert msgspec.to_builtins(await rig.counters("shared")) == KNOWN["queues"]["shared"]["counters"]


async def test_it_is_not_converted_while_nodes_of_the_earlier_courier_run(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as node:
        node.execute("SELECT pg_advisory_lock(current_schema()::regnamespace::oid::int, %s)", (-(2**31) + 7,))
        with pytest.raises(CannotOpen, match="stop them first"):
            await Rig(lambda: PostgresStore(url)).open()
    async with opened(url) as rig:
        assert await rig.store.check() == []


async def test_a_refused_restore_leaves_the_database_as_it_was(url: str, tmp_path: Path) -> None:
    newest = migrations()[-1][0]
    (tmp_path / "schema_version").write_text(f"{newest}\n")
    with pytest.raises(CannotOpen, match="already holds data"):
        await care.restore(url, tmp_path)
    assert shared_cluster().execute(f"SELECT version FROM {NAME}.schema_version") == [(3,)]


async def test_a_restore_of_another_version_s_backup_makes_no_tables(tmp_path: Path) -> None:
    (tmp_path / "schema_version").write_text("3\n")
    shared_cluster().execute("DROP SCHEMA IF EXISTS untouched CASCADE; CREATE SCHEMA untouched")
    with pytest.raises(CannotOpen, match="made by another version"):
        await care.restore(shared_cluster().url("untouched"), tmp_path)
    assert shared_cluster().execute("SELECT FROM pg_tables WHERE schemaname = 'untouched'") == []
    shared_cluster().execute("DROP SCHEMA untouched")


async def test_a_schema_is_empty_whatever_the_others_of_its_search_path_hold(url: str, tmp_path: Path) -> None:
    """`url` leads to a store that the search path names behind the empty schema."""
    shared_cluster().execute("DROP SCHEMA IF EXISTS before CASCADE; CREATE SCHEMA before")
    async with opened(url):  # it is of this version from now on
        pass
    both = shared_cluster().url(f"before,{NAME}")
    target = PostgresDump(both, source=False)
    await target.open()
    assert not await target.is_used()
    assert await target.read_note() is None
    await target.close()
    async with care.opened(both) as connection:
        await care._refuse_data(connection)
    shared_cluster().execute("DROP SCHEMA before")
