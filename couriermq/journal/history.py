"""All that can be read of the past, whether the journal still has it or the archive."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from couriermq.core.errors import Invalid, OffsetGone
from couriermq.core.events import Entry
from couriermq.core.jumps import Jump, count, end_of_stretch, is_lost, skip
from couriermq.core.lanes import first_of_lane, lane_name, lane_of
from couriermq.core.shards import shard_of
from couriermq.journal import arrow, segments
from couriermq.journal.archive import Archive
from couriermq.journal.segments import Segment
from couriermq.journal.selection import Selection
from couriermq.storage.base import ShardLog, Span

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 4_000
"""Events of the journal in one record batch: encoding them holds the event loop for a few milliseconds only."""
TRIES = 3
LARGE = 50_000
"""Events of a segment that are worth a request of their own."""


class Sealed(NamedTuple):
    """A segment, and its file as it is."""

    segment: Segment
    size: int
    """Bytes of the file. Not the segment's own: it may have been written anew, without what was erased."""
    pieces: AsyncIterator[bytes]


class Past:
    """What one shard remembers, in its journal and in the archive of that."""

    def __init__(self, store: ShardLog, archive: Archive | None = None) -> None:
        self._store = store
        self._archive = archive

    @property
    def log(self) -> ShardLog:
        """What is not sealed yet, and perhaps more."""
        return self._store

    @property
    def archive(self) -> Archive | None:
        return self._archive

    @property
    def jumps(self) -> Sequence[Jump]:
        return self._store.jumps

    async def spans(self) -> dict[int, Span]:
        """What can be read of each lane."""
        journal = await self._store.spans()
        if self._archive is None:
            return journal
        await self._archive.catch_up(journal)
        return {lane: Span(oldest=self._archive.oldest(span), next=span.next) for lane, span in journal.items()}

    async def unsealed_count(self) -> int:
        """How many events are in the journal only."""
        journal = await self._store.spans()
        sealed = {} if self._archive is None else await self._archive.sealed_until()
        starts = {lane: max(sealed.get(lane, 0), span.oldest) for lane, span in journal.items()}
        return sum(count(self.jumps, starts[lane], span.next) for lane, span in journal.items())

    async def segments(self, *, start: int, stop: int) -> list[Segment]:
        """The segments of the archive that hold something of `start` up to `stop`, in order."""
        if self._archive is None:
            return []
        await self._archive.catch_up(await self._store.spans())
        return self._archive.among(start, stop)

    async def offsets_at(self, at: int) -> dict[int, int]:
        """Of each lane the offset of the first event of that instant or later; its next offset without any."""
        offsets = await self._store.offsets_at(at)  # first: what is sealed and trimmed meanwhile is in the archive then
        if self._archive is None:
            return offsets
        await self._archive.catch_up(await self._store.spans())
        return offsets | await self._archive.offsets_at(at)

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        """Events from `start` on, up to `limit` but perhaps fewer; none only at the end. Raises OffsetGone."""
        start = skip(self.jumps, start)
        end = end_of_stretch(self.jumps, start)
        limit = limit if end is None else min(limit, end - start)
        for attempt in range(TRIES):
            segment = await self._segment_of(start, sealed=attempt > 0)
            try:
                if segment is None or self._archive is None:
                    return await self._store.read_events(start=start, limit=limit)
                return await asyncio.to_thread(
                    segments.read_entries, self._archive.place, segment, start=start, limit=limit
                )
            except OffsetGone:
                pass  # it has just been sealed and trimmed: look again
            except FileNotFoundError:
                if self._archive is not None:
                    await self._archive.look()  # it has grown too old, and another node has removed it
        raise OffsetGone(start, (await self.spans())[lane_of(start)].oldest)

    async def _segment_of(self, offset: int, *, sealed: bool = False) -> Segment | None:
        """The segment to read an offset from; None means the journal, which comes first unless `sealed` does."""
        spans = await self._store.spans()
        journal = spans.get(lane_of(offset))
        if self._archive is None or journal is None or (offset >= journal.oldest and not sealed):
            return None
        await self._archive.catch_up(spans)
        if offset < (oldest := self._archive.oldest(journal)):
            raise OffsetGone(offset, oldest)
        return self._archive.find(offset)

    async def stream(
        self,
        *,
        start: int,
        stop: int,
        selection: Selection,
        columns: Sequence[str] | None = None,
        chunk: int = CHUNK,
    ) -> AsyncIterator[bytes]:
        """The events of offsets `start` up to `stop` that are selected, as an Arrow stream."""
        yield await asyncio.to_thread(arrow.head, columns)
        offset = skip(self.jumps, start)
        while offset < stop:
            segment = await self._segment_of(offset)
            if segment is None or self._archive is None:
                entries = await self.read_events(start=offset, limit=min(chunk, stop - offset))
                if not entries:
                    raise OffsetGone(offset, stop)  # cannot be; but a stream must never end early as if it were whole
                offset = skip(self.jumps, entries[-1].offset + 1)
                if chosen := selection.choose(entries):
                    yield arrow.batch(chosen, columns)
            else:
                end = min(stop, segment.end)
                async for part in _in_thread(self._parts(self._archive, segment, offset, end, selection, columns)):
                    yield part
                offset = skip(self.jumps, end)
        yield arrow.END

    async def tables(
        self, *, start: int, stop: int, selection: Selection, columns: Sequence[str], chunk: int = CHUNK
    ) -> "AsyncIterator[tuple[pa.Table, int]]":
        """The selected events of offsets `start` up to `stop` as tables, each with the offset that it reaches."""
        offset = skip(self.jumps, start)
        while offset < stop:
            segment = await self._segment_of(offset)
            if segment is None or self._archive is None:
                entries = await self.read_events(start=offset, limit=min(chunk, stop - offset))
                if not entries:
                    raise OffsetGone(offset, stop)  # cannot be; but a stream must never end early as if it were whole
                offset = skip(self.jumps, entries[-1].offset + 1)
                yield arrow.table(selection.choose(entries), columns), offset
            else:
                end = min(stop, segment.end)
                chosen = self._chosen(self._archive, segment, offset, end, selection, columns)
                while (part := await asyncio.to_thread(next, chosen, None)) is not None:
                    yield part
                offset = skip(self.jumps, end)

    async def sealed(self, *, start: int, stop: int) -> Sealed | None:
        """The segment that `start` is in, and its file, where sending it as it is pays: it is large and mostly wanted.

        Whoever reads it has the work of unpacking it, which the server is spared.
        """
        segment = await self._segment_of(start, sealed=True)
        if segment is None or self._archive is None:
            return None
        wanted = min(stop, segment.end) - start
        if wanted < LARGE or 2 * wanted < segment.end - segment.start:
            return None
        try:
            source = await asyncio.to_thread(self._archive.place.open, segment.name)
        except FileNotFoundError:
            return None  # it has grown too old; the usual way finds out what is left
        size = await asyncio.to_thread(source.size)
        return Sealed(segment, size, _in_thread(segments.read_pieces(source, size)))

    def _parts(
        self,
        archive: Archive,
        segment: Segment,
        start: int,
        stop: int,
        selection: Selection,
        columns: Sequence[str] | None,
    ) -> Iterator[bytes]:
        for chosen, _ in self._chosen(archive, segment, start, stop, selection, columns):
            yield from (bytes(batch.serialize()) for batch in _whole(chosen))

    def _chosen(
        self,
        archive: Archive,
        segment: Segment,
        start: int,
        stop: int,
        selection: Selection,
        columns: Sequence[str] | None,
    ) -> "Iterator[tuple[pa.Table, int]]":
        """The selected rows of a segment, a row group at a time, each with the offset that it reaches."""
        wanted = None if columns is None else (*columns, *(name for name in selection.columns if name not in columns))
        reached = start
        for table in segments.read_tables(archive.place, segment, start=start, stop=stop, columns=wanted):
            reached += table.num_rows
            chosen = table if selection.is_all else selection.filter(table)
            yield chosen if columns is None else chosen.select(list(columns)), reached


class History:
    """Reads on from any kept offset; whoever reads does not notice where it comes from.

    Each shard has a past of its own, and every offset says which shard and lane it is of.
    """

    def __init__(self, *pasts: Past) -> None:
        self._pasts = list(pasts)

    @property
    def jumps(self) -> Sequence[Jump]:
        """Where offsets jump because a new incarnation of the store began."""
        return [jump for past in self._pasts for jump in past.jumps]

    def refuse_lost(self, offset: int) -> None:
        """Raises OffsetGone for an offset that only an earlier incarnation can have given."""
        if is_lost(self.jumps, offset):
            raise OffsetGone.of_earlier_incarnation(offset, skip(self.jumps, offset))

    def add(self, past: Past) -> None:
        """There is one shard more."""
        self._pasts.append(past)

    @property
    def pasts(self) -> Sequence[Past]:
        """One for each shard, in their order."""
        return self._pasts

    async def spans(self) -> dict[int, Span]:
        """What can be read of each lane."""
        return {lane: span for past in self._pasts for lane, span in (await past.spans()).items()}

    async def span(self, lane: int = 0) -> Span:
        """What can be read of a lane; raises Invalid where there is none of that number."""
        spans = await self._past(first_of_lane(lane)).spans()
        if lane not in spans:
            raise _no_lane(lane)
        return spans[lane]

    async def unsealed_count(self, shard: int) -> int:
        """How many events of a shard are in its journal only, and would go with it."""
        return await self._pasts[shard].unsealed_count()

    async def segments(self, *, start: int, stop: int) -> list[Segment]:
        """The segments of the archive that hold something of `start` up to `stop`, offsets of one lane."""
        return await self._past(start).segments(start=start, stop=stop)

    async def offsets_at(self, at: int) -> dict[int, int]:
        """Of each lane the offset of the first event of that instant or later; its next offset without any."""
        return {lane: offset for past in self._pasts for lane, offset in (await past.offsets_at(at)).items()}

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        """Events of a lane from `start` on, up to `limit` but perhaps fewer; none only at the end."""
        return await self._past(start).read_events(start=start, limit=limit)

    def stream(
        self,
        *,
        start: int,
        stop: int,
        selection: Selection,
        columns: Sequence[str] | None = None,
        chunk: int = CHUNK,
    ) -> AsyncIterator[bytes]:
        """The events of offsets `start` up to `stop`, of one lane, that are selected, as an Arrow stream."""
        return self._past(start).stream(start=start, stop=stop, selection=selection, columns=columns, chunk=chunk)

    def tables(
        self, *, start: int, stop: int, selection: Selection, columns: Sequence[str], chunk: int = CHUNK
    ) -> "AsyncIterator[tuple[pa.Table, int]]":
        """The same as tables, each with the offset that it reaches."""
        return self._past(start).tables(start=start, stop=stop, selection=selection, columns=columns, chunk=chunk)

    async def sealed(self, *, start: int, stop: int) -> Sealed | None:
        """The file of the segment that `start` is in, where sending it as it is pays."""
        return await self._past(start).sealed(start=start, stop=stop)

    def past_of(self, lane: int) -> Past:
        """The past of the shard that a lane belongs to."""
        return self._past(first_of_lane(lane))

    def _past(self, offset: int) -> Past:
        if shard_of(offset) >= len(self._pasts):
            raise _no_lane(lane_of(offset))
        return self._pasts[shard_of(offset)]


def _no_lane(lane: int) -> Invalid:
    name, first = lane_name(lane), first_of_lane(lane)
    return Invalid(f"the journal has no lane {name}, whose offsets begin at {first}", field="from")


def _whole(table: "pa.Table") -> "list[pa.RecordBatch]":
    """A table of one row group as one record batch, or none."""
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return [batch for batch in batches if batch.num_rows]


async def _in_thread(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """What an iterator gives that must not run in the event loop."""
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        yield part
