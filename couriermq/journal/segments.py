"""Segments: sealed stretches of the journal as Parquet, each named by the offsets that it holds."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from couriermq.core.chronicle import Commit
from couriermq.core.events import Entry, Event
from couriermq.core.jumps import Jump
from couriermq.journal.arrow import commits_batch
from couriermq.journal.place import SUFFIX, Place
from couriermq.journal.schema import COLUMNS, REPEATING, conform, journal_schema

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 32_768
GROUP_BYTES = 16 * 1024 * 1024
"""A row group ends at either: one is what a reader decodes at a time."""
PIECE_BYTES = 1024 * 1024
MEDIA_TYPE = "application/vnd.apache.parquet"
FILE_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": REPEATING,
    # Numbers that differ little from one row to the next: no larger than compressed alone, and read sooner.
    "column_encoding": {name: "DELTA_BINARY_PACKED" for name, kind in COLUMNS if kind == "int64"},
    "write_statistics": ["offset", "at", "seq"],
}
"""How pyarrow writes a segment's file."""

_NAME = re.compile(rf"(\d{{20}})-(\d{{20}}){re.escape(SUFFIX)}")
_detail = msgspec.json.Decoder(dict[str, Any])


class Segment(msgspec.Struct, frozen=True, order=True):
    """Offsets `start` up to, not including, `end`."""

    start: int
    end: int
    size: int
    """Bytes of the file."""

    @property
    def name(self) -> str:
        return name_of(self.start, self.end)


def name_of(start: int, end: int) -> str:
    return f"{start:020d}-{end:020d}{SUFFIX}"


def among(listed: Sequence[tuple[str, int]]) -> list[Segment]:
    """The segments among the files of a place."""
    return [Segment(int(match[1]), int(match[2]), size) for name, size in listed if (match := _NAME.fullmatch(name))]


def is_lost(segment: Segment, jumps: Sequence[Jump]) -> bool:
    """Whether some of it is of an earlier incarnation, from behind the point that the store was restored to."""
    return any(segment.end > jump.end and segment.start < jump.first for jump in jumps)


def chain(found: Sequence[Segment]) -> list[Segment]:
    """Segments in order; one that lies inside another is left out."""
    kept: list[Segment] = []
    for segment in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or segment.end > kept[-1].end:
            kept.append(segment)
    return kept


class SegmentWriter:
    """Takes events in order and writes them into a sink, one row group at a time."""

    def __init__(self, sink: Any) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415

        self._writer = pq.ParquetWriter(sink, journal_schema(), **FILE_OPTIONS)
        self._batches: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def add_commits(self, commits: Sequence[Commit], *, start: int, stop: int) -> int:
        """Their events of offsets `start` up to `stop`; returns how many bytes they are, uncompressed."""
        return self.add_batch(commits_batch(commits, start=start, stop=stop))

    def add_batch(self, added: "pa.RecordBatch") -> int:
        """The same of events that are columns already."""
        size = int(added.nbytes)
        self._batches.append(added)
        self._rows += added.num_rows
        self._bytes += size
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()
        return size

    def close(self) -> None:
        """Write the end of the file, and give the memory that all of it took back to the system."""
        import pyarrow as pa  # noqa: PLC0415

        self._flush()
        self._writer.close()
        pa.default_memory_pool().release_unused()

    def _flush(self) -> None:
        import pyarrow as pa  # noqa: PLC0415

        if self._batches:
            table = pa.Table.from_batches(self._batches)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._batches.clear()
            self._rows = self._bytes = 0


def read_tables(
    place: Place, segment: Segment, *, start: int, stop: int, columns: Sequence[str] | None = None
) -> Iterator["pa.Table"]:
    """Rows with `start <= offset < stop`, a row group at a time; a column that the file lacks is null."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    with place.open(segment.name) as source, pq.ParquetFile(source) as file:
        wanted = journal_schema(columns)
        present = [field.name for field in wanted if field.name in file.schema_arrow.names]
        first = segment.start
        for group in range(file.num_row_groups):
            count = file.metadata.row_group(group).num_rows
            begin, end = max(start, first), min(stop, first + count)
            if begin < end:
                table = file.read_row_group(group, columns=present).slice(begin - first, end - begin)
                yield conform(table, wanted)
            first += count


def read_pieces(source: Any, size: int) -> Iterator[bytes]:
    """The file as it is, all its `size` bytes; closes the source."""
    with source:
        while size:
            piece = source.read(min(size, PIECE_BYTES))
            if not piece:
                raise OSError(f"a segment ends {size} bytes too early")
            size -= len(piece)
            yield piece


def read_entries(place: Place, segment: Segment, *, start: int, limit: int) -> list[Entry]:
    """Up to `limit` entries from `start` on, as many as the first row group has that holds any."""
    for table in read_tables(place, segment, start=start, stop=min(start + limit, segment.end)):
        return entries_of(table)
    return []


def entries_of(table: "pa.Table | pa.RecordBatch") -> list[Entry]:
    """Columns of the journal as entries."""
    return list(map(_entry, *(column.to_pylist() for column in table.columns)))


def _entry(offset: int, *values: Any) -> Entry:
    *fields, body, rest, turn, sent_at = values
    detail = _detail.decode(rest) if rest is not None else None
    if body is not None:
        detail = {**(detail or {}), "body": body}
    return Entry(offset, Event(*(*fields, detail, turn, sent_at)))


def last_at(place: Place, segment: Segment) -> int:
    """The latest instant among a segment's events."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    column = journal_schema().get_field_index("at")
    with place.open(segment.name) as source:
        metadata = pq.read_metadata(source)
        groups = (metadata.row_group(group).column(column) for group in range(metadata.num_row_groups))
        return max(int(group.statistics.max) for group in groups)


def offset_at(place: Place, segment: Segment, at: int) -> int | None:
    """The first offset in a segment whose event happened at `at` or later."""
    import pyarrow.compute as pc  # noqa: PLC0415

    for table in read_tables(place, segment, start=segment.start, stop=segment.end, columns=("offset", "at")):
        later = table.filter(pc.greater_equal(table.column("at"), at))
        if later.num_rows:
            return int(later.column("offset")[0].as_py())
    return None
