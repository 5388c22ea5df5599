"""The journal is sealed into segments and read on from any offset as if nothing had been moved."""

import asyncio
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from couriermq.core.errors import OffsetGone, Unavailable
from couriermq.core.events import Entry
from couriermq.journal import archive as archiving
from couriermq.journal import segments
from couriermq.journal.place import Draft
from couriermq.journal.selection import Selection
from couriermq.storage.base import CannotOpen
from tests.journal.shelf import AGE_MS, Shelf, files, fill
from tests.support.engines import ENGINES, Rig

pytestmark = pytest.mark.every_engine

# -- sealing --------------------------------------------------------------------------------------------------


async def test_a_segment_is_sealed_when_its_first_event_is_old_enough(shelf: Shelf, tmp_path: Path) -> None:
    before = await fill(shelf)
    await shelf.archive.tend()
    assert files(tmp_path) == []
    await shelf.seal()
    assert files(tmp_path) == [segments.name_of(0, len(before))]


async def test_what_comes_while_a_segment_is_sealed_waits_for_the_next_round(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seal = await fill(shelf), shelf.archive._seal

    async def seal_and_send(start: int, stop: int) -> None:
        await seal(start, stop)
        await fill(shelf, 1)
        shelf.rig.clock.advance(ms=AGE_MS)

    monkeypatch.setattr(shelf.archive, "_seal", seal_and_send)
    shelf.rig.clock.advance(ms=AGE_MS)
    await asyncio.wait_for(shelf.archive.tend(), 25)
    assert files(tmp_path) == [segments.name_of(0, len(before))]
    assert (await shelf.rig.store.spans())[0].oldest > 0  # it was trimmed
    await asyncio.wait_for(shelf.archive.tend(), 25)
    assert len(files(tmp_path)) == 2


async def test_a_segment_is_sealed_when_there_is_enough_for_it(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "CHUNK", 4)
    shelf = Shelf(shelf.rig, shelf.place, segment_bytes=400)
    before = await fill(shelf, 20)
    await shelf.archive.tend()
    sealed = shelf.archive.segments
    assert len(sealed) > 1
    assert [one.start for one in sealed] == [0, *(one.end for one in sealed[:-1])]
    assert await shelf.everything() == before


async def test_what_is_sealed_leaves_the_store(shelf: Shelf) -> None:
    before = await fill(shelf)
    await shelf.seal()
    assert (await shelf.rig.store.spans())[0].oldest == len(before) - shelf.kept_count
    assert (await shelf.history.span()).oldest == 0


async def test_a_long_journal_is_trimmed_in_steps(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "TRIM_STEP", 2)
    before = await fill(shelf, 9)
    await shelf.seal()
    assert (await shelf.rig.store.spans())[0].oldest == len(before) - shelf.kept_count


async def test_a_trim_that_fails_is_tried_again(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    before, trim = await fill(shelf), shelf.rig.store.trim_events

    async def fail(**_: object) -> int:
        monkeypatch.setattr(shelf.rig.store, "trim_events", trim)
        raise Unavailable("not now")

    monkeypatch.setattr(shelf.rig.store, "trim_events", fail)
    with pytest.raises(Unavailable):
        await shelf.seal()
    await shelf.archive.tend()
    assert (await shelf.rig.store.spans())[0].oldest == len(before) - shelf.kept_count


async def test_sealing_rests_when_nothing_has_happened(shelf: Shelf, tmp_path: Path) -> None:
    await fill(shelf)
    await shelf.seal()
    commits = shelf.rig.store.metrics.commits  # type: ignore[attr-defined]
    await shelf.seal()
    assert len(files(tmp_path)) == 1
    assert shelf.rig.store.metrics.commits == commits  # type: ignore[attr-defined]


async def test_a_segment_is_parquet_in_the_schema_of_the_journal(shelf: Shelf, tmp_path: Path) -> None:
    before = await fill(shelf)
    await shelf.seal()
    (path,) = (tmp_path / "archive").glob("*.parquet")
    offsets = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert (offsets.compression, "DELTA_BINARY_PACKED" in offsets.encodings) == ("ZSTD", True)
    assert pq.read_table(path).column("offset").to_pylist() == [entry.offset for entry in before]


# -- reading --------------------------------------------------------------------------------------------------


async def test_reading_crosses_segments_and_journal_without_a_seam(shelf: Shelf) -> None:
    await fill(shelf)
    await shelf.seal()
    await fill(shelf)
    await shelf.seal()
    await fill(shelf)
    entries = await shelf.everything()
    assert [entry.offset for entry in entries] == list(range((await shelf.history.span()).next))
    assert [entry.event.detail["body"] for entry in entries if entry.event.kind == "sent"] == [  # type: ignore[index]
        b"\xff%d" % number for number in range(5)
    ] * 3


@pytest.mark.parametrize("start", range(13))
async def test_any_offset_is_a_place_to_start_from(shelf: Shelf, start: int) -> None:
    before = await fill(shelf)
    await shelf.seal()
    before += [entry for entry in await fill(shelf) if entry.offset >= len(before)]
    assert await shelf.everything(start) == before[start:]
    assert [row["offset"] for row in await shelf.stream(start, len(before))] == list(range(start, len(before)))


async def test_a_stream_from_segments_is_the_stream_that_the_journal_gave(shelf: Shelf) -> None:
    before = await fill(shelf)
    first = await shelf.stream(1, len(before))
    few = await shelf.stream(1, 4, columns=["body", "offset"])
    await shelf.seal()
    assert await shelf.stream(1, len(before)) == first
    assert await shelf.stream(1, 4, columns=["body", "offset"]) == few


async def test_a_stream_holds_what_was_selected_wherever_it_lies(shelf: Shelf) -> None:
    await shelf.rig.create("other")
    await fill(shelf)
    await shelf.seal()
    await shelf.rig.send("other")
    end = (await shelf.history.span()).next
    chosen = Selection(tenant="default", queues=frozenset({"other"}), kinds=frozenset({"sent", "queue_added"}))
    parts = shelf.history.stream(start=0, stop=end, selection=chosen, columns=["kind"])
    rows = pa.ipc.open_stream(b"".join([part async for part in parts])).read_all().to_pylist()
    assert rows == [{"kind": "queue_added"}, {"kind": "sent"}]


async def test_an_instant_leads_to_its_offset_in_segments_too(shelf: Shelf) -> None:
    for _ in range(3):
        await fill(shelf, 2)
        await shelf.seal()
    instants = [entry.event.at for entry in await shelf.everything()]
    for at in {*instants, instants[0] - 1, instants[-1] + 1}:
        expected = next((offset for offset, instant in enumerate(instants) if instant >= at), len(instants))
        assert (await shelf.history.offsets_at(at))[0] == expected


async def test_an_instant_leads_to_its_offset_while_sealing_goes_on(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await fill(shelf)
    find = shelf.rig.store.offsets_at

    async def late(at: int) -> dict[int, int]:
        await shelf.seal()
        return await find(at)

    monkeypatch.setattr(shelf.rig.store, "offsets_at", late)
    assert (await shelf.history.offsets_at(before[1].event.at))[0] == 0


async def test_an_instant_leads_to_its_offset_where_somebody_else_has_sealed(shelf: Shelf) -> None:
    before = await fill(shelf)
    other = Shelf(shelf.rig, shelf.place)
    await other.archive.open()
    await shelf.seal()
    assert (await other.history.offsets_at(before[1].event.at))[0] == 0


async def test_reading_goes_on_while_sealing_does(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that are trimmed between the look at the journal and the reading of it are found in their segment."""
    before = await fill(shelf)
    read = shelf.rig.store.read_events

    async def late(**what: int) -> list[Entry]:
        monkeypatch.undo()
        await shelf.seal()
        return await read(**what)

    monkeypatch.setattr(shelf.rig.store, "read_events", late)
    assert await shelf.history.read_events(start=0, limit=100) == before
    await fill(shelf)
    monkeypatch.setattr(shelf.rig.store, "read_events", late)
    end = (await shelf.history.span()).next
    assert [row["offset"] for row in await shelf.stream(0, end)] == list(range(end))


async def test_a_segment_of_before_a_column_was_added_is_read_with_nulls(shelf: Shelf, tmp_path: Path) -> None:
    before = await fill(shelf)
    await shelf.seal()
    (path,) = (tmp_path / "archive").glob("*.parquet")
    pq.write_table(pq.read_table(path).drop_columns(["principal"]), path)
    entries = await shelf.everything()
    assert [entry.event.principal for entry in entries[:-1]] == [None] * (len(before) - 1)
    assert entries[0].event.detail == before[0].event.detail


# -- crashes and strangers ------------------------------------------------------------------------------------


async def test_a_file_that_was_never_finished_is_cleared_away(shelf: Shelf, tmp_path: Path) -> None:
    before = await fill(shelf)
    await shelf.archive.open()
    (tmp_path / "archive" / ".00000000000000000000.part").write_bytes(b"PAR1 half")
    await shelf.restart()
    assert files(tmp_path) == []
    await shelf.seal()
    assert await shelf.everything() == before


async def test_a_crash_between_sealing_and_trimming_doubles_nothing(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await fill(shelf)

    async def die(**_: object) -> int:
        raise OSError("power cut")

    monkeypatch.setattr(shelf.rig.store, "trim_events", die)
    with pytest.raises(OSError, match="power cut"):
        await shelf.seal()
    await shelf.restart()
    assert await shelf.everything() == before
    await shelf.seal()
    assert (await shelf.rig.store.spans())[0].oldest == len(before) - shelf.kept_count
    assert await shelf.everything() == before


async def test_a_node_that_stood_still_amid_a_segment_does_not_publish_it(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has taken over meanwhile, and may have sealed more of the same."""
    before, fill_segment = await fill(shelf), shelf.archive._fill

    async def stand_still(draft: Draft, start: int, stop: int) -> int:
        end = await fill_segment(draft, start, stop)
        monkeypatch.setattr(shelf.rig.store, "holds", lambda duty: False)
        return end

    monkeypatch.setattr(shelf.archive, "_fill", stand_still)
    shelf.rig.clock.advance(ms=AGE_MS)
    await shelf.archive._tend_quietly()
    assert files(tmp_path) == []
    assert (await shelf.rig.store.spans())[0].oldest == 0
    monkeypatch.undo()
    await shelf.archive.tend()
    assert files(tmp_path) == [segments.name_of(0, len(before))]


async def test_a_segment_that_appears_inside_another_is_removed_by_the_node_that_writes(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await fill(shelf)
    await shelf.seal()
    (whole,) = shelf.archive.segments
    for end in (2, whole.end - 1):
        shutil.copy(tmp_path / "archive" / whole.name, tmp_path / "archive" / segments.name_of(0, end))
    with monkeypatch.context() as patch:
        patch.setattr(shelf.rig.store, "holds", lambda duty: False)
        await shelf.archive._tend_quietly()
        assert len(files(tmp_path)) == 3
    await shelf.archive.tend()
    assert files(tmp_path) == [whole.name]
    assert await shelf.everything() == before


async def test_a_segment_that_appears_later_is_removed_without_listing_the_archive_in_every_round(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(shelf)
    await shelf.seal()
    (whole,) = shelf.archive.segments
    shutil.copy(tmp_path / "archive" / whole.name, tmp_path / "archive" / segments.name_of(0, 2))
    names, count = shelf.place.list, 0

    def counted() -> list[tuple[str, int]]:
        nonlocal count
        count += 1
        return names()

    monkeypatch.setattr(shelf.place, "list", counted)
    for _ in range(archiving.CONTAINED_MS // archiving.LOOK_MS - 1):
        shelf.rig.clock.advance(ms=archiving.LOOK_MS)
        await shelf.archive.tend()
    assert (count, len(files(tmp_path))) == (0, 2)
    shelf.rig.clock.advance(ms=archiving.LOOK_MS)
    await shelf.archive.tend()
    assert (count, files(tmp_path)) == (2, [whole.name])


async def test_a_place_that_cannot_be_written_leaves_the_journal_whole(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await fill(shelf)
    monkeypatch.setattr(segments.SegmentWriter, "close", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        await shelf.seal()
    assert files(tmp_path) == []
    assert (await shelf.rig.store.spans())[0].oldest == 0
    monkeypatch.undo()
    await shelf.seal()
    assert await shelf.everything() == before


async def test_an_archive_that_is_ahead_of_the_store_is_another_stores(shelf: Shelf, tmp_path: Path) -> None:
    await fill(shelf)
    await shelf.seal()
    rig = Rig(lambda: ENGINES["sqlite"](tmp_path / "other", hasty=True))
    await rig.open()
    with pytest.raises(CannotOpen, match="move the archive away"):
        await Shelf(rig, shelf.place).archive.open()
    await rig.close()


async def test_what_the_journal_forgot_unsealed_is_a_gap_that_nobody_reads_over(shelf: Shelf) -> None:
    await fill(shelf)
    await shelf.seal()
    await fill(shelf)
    end = (await shelf.rig.store.spans())[0].next
    await shelf.rig.store.trim_events(before=end - 2)
    assert (await shelf.history.span()).oldest == end - 2
    with pytest.raises(OffsetGone):
        await shelf.history.read_events(start=0, limit=1)
    await shelf.seal()
    assert [entry.offset for entry in await shelf.everything(end - 2)] == [end - 2, end - 1]
    assert (await shelf.history.span()).oldest == end - 2


def test_a_segment_that_lies_inside_another_counts_once() -> None:
    names = [segments.name_of(0, 10), segments.name_of(0, 30), segments.name_of(10, 30), segments.name_of(30, 40), "x"]
    assert [(one.start, one.end) for one in segments.chain(segments.among([(name, 1) for name in names]))] == [
        (0, 30),
        (30, 40),
    ]
