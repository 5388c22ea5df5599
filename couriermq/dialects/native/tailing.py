"""The journal as it grows, for a page that shows it."""

from collections.abc import AsyncIterator

import msgspec
from msgspec import UNSET

from couriermq.core.errors import Invalid, OffsetGone
from couriermq.core.events import Entry
from couriermq.core.hex_ids import id_of
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.core.model import Tenant
from couriermq.dialects.native.access import journal_view
from couriermq.dialects.native.operations import encode
from couriermq.dialects.native.wire import live as wire
from couriermq.dialects.native.wire.events import write_event
from couriermq.journal.selection import Selection
from couriermq.journal.tenant_view import show_entries
from couriermq.monitor.streams import BEAT_MS
from couriermq.web.call import Call

CHUNK = 2_000
READ_COUNT = 10_000
"""Events that one look reads; a reader that is further behind goes on at the end, and is told so."""
FRAME_BYTES = 256 * 1024
"""What one look may tell; a larger event goes alone."""
SEPARATOR = ","
"""Between the positions in lanes."""


class Tail:
    """Reads every lane of the journal from a position on, and passes over what is too much."""

    def __init__(self, call: Call, tenant: Tenant, query: wire.LiveQuery) -> None:
        self._call = call
        self._history = call.services.history
        self._tenant = tenant
        self._query = query
        self._next: dict[int, int] = {}
        self._allowance = float(query.max_per_second)

    async def begin(self) -> None:
        spans = await self._history.spans()
        asked = self._call.header(b"last-event-id") or ("" if self._query.start is UNSET else self._query.start)
        if not asked:  # else a lane that is not named was added since, and is read from its beginning
            self._next = {lane: span.next for lane, span in spans.items()}
        for position in filter(None, asked.split(SEPARATOR)):
            offset = self._call.numbers.true_position(position, field="from")
            lane = lane_of(offset)
            if lane not in spans:
                raise Invalid("from is a position in a lane that does not exist", field="from")
            self._next[lane] = min(max(offset, spans[lane].oldest), spans[lane].next)

    async def look(self) -> AsyncIterator[bytes]:
        """What has happened since the last look, as frames."""
        most = self._query.max_per_second
        self._allowance = min(most, self._allowance + most * BEAT_MS / 1_000)
        selection = self._selection()
        for lane, span in (await self._history.spans()).items():
            self._next.setdefault(lane, first_of_lane(lane))  # it is new
            if self._next[lane] < span.next - READ_COUNT:
                yield self._jump(lane, span.next)
            try:
                async for frame in self._read(lane, span.next, selection):
                    yield frame
            except OffsetGone:
                yield self._jump(lane, span.next)

    def _selection(self) -> Selection:
        query = self._query
        queues = frozenset(id_of(asked) or asked for asked in query.queues) | frozenset(query.queues)
        return Selection(
            tenant=self._tenant.id,
            queues=queues,
            kinds=frozenset(query.kinds),
            view=journal_view(self._call),
            arrivals=True,
            bodies=query.bodies,
            principal=query.principal,
            message_id=query.message,
        )

    def _jump(self, lane: int, stop: int) -> bytes:
        """Go on at the end; only root may learn how much others did meanwhile."""
        start, self._next[lane] = self._next[lane], stop
        return self._skipped(None, start, stop)

    async def _read(self, lane: int, stop: int, selection: Selection) -> AsyncIterator[bytes]:
        passed, first = 0, 0
        room = FRAME_BYTES
        while self._next[lane] < stop:
            start = self._next[lane]
            entries = await self._history.read_events(start=start, limit=min(CHUNK, stop - start))
            if not entries:
                break
            chosen = selection.choose(entries)
            for entry, shown in zip(chosen, show_entries(chosen, self._call.numbers), strict=True):
                self._next[lane] = entry.offset + 1
                if passed or self._allowance < 1 or room <= 0:
                    first = first if passed else entry.offset
                    passed += 1
                    continue
                self._allowance -= 1
                frame = self._event(shown)
                room -= len(frame)
                yield frame
            self._next[lane] = entries[-1].offset + 1
        if passed:
            yield self._skipped(passed, first, self._next[lane])

    def _event(self, shown: Entry) -> bytes:
        return wire.frame("event", msgspec.Raw(encode(write_event(shown))), self._position())

    def _skipped(self, count: int | None, start: int, stop: int) -> bytes:
        numbers = self._call.numbers
        told = wire.Skipped(count=count, start=str(numbers.position(start)), stop=str(numbers.position(stop)))
        return wire.frame("skipped", told, self._position())

    def _position(self) -> str:
        """Where to go on, in each lane."""
        return SEPARATOR.join(str(self._call.numbers.position(offset)) for offset in self._next.values())
