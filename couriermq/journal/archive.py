"""The archive: seals the journal into segments, lets the store forget them, and forgets the oldest ones itself.

Of several nodes one does so; the others look now and then what it has done, and at once where they miss something.
"""

import asyncio
import bisect
import logging
from collections.abc import Callable

import msgspec

from couriermq.clock import Clock, fresh_key
from couriermq.core.duties import ARCHIVE
from couriermq.core.errors import Unavailable
from couriermq.core.model import SECOND
from couriermq.core.shards import shard_of
from couriermq.journal import segments
from couriermq.journal.place import Draft, Place
from couriermq.journal.segments import Segment, SegmentWriter
from couriermq.storage.base import CannotOpen, ShardLog, Span

LOOK_MS = 5 * SECOND
"""How often there is a look whether something is to be sealed."""
CHUNK = 4_000
"""Events that are turned into columns at a time, so that others get their turn."""
TRIM_STEP = 20_000
"""Events that the store forgets in one commit."""

log = logging.getLogger(__name__)


class _Stopped(Exception):
    """The server goes down; what was begun is begun anew by the next one."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a segment is sealed, and how much of them is kept."""

    segment_bytes: int
    segment_ms: int
    age_ms: int
    total_bytes: int


class Archive:
    """Run it as one task beside the server. The files of the place are all that it remembers by."""

    def __init__(
        self, store: ShardLog, clock: Clock, place: Place, limits: Limits, *, held: Callable[[], int | None]
    ) -> None:
        self.place = place
        self._store = store
        self._clock = clock
        self._limits = limits
        self._held = held
        self._segments: list[Segment] = []
        self._reach = 0
        self._end = 0
        self._trimmed = 0
        self._opened = False
        self._looked_for = -1
        self._mark = fresh_key().hex()[:8]
        self._stopping = False
        self._last_at: dict[Segment, int] = {}

    # -- what is there ----------------------------------------------------------------------------------------

    @property
    def segments(self) -> list[Segment]:
        return list(self._segments)

    def oldest(self, journal: Span) -> int:
        """The offset from which on events can be read without a gap up to, and through, the journal."""
        return min(self._reach, journal.oldest) if self._segments and self._end >= journal.oldest else journal.oldest

    def find(self, offset: int) -> Segment | None:
        """The segment that holds an offset."""
        index = bisect.bisect_right(self._segments, offset, key=lambda segment: segment.start) - 1
        found = self._segments[index] if index >= 0 else None
        return found if found is not None and offset < found.end else None

    def among(self, start: int, stop: int) -> list[Segment]:
        """The segments that hold something of `start` up to `stop`."""
        if start >= stop:
            return []
        first = bisect.bisect_right(self._segments, start, key=lambda segment: segment.end)
        return self._segments[first : bisect.bisect_left(self._segments, stop, key=lambda segment: segment.start)]

    async def open(self) -> None:
        """See what is there, and be ready to write; raises CannotOpen when it cannot be this store's."""
        writes = self._store.holds(ARCHIVE)
        if writes:
            await asyncio.to_thread(self.place.sweep)
        await self.look()
        self._opened = writes

    async def look(self) -> None:
        """See what is there; raises CannotOpen when it cannot be this store's."""
        span = await self._store.span()
        shard, listed = shard_of(span.oldest), await asyncio.to_thread(self.place.list)
        found = [segment for segment in segments.chain(listed) if shard_of(segment.start) == shard]
        if found and found[-1].end > span.next:
            raise CannotOpen(
                f"the archive in {self.place} has events up to offset {found[-1].end}, but the store only up to"
                f" {span.next}: it is another store's, or the store is an older copy; move the archive away"
            )
        self._segments = found
        self._end = found[-1].end if found else span.oldest
        self._measure()

    async def sealed_until(self) -> int:
        """The offset that the newest segment ends with, whichever node has sealed it."""
        await self.look()
        return self._end

    async def catch_up(self, journal: Span) -> None:
        """Look again where the store has forgotten what is in no segment that is known: another node has sealed it.

        A place that cannot be reached says nothing about what is kept, so that it must not pass for gone.
        """
        if self._end < journal.oldest and self._looked_for != journal.oldest:
            try:
                await self.look()
            except OSError as error:
                raise Unavailable(f"the archive in {self.place} cannot be reached: {error}") from error
            self._looked_for = journal.oldest

    def _measure(self) -> None:
        """How far back the segments reach without a gap."""
        self._reach = self._end
        for segment in reversed(self._segments):
            if segment.end < self._reach:
                break
            self._reach = segment.start

    # -- at work ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled. A place that cannot be reached is tried again; meanwhile the journal grows."""
        pause_ms = min(LOOK_MS, self._limits.segment_ms)
        while True:
            work = asyncio.ensure_future(self._tend_quietly())
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:
                self._stopping = True
                await work  # its threads use the store, which is about to be closed
                raise
            await self._clock.sleep_until(self._clock.now() + pause_ms)

    async def _tend_quietly(self) -> None:
        try:
            if self._store.holds(ARCHIVE):
                await self.tend()
            else:
                self._opened = False
                await self.look()
        except _Stopped:
            pass
        except Exception as error:
            log.warning("the archive in %s waits: %s", self.place, error)

    async def tend(self) -> None:
        """Seal what is due and forget what is too much."""
        if not self._opened:
            await self.open()
        await self._seal_due()
        await self._forget()

    async def _seal_due(self) -> None:
        """What comes meanwhile has to wait: else, where more always comes, nothing would be trimmed or forgotten."""
        until = (await self._store.span()).next
        while True:
            span = await self._store.span()
            start = max(self._end, span.oldest)
            if start > self._end and self._segments:
                log.warning("the journal forgot offsets %d to %d before they were archived", self._end, start)
            if start >= until or not await self._is_due(start) or not self._store.holds(ARCHIVE):
                break
            await self._seal(start, span.next)
        await self._trim()

    async def _is_due(self, start: int) -> bool:
        if await self._store.offset_keeping(self._limits.segment_bytes) > start:
            return True
        first = await self._store.read_events(start=start, limit=1)
        return bool(first) and first[0].event.at + self._limits.segment_ms <= self._clock.now()

    async def _seal(self, start: int, stop: int) -> None:
        draft = await asyncio.to_thread(self.place.create, f"{start:020d}-{self._mark}")
        try:
            end = await self._fill(draft, start, stop)
            size = await asyncio.to_thread(draft.publish, segments.name_of(start, end))
        except BaseException:
            draft.abandon()
            raise
        sealed = Segment(start, end, size)
        if sealed not in self._segments:  # somebody may have looked since it appeared
            self._segments.append(sealed)
        self._end = end
        self._measure()
        log.info("sealed", extra={"start": start, "end": end, "bytes": size})

    async def _fill(self, draft: Draft, start: int, stop: int) -> int:
        """Write events until the segment is full; returns where it ends."""
        writer = await asyncio.to_thread(SegmentWriter, draft.sink)
        offset, size = start, 0
        while offset < stop and size < self._limits.segment_bytes:
            if self._stopping:
                raise _Stopped
            commits = await self._store.read_commits(start=offset, limit=min(CHUNK, stop - offset))
            size += await asyncio.to_thread(writer.add_commits, commits, start=offset, stop=stop)
            offset = min(stop, commits[-1].start + commits[-1].count)
        await asyncio.to_thread(writer.close)
        return offset

    async def _trim(self) -> None:
        """Have the store forget what is sealed, some at a time."""
        oldest = (await self._store.span()).oldest
        while self._trimmed < self._end:
            oldest = min(max(oldest, self._trimmed) + TRIM_STEP, self._end)
            await self._store.trim_events(before=oldest)
            self._trimmed = oldest

    # -- forgetting -------------------------------------------------------------------------------------------

    async def _forget(self) -> None:
        held, now = self._held(), self._clock.now()
        while self._segments:
            oldest = self._segments[0]
            if held is not None and oldest.end > held:
                return
            too_much = sum(segment.size for segment in self._segments) > self._limits.total_bytes
            if not too_much and await self._latest(oldest) + self._limits.age_ms > now:
                return
            del self._segments[0]
            self._last_at.pop(oldest, None)
            self._measure()
            await asyncio.to_thread(self.place.delete, oldest.name)
            log.info("forgotten", extra={"segment": oldest.name})

    async def _latest(self, segment: Segment) -> int:
        """The latest instant in a segment; a look into its file, the first time."""
        if segment not in self._last_at:
            self._last_at[segment] = await asyncio.to_thread(segments.last_at, self.place, segment)
        return self._last_at[segment]

    async def offset_at(self, at: int) -> int | None:
        """The first archived offset whose event happened at `at` or later."""
        found = [segment for segment in self._segments if segment.start >= self._reach]
        low, high = 0, len(found)
        while low < high:
            middle = (low + high) // 2
            if await self._latest(found[middle]) < at:
                low = middle + 1
            else:
                high = middle
        return await asyncio.to_thread(segments.offset_at, self.place, found[low], at) if low < len(found) else None
