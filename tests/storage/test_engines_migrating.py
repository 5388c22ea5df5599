"""A store goes from one engine to the other and back, and is the same store there."""

import asyncio
import contextlib
import functools
import random
import shutil
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from couriermq.core.limits import COMMIT_BYTES
from couriermq.core.model import HOUR, SECOND, Draft, Kind, Release, Sent
from couriermq.storage.base import CannotOpen, Span
from couriermq.storage.dump import TABLES, Dump, DumpedCommit, DumpedMessage
from couriermq.storage.migrating import Migration
from couriermq.storage.postgres.connection import migrations
from couriermq.storage.postgres.dumping import PostgresDump
from couriermq.storage.sqlite.dumping import SqliteDump
from tests.support.engines import ENGINES, TENANT, WHO, Rig, forget
from tests.support.eventually import eventually
from tests.support.postgres import shared_cluster

pytestmark = pytest.mark.postgres


def dump(engine: str, directory: Path, *, source: bool) -> Dump:
    if engine == "sqlite":
        return SqliteDump(directory, source=source)
    return PostgresDump(shared_cluster().store_url(directory), source=source)


async def lived(rig: Rig, seed: int) -> None:
    """Whatever can happen to messages, in some order."""
    dice = random.Random(seed)
    await rig.create("graves")
    await rig.create("orders", dead_letter_queue="graves", max_attempts=2, retry_delay_ms=500)
    await rig.create("line", kind=Kind.FIFO, dead_letter_queue="graves", max_attempts=3)
    listened = await rig.create("listened", keep_delivered=False)
    await rig.catalog.create_listener(listened, "hook", "http://127.0.0.1:9", principal=WHO)
    exchange = await rig.catalog.create_exchange(TENANT, "news", principal=WHO)
    await rig.catalog.bind(exchange, rig.queue("orders"), principal=WHO)
    await some_life(rig, dice, 60)


async def inhabited(engine: str, directory: Path, seed: int) -> Rig:
    """A store in which something has happened, open."""
    rig = Rig(lambda: ENGINES[engine](directory))
    await rig.open()
    await lived(rig, seed)
    return rig


async def some_life(rig: Rig, dice: random.Random, steps: int) -> None:
    for n in range(steps):
        name = dice.choice(("orders", "line", "listened"))
        match dice.randrange(6):
            case 0 | 1:
                drafts = [Draft(body=dice.randbytes(dice.choice((0, 9, 5_000))), attributes={"n": n})] * 3
                await rig.send_all(name, drafts)
            case 2:
                await rig.send(name, b"\x00\xff", id=f"ü{n}", delay_ms=dice.choice((None, 3_000)), group=f"g{n % 3}",
                               retention_ms=dice.choice((None, 100_000)), trace="00-trace")  # fmt: skip
            case 3:
                await rig.receive(name, limit=3, lease_ms=60 * SECOND)
            case 4:
                leases = await rig.receive(name, limit=4)
                if leases:
                    await rig.settle(name, *(Release(lease.receipt) for lease in leases[:2]))
                for lease in leases[2:]:
                    await rig.ack(name, lease)
            case 5:
                await rig.pass_time(ms=400)


async def picture(rig: Rig) -> list[Any]:
    """Everything that can be seen of a store."""
    seen: list[Any] = [sorted(rig.catalog.all_queues(), key=lambda queue: queue.key), await rig.events()]
    for queue in seen[0]:
        seen.append(await rig.broker.counters(queue))
        page = await rig.broker.browse(queue, limit=1_000)
        seen.append(page.messages)
    return seen


async def migrated(source: Dump, target: Dump, *, now: int) -> tuple[int, int]:
    await source.open()
    await target.open()
    try:
        migration = Migration(source, target, lambda step, done, total: None)
        await migration.copy()
        assert await source.hold()
        assert await target.hold()
        return await migration.finish(now=now)
    finally:
        await source.close()
        await target.close()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_a_store_is_the_same_on_the_other_engine(tmp_path: Path, first: str, second: str, seed: int) -> None:
    rig = await inhabited(first, tmp_path / "a", seed)
    held = await rig.receive("orders", limit=1, lease_ms=600 * SECOND)
    before = await picture(rig)
    await rig.close()
    await migrated(dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False), now=rig.now)
    moved = Rig(lambda: ENGINES[second](tmp_path / "b"), rig.clock)
    await moved.open()
    try:
        assert await picture(moved) == before
        assert await moved.store.check() == []
        for lease in held:
            await moved.ack("orders", lease)
        last = await moved.send("orders")
        assert last.seq > max((event.seq or 0) for event in before[1])
        assert (await moved.create("new")).key > max(queue.key for queue in before[0])
    finally:
        await moved.close()
        forget(tmp_path / "a")
        forget(tmp_path / "b")


async def test_every_lane_of_the_journal_goes_along_there_and_back(tmp_path: Path) -> None:
    rig = await inhabited("postgres", tmp_path / "a", 3)
    for _ in range(5):  # each connection that commits has a lane
        await asyncio.gather(*(one for n in range(4) for one in (rig.send("orders", b"%d" % n), rig.receive("line"))))
        other = Rig(lambda: ENGINES["postgres"](tmp_path / "a"), rig.clock)
        await other.open()
        await other.send("orders")
        await other.close()
    spans, before = await rig.store.spans(), await picture(rig)
    lanes = [lane for lane, span in spans.items() if span.next > span.oldest]
    assert len(lanes) > 1
    await rig.close()
    for first, second, source, target in (("postgres", "sqlite", "a", "b"), ("sqlite", "postgres", "b", "c")):
        there = dump(second, tmp_path / target, source=False)
        await migrated(dump(first, tmp_path / source, source=True), there, now=rig.now)
        moved = Rig(functools.partial(ENGINES[second], tmp_path / target), rig.clock)
        await moved.open()
        assert {lane: span for lane, span in (await moved.store.spans()).items() if lane in lanes} == {
            lane: spans[lane] for lane in lanes
        }
        assert await picture(moved) == before
        assert await moved.store.check() == []
        await moved.close()
    moved = Rig(lambda: ENGINES["sqlite"](tmp_path / "b"), rig.clock)
    await moved.open()
    span = spans[lanes[-1]]
    instants = await moved.store.offsets_at(rig.now + 1)
    assert instants[lanes[-1]] == span.next
    assert span.oldest <= await moved.store.journals()[0].offset_keeping(1, lanes[-1]) <= span.next
    oldest = await moved.store.trim_events(before=span.next)
    assert span.oldest <= oldest < span.next
    assert (await moved.store.spans())[lanes[-1]] == Span(oldest=oldest, next=span.next)
    await moved.send("orders")
    assert (await moved.store.spans())[lanes[-1]].next == span.next  # only the first lane goes on
    assert await moved.store.check() == []
    await moved.close()
    for name in "abc":
        forget(tmp_path / name)


@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_what_changes_while_it_is_copied_arrives_too(tmp_path: Path, first: str, second: str) -> None:
    """The first run is interrupted, the store lives on, and the second run finishes."""
    rig = await inhabited(first, tmp_path / "a", 7)
    source, target = dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False)
    await source.open()
    await target.open()
    await Migration(source, target, lambda step, done, total: None).copy()
    assert not await source.hold()
    await source.close()
    await target.close()
    await some_life(rig, random.Random(8), 60)
    before = await picture(rig)
    await rig.close()
    await migrated(dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False), now=rig.now)
    moved = Rig(lambda: ENGINES[second](tmp_path / "b"), rig.clock)
    await moved.open()
    try:
        assert await picture(moved) == before
        assert await moved.store.check() == []
    finally:
        await moved.close()
        forget(tmp_path / "a")
        forget(tmp_path / "b")


@pytest.mark.parametrize("part", [0.5, 1.0])
@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_what_was_copied_may_be_trimmed_before_the_end(
    tmp_path: Path, first: str, second: str, part: float
) -> None:
    rig = await inhabited(first, tmp_path / "a", 8)
    source, target = dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False)
    await source.open()
    await target.open()
    try:
        migration = Migration(source, target, lambda step, done, total: None)
        await migration.copy()
        end = (await rig.store.spans())[0].next
        oldest = await rig.store.trim_events(before=round(part * end))
        left = await rig.store.read_events(start=oldest, limit=10_000)
        before = await picture(rig)
        await rig.close()
        await eventually(source.hold)  # PostgreSQL is still parting from the node
        await migration.finish(now=rig.now)
    finally:
        await source.close()
        await target.close()
    moved = Rig(lambda: ENGINES[second](tmp_path / "b"), rig.clock)
    await moved.open()
    try:
        assert (await picture(moved))[2:] == before[2:]
        assert (await moved.store.spans())[0].oldest == oldest
        assert await moved.store.read_events(start=oldest, limit=10_000) == left
        assert await moved.store.check() == []
    finally:
        await moved.close()
        forget(tmp_path / "a")
        forget(tmp_path / "b")


@contextlib.asynccontextmanager
async def copied(rig: Rig, source: Dump, target: Dump) -> AsyncIterator[None]:
    """What happens inside does so after most is copied, and before the rest is."""
    await source.open()
    await target.open()
    try:
        migration = Migration(source, target, lambda step, done, total: None)
        await migration.copy()
        yield
        await rig.close()
        await eventually(source.hold)  # PostgreSQL is still parting from the node
        await migration.finish(now=rig.now)
    finally:
        await source.close()
        await target.close()


@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_what_is_hastened_while_it_is_copied_is_ready_in_the_copy(
    tmp_path: Path, first: str, second: str
) -> None:
    """Of that there is no event, and it can be long before its delay ends."""
    rig = Rig(functools.partial(ENGINES[first], tmp_path / "a"))
    await rig.open()
    orders = await rig.create("orders", retry_delay_ms=HOUR)
    await rig.send_all("orders", [Draft(body=b"%d" % n) for n in range(3)])
    await rig.send("orders", b"single", id="mine")
    await rig.receive("orders", limit=2, lease_ms=SECOND)  # these wait together, the next two each for itself
    for lease in await rig.receive("orders", limit=2):
        await rig.release("orders", lease, delay_ms=HOUR)
    await rig.pass_time(ms=2 * SECOND)
    await rig.send("orders", b"not tried yet", delay_ms=HOUR)
    async with copied(rig, dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False)):
        assert await rig.broker.hasten(orders) == 4
        before = await picture(rig)
    moved = Rig(functools.partial(ENGINES[second], tmp_path / "b"), rig.clock)
    await moved.open()
    try:
        assert await picture(moved) == before
        assert await moved.store.check() == []
        assert len(await moved.receive("orders", limit=10)) == 4
    finally:
        await moved.close()
        forget(tmp_path / "a")
        forget(tmp_path / "b")


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_no_batch_has_more_bytes_than_a_commit(
    tmp_path: Path, first: str, second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(functools.partial(ENGINES[first], tmp_path / "a"))
    await rig.open()
    await rig.create("orders", max_body_bytes=2 * COMMIT_BYTES)
    large = bytes(COMMIT_BYTES // 2 - 10_000)
    for n in range(3):
        await rig.send("orders", large)
        await rig.send("orders", large, id=f"single{n}")
    await rig.send("orders", bytes(COMMIT_BYTES + 1))
    source, target = dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False)
    sizes: list[list[int]] = []
    put_messages, put_journal = target.put_messages, target.put_journal

    async def put_some(messages: Sequence[DumpedMessage], *, gone: Sequence[int] = ()) -> None:
        sizes.append([len(message.body) for message in messages])
        await put_messages(messages, gone=gone)

    async def put_commits(commits: Sequence[DumpedCommit]) -> None:
        sizes.append([len(commit.events) for commit in commits])
        await put_journal(commits)

    monkeypatch.setattr(target, "put_messages", put_some)
    monkeypatch.setattr(target, "put_journal", put_commits)
    async with copied(rig, source, target):
        while await rig.receive("orders", limit=100):
            pass
        before = [message.id for message in await rig.browse("orders")]
    moved = Rig(functools.partial(ENGINES[second], tmp_path / "b"), rig.clock)
    await moved.open()
    try:
        assert max(sum(some) for some in sizes if len(some) > 1) <= COMMIT_BYTES
        assert [message.id for message in await moved.browse("orders")] == before
        assert await moved.store.check() == []
    finally:
        await moved.close()
        forget(tmp_path / "a")
        forget(tmp_path / "b")


@pytest.mark.parametrize(("first", "second"), [("sqlite", "postgres"), ("postgres", "sqlite")])
async def test_tables_go_along_in_portions(tmp_path: Path, first: str, second: str) -> None:
    """Of stages one chunk at a time, because one can be as large as a request."""
    rig = Rig(functools.partial(ENGINES[first], tmp_path / "a"))
    await rig.open()
    orders = await rig.create("orders")
    line = await rig.create("line", kind=Kind.FIFO)
    for part in range(3):
        await rig.stages.stage(orders, "night", part, [Draft(body=b"%d" % part)], principal=WHO)
    await rig.send_all("line", [Draft(body=b"x", id=f"ü{n}", group=f"ü{n}") for n in range(250)])
    await rig.close()
    await migrated(dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False), now=rig.now)
    source = dump(first, tmp_path / "a", source=True)
    await source.open()
    assert [len(rows) async for rows in source.rows("stage")] == [1, 1, 1]
    assert [len(rows) async for rows in source.rows("fifo")] == [100, 100, 50]
    await source.close()
    moved = Rig(functools.partial(ENGINES[second], tmp_path / "b"), rig.clock)
    await moved.open()
    try:
        await moved.stages.publish(orders, "nights", 1, ["night"], principal=WHO)
        assert sorted(lease.message.body for lease in await moved.receive("orders", limit=10)) == [b"0", b"1", b"2"]
        (again,) = await moved.send_all("line", [Draft(body=b"x", id="ü7", group="ü7")])
        assert isinstance(again, Sent)
        assert (await moved.broker.counters(line)).ready_count == 250
        assert await moved.store.check() == []
    finally:
        await moved.close()
        forget(tmp_path / "a")
        forget(tmp_path / "b")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_table_is_the_same_in_small_portions(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await inhabited(engine, tmp_path, 5)
    for name in ("orders", "listened"):
        queue = rig.queue(name)
        await rig.send_all(name, [Draft(body=b"x")] * 5)
        job = await rig.claims.open(queue, "spark")
        for number in (1, 2):
            await rig.claims.claim(queue, "spark", number, epoch=job.epoch, limit=2, principal=WHO)
            await rig.stages.stage(queue, f"night{number}", 1, [Draft(body=b"x")], principal=WHO)
        await rig.stages.publish(queue, "nights", 1, ["night1"], principal=WHO)
        await rig.stages.stage(queue, "night1", 1, [Draft(body=b"x")], principal=WHO)
    await rig.close()
    store = dump(engine, tmp_path, source=True)
    await store.open()
    try:
        for table in TABLES:
            whole = [row async for rows in store.rows(table) for row in rows]
            with monkeypatch.context() as patch:
                patch.setattr(f"couriermq.storage.{engine}.dumping.rows_at_once", lambda _: 1)
                parts = [rows async for rows in store.rows(table)]
            assert parts == [[row] for row in whole]
            assert len(whole) > 1, table
    finally:
        await store.close()
        forget(tmp_path)


async def test_nothing_is_written_over_another_store(tmp_path: Path) -> None:
    for name in ("a", "b"):
        rig = Rig(functools.partial(ENGINES["sqlite"], tmp_path / name))
        await rig.open()
        await rig.create("orders")
        await rig.close()
    with pytest.raises(CannotOpen, match="already holds a store"):
        await migrated(dump("sqlite", tmp_path / "a", source=True), dump("sqlite", tmp_path / "b", source=False), now=0)


async def test_a_refused_target_stays_as_it_was(tmp_path: Path) -> None:
    for name in ("a", "b"):
        await (await inhabited("sqlite", tmp_path / name, 1)).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "b" / "courier.db")) as db:
        db.execute("PRAGMA user_version = 3")
    before = {name: (tmp_path / "b" / name).read_bytes() for name in ("courier.db", "courier.db-mark")}
    with pytest.raises(CannotOpen, match="already holds a store"):
        await migrated(dump("sqlite", tmp_path / "a", source=True), dump("sqlite", tmp_path / "b", source=False), now=0)
    assert {name: (tmp_path / "b" / name).read_bytes() for name in before} == before


async def test_a_refused_database_keeps_its_schema(tmp_path: Path) -> None:
    await (await inhabited("sqlite", tmp_path / "a", 1)).close()
    await (await inhabited("postgres", tmp_path / "b", 1)).close()
    cluster = shared_cluster()
    cluster.change(tmp_path / "b", "UPDATE schema_version SET version = 3; ALTER TABLE lane RENAME TO elsewhere")
    target = dump("postgres", tmp_path / "b", source=False)
    try:
        with pytest.raises(CannotOpen, match="already holds a store"):
            await migrated(dump("sqlite", tmp_path / "a", source=True), target, now=0)
        assert cluster.execute(f"SELECT version FROM {cluster._schemas[tmp_path / 'b']}.schema_version") == [(3,)]
    finally:
        newest = migrations()[-1][0]
        cluster.change(
            tmp_path / "b", f"UPDATE schema_version SET version = {newest}; ALTER TABLE elsewhere RENAME TO lane"
        )
        forget(tmp_path / "b")


BOTH_WAYS = [("sqlite", "postgres"), ("postgres", "sqlite")]


async def refused(engine: str, directory: Path) -> None:
    """The store is not served, however often one tries."""
    for _ in range(2):
        with pytest.raises(CannotOpen, match="`courier migrate` has not ended"):
            await Rig(functools.partial(ENGINES[engine], directory)).open()


@pytest.mark.parametrize(("first", "second"), BOTH_WAYS)
async def test_half_a_copy_is_neither_served_nor_copied_on(tmp_path: Path, first: str, second: str) -> None:
    rig = await inhabited(first, tmp_path / "a", 9)
    source, target = dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False)
    await source.open()
    await target.open()
    await Migration(source, target, lambda step, done, total: None).copy()
    await source.close()
    await target.close()
    before = await picture(rig)
    await rig.close()
    try:
        await refused(second, tmp_path / "b")
        half, third = dump(second, tmp_path / "b", source=True), dump("sqlite", tmp_path / "c", source=False)
        with pytest.raises(CannotOpen, match="`courier migrate` has not ended"):
            await migrated(half, third, now=rig.now)
        await migrated(
            dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False), now=rig.now
        )
        moved = Rig(functools.partial(ENGINES[second], tmp_path / "b"), rig.clock)
        await moved.open()
        assert await picture(moved) == before
        await moved.close()
    finally:
        forget(tmp_path / "a")
        forget(tmp_path / "b")


@pytest.mark.parametrize(("first", "second"), BOTH_WAYS)
async def test_a_copy_that_is_not_the_source_is_not_served(tmp_path: Path, first: str, second: str) -> None:
    rig = await inhabited(first, tmp_path / "a", 10)
    stranger = (await rig.send("orders", b"stranger", id="x")).seq
    source, target = dump(first, tmp_path / "a", source=True), dump(second, tmp_path / "b", source=False)
    try:
        with pytest.raises(CannotOpen, match="messages that are not the"):  # noqa: PT012 - what comes out of the block
            async with copied(rig, source, target):
                async for (message,) in source.named([stranger]):
                    await target.put_messages([msgspec.structs.replace(message, seq=stranger + 1_000)])
        await refused(second, tmp_path / "b")
    finally:
        forget(tmp_path / "a")
        forget(tmp_path / "b")


DAMAGE = {
    "record": ("UPDATE record SET slot = slot || 'x' WHERE kind = 'queue'", "of table record"),
    "tally": ("UPDATE tally SET ready = ready + 1", "of table tally .a server that starts on the store counts anew"),
    "stage": ("UPDATE stage SET count = count + 1", "of table stage"),
    "parcels": ("UPDATE stage SET parcels = zeroblob(length(parcels))", "of table stage"),
    "text": ("UPDATE record SET id = CAST(x'ff' || id AS TEXT) WHERE kind = 'queue'", "database cannot be read"),
    "meta": ("UPDATE meta SET value = zeroblob(32) WHERE name = 'seal_key'", "entry seal_key"),
    "numbers": ("UPDATE journal SET next_seq = 1", "end of the journal"),
}


async def damaged_source(directory: Path, sql: str) -> Rig:
    rig = Rig(functools.partial(ENGINES["sqlite"], directory))
    await rig.open()
    orders = await rig.create("orders")
    await rig.create("line", kind=Kind.FIFO)
    await rig.send("line", id="x")
    await rig.stages.stage(orders, "night", 0, [Draft(body=b"x")], principal=WHO)
    await rig.close()
    with contextlib.closing(sqlite3.connect(directory / "courier.db")) as db:
        assert db.execute(sql).rowcount > 0
        db.commit()
    return rig


@pytest.mark.parametrize("place", DAMAGE)
async def test_a_damaged_row_stops_a_migration(tmp_path: Path, place: str) -> None:
    sql, words = DAMAGE[place]
    rig = await damaged_source(tmp_path / "a", sql)
    source, target = dump("sqlite", tmp_path / "a", source=True), dump("sqlite", tmp_path / "b", source=False)
    with pytest.raises(CannotOpen, match=f"{words}.*; run `courier doctor`"):
        await migrated(source, target, now=rig.now)


async def test_a_damaged_memory_of_an_id_is_left_out_as_a_server_does(tmp_path: Path) -> None:
    rig = await damaged_source(tmp_path / "a", "UPDATE dedup SET until_at = until_at + 1")
    source, target = dump("sqlite", tmp_path / "a", source=True), dump("sqlite", tmp_path / "b", source=False)
    await migrated(source, target, now=rig.now)
    with contextlib.closing(sqlite3.connect(tmp_path / "b" / "courier.db")) as db:
        assert db.execute("SELECT 1 FROM dedup").fetchone() is None


async def test_a_damaged_row_of_the_journal_stops_a_migration_from_postgresql(tmp_path: Path) -> None:
    rig = Rig(functools.partial(ENGINES["postgres"], tmp_path / "a"))
    await rig.open()
    await rig.create("orders")
    await rig.send("orders")
    await rig.ack("orders", await rig.receive_one("orders"))
    await rig.close()
    source = PostgresDump(shared_cluster().store_url(tmp_path / "a"), source=True)
    await source.open()
    await source._ask("UPDATE journal SET events = set_byte(events, 20, 1 + get_byte(events, 20)) WHERE start = 0")
    await source.close()
    with pytest.raises(CannotOpen, match=r"the journal's row at offset 0 is damaged.*courier doctor"):
        await migrated(source, dump("sqlite", tmp_path / "b", source=False), now=rig.now)
    forget(tmp_path / "a")


async def test_a_store_that_has_lost_commits_is_not_copied(tmp_path: Path) -> None:
    rig = Rig(functools.partial(ENGINES["sqlite"], tmp_path / "a"))
    await rig.open()
    await rig.create("orders")
    await rig.close()
    shutil.copy(tmp_path / "a" / "courier.db", tmp_path / "old.db")
    await rig.open()
    await rig.send("orders")
    await rig.close()
    shutil.copy(tmp_path / "old.db", tmp_path / "a" / "courier.db")
    source, target = dump("sqlite", tmp_path / "a", source=True), dump("sqlite", tmp_path / "b", source=False)
    with pytest.raises(CannotOpen, match=r"has lost commits that were accepted.*at least 1 events"):
        await migrated(source, target, now=rig.now)
