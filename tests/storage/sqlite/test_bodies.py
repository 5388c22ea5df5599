"""Bodies are stored once, in the journal; what happens to them when the journal goes, and when they are damaged."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.events import EventKind
from couriermq.core.lanes import first_of_lane
from couriermq.core.model import Ack, Draft, Kind, Parcel, Release
from couriermq.storage.base import CannotOpen
from couriermq.storage.dump import DumpedCommit
from couriermq.storage.sqlite import trim
from couriermq.storage.sqlite.dumping import SqliteDump
from couriermq.storage.sqlite.store import SqliteStore
from couriermq.storage.staging import pack
from tests.support.engines import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> object:
    rig = Rig(lambda: SqliteStore(tmp_path, min_free_bytes=0, sync=lambda _: None))
    await rig.open()
    yield rig
    await rig.close()


def rows(rig: Rig, query: str) -> list[tuple[object, ...]]:
    assert isinstance(rig.store, SqliteStore)
    return rig.store._db.execute(query).fetchall()


async def seal(rig: Rig) -> int:
    """Trim what an archive would have taken."""
    return await rig.store.trim_events(before=(await rig.store.spans())[0].next)


async def test_messages_that_wait_are_no_rows_of_their_own(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 100)
    assert rows(rig, "SELECT count(*) FROM message") == [(0,)]
    assert rows(rig, "SELECT count, remaining FROM pack") == [(100, 100)]
    leases = await rig.receive("orders", limit=100)
    await rig.settle("orders", *(Ack(lease.receipt) for lease in leases))
    assert rows(rig, "SELECT count(*) FROM pack") == [(0,)]


async def test_a_claim_reads_a_journal_row_as_often_for_many_messages_as_for_one(rig: Rig) -> None:
    """Messages with attributes of their own are packs of one, which share the row that their send has written."""
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x", attributes={"n": n}) for n in range(50)])
    assert rows(rig, "SELECT count(*) FROM pack") == [(50,)]
    queue = rig.queue("orders")
    job = await rig.claims.open(queue, "spark")
    await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=50, principal="tester")
    assert isinstance(rig.store, SqliteStore)
    looks: list[str] = []
    rig.store._reader.set_trace_callback(lambda sql: looks.append(sql) if "FROM journal" in sql else None)
    read_counts = []
    for stop in (1, 50):
        looks.clear()
        part = await rig.claims.read(queue, "spark", 1, epoch=job.epoch, start=0, stop=stop)
        assert [message.attributes["n"] for _, message in part.messages] == list(range(stop))
        read_counts.append(len(looks))
    assert read_counts[0] == read_counts[1] > 0


async def test_a_message_outlives_the_journal_row_that_holds_it(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=f"{n}".encode()) for n in range(3)])
    await rig.send("orders", b"mine", id="mine")
    await rig.send("orders", b"newest")
    assert await seal(rig) > 0
    assert (await rig.store.spans())[0].oldest > 0
    assert await rig.store.check() == []
    await rig.restart()
    assert {message.body for message in await rig.browse("orders")} == {b"0", b"1", b"2", b"mine", b"newest"}
    bodies = [lease.message.body for lease in await rig.receive("orders", limit=10)]
    assert bodies == [b"0", b"1", b"2", b"mine", b"newest"]


async def test_a_row_that_nothing_waits_in_goes_with_the_next_trim(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 3)
    await rig.create("bills")
    await seal(rig)
    assert rows(rig, "SELECT first_seq, last_seq, kept FROM retained JOIN journal USING (start)") == [(1, 3, None)]
    leases = await rig.receive("orders", limit=3)
    await rig.settle("orders", *(Ack(lease.receipt) for lease in leases))
    await seal(rig)
    assert rows(rig, "SELECT * FROM retained") == []
    assert rows(rig, "SELECT * FROM journal WHERE first_seq = 1") == []
    assert await rig.store.check() == []


async def test_what_a_trim_looks_at_does_not_grow_with_what_waits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim, "STEP", 5)
    await rig.create("orders")
    seen: list[int] = []
    for waiting in (50, 100):
        while (await rig.counters("orders")).total_count < waiting:
            await rig.send("orders")
        await seal(rig)
        await rig.send("orders")
        looks: list[str] = []
        assert isinstance(rig.store, SqliteStore)
        rig.store._db.set_trace_callback(lambda sql, looks=looks: looks.append(sql))  # type: ignore[misc]
        await seal(rig)
        rig.store._db.set_trace_callback(None)
        seen.append(len(looks))
    assert seen[0] == seen[1], seen


async def test_rows_that_nothing_waits_in_go_however_many_wait_before_them(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trim, "STEP", 5)
    await rig.create("orders")
    await rig.create("bills")
    for _ in range(30):
        await rig.send("orders")
    for _ in range(30):
        await rig.send("bills")
    await seal(rig)
    await rig.settle("bills", *(Ack(lease.receipt) for lease in await rig.receive("bills", limit=30)))
    await rig.create("more")
    await seal(rig)
    await rig.store.tidy()
    assert rows(rig, "SELECT count(*) FROM retained") == [(30,)]
    assert await rig.store.check() == []


async def test_the_last_single_messages_of_a_row_are_copied_out(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=f"{n}".encode()) for n in range(3)])
    first, second, third = await rig.receive("orders", limit=3)
    await rig.settle("orders", Ack(first.receipt), Release(second.receipt), Ack(third.receipt))
    await rig.send("orders", b"newest")
    await seal(rig)
    assert rows(rig, "SELECT seq, body FROM payload") == [(2, b"1")]
    assert rows(rig, "SELECT count(*) FROM journal WHERE first_seq = 1") == [(0,)]
    assert await rig.store.check() == []
    leases = await rig.receive("orders", limit=3)
    assert {lease.message.body for lease in leases} == {b"1", b"newest"}
    await rig.settle("orders", *(Ack(lease.receipt) for lease in leases))
    assert rows(rig, "SELECT count(*) FROM payload") == [(0,)]


async def send_with_copies(rig: Rig, body: bytes, *outboxes: str) -> None:
    draft = Draft(body=body, id="m-1")
    copies = [Parcel(rig.queue(name), msgspec.structs.replace(draft), copy_of=0) for name in outboxes]
    await rig.store.send([Parcel(rig.queue("orders"), draft), *copies], now=rig.clock.now(), principal="test")


@pytest.mark.parametrize("size", [10, 400_000])
async def test_a_message_and_its_copies_share_one_body(rig: Rig, size: int) -> None:
    await rig.create("orders")
    outboxes = [f"outbox-{number}" for number in range(5)]
    for name in outboxes:
        await rig.create(name, archive_bodies=False)
    body = b"x" * size
    await send_with_copies(rig, body, *outboxes)
    await rig.create("last")
    assert rows(rig, "SELECT sum(length(events)) < 5000 + " + str(size) + " FROM journal") == [(1,)]
    await rig.settle("orders", Ack((await rig.receive_one("orders")).receipt))
    await rig.settle("outbox-0", Release((await rig.receive_one("outbox-0")).receipt))
    for _ in range(2):
        await seal(rig)
        assert await rig.store.check() == []
        await rig.restart()
        assert [(await rig.browse(name))[0].body == body for name in outboxes] == [True] * 5
    for name in outboxes:
        lease = await rig.receive_one(name)
        assert lease.message.body == body
        await rig.settle(name, Ack(lease.receipt))
    await seal(rig)
    assert rows(rig, "SELECT count(*) FROM retained") == rows(rig, "SELECT count(*) FROM payload") == [(0,)]


async def test_a_body_that_is_not_archived_is_shown_to_receivers_alone(rig: Rig) -> None:
    await rig.create("secret", archive_bodies=False)
    await rig.send("secret", b"hidden", attributes={"colour": "red"})
    (sent,) = await rig.events(EventKind.SENT)
    assert sent.detail == {"content_type": "application/octet-stream"}
    for commit in await rig.store.read_commits(start=0, limit=100):
        assert b"hidden" not in commit.events
        assert b"colour" not in commit.events
    lease = await rig.receive_one("secret")
    assert (lease.message.body, lease.message.attributes) == (b"hidden", {"colour": "red"})


async def test_a_damaged_body_is_never_served(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", b"the truth")
    await rig.close()
    with sqlite3.connect(tmp_path / "courier.db") as db:
        query = "UPDATE journal SET events = CAST(replace(events, 'truth', 'trust') AS BLOB) WHERE first_seq = 1"
        assert db.execute(query).rowcount == 1
    db.close()
    await rig.open()
    await rig.send("orders", b"the rest")
    assert [event.kind for event in await rig.events()][1:] == ["queue_added", "damaged", "sent"]
    assert rig.store.metrics.damaged_events == 1  # type: ignore[attr-defined]
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"the rest"]
    assert [message.body for message in await rig.browse("orders")] == [b"the rest"]
    assert (await rig.counters("orders")).total_count == 1
    assert rig.store.metrics.quarantined == 1  # type: ignore[attr-defined]
    findings = await rig.store.check()
    assert "1 messages of queue 1 were damaged and are set aside" in findings
    assert any("the journal is damaged at offset" in finding for finding in findings)


async def test_a_damaged_body_that_was_copied_out_is_set_aside_alone(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", b"one", id="one")
    await rig.send("orders", b"two", id="two")
    await rig.create("bills")
    await seal(rig)
    await rig.close()
    with sqlite3.connect(tmp_path / "courier.db") as db:
        assert db.execute("UPDATE payload SET body = x'00' WHERE body = x'6f6e65'").rowcount == 1
    db.close()
    await rig.open()
    assert [message.id for message in await rig.browse("orders")] == ["two"]
    assert (await rig.counters("orders")).total_count == 1


# -- damaged rows ---------------------------------------------------------------------------------------------


async def change(rig: Rig, tmp_path: Path, *statements: str) -> None:
    """Change rows behind the store's back, as a disk does: the checksums stay as they are."""
    await rig.close()
    db = sqlite3.connect(tmp_path / "courier.db")
    for statement in statements:
        assert db.execute(statement).rowcount == 1
    db.commit()
    db.close()
    await rig.open()


@pytest.mark.parametrize("column", ["queue", "state", "due_at", "attempts", "count", "bytes", "start", "position"])
async def test_a_damaged_pack_is_set_aside_and_the_rest_of_the_queue_goes_on(
    tmp_path: Path, rig: Rig, column: str
) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"one"), Draft(body=b"two")])
    await rig.send("orders", b"three")
    await change(rig, tmp_path, f"UPDATE pack SET {column} = {column} + 1 WHERE last = 2")
    rig.clock.advance(ms=1)
    assert [message.body for message in await rig.browse("orders")] == [b"three"]
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"three"]
    if column == "queue":  # nobody comes across it until the doctor does
        assert await rig.store.check() == ["1 rows of table pack are damaged"]
        return
    assert (await rig.counters("orders")).total_count == 1
    assert rig.store.metrics.quarantined == (3 if column == "count" else 2)  # type: ignore[attr-defined]
    assert [finding for finding in await rig.store.check() if "set aside" not in finding] == []


async def test_a_damaged_message_is_set_aside_and_its_group_goes_on(tmp_path: Path, rig: Rig) -> None:
    await rig.create("line", kind=Kind.FIFO)
    for body in (b"one", b"two"):
        await rig.send("line", body, group="g")
    await change(rig, tmp_path, "UPDATE message SET attempts = 7 WHERE seq = 1")
    assert [lease.message.body for lease in await rig.receive("line", limit=10)] == [b"two"]
    assert (await rig.counters("line")).total_count == 1
    assert await rig.store.check() == ["1 messages of queue 1 were damaged and are set aside"]


async def test_a_damaged_index_is_made_anew_and_no_message_is_lost(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", b"one")
    await rig.close()
    database = tmp_path / "courier.db"
    with closing(sqlite3.connect(database)) as db:
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'pack_due'").fetchone()
    stored = bytearray(database.read_bytes())
    due_at = rig.now.to_bytes(6, "big")
    at = stored.index(due_at, (page - 1) * 2_048, page * 2_048)
    stored[at + 5] ^= 1
    database.write_bytes(stored)
    await rig.open()
    rig.clock.advance(ms=1)
    assert [lease.message.body for lease in await rig.receive("orders")] == [b"one"]
    assert await rig.store.check() == []


async def test_damaged_figures_are_counted_anew_at_the_start(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 3)
    await rig.send("orders", b"mine", id="mine")
    await change(rig, tmp_path, "UPDATE tally SET ready = 99, bytes = 7")
    counters = await rig.counters("orders")
    assert (counters.ready_count, counters.byte_count) == (4, 7)
    assert await rig.store.check() == []


async def test_a_damaged_thing_of_the_control_plane_stops_the_start_until_its_loss_is_accepted(
    tmp_path: Path, rig: Rig
) -> None:
    await rig.create("orders")
    await rig.create("bills")
    with pytest.raises(CannotOpen, match=r"the queue .* is damaged.*--accept-loss"):
        await change(rig, tmp_path, "UPDATE record SET document = x'00' WHERE slot LIKE '%orders'")
    await rig.close()
    accepting = Rig(lambda: SqliteStore(tmp_path, min_free_bytes=0, accept_loss=True))
    await accepting.open()
    assert [queue.name for queue in accepting.catalog.queues("default")] == ["bills"]
    await accepting.close()
    await rig.open()


async def test_a_damaged_chunk_of_a_stage_is_not_sent(tmp_path: Path, rig: Rig) -> None:
    queue = await rig.create("orders")
    chunks = [pack([Parcel(queue, Draft(body=body))], count=1) for body in (b"the truth", b"the rest")]
    await rig.store.stage(queue.id, stage="s", part=0, chunks=chunks, now=rig.now)
    query = "UPDATE stage SET parcels = CAST(replace(parcels, 'truth', 'trust') AS BLOB) WHERE chunk = 0"
    await change(rig, tmp_path, query)
    queue = rig.queue("orders")
    await rig.store.publish(queue.id, series="s", number=1, stages=["s"], parts={}, now=rig.now, principal="test")
    assert [message.body for message in await rig.browse("orders")] == [b"the rest"]
    assert rig.store.metrics.quarantined == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("table", "statement"),
    [("job", "UPDATE job SET epoch = 9"), ("publication", "UPDATE publication SET number = 9")],
)
async def test_a_damaged_job_or_publication_is_refused_and_the_rest_goes_on(
    tmp_path: Path, rig: Rig, table: str, statement: str
) -> None:
    queue = await rig.create("orders")
    await rig.claims.open(queue, "spark")
    await rig.store.publish(queue.id, series="s", number=1, stages=[], parts={}, now=rig.now, principal="test")
    await change(rig, tmp_path, statement)
    queue = rig.queue("orders")
    look = rig.store.jobs(queue) if table == "job" else rig.store.publication(queue.id, series="s")
    with pytest.raises(Unavailable, match="damaged"):
        await look
    await rig.send("orders")
    assert await rig.store.check() == [f"1 rows of table {table} are damaged"]


async def test_readers_of_the_journal_are_told_which_events_are_damaged(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    for number in range(6):
        await rig.send_all("orders", [Draft(body=f"{number}".encode())] * 2)
    before = await rig.store.read_events(start=0, limit=100)
    await change(
        rig, tmp_path, "UPDATE journal SET private = 1 WHERE first_seq = 3", "DELETE FROM journal WHERE first_seq = 5"
    )
    for start in range(len(before)):
        for limit in (1, 3, 100):
            entries = await rig.store.read_events(start=start, limit=limit)
            assert [entry.offset for entry in entries] == list(range(start, start + len(entries)))
            damaged = [entry for entry in entries if entry.event.kind == EventKind.DAMAGED]
            assert {entry.offset for entry in damaged} == {entry.offset for entry in entries} & set(range(4, 8))
            assert [entry for entry in entries if entry not in damaged] == [
                entry for entry in before if entry.offset in {one.offset for one in entries} - set(range(4, 8))
            ]
    findings = await rig.store.check()
    assert any("damaged at offset 4" in finding for finding in findings)


# -- erased ---------------------------------------------------------------------------------------------------


def bytes_on_disk(tmp_path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith("courier.db"))


async def test_a_removed_body_leaves_the_row_in_which_others_wait(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    secret, kept = b"a secret " * 300, b"stays " * 300
    await rig.send_all("orders", [Draft(body=kept), Draft(body=secret), Draft(body=kept)])
    await rig.create("bills")
    await seal(rig)
    await rig.remove("orders", [2])
    await seal(rig)
    assert [message.body for message in await rig.browse("orders")] == [kept, kept]
    assert await rig.store.check() == []
    await rig.close()
    assert secret[:40] not in bytes_on_disk(tmp_path)
    assert kept[:40] in bytes_on_disk(tmp_path)
    await rig.open()
    leases = await rig.receive("orders", limit=10)
    assert [(lease.message.seq, lease.message.body) for lease in leases] == [(1, kept), (3, kept)]


async def test_a_damaged_row_of_another_lane_is_found_and_told_to_readers(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    for body in (b"one", b"two", b"three"):
        await rig.send("orders", body)
    start = first_of_lane(1)
    query = f"SELECT start + {start}, count, at, events FROM journal"
    commits = [DumpedCommit(*row) for row in rows(rig, query)]  # type: ignore[arg-type]
    await rig.close()
    dump = SqliteDump(tmp_path, source=False)
    await dump.open()
    await dump.begin_writing()
    await dump.put_journal(commits)
    await dump.close()
    await rig.open()
    kinds = [entry.event.kind for entry in await rig.store.read_events(start=start, limit=10)]
    assert await rig.store.check() == []
    await change(rig, tmp_path, f"UPDATE other_lane SET at = at + 1 WHERE start = {start + 2}")
    found = [entry.event.kind for entry in await rig.store.read_events(start=start, limit=10)]
    assert found == [*kinds[:2], "damaged", *kinds[3:]]
    assert await rig.store.check() == [f"the journal is damaged at offset {start + 2}"]
