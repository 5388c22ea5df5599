"""An archive may be in a folder or wherever pyarrow leads."""

from pathlib import Path

import pytest

from couriermq.core.errors import Unavailable
from couriermq.journal import place, segments
from couriermq.journal.place import LocalPlace, RemotePlace, place_of
from tests.journal.shelf import AGE_MS, HOUR, Shelf, fill
from tests.support.object_store import object_store


def test_a_path_and_a_file_url_are_folders_and_any_other_url_is_remote(tmp_path: Path) -> None:
    assert isinstance(place_of(str(tmp_path)), LocalPlace)
    assert isinstance(place_of(f"file://{tmp_path}"), LocalPlace)
    assert isinstance(place_of("s3://bucket/courier"), RemotePlace)


@pytest.mark.parametrize("url", ["mock:///courier/archive", "file://{folder}/courier/archive"])
async def test_a_url_of_pyarrow_serves_as_well_as_a_folder(shelf: Shelf, url: str, tmp_path: Path) -> None:
    shelf = Shelf(shelf.rig, RemotePlace(url.format(folder=tmp_path)))
    before = await fill(shelf)
    await shelf.seal()
    assert await shelf.everything() == before
    assert [name for name, _ in shelf.place.list()] == [segments.name_of(0, len(before))]
    shelf.rig.clock.advance(ms=2 * HOUR)
    await shelf.archive.tend()
    assert shelf.place.list() == []


async def test_an_object_store_serves_as_well_as_a_folder(shelf: Shelf) -> None:
    with object_store() as store:
        shelf = Shelf(shelf.rig, place_of(store.url("courier/archive")))
        before = await fill(shelf)
        await shelf.seal()
        name = segments.name_of(0, len(before))
        assert [key for key in store.objects if key.endswith(".parquet")] == [f"courier/archive/{name}"]
        store.objects["courier/archive/.half.part"] = b"a server that died"
        await shelf.restart()
        assert await shelf.everything() == before
        assert [row["offset"] for row in await shelf.stream(0, len(before))] == list(range(len(before)))
        shelf.rig.clock.advance(ms=2 * HOUR)
        await shelf.archive.tend()
        assert [key for key in store.objects if key.endswith(".parquet")] == []


async def test_a_place_that_cannot_be_reached_does_not_pass_for_an_empty_one(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await fill(shelf)
    await shelf.seal()
    await shelf.rig.restart()
    shelf.join()  # as a server does whose archive is far away: it has not looked there yet

    def fail() -> list[tuple[str, int]]:
        raise OSError("no route to host")

    with monkeypatch.context() as patch:
        patch.setattr(shelf.place, "list", fail)
        for _ in range(2):
            with pytest.raises(Unavailable, match="no route to host"):
                await shelf.history.span()
            with pytest.raises(Unavailable, match="no route to host"):
                await shelf.history.read_events(start=0, limit=10)
    assert (await shelf.history.span()).oldest == 0
    assert await shelf.everything() == before


@pytest.mark.parametrize("restarts", [True, False])
async def test_a_segment_whose_folder_was_not_synced_is_made_durable_before_the_journal_is_trimmed(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, restarts: bool
) -> None:
    folder = tmp_path / "kept" / "archive"
    shelf = Shelf(shelf.rig, LocalPlace(folder))
    await fill(shelf)
    await shelf.archive.open()
    sync, done = place._sync, list[object]()

    def fail(path: Path) -> None:
        if path == folder:
            raise OSError("not synced after the rename")
        sync(path)

    def note(path: Path) -> None:
        sync(path)
        done.append(path)

    async def trim(**facts: int) -> None:
        done.append("trim")

    with monkeypatch.context() as patch:
        patch.setattr(place, "_sync", fail)
        shelf.rig.clock.advance(ms=AGE_MS)
        await shelf.archive._tend_quietly()
    assert len(shelf.place.list()) == 1
    if restarts:
        shelf.join()
    monkeypatch.setattr(place, "_sync", note)
    monkeypatch.setattr(shelf.rig.store, "trim_events", trim)
    await shelf.archive.tend()
    assert folder in done[: done.index("trim")]
    assert folder.parent in done[: done.index("trim")]


def test_every_folder_on_the_way_to_an_archive_is_synced_into_the_one_above(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(place, "_sync", synced.append)
    LocalPlace(tmp_path / "one" / "two").list()
    assert set(synced) == {tmp_path, tmp_path / "one"}
