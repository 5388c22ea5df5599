"""All lanes of the journal as one list of events, in the order of time.

A place in the list is an offset of each lane, written as one text. A lane that such a text does not name was added
since, and is read from its beginning.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from couriermq.core.errors import Invalid, OffsetGone
from couriermq.core.events import Entry
from couriermq.core.jumps import backward
from couriermq.core.lanes import first_of_lane, lane_of
from couriermq.core.limits import Room
from couriermq.core.numbers import Numbers
from couriermq.dialects.native import limits
from couriermq.dialects.native.operations import encode
from couriermq.dialects.native.wire import events as wire
from couriermq.journal.history import History
from couriermq.journal.merging import Places, Spans, backwards, forwards
from couriermq.journal.scan import CHUNK
from couriermq.journal.selection import Selection
from couriermq.journal.tenant_view import show_entries
from couriermq.web.call import Call

MARK = "o"
LEAST_CHUNK = 64
"""Events that are read of a lane at a time where there are many lanes."""
PAUSE_COUNT = 1_000


def write_places(numbers: Numbers, places: Mapping[int, int]) -> str:
    return numbers.cursor(MARK + "-".join(str(places[lane]) for lane in sorted(places))) or ""


async def page(
    call: Call, selection: Selection, *, start: str | None, limit: int, wait_ms: int = 0, lossy: bool = False
) -> wire.EventPage:
    """Up to `limit` events from `start` on, at once or, with `wait_ms`, as soon as there is one.

    What is no longer kept is passed over where the reader is `lossy`; else OffsetGone is raised.
    """
    history = call.services.history
    places = await _find(call.numbers, history, start)
    found = wire.EventPage([], "", False)

    async def look() -> bool:
        nonlocal places, found
        spans = await history.spans()
        places = _kept(places, spans, lossy=lossy)
        found, places = await _read(call, selection, places, spans, limit)
        return bool(found.events) or not found.at_end

    if wait_ms:
        await call.services.followers.wait(look, wait_ms=wait_ms, tenant=call.principal.tenant)
    else:
        await look()
    return found


async def _find(numbers: Numbers, history: History, start: str | None) -> Places:
    """Where a read begins; an offset or a position of one lane stands for the instant of that event."""
    if start is None:
        return {lane: span.oldest for lane, span in (await history.spans()).items()}
    if (places := _read_places(numbers, start)) is not None:
        for offset in places.values():
            history.refuse_lost(offset)
        return places
    offset = numbers.true_position(start, field="from")
    history.refuse_lost(offset)
    entries = await history.read_events(start=offset, limit=1)
    spans = await history.spans()
    if not entries:
        return {lane: span.next for lane, span in spans.items()} | {lane_of(offset): offset}
    begins = await history.offsets_at(entries[0].event.at)
    return {lane: max(span.oldest, begins[lane]) for lane, span in spans.items()} | {lane_of(offset): offset}


def _read_places(numbers: Numbers, text: str) -> Places | None:
    """The places that a text of `write_places` holds; None for any other."""
    try:
        plain = numbers.true_cursor(text, field="from") or ""
    except Invalid:
        return None
    offsets = plain.removeprefix(MARK).split("-")
    if not plain.startswith(MARK) or not all(one.isascii() and one.isdecimal() and len(one) < 17 for one in offsets):
        return None
    return {lane_of(int(offset)): int(offset) for offset in offsets}


def _kept(places: Places, spans: Spans, *, lossy: bool) -> Places:
    """The places in all lanes that there are; raises OffsetGone for what is no longer kept, unless `lossy`."""
    if strange := places.keys() - spans.keys():
        raise Invalid(f"the journal has no offset {places[min(strange)]}", field="from")
    kept = {lane: places.get(lane, first_of_lane(lane)) for lane in spans}
    for lane, span in spans.items():
        if kept[lane] < span.oldest:
            if not lossy:
                raise OffsetGone(kept[lane], span.oldest)
            kept[lane] = span.oldest
    return kept


async def _read(
    call: Call, selection: Selection, places: Places, spans: Spans, limit: int
) -> tuple[wire.EventPage, Places]:
    """A page of what can be read now, and where it ends; one call looks through a limited number of offsets."""
    numbers, room, events, seen = call.numbers, Room(), list[msgspec.Raw](), 0

    def ended(places: Places, *, is_full: bool) -> tuple[wire.EventPage, Places]:
        at_end = not is_full and all(places[lane] >= span.next for lane, span in spans.items())
        return wire.EventPage(events, write_places(numbers, places), at_end), places

    chunk = max(LEAST_CHUNK, limits.BATCH_EVENT_COUNT // len(places))
    async for entries, reached in forwards(call.services.history, places, chunk=chunk):
        chosen = selection.choose(entries)[: limit - len(events)]
        for entry, shown in zip(chosen, show_entries(chosen, numbers), strict=True):
            written = encode(wire.write_event(shown))
            if not room.takes(len(written)):
                return ended(_places_at(entries, entry, reached), is_full=True)
            events.append(msgspec.Raw(written))
        if len(events) == limit:
            # Also where nothing follows: a tenant must not see whether events of others do.
            return ended(_places_at(entries, chosen[-1], reached, after=True), is_full=True)
        places, seen = reached, seen + len(entries)
        if seen >= limits.JSON_SCAN_COUNT:
            break
    return ended(places, is_full=False)


def _places_at(entries: Sequence[Entry], entry: Entry, reached: Places, *, after: bool = False) -> Places:
    """Where a reader goes on that has had the entries before this one, or this one too."""
    index = next(index for index, one in enumerate(entries) if one.offset == entry.offset)
    return reached | {lane_of(one.offset): one.offset for one in reversed(entries[index + after :])}


async def last_places(history: History, selection: Selection, spans: Spans, *, count: int) -> Places:
    """From where on there are `count` selected events of all lanes, or as many as the last offsets hold."""
    places = {lane: span.next for lane, span in spans.items()}
    reach = {lane: backward(history.jumps, span.next, limits.JSON_SCAN_COUNT) for lane, span in spans.items()}
    oldest = {lane: max(span.oldest, reach[lane]) for lane, span in spans.items()}
    seen = 0
    async for entry in backwards(history, places, oldest, chunk=CHUNK):
        seen += 1
        if selection.choose([entry]):
            places[lane_of(entry.offset)] = entry.offset
            count -= 1
        if not count or seen == limits.JSON_SCAN_COUNT:
            break
        if not seen % PAUSE_COUNT:
            await asyncio.sleep(0)
    return places
