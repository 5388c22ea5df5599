"""Finding all events of one message, the newest part of the past first, within bounds.

There is no index by message. Of segments only the column with the ids is decoded, and nothing of row groups that end
before the message was sent, where its `seq` is known: ten million events take well below a second.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from couriermq.core.chronicle import Commit, unpack_runs
from couriermq.core.events import Entry
from couriermq.journal import segments
from couriermq.journal.history import Past
from couriermq.journal.place import Place
from couriermq.journal.schema import NAMES, conform, journal_schema
from couriermq.journal.segments import Segment

if TYPE_CHECKING:
    import pyarrow.parquet as pq

JOURNAL_COUNT = 200_000
"""Events of the journal that one look takes."""
SEALED_COUNT = 12_000_000
"""Events of segments that one look takes."""
CHUNK = 10_000
COPY_REACH = 1_000_000
"""Copies for listeners are sent with their message, so their `seq` is not far from its own."""


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Which message; one whose `seq` is known was not there before it was sent."""

    message_id: str
    seq: int | None = None
    bodies: bool = False

    @property
    def lowest_seq(self) -> int:
        return 0 if self.seq is None else self.seq - COPY_REACH


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of offsets `start` up to `stop`, in order; `is_whole` says that there is nothing older to look at."""

    entries: list[Entry]
    start: int
    stop: int
    from_at: int | None
    is_whole: bool


async def look_up(past: Past, sought: Sought, *, lane: int, before: int | None) -> Found:
    """What the newest part of a lane's past before an offset has of a message."""
    span = (await past.spans())[lane]
    stop = span.next if before is None else max(span.oldest, min(before, span.next))
    sealed = await past.segments(start=span.oldest, stop=stop)
    border = max(span.oldest, sealed[-1].end) if sealed else span.oldest
    entries: list[Entry] = []
    begin, from_at = stop, None
    if stop > border:
        begin = max(border, stop - JOURNAL_COUNT)
        entries, from_at = await _in_journal(past, sought, begin, stop)
    if begin == border or stop <= border:
        begin, older, sealed_from = await _in_segments(past, sought, sealed, min(stop, border))
        entries, from_at = [*older, *entries], from_at if sealed_from is None else sealed_from
    return Found(entries=entries, start=begin, stop=stop, from_at=from_at, is_whole=begin <= span.oldest)


async def _in_journal(past: Past, sought: Sought, start: int, stop: int) -> tuple[list[Entry], int | None]:
    """The entries, and when the first event was that was looked at."""
    found: list[Entry] = []
    from_at: int | None = None
    offset = start
    while offset < stop:
        commits = await past.log.read_commits(start=offset, limit=min(CHUNK, stop - offset))
        if not commits:
            break
        matching, first_at = await asyncio.to_thread(_among, commits, sought.message_id)
        found += [entry for entry in matching if start <= entry.offset < stop]
        from_at = first_at if from_at is None else from_at
        offset = commits[-1].start + commits[-1].count
    return found, from_at


def _among(commits: Sequence[Commit], message_id: str) -> tuple[list[Entry], int]:
    found: list[Entry] = []
    first_at = 0
    for commit in commits:
        offset = commit.start
        for run in unpack_runs(commit.events):
            first_at = first_at or run.ats[0]
            if message_id in run.message_ids:
                events = enumerate(run.events(), offset)
                found += [Entry(place, event) for place, event in events if event.message_id == message_id]
            offset += len(run)
    return found, first_at


async def _in_segments(
    past: Past, sought: Sought, sealed: Sequence[Segment], stop: int
) -> tuple[int, list[Entry], int | None]:
    """How far back the look has come, the entries, and when the first event was that was looked at."""
    found: list[Entry] = []
    begin, from_at, left = stop, None, SEALED_COUNT
    for segment in reversed(sealed):
        if left <= 0 or past.archive is None:
            return begin, found, from_at
        try:
            entries, first_at = await asyncio.to_thread(find_in, past.archive.place, segment, sought, stop)
        except FileNotFoundError:  # it has grown too old: nothing older is there, either
            await past.archive.look()
            break
        found, from_at, begin = [*entries, *found], first_at or from_at, segment.start
        left -= segment.end - segment.start
    return min(begin, sealed[0].start) if sealed else begin, found, from_at


def find_in(place: Place, segment: Segment, sought: Sought, stop: int) -> tuple[list[Entry], int | None]:
    """The entries of a segment before an offset, and when its first event was."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    with place.open(segment.name) as source, pq.ParquetFile(source) as file:
        found = [entry for entry in _rows(file, sought) if entry.offset < stop]
        return found, _first_at(file)


def _rows(file: "pq.ParquetFile", sought: Sought) -> Iterator[Entry]:
    import pyarrow.compute as pc  # noqa: PLC0415

    names = file.schema_arrow.names
    seq_column = names.index("seq")
    wanted = journal_schema([name for name in NAMES if sought.bodies or name != "body"])
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(seq_column).statistics
        if statistics is not None and statistics.has_min_max and statistics.max < sought.lowest_seq:
            continue
        ids = file.read_row_group(group, columns=["message_id"]).column(0)
        mask = pc.equal(ids, sought.message_id)
        if not pc.any(mask).as_py():
            continue
        present = [field.name for field in wanted if field.name in names]
        rows = file.read_row_group(group, columns=present).filter(mask)
        yield from segments.entries_of(conform(rows, journal_schema()))


def _first_at(file: "pq.ParquetFile") -> int | None:
    column = file.schema_arrow.names.index("at")
    statistics = file.metadata.row_group(0).column(column).statistics if file.num_row_groups else None
    return int(statistics.min) if statistics is not None and statistics.has_min_max else None
