"""What a restore takes from its source, and what it leaves alone."""

import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from couriermq.core.model import Draft
from couriermq.storage.base import CannotOpen
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig


def opened(directory: Path) -> Rig:
    return Rig(lambda: SqliteStore(directory, min_free_bytes=0))


def killed(directory: Path, copy: Path) -> None:
    """The files as a killed server leaves them, taken beside it by another process, which drops no locks."""
    subprocess.run(["cp", "-r", directory, copy], check=True)


async def made(directory: Path) -> Rig:
    """A store with messages of which the last 20 are in the log alone."""
    rig = opened(directory)
    await rig.open()
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 10)
    assert isinstance(rig.store, SqliteStore)
    rig.store._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    await rig.send_all("orders", [Draft(body=b"x")] * 20)
    return rig


async def message_count(directory: Path) -> int:
    rig = opened(directory)
    await rig.open()
    try:
        return (await rig.counters("orders")).total_count
    finally:
        await rig.close()


async def test_a_restore_takes_what_is_in_the_log_of_its_source(tmp_path: Path) -> None:
    rig = await made(tmp_path / "before")
    killed(tmp_path / "before", tmp_path / "snapshot")
    await rig.close()
    care.restore(tmp_path / "snapshot", tmp_path / "data")
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["courier.db", "lock"]
    assert care.check(tmp_path / "data") == []
    assert await message_count(tmp_path / "data") == 30


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
async def test_a_restore_refuses_a_directory_with_the_log_of_another_database(tmp_path: Path, suffix: str) -> None:
    rig = await made(tmp_path / "before")
    care.backup(tmp_path / "before", tmp_path / "backup")
    killed(tmp_path / "before", tmp_path / "data")
    await rig.close()
    for file in (tmp_path / "data").iterdir():
        if file.name != "courier.db-wal":
            file.unlink()
    left = (tmp_path / "data" / "courier.db-wal").rename(tmp_path / "data" / f"courier.db{suffix}")
    with pytest.raises(CannotOpen, match=f"holds courier.db{suffix}, which belongs to another database; move it away"):
        care.restore(tmp_path / "backup", tmp_path / "data")
    assert not (tmp_path / "data" / "courier.db").exists()
    left.unlink()
    care.restore(tmp_path / "backup", tmp_path / "data")
    assert await message_count(tmp_path / "data") == 30


async def test_a_restore_that_was_interrupted_can_be_repeated(tmp_path: Path) -> None:
    rig = await made(tmp_path / "before")
    await rig.close()
    care.backup(tmp_path / "before", tmp_path / "backup")
    (tmp_path / "data").mkdir()
    shutil.copy(tmp_path / "before" / "courier.db", tmp_path / "data" / "courier.db.partial")
    (tmp_path / "data" / "courier.db.partial-journal").write_bytes(b"x" * 4096)
    care.restore(tmp_path / "backup", tmp_path / "data")
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["courier.db", "lock"]
    with closing(sqlite3.connect(tmp_path / "data" / "courier.db")) as db:
        assert db.execute("SELECT 1 FROM meta WHERE name = 'new_incarnation'").fetchone()


# -- damage ---------------------------------------------------------------------------------------------------


async def damaged(directory: Path) -> Rig:
    """A store of two messages; the row of the journal in which one of them waits is damaged."""
    rig = opened(directory)
    await rig.open()
    await rig.create("orders")
    await rig.send("orders", b"the truth")
    await rig.send("orders", b"the rest")
    await rig.close()
    with closing(sqlite3.connect(directory / "courier.db")) as db, db:
        query = "UPDATE journal SET events = CAST(replace(events, 'truth', 'trust') AS BLOB) WHERE first_seq = 1"
        assert db.execute(query).rowcount == 1
    await rig.open()
    return rig


async def test_a_store_that_has_set_a_message_aside_can_be_copied_and_brought_back(tmp_path: Path) -> None:
    rig = await damaged(tmp_path / "before")
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"the rest"]
    found = await rig.store.check()
    care.backup(tmp_path / "before", tmp_path / "backup")
    await rig.close()
    care.restore(tmp_path / "backup", tmp_path / "data")
    assert found == care.check(tmp_path / "backup") == care.check(tmp_path / "data")
    assert "1 messages of queue 1 were damaged and are set aside" in found
    assert await message_count(tmp_path / "data") == 1


async def test_a_copy_whose_damage_nobody_has_set_aside_is_not_sound(tmp_path: Path) -> None:
    rig = await damaged(tmp_path / "before")
    with pytest.raises(CannotOpen, match="is not sound: the journal is damaged at offset"):
        care.backup(tmp_path / "before", tmp_path / "backup")
    await rig.close()


async def test_a_copy_has_damage_that_its_source_has_trimmed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await damaged(tmp_path / "before")
    await rig.receive("orders", limit=10)
    copy = care._copy

    def copy_slowly(source: Path, path: Path, progress: care.Progress | None = None) -> None:
        copy(source, path, progress)
        with closing(sqlite3.connect(source)) as db, db:
            assert db.execute("DELETE FROM journal WHERE first_seq = 1").rowcount == 1

    monkeypatch.setattr(care, "_copy", copy_slowly)
    findings = care.backup(tmp_path / "before", tmp_path / "backup")
    assert findings.damage == []
    assert len(findings.set_aside) == 2, findings
    await rig.close()


async def test_damage_that_the_copy_alone_has_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = await made(tmp_path / "before")
    copy = care._copy

    def copy_badly(source: Path, path: Path, progress: care.Progress | None = None) -> None:
        copy(source, path, progress)
        with closing(sqlite3.connect(path)) as db, db:
            assert db.execute("UPDATE journal SET at = at + 1 WHERE first_seq IS NULL").rowcount > 0

    monkeypatch.setattr(care, "_copy", copy_badly)
    with pytest.raises(CannotOpen, match="is not sound: the journal is damaged at offset"):
        care.backup(tmp_path / "before", tmp_path / "backup")
    await rig.close()


async def test_messages_set_aside_do_not_stop_a_store_whose_log_is_gone(tmp_path: Path) -> None:
    rig = await damaged(tmp_path / "before")
    await rig.receive("orders", limit=10)
    assert isinstance(rig.store, SqliteStore)
    rig.store._copier.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    killed(tmp_path / "before", tmp_path / "data")
    await rig.close()
    for name in ("courier.db-wal", "courier.db-shm"):
        (tmp_path / "data" / name).unlink()
    assert await message_count(tmp_path / "data") == 1
