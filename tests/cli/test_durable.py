"""What a command relies on after a power cut is on disk before it goes on."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from couriermq.cli.app import main
from couriermq.cli.erasure_receipt import Receipt, begin
from couriermq.cli.exported import Export, Note
from couriermq.cli.replay_plan import NOTE, REPLAYS, Order, Plan
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import ENGINES, Rig, back_up, forget

ORDER = Order(table="dead_letters", where="true", tenant="default", queue="q", name="")


class Disk:
    """Which files and folders were synced since they were changed last, in a system that keeps nothing else."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
        self.root = root
        self.synced: set[str] = set()
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self._note)
        for name in ("rename", "replace"):
            monkeypatch.setattr(os, name, self._moving(getattr(os, name)))

    def _note(self, descriptor: int) -> None:
        self._sync(descriptor)
        self.synced.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    def _moving(self, move: Callable[..., None]) -> Callable[..., None]:
        def moved(source: Any, target: Any) -> None:
            old, new = str(source), str(target)
            move(source, target)
            self.synced = {new + path.removeprefix(old) if path.startswith(old) else path for path in self.synced}
            self.synced -= {str(Path(new).parent)}

        return moved

    def missing(self) -> list[str]:
        """What would be gone, or empty, after a power cut."""
        every = [self.root, *self.root.rglob("*")]
        return [str(path.relative_to(self.root)) for path in every if str(path) not in self.synced]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Disk:
    return Disk(monkeypatch, tmp_path / "root")


def write_down(folder: Path) -> None:
    """As Spark does, which syncs nothing."""
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"seq": [1, 2]}), folder / "part-0.parquet")
    (folder / "_SUCCESS").touch()


def test_the_receipt_of_an_erasure_is_on_disk_before_anything_is_erased(disk: Disk) -> None:
    receipt = Receipt(erased_at=1, store="s", tenant="default", queue=None, asked_sha256="a")
    begin(receipt, None, disk.root / "data" / "erasures")
    assert disk.missing() == []


def test_the_list_of_a_replay_is_on_disk_before_anything_is_sent(disk: Disk) -> None:
    disk.root.mkdir()
    plan = Plan(disk.root, ORDER)
    plan.write(write_down, portion=1)
    assert plan.count == 2
    assert disk.missing() == []


def test_a_replay_that_is_done_is_on_disk_before_its_messages_go(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.root.mkdir()
    plan = Plan(disk.root, ORDER)
    plan.write(write_down, portion=1)
    unsynced: list[str] = []
    unlink = Path.unlink

    def watched(path: Path) -> None:
        unsynced.extend(disk.missing())
        unlink(path)

    monkeypatch.setattr(Path, "unlink", watched)
    disk.synced.discard(str(disk.root / REPLAYS / ORDER.id / NOTE))
    plan.finish(7)
    assert Plan(disk.root, ORDER).finished_at == 7
    assert unsynced == []


def test_each_file_of_an_export_is_on_disk_with_its_name(disk: Disk) -> None:
    export = Export(disk.root)
    export.begin(Note(id="1", tenant="default", queues=["orders"], began_at=0))
    assert disk.missing() == []
    export.add_part("orders", [], None)
    assert disk.missing() == []
    export.finish([], [])
    assert disk.missing() == []


async def test_a_backup_and_a_restored_store_are_on_disk_with_their_names(disk: Disk, tmp_path: Path) -> None:
    rig = Rig(lambda: SqliteStore(tmp_path / "data", min_free_bytes=0))
    await rig.open()
    await rig.create("orders")
    disk.root.mkdir()
    care.backup(tmp_path / "data", disk.root / "new" / "copy")
    assert disk.missing() == []
    await rig.close()
    care.restore(disk.root / "new" / "copy", disk.root / "other" / "data")
    assert [name for name in disk.missing() if name != "other/data/lock"] == []


@pytest.mark.postgres
async def test_a_backup_of_a_database_is_on_disk_before_it_counts_as_one(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(lambda: ENGINES["postgres"](tmp_path / "data"))
    await rig.open()
    await rig.create("orders")
    disk.root.mkdir()
    copy, missing = disk.root / "new" / "copy", []
    replace = Path.replace

    def watched(path: Path, target: Path) -> Path:
        missing.append(disk.missing())
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", watched)
    await back_up(rig, copy)
    assert missing == [[]]
    assert disk.missing() == []
    assert (copy / "schema_version").exists()
    await rig.close()
    forget(tmp_path / "data")


def test_a_new_key_is_on_disk_before_anything_is_encrypted_with_it(disk: Disk) -> None:
    disk.root.mkdir()
    for _ in range(2):
        assert main(["secrets", "new-key", str(disk.root / "secrets.key")]) == 0
        assert disk.missing() == []
