"""Commits that were synced and are missing at the next start are noticed, and nobody goes on without being told to."""

import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from couriermq.core.model import Draft
from couriermq.storage.base import CannotOpen
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.loss import find_loss
from couriermq.storage.sqlite.mark import MARK, Mark, Position, read_mark
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig

FRAME_BYTES = 24 + 2_048
HEADER_BYTES = 32


async def killed(tmp_path: Path, *, commits: int = 20) -> Path:
    """The files of a store whose process was killed after so many sends, in a directory of their own."""
    rig = Rig(lambda: SqliteStore(tmp_path / "before", min_free_bytes=0))
    await rig.open()
    await rig.create("orders")
    for number in range(commits):
        await rig.send("orders", id=f"m-{number}")
    copy = tmp_path / "after"
    # In another process: a file that is closed here would drop the locks of the store.
    subprocess.run(["cp", "-r", tmp_path / "before", copy], check=True)
    await rig.close()
    (copy / "lock").unlink()
    (copy / "courier.db-shm").unlink()
    return copy


def opened(directory: Path, **options: bool) -> Rig:
    return Rig(lambda: SqliteStore(directory, min_free_bytes=0, **options))  # type: ignore[arg-type]


def flip(path: Path, at: int) -> None:
    stored = bytearray(path.read_bytes())
    stored[at] ^= 0x10
    path.write_bytes(stored)


async def refused(directory: Path, words: str) -> None:
    for _ in range(2):  # a refusal changes nothing
        with pytest.raises(CannotOpen, match=words):
            await opened(directory).open()


async def test_a_killed_store_that_lost_nothing_opens(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    assert find_loss(directory) is None
    rig = opened(directory)
    await rig.open()
    assert (await rig.counters("orders")).total_count == 20
    await rig.close()


@pytest.mark.parametrize("lost", [1, 2, 10])
async def test_one_flipped_bit_in_the_log_is_noticed_also_in_the_very_last_commit(tmp_path: Path, lost: int) -> None:
    directory = await killed(tmp_path)
    wal = directory / "courier.db-wal"
    frames = (wal.stat().st_size - HEADER_BYTES) // FRAME_BYTES
    flip(wal, HEADER_BYTES + (frames - lost) * FRAME_BYTES + 500)
    await refused(directory, f"of {frames} pages can be read.*--accept-loss")
    (finding,) = care.check(directory)
    assert "accepted are lost" in finding
    assert wal.stat().st_size == HEADER_BYTES + frames * FRAME_BYTES


async def test_a_log_that_was_cut_off_is_noticed(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    wal = directory / "courier.db-wal"
    with wal.open("rb+") as file:
        file.truncate(wal.stat().st_size - 100)
    await refused(directory, "at least 1 events are lost")


async def test_a_log_with_a_damaged_header_is_noticed(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    flip(directory / "courier.db-wal", 9)
    await refused(directory, "header cannot be read")


async def test_a_log_that_was_removed_is_noticed(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    (directory / "courier.db-wal").unlink()
    await refused(directory, "older than what was synced")


async def test_a_database_that_was_removed_is_noticed(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    for name in ("courier.db", "courier.db-wal"):
        (directory / name).unlink()
    await refused(directory, "older than what was synced")


async def test_an_older_copy_of_the_database_is_noticed(tmp_path: Path) -> None:
    rig = opened(tmp_path / "data")
    await rig.open()
    await rig.create("orders")
    await rig.close()
    shutil.copy(tmp_path / "data" / "courier.db", tmp_path / "old.db")
    await rig.open()
    await rig.send("orders")
    await rig.close()
    assert find_loss(tmp_path / "data") is None
    shutil.copy(tmp_path / "old.db", tmp_path / "data" / "courier.db")
    await refused(tmp_path / "data", "at least 1 events")


async def test_a_loss_can_be_accepted_and_its_numbers_are_not_given_out_again(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    wal = directory / "courier.db-wal"
    frames = (wal.stat().st_size - HEADER_BYTES) // FRAME_BYTES
    flip(wal, HEADER_BYTES + frames // 2 * FRAME_BYTES + 500)
    rig = opened(directory, accept_loss=True)
    await rig.open()
    kept = [message.seq for message in await rig.browse("orders")]
    assert 0 < len(kept) < 20
    assert (await rig.send("orders", id="new")).seq > 21
    assert await rig.store.check() == []
    await rig.close()
    rig = opened(directory)  # it is accepted once and for all
    await rig.open()
    assert (await rig.counters("orders")).total_count == len(kept) + 1
    await rig.close()


async def test_a_log_that_another_program_has_copied_into_the_database_is_no_loss(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    db = sqlite3.connect(directory / "courier.db")
    db.execute("SELECT count(*) FROM meta").fetchone()
    db.close()
    assert not (directory / "courier.db-wal").exists()
    rig = opened(directory)
    await rig.open()
    assert (await rig.counters("orders")).total_count == 20
    await rig.close()


async def test_a_log_that_starts_anew_is_no_loss(tmp_path: Path) -> None:
    rig = opened(tmp_path / "before")
    await rig.open()
    store = rig.store
    assert isinstance(store, SqliteStore)
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x" * 20_000)] * 20)
    for _ in range(2):
        store._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        await rig.send("orders")
    subprocess.run(["cp", "-r", tmp_path / "before", tmp_path / "anew"], check=True)
    assert store._log.cut()
    subprocess.run(["cp", "-r", tmp_path / "before", tmp_path / "cut"], check=True)
    await rig.close()
    for name in ("anew", "cut"):
        (tmp_path / name / "courier.db-shm").unlink()
        rig = opened(tmp_path / name)
        await rig.open()
        assert (await rig.counters("orders")).total_count == 22
        await rig.close()


async def test_a_restored_backup_needs_no_mark(tmp_path: Path) -> None:
    directory = await killed(tmp_path)
    care.backup(directory, tmp_path / "backup")
    for file in directory.iterdir():
        if file.name != MARK:
            file.unlink()
    care.restore(tmp_path / "backup", directory)
    rig = opened(directory)
    await rig.open()
    assert (await rig.counters("orders")).total_count == 20
    await rig.close()


# -- the file -------------------------------------------------------------------------------------------------


def advance(mark: Mark, number: int) -> None:
    mark.advance(Position(b"saltsalt", number), next_offset=number, next_seq=number, next_lease=number)


def test_a_mark_that_is_torn_falls_back_to_the_one_before(tmp_path: Path) -> None:
    mark = Mark(tmp_path)
    for number in range(1, 8):
        advance(mark, number)
    mark.close()
    newest = read_mark(tmp_path)
    assert newest is not None
    assert newest.next_offset == 7
    flip(tmp_path / MARK, newest.number % 2 * 4_096 + 20)
    before = read_mark(tmp_path)
    assert before is not None
    assert before.next_offset == 6
    mark = Mark(tmp_path)
    advance(mark, 9)
    mark.close()
    after = read_mark(tmp_path)
    assert after is not None
    assert after.next_offset == 9


def test_a_mark_survives_the_death_of_its_process(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from couriermq.storage.sqlite.mark import Mark, Position
mark = Mark(Path({str(tmp_path)!r}))
mark.advance(Position(b"saltsalt", 3), next_offset=5, next_seq=6, next_lease=7)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    found = read_mark(tmp_path)
    assert found is not None
    assert found[2:] == (Position(b"saltsalt", 3), 5, 6, 7)
