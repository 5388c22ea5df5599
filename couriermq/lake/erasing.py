"""Erasing from files: archive segments and the lake's tables are written anew, each file in one step."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.clock import fresh_key
from couriermq.journal import segments
from couriermq.journal.place import Place
from couriermq.journal.segments import FILE_OPTIONS, Segment
from couriermq.lake import delta
from couriermq.lake.blanking import LOOKED_AT, Found, Wanted, blank, find
from couriermq.lake.tables import DEAD_LETTERS, DELTA_LOG, EVENTS, MESSAGES, Lake

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

TABLES = (EVENTS, MESSAGES, DEAD_LETTERS)
"""Those that have rows of single messages; the others hold sums."""
TOLD_BY = ("offset", "tenant", "queue", "seq", "message_id")
"""The columns that tell whether a row is to be blanked."""
DRAFTS = ("_rebuild", "_staging")
TRIES = 5


class Rewritten(msgspec.Struct, frozen=True):
    """A file that was written anew, and which of its rows were blanked: offsets, or in `messages` last offsets."""

    file: str
    rows: int
    offsets: list[tuple[int, int]]
    """Ranges, both ends included."""


class Busy(Exception):
    """A table's file changes as fast as it is read; the text says which."""


# -- finding --------------------------------------------------------------------------------------------------


def sealed_segments(place: Place) -> list[Segment]:
    """All that there are, in order: one that lies inside another holds the same messages."""
    return sorted(segments.among(place.list()))


def look_through(place: Place, sealed: Sequence[Segment], lake: Lake, wanted: Wanted, found: Found) -> Iterator[Found]:
    """What is found so far, told after each file of the archive and of the lake's events."""
    for segment in sealed:
        with contextlib.suppress(FileNotFoundError):  # the server has removed it since
            for rows in segments.read_tables(place, segment, start=segment.start, stop=segment.end, columns=LOOKED_AT):
                find(rows, wanted, found)
        yield found
    for path in lake.files(EVENTS):
        for rows in _groups(path, LOOKED_AT):
            find(rows, wanted, found)
        yield found


def _groups(path: Path, columns: Iterable[str] | None = None) -> "Iterator[pa.Table]":
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=None if columns is None else list(columns))


# -- the archive ----------------------------------------------------------------------------------------------


def erase_segments(place: Place, sealed: Sequence[Segment], wanted: Wanted, found: Found) -> Iterator[Rewritten | None]:
    """Segment by segment: what was done to it, or None."""
    for segment in sealed:
        try:
            yield _erase_segment(place, segment, wanted, found)
        except FileNotFoundError:
            yield None  # the server has removed it since


def _erase_segment(place: Place, segment: Segment, wanted: Wanted, found: Found) -> Rewritten | None:
    import pyarrow.parquet as pq  # noqa: PLC0415

    groups = segments.read_tables(place, segment, start=segment.start, stop=segment.end, columns=TOLD_BY)
    if not _touches(groups, wanted, found):
        return None
    draft = place.create(f"{segment.start:020d}-erasing")
    try:
        with place.open(segment.name) as source, pq.ParquetFile(source) as file:
            offsets = _copy(file, draft.sink, wanted, found, FILE_OPTIONS)
        draft.publish(segment.name)
    except BaseException:
        draft.abandon()
        raise
    return Rewritten(segment.name, len(offsets), ranges(offsets))


def _touches(groups: "Iterable[pa.Table]", wanted: Wanted, found: Found) -> bool:
    return any(blank(rows, wanted, found)[1] for rows in groups)


def _copy(file: "pq.ParquetFile", sink: Any, wanted: Wanted, found: Found, options: dict[str, Any]) -> list[int]:
    """Write all row groups, without what is erased; returns the offsets of the rows that held it."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    offsets: list[int] = []
    with pq.ParquetWriter(sink, file.schema_arrow, **options) as writer:
        for group in range(file.num_row_groups):
            rows, changed = blank(file.read_row_group(group), wanted, found)
            writer.write_table(rows, row_group_size=max(1, rows.num_rows))
            offsets += changed
    return offsets


# -- the tables -----------------------------------------------------------------------------------------------


def clear_drafts(lake: Lake) -> None:
    """Remove what a killed run or rebuild has left half done: it holds rows of its own, and is made anew."""
    for name in DRAFTS:
        shutil.rmtree(lake.root / name, ignore_errors=True)


def erase_table(lake: Lake, table: str, wanted: Wanted, found: Found) -> Iterator[Rewritten | None]:
    """File by file: what was done to it, or None."""
    if (lake.root / table / DELTA_LOG).is_dir():
        yield from _erase_delta(lake.root / table, wanted, found)
        return
    for path in lake.files(table):
        yield _erase_file(path, wanted, found)


def _erase_file(path: Path, wanted: Wanted, found: Found) -> Rewritten | None:
    """The pipeline may replace the same file meanwhile; then its new one is taken up instead."""
    for _ in range(TRIES):
        before = _mark_of(path)
        if before is None or not _touches(_groups(path, TOLD_BY), wanted, found):
            return None
        draft = path.with_name(f".{path.name}.erasing")
        offsets = _rewrite(path, draft, wanted, found)
        if _mark_of(path) == before:
            draft.replace(path)
            _sync(path.parent)
            return Rewritten(str(path), len(offsets), ranges(offsets))
        draft.unlink()
    raise Busy(f"{path} is being written again and again; stop the pipeline for a moment and erase again")


def _mark_of(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _rewrite(path: Path, draft: Path, wanted: Wanted, found: Found) -> list[int]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        first = metadata.row_group(0)
        options = {
            "compression": first.column(0).compression.lower().replace("uncompressed", "none"),
            # Spark cannot read the nanoseconds that pyarrow would make of its own old kind of timestamp.
            "use_deprecated_int96_timestamps": any(
                first.column(index).physical_type == "INT96" for index in range(first.num_columns)
            ),
        }
        offsets = _copy(file, str(draft), wanted, found, options)
    _sync(draft)
    return offsets


def _erase_delta(folder: Path, wanted: Wanted, found: Found) -> list[Rewritten]:
    """All files in one version; those of older versions, which hold what is erased, are removed at once."""
    fresh: dict[Path, Path] = {}
    done: list[Rewritten] = []
    for path in delta.files_of(folder):
        if _touches(_groups(path, TOLD_BY), wanted, found):
            fresh[path] = path.with_name(f"erased-{fresh_key().hex()[:16]}.parquet")
            offsets = _rewrite(path, fresh[path], wanted, found)
            _sync(path.parent)
            done.append(Rewritten(str(path), len(offsets), ranges(offsets)))
    if fresh:
        delta.replace(folder, fresh)
    else:
        delta.forget(folder)
    return done


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as ranges with both ends included."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
