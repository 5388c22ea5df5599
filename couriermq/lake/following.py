"""The newest part of the journals, which the tables do not have yet: read once, then carried on."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry
from couriermq.core.jumps import backward
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.core.model import DAY
from couriermq.journal.merging import Places, forwards
from couriermq.lake.border import Border, border_of, find_border
from couriermq.lake.tables import Lake
from couriermq.storage.base import EventLog, Span

CHUNK = 1_000
DISK_TRIES, DISK_SECONDS = 200, 0.005

Take = Callable[[Sequence[Entry]], None]
Drop = Callable[[int], None]


class Follower:
    """Gives each event of every lane once, in the order of time.

    It begins where the tables end; where there are none, with the newest `scan_count` events, evenly many of each lane.
    When the first tables come, it begins anew.
    """

    def __init__(self, log: EventLog, lake: Lake | None, *, scan_count: int, chunk: int = CHUNK) -> None:
        self.border: Border | None = None
        """What is older is the tables' to tell, though it may have been handed over."""
        self.known_from = 0
        """The instant from which on nothing is missing, be it the tables' or the journal's."""
        self._log = log
        self._lake = lake
        self._scan_count = scan_count
        self._chunk = chunk
        self._next: Places = {}
        self._reading = asyncio.Lock()

    async def catch_up(
        self, take: Take, forget: Callable[[], None], *, since: int = 0, drop: Drop | None = None
    ) -> None:
        """Hand over what is new, from the instant `since` on; all is to be forgotten where it is handed over anew.

        With `drop`, the border moves on with the tables, and what happened before the given instant is to be dropped.
        """
        async with self._reading:
            while True:
                try:
                    await self._follow_tables(forget, drop)
                    await self._read_on(take, since)
                except OffsetGone:
                    self._next.clear()  # there is a gap that nothing can fill
                    forget()
                else:
                    return

    async def _follow_tables(self, forget: Callable[[], None], drop: Drop | None) -> None:
        """Take the first tables that come; with `drop`, also what they have got since."""
        if self._lake is None or not self._next or (self.border is not None and drop is None):
            return
        fresh = await asyncio.to_thread(self._lake.freshness)
        if fresh is None or (self.border is not None and self.border.fresh == fresh):
            return
        border = await border_of(fresh, self._log)
        if border is None:
            return
        if self.border is None:
            if await self._is_near(border):
                self._next.clear()
                forget()
        elif drop is not None and border.at >= self.border.at:  # tables that are being rebuilt end earlier
            self._move(border, drop)

    async def _is_near(self, border: Border) -> bool:
        """Whether the journal has all from the border on, and no more than a first read may take."""
        spans = await self._log.spans()
        share = self._scan_count // len(spans)
        return all(
            border.offsets.get(lane, first_of_lane(lane))
            >= max(span.oldest, backward(self._log.jumps, span.next, share))
            for lane, span in spans.items()
        )

    def _move(self, border: Border, drop: Drop) -> None:
        """Nothing waits in between: a reader finds the former border and all since, or the new one and all since."""
        self.border, self.known_from = border, border.at
        self._next = {lane: max(place, border.offsets.get(lane, place)) for lane, place in self._next.items()}
        drop(border.at)

    async def _read_on(self, take: Take, since: int) -> None:
        spans = await self._log.spans()
        if not self._next:
            await self._begin(spans, since)
        self._next = {lane: self._next.get(lane, first_of_lane(lane)) for lane in spans}
        async for entries, places in forwards(self._log, self._next, chunk=self._chunk):
            take(entries)
            self._next = places

    async def _begin(self, spans: Mapping[int, Span], since: int) -> None:
        self.border = await find_border(self._lake, self._log) if self._lake is not None else None
        begins, share = await self._log.offsets_at(since) if since else {}, self._scan_count // len(spans)
        for lane, span in spans.items():
            first = first_of_lane(lane)
            newest = backward(self._log.jumps, span.next, share)
            start = newest if self.border is None else self.border.offsets.get(lane, first)
            self._next[lane] = max(span.oldest, start, begins.get(lane, first))
        self.known_from = max([await self._complete_from(start) for start in self._next.values()])

    async def _complete_from(self, start: int) -> int:
        """From when on a lane is known that is read from an offset on."""
        if self.border is not None and start == self.border.offsets.get(lane_of(start)):
            return self.border.at
        if start == first_of_lane(lane_of(start)):
            return 0
        entries = await self._log.read_events(start=start, limit=1)
        return entries[0].event.at if entries else 0

    # -- how far it is ----------------------------------------------------------------------------------------

    async def is_level(self, now: int) -> bool:
        """Whether all that has happened was handed over, also what is not on disk yet."""
        return await self._log.offsets_at(now + DAY) == self._next

    async def on_disk(self, now: int) -> None:
        """Until the journal can tell what queues already show: a change is seen a moment before it is on disk."""
        upcoming = await self._log.offsets_at(now + DAY)
        for _ in range(DISK_TRIES):
            spans = await self._log.spans()
            if all(spans[lane].next >= wanted for lane, wanted in upcoming.items()):
                return
            await asyncio.sleep(DISK_SECONDS)
