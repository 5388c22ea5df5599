"""What only the embedded engine promises: group commit, a full disk, a failing disk, one process a directory."""

import asyncio
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.events import EventKind
from couriermq.core.model import Ack, Draft, Kind
from couriermq.storage import group_commit
from couriermq.storage.base import CannotOpen
from couriermq.storage.sqlite import care, checksums
from couriermq.storage.sqlite.dumping import SqliteDump
from couriermq.storage.sqlite.mark import forget_mark
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.damage import fill
from tests.support.engines import Rig

pytestmark = pytest.mark.usefixtures("tmp_path")


class Disk:
    """A disk that fails when told to; counts what it was asked to make durable."""

    def __init__(self) -> None:
        self.broken = False
        self.sync_count = 0

    def sync(self, descriptor: int) -> None:
        self.sync_count += 1
        if self.broken:
            raise OSError(5, "Input/output error")
        os.fdatasync(descriptor)


@asynccontextmanager
async def opened(path: Path, disk: Disk | None = None, **options: Any) -> AsyncIterator[Rig]:
    sync: Callable[[int], None] = disk.sync if disk else os.fdatasync
    rig = Rig(lambda: SqliteStore(path, sync=sync, **{"min_free_bytes": 0} | options))
    await rig.open()
    try:
        yield rig
    finally:
        await rig.close()


def sqlite_store(rig: Rig) -> SqliteStore:
    assert isinstance(rig.store, SqliteStore)
    return rig.store


# -- group commit ---------------------------------------------------------------------------------------------


async def test_everybody_who_waits_shares_one_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "TURN_SECONDS", 60.0)  # so that a busy machine does not part them
    disk = Disk()
    async with opened(tmp_path, disk) as rig:
        await rig.create("orders")
        before = disk.sync_count
        await asyncio.gather(*(rig.send("orders") for _ in range(100)))
        assert disk.sync_count == before + 1


async def test_a_look_needs_no_sync(tmp_path: Path) -> None:
    disk = Disk()
    async with opened(tmp_path, disk) as rig:
        await rig.create("orders")
        await rig.send("orders", delay_ms=1_000)
        before = disk.sync_count
        await rig.browse("orders")
        await rig.counters("orders")
        await rig.receive("orders")
        await rig.events()
        assert disk.sync_count == before


async def test_nobody_hears_of_success_before_the_sync(tmp_path: Path) -> None:
    reached, let_go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow_sync(descriptor: int) -> None:
        loop.call_soon_threadsafe(reached.set)
        assert let_go.wait(20)

    async with opened(tmp_path) as rig:
        await rig.create("orders")
        sqlite_store(rig)._engine._sync = slow_sync
        sending = asyncio.create_task(rig.send("orders"))
        try:
            async with asyncio.timeout(20):
                await reached.wait()
            span = (await rig.store.spans())[0]
            assert not sending.done()
        finally:
            let_go.set()
        await sending
        assert (await rig.store.spans())[0].next == span.next + 1  # the journal, too, shows only what is durable


# -- a failing disk -------------------------------------------------------------------------------------------


async def test_when_the_sync_fails_nobody_in_that_commit_hears_of_success(tmp_path: Path) -> None:
    disk = Disk()
    async with opened(tmp_path, disk) as rig:
        await rig.create("orders")
        await rig.send("orders")
        lease = await rig.receive_one("orders")
        disk.broken = True
        outcomes = await asyncio.gather(
            rig.send("orders"), rig.ack("orders", lease), rig.receive("orders"), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
        assert "did not take the last write" in str(outcomes[0])
        assert sqlite_store(rig).unavailable_reason


async def test_after_a_failed_sync_nothing_is_committed_or_shown_and_the_process_is_told(tmp_path: Path) -> None:
    disk = Disk()
    async with opened(tmp_path, disk) as rig:
        await rig.create("orders")
        await rig.send("orders", id="safe")
        disk.broken = True
        with pytest.raises(Unavailable):
            await rig.send("orders", id="doubtful")
        assert "Input/output error" in (rig.failure or "")
        disk.broken = False
        for refused in (rig.send("orders"), rig.browse("orders"), rig.counters("orders"), rig.receive("orders")):
            with pytest.raises(Unavailable, match="did not take the last write"):
                await refused
        assert [event.message_id for event in await rig.events(EventKind.SENT)] == ["safe"]


async def test_a_store_whose_sync_failed_copies_nothing_of_the_log_when_it_is_closed(tmp_path: Path) -> None:
    disk = Disk()
    async with opened(tmp_path, disk) as rig:
        await rig.create("orders")
        disk.broken = True
        with pytest.raises(Unavailable):
            await rig.send("orders", id="doubtful")
        before = (tmp_path / "courier.db").stat()  # opening it here would drop the locks of the store
    assert (tmp_path / "courier.db").stat().st_mtime_ns == before.st_mtime_ns
    assert (tmp_path / "courier.db-wal").stat().st_size
    async with opened(tmp_path) as rig:
        await rig.send("orders", id="after")
        assert [message.id for message in await rig.browse("orders")][-1] == "after"
        assert await rig.store.check() == []


async def test_a_checkpoint_whose_sync_fails_ends_the_store_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
        sqlite_store(rig)._log.check(error)
        with pytest.raises(Unavailable):
            await rig.send("orders")
        assert rig.failure


# -- a full disk ----------------------------------------------------------------------------------------------


def fill_up(rig: Rig) -> None:
    """Let the database grow no more: SQLite says what it says on a full disk."""
    db = sqlite_store(rig)._db
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")


def make_room(rig: Rig) -> None:
    sqlite_store(rig)._db.execute("PRAGMA max_page_count = 1000000000")


async def test_a_write_that_finds_no_room_is_refused_alone_and_whole(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        await rig.send("orders", id="before")
        before = await rig.counters("orders")
        fill_up(rig)
        with pytest.raises(Unavailable, match="disk is full"):
            await rig.send_all("orders", [Draft(body=b"x" * 100_000)] * 10)
        assert await rig.counters("orders") == before
        make_room(rig)
        await rig.send("orders", id="after")
        assert [message.id for message in await rig.browse("orders")] == ["before", "after"]
        assert await rig.store.check() == []


async def test_time_that_could_not_be_applied_for_want_of_room_is_applied_later(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        await rig.send_all("orders", [Draft(body=b"x" * 1_500)] * 500)
        await rig.receive("orders", limit=500, lease_ms=100)
        fill_up(rig)
        rig.clock.advance(ms=100)
        with pytest.raises(Unavailable):
            await rig.store.advance(now=rig.now)
        make_room(rig)
        await rig.store.advance(now=rig.now)
        assert len(await rig.events(EventKind.LEASE_EXPIRED)) == 500


async def test_sends_are_refused_while_there_is_still_room_for_acks(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        await rig.send_all("orders", [Draft(body=b"x")] * 3)
        sqlite_store(rig)._min_free_bytes = 2**62
        with pytest.raises(Unavailable, match="almost full"):
            await rig.send("orders")
        first, second, third = await rig.receive("orders", limit=3)
        await rig.ack("orders", first)
        await rig.release("orders", second)
        await rig.extend("orders", third, lease_ms=60_000)
        assert (await rig.counters("orders")).total_count == 2
        sqlite_store(rig)._min_free_bytes = 0
        await rig.send("orders")


# -- one process a directory ----------------------------------------------------------------------------------


async def test_a_directory_in_use_cannot_be_opened_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        with pytest.raises(CannotOpen, match=f"in use by another Courier .process {os.getpid()}"):
            async with opened(tmp_path):
                pass
        await rig.send("orders")
    async with opened(tmp_path) as rig:
        assert (await rig.counters("orders")).ready_count == 1


async def test_a_directory_in_use_stays_locked_without_its_lock_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        for _ in range(3):
            (tmp_path / "lock").unlink()
            with pytest.raises(CannotOpen, match="in use by another Courier"):
                async with opened(tmp_path):
                    pass
        await rig.send("orders")
        # An attempt that was refused must not drop the locks of the open connections: another process that closes
        # its own connection would then take the log for its own and delete it.
        subprocess.run([sys.executable, "-c", LOOK, tmp_path / "courier.db"], check=True, timeout=30)
        assert (tmp_path / "courier.db-wal").exists()
        await rig.send("orders")
    async with opened(tmp_path) as rig:
        assert (await rig.counters("orders")).ready_count == 2


LOOK = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM meta').fetchall(); db.close()"


async def test_data_from_a_newer_courier_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    with sqlite3.connect(tmp_path / "courier.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(CannotOpen, match=r"newer Courier .*upgrade"):
        async with opened(tmp_path):
            pass


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "courier.db").write_bytes(b"this is not a database, it is a poem\n" * 200)
    with pytest.raises(CannotOpen, match="cannot be opened"):
        async with opened(tmp_path):
            pass


async def test_a_directory_that_could_not_be_opened_is_not_left_locked(tmp_path: Path) -> None:
    (tmp_path / "courier.db").write_bytes(b"poem" * 2_000)
    with pytest.raises(CannotOpen):
        async with opened(tmp_path):
            pass
    (tmp_path / "courier.db").unlink()
    async with opened(tmp_path) as rig:
        await rig.create("orders")


# -- damage ---------------------------------------------------------------------------------------------------


DAMAGE = {
    "a wrong tally": "UPDATE tally SET ready = ready + 1 WHERE queue = 1",
    "a lost body": "UPDATE pack SET start = 999",
    "a stray body": "INSERT INTO payload (seq, body, crc) VALUES (999, x'00', 3523407757)",
    "a pack that does not add up": "UPDATE pack SET count = count + 1",
    "a damaged body": "UPDATE journal SET events = CAST(replace(events, 'xxx', 'yxx') AS BLOB) WHERE first_seq = 1",
    "a wrong group": "UPDATE fifo SET leased = 7",
    "a lost group": "DELETE FROM fifo",
    "a gap in the journal": "DELETE FROM journal WHERE start = (SELECT max(start) FROM journal WHERE start < 3)",
    "an unreadable commit": "UPDATE journal SET events = x'ff', crc = crc32(x'ff') WHERE start = 0",
    "a short commit": "UPDATE journal SET count = count + 1 WHERE start = (SELECT max(start) FROM journal)",
}
"""What contradicts itself although every checksum is right."""


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_check_finds(tmp_path: Path, damage: str) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        await rig.create("line", kind=Kind.FIFO)
        await rig.send("orders", b"x" * 5_000)
        await rig.send("line", group="g")
        assert await rig.store.check() == []
        store = rig.store
    with sqlite3.connect(tmp_path / "courier.db") as db:
        checksums.register(db)
        assert db.execute(DAMAGE[damage]).rowcount
        for table, columns in checksums.COLUMNS.items():
            db.execute(f"UPDATE {table} SET crc = crc({columns})")
        db.execute(
            "UPDATE journal SET head = crc(start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc)"
        )
        forget_mark(tmp_path)
    db.close()
    findings = await store.check()
    assert len(findings) == 1
    assert findings[0]


@pytest.mark.parametrize("table", checksums.COLUMNS)
async def test_a_wrong_value_in_any_column_is_found(tmp_path: Path, table: str) -> None:
    async with opened(tmp_path) as rig:
        await fill(rig)
        assert await rig.store.check() == []
        db = sqlite_store(rig)._db
        for column in checksums.COLUMNS[table].split(", "):
            db.execute("BEGIN")
            (value,) = db.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()
            wrong: object = 987_654
            if isinstance(value, str | bytes):
                wrong = "other" if isinstance(value, str) else b"other"
            assert db.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (wrong, value)).rowcount
            assert [name for name, _ in checksums.damaged_rows(db)] == [table]
            db.execute("ROLLBACK")


# -- older data -----------------------------------------------------------------------------------------------


SCHEMA_3 = Path(__file__).parent / "data" / "schema_3.db.gz"
"""What a Courier of schema 3 left behind; `make_schema_3.py` says how."""


async def test_data_of_schema_3_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "courier.db").write_bytes(gzip.decompress(SCHEMA_3.read_bytes()))
    known = json.loads(SCHEMA_3.with_name("schema_3.json").read_text())
    async with opened(tmp_path) as rig:
        assert await rig.store.check() == []
        for name, bodies in known["bodies"].items():
            assert sorted(message.body.decode() for message in await rig.browse(name)) == bodies
        assert (await rig.store.spans())[0].next == known["events"]
        for name, receipt in known["receipts"].items():
            await rig.broker.ack(rig.queue(name), receipt, principal="tester")
        slice_ = await rig.claims.read(rig.queue("jobs"), "spark", 1, epoch=known["epoch"], start=0, stop=10)
        assert [message.body for _, message in slice_.messages] == [b"job 0", b"job 1"]
        leases = await rig.receive("orders", limit=10)
        assert {lease.message.body for lease in leases} >= {b"plain 1", b"given", b"large" * 1_000}
        await rig.settle("orders", *(Ack(lease.receipt) for lease in leases))
        (dead,) = await rig.browse("dead")
        assert dead.death is not None
        assert await rig.redrive("dead") == 1
        await rig.pass_time(ms=60_000)
        assert {lease.message.body for lease in await rig.receive("orders", limit=10)} == {b"dies", b"later"}
        assert await rig.store.check() == []


async def test_messages_of_schema_3_have_their_turns_counted_from_now_on(tmp_path: Path) -> None:
    (tmp_path / "courier.db").write_bytes(gzip.decompress(SCHEMA_3.read_bytes()))
    async with opened(tmp_path) as rig:
        before = (await rig.store.spans())[0].next
        entries = await rig.store.read_events(start=0, limit=before)
        assert {entry.event.turn for entry in entries} == {None}
        leases = await rig.receive("orders", limit=1)
        await rig.ack("orders", leases[0])
        entries = await rig.store.read_events(start=before, limit=10)
        own = [entry.event for entry in entries if entry.event.seq == leases[0].message.seq]
        assert [(event.kind, event.turn, event.sent_at) for event in own] == [
            ("received", 1, leases[0].message.sent_at),
            ("acked", 2, leases[0].message.sent_at),
        ]


async def test_a_backup_of_schema_3_can_be_restored(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    backup.mkdir()
    (backup / "courier.db").write_bytes(gzip.decompress(SCHEMA_3.read_bytes()))
    assert care.check(backup) == []
    care.restore(backup, tmp_path / "data")
    async with opened(tmp_path / "data") as rig:
        assert (await rig.counters("orders")).total_count == 8
    with pytest.raises(CannotOpen, match="start this one on it once"):
        await SqliteDump(backup, source=True).open()


async def test_a_store_of_larger_pages_keeps_them_and_so_does_its_backup(tmp_path: Path) -> None:
    old, backup, new = (tmp_path / name for name in ("old", "backup", "new"))
    old.mkdir()
    with closing(sqlite3.connect(old / "courier.db")) as db:
        db.execute("PRAGMA page_size = 4096")
        db.execute("PRAGMA journal_mode = WAL")
    async with opened(old) as rig:
        await rig.create("orders")
        await rig.send("orders", b"kept")
        assert page_bytes(rig) == 4_096
    care.backup(old, backup)
    care.restore(backup, new)
    async with opened(new) as rig:
        assert page_bytes(rig) == 4_096
        assert [message.body for message in await rig.browse("orders")] == [b"kept"]
        assert await rig.store.check() == []


def page_bytes(rig: Rig) -> int:
    (found,) = sqlite_store(rig)._db.execute("PRAGMA page_size").fetchone()
    return int(found)


async def test_a_lease_without_end_that_no_claim_knows_of_is_found(tmp_path: Path) -> None:
    async with opened(tmp_path) as rig:
        await rig.create("orders")
        await rig.send("orders")
        job = await rig.claims.open(rig.queue("orders"), "spark")
        await rig.claims.claim(rig.queue("orders"), "spark", 1, epoch=job.epoch, limit=1, principal="tester")
        sqlite_store(rig)._db.execute("DELETE FROM claim_part")
        assert await rig.store.check() == ["1 messages are held by a claim that is not there"]
