"""The journal: every change there was, in order, as JSON or as an Arrow stream.

Root reads by offset. A tenant reads by positions that it cannot count with, and its pages, batches and partitions end
by the number of its own events: what other tenants do shows nowhere.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import msgspec
from msgspec import UNSET, UnsetType

from couriermq.core.errors import Forbidden, Invalid, OffsetGone, TenantNotFound
from couriermq.core.events import Entry
from couriermq.core.hex_ids import id_of
from couriermq.core.jumps import backward, end_of_stretch, skip
from couriermq.core.lanes import first_of_lane, lane_name, lane_of
from couriermq.core.limits import RESPONSE_BYTES, Room
from couriermq.core.model import Action
from couriermq.dialects.native import limits, merged
from couriermq.dialects.native.access import journal_view
from couriermq.dialects.native.operations import PREFIX, Operation, encode, ok
from couriermq.dialects.native.wire import events as wire
from couriermq.dialects.native.wire.reading import read_query
from couriermq.journal import arrow, scan, segments, tenant_stream
from couriermq.journal.schema import NAMES
from couriermq.journal.selection import Selection
from couriermq.journal.tenant_view import show_entries
from couriermq.web.call import Call, Header, Reply
from couriermq.web.errors import NotAcceptable

JSON_ONLY = ("arrivals", "bodies", "wait_ms", "principal", "message", "seq", "order", "max_bytes")
NEXT = "courier-next"
FIRST = "courier-first"
STORE, INCARNATION = "courier-store", "courier-incarnation"


class Reading(msgspec.Struct, frozen=True):
    """A part of the journal: offsets `start` up to `goal`, of which one call looks at those before `stop`.

    Of the selected events it takes up to `limit`.
    """

    start: int
    stop: int
    goal: int
    limit: int
    selection: Selection
    max_bytes: int = RESPONSE_BYTES


async def read_journal(call: Call) -> Reply:
    tenant = _tenant_of(call, None)
    query = read_query(call, wire.JournalQuery)
    history, numbers = call.services.history, call.numbers
    if query.at is not UNSET and query.last is not UNSET:
        raise Invalid("give at or last, not both", field="last")
    lanes = []
    spans = await history.spans()
    begins = await history.offsets_at(query.at) if query.at is not UNSET else {}
    for lane, span in spans.items():
        written = wire.Lane(lane_name(lane), *map(numbers.position, (first_of_lane(lane), span.oldest, span.next)))
        if lane in begins:
            written.offset = numbers.position(max(span.oldest, begins[lane]))
        if query.last is not UNSET:
            selection = Selection(tenant=tenant, view=journal_view(call))
            start = max(span.oldest, backward(history.jumps, span.next, limits.JSON_SCAN_COUNT))
            offset = await scan.last_offset(history, selection, start=start, stop=span.next, count=query.last)
            written.offset = numbers.position(offset)
        lanes.append(written)
    places = {lane: span.next for lane, span in spans.items()}
    if query.last is not UNSET:
        selection = Selection(tenant=tenant, view=journal_view(call))
        places = await merged.last_places(history, selection, spans, count=query.last)
    elif begins:
        places = {lane: max(span.oldest, begins[lane]) for lane, span in spans.items()}
    stamp, joint = call.services.stamp(), merged.write_places(numbers, places)
    journal = wire.Journal(
        lanes[0].oldest, lanes[0].next, lanes, joint, stamp.store, stamp.incarnation, offset=lanes[0].offset
    )
    if numbers.is_plain:
        journal.jumps = [wire.Jump(jump.end, jump.first) for jump in history.jumps]
    return ok(journal)


async def list_segments(call: Call) -> Reply:
    if not call.principal.is_root:
        raise Forbidden("list", "the segments of the archive; that needs the root credential")
    query = read_query(call, wire.SegmentsQuery)
    start, stop = _asked(call, query.start, field="from"), _asked(call, query.stop, field="to")
    span = await call.services.history.span(_lane_of(start))
    found = await call.services.history.segments(
        start=span.oldest if start is None else start, stop=span.next if stop is None else stop
    )
    return ok(wire.SegmentList([wire.Segment(one.start, one.end) for one in found]))


async def plan_reading(call: Call) -> Reply:
    query = read_query(call, wire.PlanQuery)
    selection = _selection(call, query, _tenant_of(call, query.tenant))
    reading = await _reading(call, query, selection, limit=query.rows, scan_count=limits.ARROW_SCAN_COUNT)
    tables = call.services.history.tables(
        start=reading.start, stop=reading.stop, selection=selection, columns=["offset"], chunk=limits.BATCH_EVENT_COUNT
    )
    found = await tenant_stream.partitions(
        tables, start=reading.start, stop=reading.goal, rows=query.rows, most=query.limit
    )
    places = [call.numbers.position(reading.start), *(call.numbers.position(one.stop) for one in found)]
    written = [wire.Partition(*ends, one.count) for ends, one in zip(pairwise(places), found, strict=True)]
    return ok(wire.Plan(written, places[-1], found[-1].stop >= reading.goal))


async def read_events(call: Call) -> Reply:
    query = read_query(call, wire.EventsQuery)
    selection = msgspec.structs.replace(
        _selection(call, query, _tenant_of(call, query.tenant)),
        arrivals=query.arrivals,
        bodies=query.bodies,
        principal=query.principal,
        message_id=query.message,
        seq=None if query.seq is None else call.numbers.true_seq(query.seq) or 0,
    )
    as_arrow = _wants_arrow(call, query)
    columns = _columns(query, as_arrow=as_arrow)
    most = limits.ARROW_EVENT_COUNT if as_arrow else limits.JSON_EVENT_COUNT
    if query.limit > most:
        raise Invalid(f"limit is {query.limit}; choose from 1 to {most} for this format", field="limit")
    if query.merged:
        return ok(await _merged(call, query, selection, as_arrow=as_arrow))
    if query.lossy:
        raise Invalid("lossy is for a merged read", field="lossy")
    if as_arrow:
        _check_json_only(query)
    elif query.order == "newest":
        return ok(await _newest(call, query, selection))
    if call.numbers.is_plain:
        reading = await _reading(call, query, selection, limit=query.limit, scan_count=query.limit)
        if not as_arrow:
            return ok(await _awaited(call, query, reading))
        if columns is None and _takes_parquet(call, query) and (file := await _segment(call, reading)) is not None:
            return file
        return _stream(call, reading, columns)
    scan_count = limits.ARROW_SCAN_COUNT if as_arrow else limits.JSON_SCAN_COUNT
    reading = await _reading(call, query, selection, limit=query.limit, scan_count=scan_count)
    if not as_arrow:
        return ok(await _awaited(call, query, reading))
    return _tenant_stream(call, reading, columns)


async def _merged(call: Call, query: wire.EventsQuery, selection: Selection, *, as_arrow: bool) -> wire.EventPage:
    if as_arrow or query.stop is not UNSET or query.order == "newest":
        raise Invalid("a merged read is for JSON, oldest first, and has no `to`", field="merged")
    start = None if query.start is UNSET else query.start
    return await merged.page(call, selection, start=start, limit=query.limit, wait_ms=query.wait_ms, lossy=query.lossy)


async def _awaited(call: Call, query: wire.EventsQuery, reading: Reading) -> wire.EventPage:
    """A page, at once or, with `wait_ms`, as soon as there is an event; without any after that time.

    Root's page also ends where `limit` offsets hold none.
    """
    if not query.wait_ms:
        return await page_of(call, reading)
    is_root, stop = call.numbers.is_plain, _asked(call, query.stop, field="to")
    ends = [end for end in (reading.start + query.limit if is_root else None, stop) if end is not None]
    end, page, reached = min(ends, default=None), wire.EventPage([], 0, False), reading.start

    async def look() -> bool:
        nonlocal page, reached
        scan_count = max(0, end - reached) if is_root and end is not None else limits.JSON_SCAN_COUNT
        part = await reading_of(
            call, reading.selection, start=reached, stop=stop, limit=query.limit, scan_count=scan_count
        )
        page, reached = await _found(call, msgspec.structs.replace(part, max_bytes=query.max_bytes))
        return bool(page.events) or (end is not None and reached >= end)

    await call.services.followers.wait(look, wait_ms=query.wait_ms, tenant=call.principal.tenant)
    return page


def _check_json_only(query: wire.EventsQuery) -> None:
    default = wire.EventsQuery()
    for field in JSON_ONLY:
        if getattr(query, field) != getattr(default, field):
            raise Invalid(f"{field} is for JSON; leave it out of a request for Arrow", field=field)


async def _newest(call: Call, query: wire.EventsQuery, selection: Selection) -> wire.EventPage:
    """The newest events before `to` first; `next` goes into `to`, and at the end there is nothing older to look at."""
    if query.wait_ms:
        raise Invalid("wait_ms is for reading forwards; leave it out with order=newest", field="wait_ms")
    reading = await _reading(call, query, selection, limit=query.limit, scan_count=limits.NUMBER)
    events: list[msgspec.Raw] = []
    floor, stop, room = max(reading.start, reading.goal - limits.JSON_SCAN_COUNT), reading.goal, Room(query.max_bytes)
    while stop > floor:
        begin = max(floor, stop - limits.BATCH_EVENT_COUNT)
        found = [one async for some, _ in _chosen(call, selection, begin, stop) for one in some]
        for entry, shown in zip(reversed(found), reversed(show_entries(found, call.numbers)), strict=True):
            written = encode(wire.write_event(shown))
            if len(events) == reading.limit or not room.takes(len(written)):
                return wire.EventPage(events, call.numbers.position(stop), False)
            events.append(msgspec.Raw(written))
            stop = entry.offset
        stop = begin
    return wire.EventPage(events, call.numbers.position(stop), stop <= reading.start)


def _chosen(call: Call, selection: Selection, start: int, stop: int) -> AsyncIterator[tuple[Sequence[Entry], int]]:
    return scan.chosen(call.services.history, selection, start=start, stop=stop, chunk=limits.BATCH_EVENT_COUNT)


def _stream(call: Call, reading: Reading, columns: list[str] | None) -> Reply:
    stream = call.services.history.stream(
        start=reading.start,
        stop=reading.stop,
        selection=reading.selection,
        columns=columns,
        chunk=limits.BATCH_EVENT_COUNT,
    )
    return Reply(200, stream, (ARROW_TYPE, (NEXT.encode(), b"%d" % reading.stop), *_stamped(call)))


def _tenant_stream(call: Call, reading: Reading, columns: list[str] | None) -> Reply:
    """The same for a tenant: where it ends is known, and said, at its end."""
    tables = call.services.history.tables(
        start=reading.start,
        stop=reading.stop,
        selection=reading.selection,
        columns=tenant_stream.columns_for(columns),
        chunk=limits.BATCH_EVENT_COUNT,
    )
    stream = tenant_stream.stream(
        tables, call.numbers, start=reading.start, stop=reading.goal, limit=reading.limit, columns=columns
    )
    return Reply(200, stream, (ARROW_TYPE, *_stamped(call)))


async def _segment(call: Call, reading: Reading) -> Reply | None:
    """A segment as it is; its events from `start` on are those that were asked for, up to where the reader goes on."""
    if not reading.selection.is_all or reading.start == reading.stop:
        return None
    found = await call.services.history.sealed(start=reading.start, stop=reading.stop)
    if found is None:
        return None
    numbers = {NEXT: min(reading.stop, found.segment.end), FIRST: found.segment.start, "content-length": found.size}
    headers = ((name.encode(), b"%d" % number) for name, number in numbers.items())
    return Reply(200, found.pieces, (PARQUET_TYPE, *headers, *_stamped(call)))


def _stamped(call: Call) -> tuple[Header, Header]:
    """By which readers notice that the store was restored, or is another one."""
    stamp = call.services.stamp()
    return (STORE.encode(), stamp.store.encode()), (INCARNATION.encode(), stamp.incarnation.encode())


def _takes_parquet(call: Call, query: wire.EventsQuery) -> bool:
    return query.format is None and segments.MEDIA_TYPE in (call.header(b"accept") or "").lower()


def _selection(call: Call, query: wire.RangeQuery, tenant: str | None) -> Selection:
    queues = frozenset(id_of(asked) or asked for asked in query.queues) | frozenset(query.queues)
    return Selection(tenant=tenant, queues=queues, kinds=frozenset(query.kinds), view=journal_view(call))


def _columns(query: wire.EventsQuery, *, as_arrow: bool) -> list[str] | None:
    if query.columns is None:
        return None
    columns = query.columns.split(",")
    if not as_arrow or len(set(columns)) < len(columns) or not set(columns) <= set(NAMES):
        raise Invalid("columns are for Arrow only, each once, of " + ", ".join(NAMES), field="columns")
    return columns


def _tenant_of(call: Call, asked: str | None) -> str | None:
    """Whose events the caller gets: root chooses, everybody else gets those of the own tenant."""
    principal = call.principal
    if principal.tenant is None:
        return call.services.catalog.tenant(asked).id if asked is not None else None
    principal.require_tenant(principal.tenant if asked is None else asked)
    if not principal.may_somewhere((Action.STATS,)):
        raise Forbidden("read", "the journal; that needs stats on at least one queue")
    return principal.tenant


def _wants_arrow(call: Call, query: wire.EventsQuery) -> bool:
    if query.format is not None:
        return query.format == "arrow"
    accept = (call.header(b"accept") or "*/*").lower()
    if arrow.MEDIA_TYPE in accept:
        return True
    if any(kind in accept for kind in ("*/*", "application/*", "application/json")):
        return False
    raise NotAcceptable(f"application/json or {arrow.MEDIA_TYPE}")


async def _reading(call: Call, query: wire.RangeQuery, selection: Selection, *, limit: int, scan_count: int) -> Reading:
    start, stop = _asked(call, query.start, field="from"), _asked(call, query.stop, field="to")
    reading = await reading_of(call, selection, start=start, stop=stop, limit=limit, scan_count=scan_count)
    most = query.max_bytes if isinstance(query, wire.EventsQuery) else RESPONSE_BYTES
    return msgspec.structs.replace(reading, max_bytes=most)


async def reading_of(
    call: Call, selection: Selection, *, start: int | None, stop: int | None, limit: int, scan_count: int
) -> Reading:
    """What one call reads of the lane of `start`, or of the first one; raises OffsetGone."""
    span = await call.services.history.span(_lane_of(start))
    jumps = call.services.history.jumps
    start = span.oldest if start is None else start
    if start < span.oldest:
        raise OffsetGone(start, span.oldest)
    start = skip(jumps, start)
    goal = max(start, span.next if stop is None else min(stop, span.next))
    reach = min(goal, start + scan_count)
    return Reading(start, min(reach, end_of_stretch(jumps, start) or reach), goal, limit, selection)


def _asked(call: Call, position: str | UnsetType, *, field: str) -> int | None:
    """The offset that the caller names, if it names one; raises OffsetGone for one of an earlier incarnation."""
    if position is UNSET:
        return None
    offset = call.numbers.true_position(position, field=field)
    call.services.history.refuse_lost(offset)
    return offset


def _lane_of(start: int | None) -> int:
    """The lane that an offset is of; the first one without."""
    return 0 if start is None else lane_of(start)


async def page_of(call: Call, reading: Reading) -> wire.EventPage:
    """The events of a reading as far as they fit one response; the reader goes on with the first that does not."""
    return (await _found(call, reading))[0]


async def _found(call: Call, reading: Reading) -> tuple[wire.EventPage, int]:
    """The page of a reading, and the offset that it reaches."""
    events: list[msgspec.Raw] = []
    room, numbers, reached = Room(reading.max_bytes), call.numbers, reading.start
    async for found, looked_until in scan.chosen(
        call.services.history, reading.selection, start=reading.start, stop=reading.stop, chunk=limits.BATCH_EVENT_COUNT
    ):
        entries, reached = found[: reading.limit - len(events)], looked_until
        for entry, shown in zip(entries, show_entries(entries, numbers), strict=True):
            written = encode(wire.write_event(shown))
            if not room.takes(len(written)):
                return wire.EventPage(events, numbers.position(entry.offset), False), entry.offset
            events.append(msgspec.Raw(written))
        if len(events) == reading.limit:
            after = entries[-1].offset + 1
            # A tenant must not see whether events of others follow.
            return wire.EventPage(events, numbers.position(after), numbers.is_plain and after >= reading.goal), after
    return wire.EventPage(events, numbers.position(reached), reached >= reading.goal), reached


ARROW_TYPE: Header = (b"content-type", arrow.MEDIA_TYPE.encode())
PARQUET_TYPE: Header = (b"content-type", segments.MEDIA_TYPE.encode())

OPERATIONS = (
    Operation(
        method="GET",
        path=PREFIX + "/journal",
        handler=read_journal,
        tag="Journal",
        summary="Say what can be read",
        description="Root gets offsets, any other caller positions: texts that go into `from` and `to` and that are new"
        " ones each time. With `at`, an instant, the answer also has the `offset` (or position) of the first event from"
        " then on; with `last`, a number, that from which on there are so many events that the caller may see, or the"
        " last 100,000 of the store if they are not among these. A journal has lanes, which are written"
        " independently of each other: one of a store in files, up to 16 of each PostgreSQL database. The lane stands"
        " in the top bits of an offset (`shard * 2**45 + lane * 2**41 + n`), and a read stays in the lane of its `from`"
        ", unless it is merged. A store gets more lanes while it runs; who reads each begins at `first` of a new"
        " one.",
        needs="stats",
        query=wire.JournalQuery,
        gives={200: wire.Journal},
    ),
    Operation(
        method="GET",
        path=PREFIX + "/journal/events",
        handler=read_events,
        tag="Journal",
        summary="Read events in order",
        description="Root sees the events of every tenant, or of the one it names, and `limit` is a number of offsets."
        " Any other caller sees events of its own tenant about queues of which it may read the stats, and `limit` is a"
        " number of those events; their `offset` and `seq` identify an event and a message, and have no order. At most"
        " 10,000 as JSON, 1,000,000 as an Arrow stream. A page can have fewer events, or none, and more can follow:"
        " read on from `next` until `at_end` is true, which it never is for a tenant's page that is full."
        " Bodies, attributes and the URLs of listeners are left out of"
        " queues that the caller may not browse, and the scopes of credentials unless it may manage the tenant. `queue`"
        " (a name or an id) and `kind` choose among the events and may be given again, `principal`, `message` and `seq`"
        " choose too; with `order=newest` the newest of a lane come first and `next` goes into `to`. With `merged`, a"
        " read covers all lanes in the order of time, lanes that are added later included. `limit` is then a number of"
        " events for root, too, and `next` is a text that holds a place in each lane; an offset or a position in `from`"
        " stands for the instant of its event. `columns` names the columns of an Arrow stream, with commas between"
        " them. Where an Arrow stream ends, root finds in `Courier-Next`."
        " For any other caller each record batch has the key `courier-next` in its custom metadata, the position after"
        " it; the last batch, which has no rows, also has `courier-at-end`, true or false. Root may accept Parquet"
        " beside Arrow: where most of a large segment of the archive is asked for, all columns and all events, the"
        " answer is that segment's file, which may begin before `from` and end after `Courier-Next`; `Courier-First` is"
        " the offset of its first row.",
        needs="stats",
        query=wire.EventsQuery,
        gives={200: wire.Events},
        streams=(arrow.MEDIA_TYPE, segments.MEDIA_TYPE),
        answer_headers={
            "Courier-Next": "The offset to go on from; for root, with Arrow and Parquet only.",
            "Courier-First": "The offset of the first row; with Parquet only.",
        },
        fails=(TenantNotFound, OffsetGone, NotAcceptable),
    ),
    Operation(
        method="GET",
        path=PREFIX + "/journal/plan",
        handler=plan_reading,
        tag="Journal",
        summary="Divide a part of the journal",
        description="Gives partitions of `rows` events each, for tasks that read them at the same time, each with its"
        " own `from` and `to`. It counts the events that a read with the same `tenant`, `queue` and `kind` would give."
        " One call looks through at most 1,000,000 offsets and gives at most 1,000 partitions: go on from `next` until"
        " `at_end` is true. The same `from` and `to` hold the same events each time.",
        needs="stats",
        query=wire.PlanQuery,
        gives={200: wire.Plan},
        fails=(TenantNotFound, OffsetGone),
    ),
    Operation(
        method="GET",
        path=PREFIX + "/journal/segments",
        handler=list_segments,
        tag="Journal",
        summary="List the segments of the archive",
        description="Those that hold something of `from` up to `to`, in order: a long read is best divided where"
        " segments end. A read need not know them, and events that no segment holds yet can be read as well.",
        needs="root",
        query=wire.SegmentsQuery,
        gives={200: wire.SegmentList},
    ),
)
