"""An archive after its store was restored: what the store lost is set aside, and the rest is read on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.core.events import Entry
from couriermq.journal.place import LOST, LocalPlace
from couriermq.storage.base import CannotOpen
from tests.journal.shelf import Shelf, files, fill
from tests.support.engines import Rig, back_up, forget, opened_backup

pytestmark = pytest.mark.every_engine


class Restored:
    """A store whose archive holds more than the copy that was restored."""

    def __init__(self, shelf: Shelf, copy: Rig, kept: list[Entry]) -> None:
        self.before = shelf
        self.copy = copy
        self.kept = kept
        self.shelf = Shelf(copy, shelf.place)


@pytest.fixture
async def restored(shelf: Shelf, tmp_path: Path) -> AsyncIterator[Restored]:
    await fill(shelf)
    await shelf.seal()
    await fill(shelf, 2)
    kept = await shelf.everything()
    await back_up(shelf.rig, tmp_path / "copy")
    await fill(shelf, 3)
    await shelf.seal()
    copy = await opened_backup(shelf.rig, tmp_path / "copy")
    yield Restored(shelf, copy, kept)
    await copy.close()
    forget(tmp_path / "copy")


async def test_segments_of_the_lost_end_are_set_aside(restored: Restored, tmp_path: Path) -> None:
    first, lost = [name for name in files(tmp_path) if name.endswith(".parquet")]
    await restored.shelf.archive.open()
    assert files(tmp_path) == [first, LOST]
    assert [path.name for path in (tmp_path / "archive" / LOST).iterdir()] == [lost]


async def test_what_can_be_read_is_what_the_copy_had_and_what_came_since(restored: Restored) -> None:
    shelf = restored.shelf
    await shelf.archive.open()
    await shelf.rig.send("orders", b"fresh")
    found = await shelf.everything()
    assert found[: len(restored.kept)] == restored.kept
    assert [entry.event.kind for entry in found[len(restored.kept) :]] == ["incarnation_began", "sent"]
    span = await shelf.history.span()
    rows = await shelf.stream(0, span.next)
    assert [row["offset"] for row in rows] == [entry.offset for entry in found]


async def test_no_segment_reaches_across_the_jump(restored: Restored) -> None:
    shelf = restored.shelf
    await shelf.archive.open()
    await shelf.rig.send("orders", b"fresh")
    before = await shelf.everything()
    await shelf.seal()
    jump = shelf.rig.store.jumps[0]
    assert [(one.start, one.end) for one in shelf.archive.segments][1:] == [
        (restored.before.archive.segments[0].end, jump.end),
        (jump.first, jump.first + 2),
    ]
    assert await shelf.everything() == before
    assert (await shelf.rig.store.spans())[0].oldest >= jump.first  # and the journal was trimmed in few steps
    assert (await shelf.history.span()).oldest == 0
    await shelf.restart()
    assert await shelf.everything() == before


async def test_the_store_that_was_restored_from_may_no_longer_write_there(restored: Restored) -> None:
    await restored.shelf.archive.open()
    await fill(restored.before, 1)
    restored.before.rig.clock.advance(ms=60_000)
    with pytest.raises(CannotOpen, match="stop one of the two"):
        await restored.before.archive.tend()
    restored.before.join()
    with pytest.raises(CannotOpen, match="stop one of the two"):
        await restored.before.archive.open()


async def test_an_archive_of_another_store_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    place = LocalPlace(tmp_path / "other")
    place.write_note("_store.json", b'{"store": "somebody", "incarnation": "1", "began_at": 0}')
    other = Shelf(shelf.rig, place)
    with pytest.raises(CannotOpen, match="that of store somebody"):
        await other.archive.open()


async def test_an_archive_without_a_note_is_taken_over(shelf: Shelf, tmp_path: Path) -> None:
    await fill(shelf)
    await shelf.seal()
    (tmp_path / "archive" / "_store.json").unlink()
    await shelf.restart()
    assert shelf.rig.store.stamp.store.encode() in (tmp_path / "archive" / "_store.json").read_bytes()
