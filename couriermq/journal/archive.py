"""The archive: seals the journal into segments, lets the store forget them, and forgets the oldest ones itself.

Of several nodes one does so; the others look now and then what it has done, and at once where they miss something.
"""

import asyncio
import bisect
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

import msgspec

from couriermq.clock import Clock, fresh_key
from couriermq.core.duties import ARCHIVE
from couriermq.core.errors import Unavailable
from couriermq.core.jumps import Jump, end_of_stretch, forward, skip
from couriermq.core.lanes import first_of_lane, lane_of, shard_of_lane
from couriermq.core.model import MINUTE, SECOND
from couriermq.journal import ownership, segments
from couriermq.journal.place import Draft, Place
from couriermq.journal.segments import Segment, SegmentWriter
from couriermq.storage.base import CannotOpen, ShardLog, Span

LOOK_MS = 5 * SECOND
"""How often there is a look whether something is to be sealed."""
CONTAINED_MS = 5 * MINUTE
"""How often the whole archive is listed for segments that lie inside others."""
CHUNK = 4_000
"""Events that are turned into columns at a time, so that others get their turn."""
TRIM_STEP = 20_000
"""Events that the store forgets in one commit."""

log = logging.getLogger(__name__)


class _Stopped(Exception):
    """The server goes down, or another node archives now; what was begun is begun anew by the next one."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When a segment is sealed, and how much of them is kept."""

    segment_bytes: int
    segment_ms: int
    age_ms: int
    total_bytes: int


class Chain:
    """The segments of one lane, in order."""

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self.segments: list[Segment] = []
        self.end = self.reach = self.trimmed = first_of_lane(lane)
        self.looked_for = -1

    def put(self, segments: Sequence[Segment], jumps: Sequence[Jump]) -> None:
        """Take these in place of those that were known, and see how far back they reach without a gap."""
        self.segments = list(segments)
        self.end = self.reach = segments[-1].end if segments else first_of_lane(self.lane)
        for segment in reversed(segments):
            if skip(jumps, segment.end) < self.reach:
                break
            self.reach = segment.start

    def oldest(self, journal: Span, jumps: Sequence[Jump]) -> int:
        """The offset from which on events can be read without a gap up to, and through, the journal."""
        is_whole = bool(self.segments) and skip(jumps, self.end) >= journal.oldest
        return min(self.reach, journal.oldest) if is_whole else journal.oldest

    def find(self, offset: int) -> Segment | None:
        """The segment that holds an offset."""
        index = bisect.bisect_right(self.segments, offset, key=lambda segment: segment.start) - 1
        found = self.segments[index] if index >= 0 else None
        return found if found is not None and offset < found.end else None

    def among(self, start: int, stop: int) -> list[Segment]:
        """The segments that hold something of `start` up to `stop`."""
        if start >= stop:
            return []
        first = bisect.bisect_right(self.segments, start, key=lambda segment: segment.end)
        return self.segments[first : bisect.bisect_left(self.segments, stop, key=lambda segment: segment.start)]


class Archive:
    """Run it as one task beside the server. The files of the place are all that it remembers by.

    Each lane of the shard is sealed, trimmed and forgotten on its own; `held` names the offset of a lane from which on
    somebody still wants to read it, if so.
    """

    def __init__(
        self, store: ShardLog, clock: Clock, place: Place, limits: Limits, *, held: Callable[[int], int | None]
    ) -> None:
        self.place = place
        self._store = store
        self._clock = clock
        self._limits = limits
        self._held = held
        self._chains: dict[int, Chain] = {}
        self._opened = False
        self._incarnation = ""
        self._mark = fresh_key().hex()[:8]
        self._stopping = False
        self._last_at: dict[Segment, int] = {}
        self._listed_at = 0

    # -- what is there ----------------------------------------------------------------------------------------

    @property
    def segments(self) -> list[Segment]:
        return [segment for lane in sorted(self._chains) for segment in self._chains[lane].segments]

    def oldest(self, journal: Span) -> int:
        """The offset from which on events of a lane can be read without a gap up to, and through, the journal."""
        return self._chain(journal.oldest).oldest(journal, self._store.jumps)

    def find(self, offset: int) -> Segment | None:
        """The segment that holds an offset."""
        return self._chain(offset).find(offset)

    def among(self, start: int, stop: int) -> list[Segment]:
        """The segments that hold something of `start` up to `stop`, offsets of one lane."""
        return self._chain(start).among(start, stop)

    def _chain(self, offset: int) -> Chain:
        lane = lane_of(offset)
        return self._chains.setdefault(lane, Chain(lane))

    async def open(self) -> None:
        """See what is there, and be ready to write; raises CannotOpen when it cannot be this store's."""
        writes = self._store.holds(ARCHIVE)
        if writes:
            await asyncio.to_thread(ownership.check, self.place, self._store.identity, shard=await self._shard())
            await asyncio.to_thread(self.place.sweep)
            await self._set_lost_aside()
            await asyncio.to_thread(ownership.write, self.place, self._store.identity, shard=await self._shard())
        await self.look()
        if writes:
            await self._remove_contained()
        self._opened, self._incarnation = writes, self._store.identity.present.name

    async def _shard(self) -> int:
        return shard_of_lane(min(await self._store.spans()))

    async def _set_lost_aside(self) -> None:
        """Segments from behind the point that the store was restored to are no longer part of its history."""
        for segment in segments.among(await asyncio.to_thread(self.place.list)):
            if segments.is_lost(segment, self._store.jumps):
                await asyncio.to_thread(self.place.set_aside, segment.name)
                log.warning("a segment of an earlier incarnation was set aside", extra={"segment": segment.name})

    async def look(self) -> None:
        """See what is there; raises CannotOpen when it cannot be this store's."""
        spans, names = await self._store.spans(), await asyncio.to_thread(self.place.list)
        listed = segments.chain(
            [segment for segment in segments.among(names) if not segments.is_lost(segment, self._store.jumps)]
        )
        by_lane = groupby(listed, key=lambda segment: lane_of(segment.start))
        shard = shard_of_lane(min(spans))
        found = {lane: list(those) for lane, those in by_lane if shard_of_lane(lane) == shard}
        if _beyond(found, spans):  # another node may have sealed what was not there a moment ago
            spans = await self._store.spans()
        if beyond := _beyond(found, spans):
            sealed, end = beyond
            raise CannotOpen(
                f"the archive in {self.place} has events up to offset {sealed}, but the store only up to {end}: it is"
                " another store's, or the store is an older copy. If it is a copy, stop the server and run"
                " `courier store begin-incarnation`; else move the archive away"
            )
        for lane in sorted({*spans, *found}):
            self._chain(first_of_lane(lane)).put(found.get(lane, []), self._store.jumps)

    async def sealed_until(self) -> dict[int, int]:
        """The offset that the newest segment of each lane ends with, whichever node has sealed it."""
        await self.look()
        return {lane: chain.end for lane, chain in self._chains.items()}

    async def catch_up(self, journal: Mapping[int, Span]) -> None:
        """Look again where the store has forgotten what is in no segment that is known: another node has sealed it.

        A place that cannot be reached says nothing about what is kept, so that it must not pass for gone.
        """
        for span in journal.values():
            chain = self._chain(span.oldest)
            if skip(self._store.jumps, chain.end) < span.oldest and chain.looked_for != span.oldest:
                try:
                    await self.look()
                except OSError as error:
                    raise Unavailable(f"the archive in {self.place} cannot be reached: {error}") from error
                chain.looked_for = span.oldest

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
            self._opened = False  # a segment may be there that is not sure to stay
            log.warning("the archive in %s waits: %s", self.place, error)

    async def tend(self) -> None:
        """Seal what is due and forget what is too much."""
        if not self._opened or self._incarnation != self._store.identity.present.name:
            await self.open()
        if self._clock.now() >= self._listed_at + CONTAINED_MS:
            await self._remove_contained()
        await self._seal_due()
        await self._forget()

    async def _remove_contained(self) -> None:
        """A node that stood still while it published a segment may have put it beside a longer one of the next node.

        Readers of the archive pass over it, but who queries the files would count its events twice.
        """
        self._listed_at = self._clock.now()
        found = segments.among(await asyncio.to_thread(self.place.list))
        present = {segment for segment in found if not segments.is_lost(segment, self._store.jumps)}
        contained = sorted(present.difference(segments.chain([*present])))
        for segment in contained:
            await asyncio.to_thread(self.place.delete, segment.name)
            log.warning("a segment that lies inside another was removed", extra={"segment": segment.name})
        if contained:
            await self.look()

    async def _seal_due(self) -> None:
        """What comes meanwhile has to wait: else, where more always comes, nothing would be trimmed or forgotten."""
        for lane, span in (await self._store.spans()).items():
            chain = self._chain(first_of_lane(lane))
            await self._seal_lane(chain, until=span.next)
            await self._trim(chain)
        await self._store.tidy()

    async def _seal_lane(self, chain: Chain, *, until: int) -> None:
        while True:
            span = (await self._store.spans())[chain.lane]
            end = skip(self._store.jumps, chain.end)
            start = max(end, skip(self._store.jumps, span.oldest))
            if start > end and chain.segments:
                log.warning("the journal forgot offsets %d to %d before they were archived", end, start)
            if start >= until or not await self._is_due(start) or not self._store.holds(ARCHIVE):
                return
            await self._seal(start, min(span.next, end_of_stretch(self._store.jumps, start) or span.next))

    async def _is_due(self, start: int) -> bool:
        if await self._store.offset_keeping(self._limits.segment_bytes, lane_of(start)) > start:
            return True
        first = await self._store.read_events(start=start, limit=1)
        return bool(first) and first[0].event.at + self._limits.segment_ms <= self._clock.now()

    async def _seal(self, start: int, stop: int) -> None:
        shard = shard_of_lane(lane_of(start))
        await asyncio.to_thread(ownership.check, self.place, self._store.identity, shard=shard)
        draft = await asyncio.to_thread(self.place.create, f"{start:020d}-{self._mark}")
        try:
            end = await self._fill(draft, start, stop)
            if not self._store.holds(ARCHIVE):  # that took a while, in which another node may have sealed more
                raise _Stopped
            size = await asyncio.to_thread(draft.publish, segments.name_of(start, end))
        except BaseException:
            draft.abandon()
            raise
        chain, sealed = self._chain(start), Segment(start, end, size)
        if sealed not in chain.segments:  # somebody may have looked since it appeared
            chain.put([*chain.segments, sealed], self._store.jumps)
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

    async def _trim(self, chain: Chain) -> None:
        """Have the store forget what is sealed, some at a time."""
        oldest = (await self._store.spans())[chain.lane].oldest
        while chain.trimmed < chain.end:
            oldest = min(forward(self._store.jumps, max(oldest, chain.trimmed), TRIM_STEP), chain.end)
            await self._store.trim_events(before=oldest)
            chain.trimmed = oldest

    # -- forgetting -------------------------------------------------------------------------------------------

    async def _forget(self) -> None:
        now = self._clock.now()
        while (oldest := await self._oldest_unheld()) is not None:
            too_much = sum(segment.size for segment in self.segments) > self._limits.total_bytes
            if not too_much and await self._latest(oldest) + self._limits.age_ms > now:
                return
            chain = self._chain(oldest.start)
            chain.put(chain.segments[1:], self._store.jumps)
            self._last_at.pop(oldest, None)
            await asyncio.to_thread(self.place.delete, oldest.name)
            log.info("forgotten", extra={"segment": oldest.name})

    async def _oldest_unheld(self) -> Segment | None:
        """The segment to forget first: of each lane's first one that nobody wants to read, the one that ends first."""
        firsts = [chain.segments[0] for chain in self._chains.values() if chain.segments]
        unheld = []
        for segment in firsts:
            held = self._held(lane_of(segment.start))
            if held is None or segment.end <= held:
                unheld.append((await self._latest(segment), segment))
        return min(unheld)[1] if unheld else None

    async def _latest(self, segment: Segment) -> int:
        """The latest instant in a segment; a look into its file, the first time."""
        if segment not in self._last_at:
            self._last_at[segment] = await asyncio.to_thread(segments.last_at, self.place, segment)
        return self._last_at[segment]

    async def offsets_at(self, at: int) -> dict[int, int]:
        """Of each lane the first archived offset whose event happened at `at` or later, where there is one."""
        found = {lane: await self._offset_at(at, chain) for lane, chain in list(self._chains.items())}
        return {lane: offset for lane, offset in found.items() if offset is not None}

    async def _offset_at(self, at: int, chain: Chain) -> int | None:
        found = [segment for segment in chain.segments if segment.start >= chain.reach]
        low, high = 0, len(found)
        while low < high:
            middle = (low + high) // 2
            if await self._latest(found[middle]) < at:
                low = middle + 1
            else:
                high = middle
        return await asyncio.to_thread(segments.offset_at, self.place, found[low], at) if low < len(found) else None


def _beyond(found: Mapping[int, Sequence[Segment]], spans: Mapping[int, Span]) -> tuple[int, int] | None:
    """Where the segments of a lane end, and where the lane does, if that is earlier."""
    for lane, those in found.items():
        end = spans[lane].next if lane in spans else first_of_lane(lane)
        if those[-1].end > end:
            return those[-1].end, end
    return None
