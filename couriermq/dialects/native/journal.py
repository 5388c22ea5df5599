"""The journal: every change there was, in order, as JSON or as an Arrow stream."""

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from couriermq.core.errors import CursorNotFound, Forbidden, Invalid, OffsetGone, TenantNotFound
from couriermq.core.events import Entry
from couriermq.core.limits import Room
from couriermq.core.model import Action
from couriermq.core.shards import shard_of
from couriermq.dialects.native import limits
from couriermq.dialects.native.access import journal_view
from couriermq.dialects.native.operations import PREFIX, Operation, encode, gone, ok
from couriermq.dialects.native.wire import events as wire
from couriermq.dialects.native.wire.reading import read, read_query
from couriermq.journal import arrow, segments
from couriermq.journal.cursors import Cursor
from couriermq.journal.schema import NAMES
from couriermq.journal.selection import Selection
from couriermq.web.call import Call, Header, Reply
from couriermq.web.errors import NotAcceptable

NEXT = "courier-next"
FIRST = "courier-first"


class Reading(msgspec.Struct, frozen=True):
    """The offsets to read, `start` up to `stop`, and which of their events."""

    start: int
    stop: int
    selection: Selection


async def read_journal(call: Call) -> Reply:
    _tenant_of(call, None)
    query = read_query(call, wire.JournalQuery)
    history = call.services.history
    spans = await history.spans()
    shards = [wire.Shard(shard, span.oldest, span.next) for shard, span in enumerate(spans)]
    if query.at is not UNSET:
        for one in shards:
            one.offset = max(one.oldest, await history.offset_at(query.at, one.shard))
    return ok(wire.Journal(shards[0].oldest, shards[0].next, shards, shards[0].offset))


async def list_segments(call: Call) -> Reply:
    _tenant_of(call, None)
    query = read_query(call, wire.SegmentsQuery)
    span = await call.services.history.span(_shard_of(query.start))
    start = span.oldest if query.start is UNSET else query.start
    stop = span.next if query.stop is UNSET else query.stop
    found = await call.services.history.segments(start=start, stop=stop)
    return ok(wire.SegmentList([wire.Segment(one.start, one.end) for one in found]))


async def read_events(call: Call) -> Reply:
    query = read_query(call, wire.EventsQuery)
    selection = _selection(call, query, _tenant_of(call, query.tenant))
    as_arrow = _wants_arrow(call, query)
    columns = _columns(query, as_arrow=as_arrow)
    reading = await _reading(call, query, selection, limits.ARROW_EVENT_COUNT if as_arrow else limits.JSON_EVENT_COUNT)
    if as_arrow:
        _check_json_only(query)
        if columns is None and _takes_parquet(call, query) and (file := await _segment(call, reading)) is not None:
            return file
        headers: tuple[Header, ...] = (ARROW_TYPE, (NEXT.encode(), b"%d" % reading.stop))
        stream = call.services.history.stream(
            start=reading.start,
            stop=reading.stop,
            selection=selection,
            columns=columns,
            chunk=limits.BATCH_EVENT_COUNT,
        )
        return Reply(200, stream, headers)
    return ok(await _awaited(call, query, reading) if query.wait_ms else await _page(call, reading))


async def _awaited(call: Call, query: wire.EventsQuery, reading: Reading) -> wire.EventPage:
    """A page with an event, as soon as there is one; without any after `wait_ms`, or if `limit` offsets hold none."""
    end = reading.start + query.limit if query.stop is UNSET else min(reading.start + query.limit, query.stop)
    page = wire.EventPage([], reading.start)

    async def look() -> bool:
        nonlocal page
        span = await call.services.history.span(shard_of(page.next))
        stop = max(page.next, min(end, span.next))
        page = await _page(call, Reading(page.next, stop, reading.selection))
        return bool(page.events) or page.next >= end

    await call.services.followers.wait(look, wait_ms=query.wait_ms, tenant=call.principal.tenant)
    return page


async def _segment(call: Call, reading: Reading) -> Reply | None:
    """A segment as it is; its events from `start` on are those that were asked for, up to where the reader goes on."""
    if not reading.selection.is_all or reading.start == reading.stop:
        return None
    found = await call.services.history.sealed(start=reading.start, stop=reading.stop)
    if found is None:
        return None
    numbers = {NEXT: min(reading.stop, found.segment.end), FIRST: found.segment.start, "content-length": found.size}
    headers = ((name.encode(), b"%d" % number) for name, number in numbers.items())
    return Reply(200, found.pieces, (PARQUET_TYPE, *headers))


def _takes_parquet(call: Call, query: wire.EventsQuery) -> bool:
    return query.format is None and segments.MEDIA_TYPE in (call.header(b"accept") or "").lower()


def _selection(call: Call, query: wire.EventsQuery, tenant: str | None) -> Selection:
    return Selection(
        tenant=tenant,
        queues=frozenset(query.queues),
        kinds=frozenset(query.kinds),
        view=journal_view(call),
        arrivals=query.arrivals,
        bodies=query.bodies,
    )


def _check_json_only(query: wire.EventsQuery) -> None:
    for field, given in (("arrivals", query.arrivals), ("bodies", not query.bodies), ("wait_ms", query.wait_ms)):
        if given:
            raise Invalid(f"{field} is for JSON; leave it out of a request for Arrow", field=field)


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


async def _reading(call: Call, query: wire.EventsQuery, selection: Selection, most: int) -> Reading:
    if query.limit > most:
        raise Invalid(f"limit is {query.limit}; choose from 1 to {most} for this format", field="limit")
    span = await call.services.history.span(_shard_of(query.start))
    start = span.oldest if query.start is UNSET else query.start
    if start < span.oldest:
        raise OffsetGone(start, span.oldest)
    stop = min(start + query.limit, span.next if query.stop is UNSET else min(query.stop, span.next))
    return Reading(start, max(start, stop), selection)


def _shard_of(start: int | UnsetType) -> int:
    """The shard that an offset is of; the first one without."""
    return 0 if start is UNSET else shard_of(start)


async def _page(call: Call, reading: Reading) -> wire.EventPage:
    """The events of a reading as far as they fit one response; the reader goes on with the first that does not."""
    events: list[msgspec.Raw] = []
    room = Room()
    async for batch in _batches(call, reading):
        for entry in batch:
            written = encode(wire.write_event(entry))
            if not room.takes(len(written)):
                return wire.EventPage(events, entry.offset)
            events.append(msgspec.Raw(written))
    return wire.EventPage(events, reading.stop)


async def _batches(call: Call, reading: Reading) -> AsyncIterator[Sequence[Entry]]:
    """The entries of a reading, so many at a time that others get their turn in between."""
    offset = reading.start
    while offset < reading.stop:
        limit = min(limits.BATCH_EVENT_COUNT, reading.stop - offset)
        entries = await call.services.history.read_events(start=offset, limit=limit)
        if not entries:
            return
        offset = entries[-1].offset + 1
        yield reading.selection.choose(entries)


# -- cursors --------------------------------------------------------------------------------------------------


async def list_cursors(call: Call) -> Reply:
    _require_root(call)
    return ok(wire.CursorList([_write_cursor(cursor) for cursor in call.services.cursors.all()]))


async def advance_cursor(call: Call) -> Reply:
    _require_root(call)
    order = read(_ORDER, call.body)
    span = await call.services.history.span(shard_of(order.offset))
    if order.offset > span.next:
        raise Invalid(f"offset is {order.offset}, but the journal ends at {span.next}", field="offset")
    return ok(_write_cursor(await call.services.cursors.advance(_name_of(call), order.offset)))


async def delete_cursor(call: Call) -> Reply:
    _require_root(call)
    await call.services.cursors.delete(call.params["cursor"])
    return gone()


def _name_of(call: Call) -> str:
    name = call.params["cursor"]
    if not 1 <= len(name) <= limits.NAME_CHARS:
        raise Invalid(f"a cursor's name has 1 to {limits.NAME_CHARS} characters", field="cursor")
    return name


def _require_root(call: Call) -> None:
    if not call.principal.is_root:
        raise Forbidden("use", "cursors; that needs the root credential")


def _write_cursor(cursor: Cursor) -> wire.Cursor:
    return wire.Cursor(cursor.name, cursor.offset, cursor.changed_at)


_ORDER = msgspec.json.Decoder(wire.CursorOrder)


CURSOR = PREFIX + "/journal/cursors/{cursor}"
ARROW_TYPE: Header = (b"content-type", arrow.MEDIA_TYPE.encode())
PARQUET_TYPE: Header = (b"content-type", segments.MEDIA_TYPE.encode())

OPERATIONS = (
    Operation(
        method="GET",
        path=PREFIX + "/journal",
        handler=read_journal,
        tag="Journal",
        summary="Say which offsets can be read",
        description="With `at`, an instant, the answer also has the `offset` of the first event from then on. A store"
        " that is divided has a journal in each shard; the shard's number stands in the top bits of its offsets"
        " (`shard * 2**45 + n`), and a read stays in the shard of its `from`.",
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
        description="Covers up to `limit` offsets from `from` on: at most 10,000 as JSON, 1,000,000 as an Arrow stream."
        " Root sees the events of every tenant, or of the one it names; any other caller sees those of its own tenant"
        " that are about queues of which it may read the stats, under their true offsets. Bodies, attributes and the"
        " URLs of listeners are left out of queues that it may not browse, and the scopes of credentials unless it may"
        " manage the tenant. `queue` (a name or an id) and `kind` choose among them and may be given again. With"
        " `arrivals=true`, `queue` also chooses events that bring a message into it from another queue:"
        " `dead_lettered`, `redriven` and `moved`. `bodies=false` leaves out the bodies of sent messages. With"
        " `wait_ms`, an answer without events waits for the first one; it ends when the time is over, when `limit`"
        " offsets hold none, or when the server stops. These three are for JSON;"
        " `columns` names the columns of an Arrow stream, with commas between them. The header `Courier-Next` of an"
        " Arrow stream is the `next` of the JSON answer. Root may accept Parquet beside Arrow: where most of a large"
        " segment of the archive is asked for, all columns and all events, the answer is that segment's file, which may"
        " begin before `from` and end after `Courier-Next`; `Courier-First` is the offset of its first row.",
        needs="stats",
        query=wire.EventsQuery,
        gives={200: wire.Events},
        streams=(arrow.MEDIA_TYPE, segments.MEDIA_TYPE),
        answer_headers={
            "Courier-Next": "The offset to go on from; with Arrow and Parquet only.",
            "Courier-First": "The offset of the first row; with Parquet only.",
        },
        fails=(TenantNotFound, OffsetGone, NotAcceptable),
        waits=True,
    ),
    Operation(
        method="GET",
        path=PREFIX + "/journal/segments",
        handler=list_segments,
        tag="Journal",
        summary="List the segments of the archive",
        description="Those that hold something of `from` up to `to`, in order: whoever divides a long read does so best"
        " where segments end. A read need not know them, and events that no segment holds yet can be read as well.",
        needs="stats",
        query=wire.SegmentsQuery,
        gives={200: wire.SegmentList},
    ),
    Operation(
        method="GET",
        path=PREFIX + "/journal/cursors",
        handler=list_cursors,
        tag="Journal",
        summary="List the cursors",
        needs="root",
        gives={200: wire.CursorList},
    ),
    Operation(
        method="PUT",
        path=CURSOR,
        handler=advance_cursor,
        tag="Journal",
        summary="Make a cursor, or move it forward",
        description="Events from the lowest cursor on are kept, whatever their age. A cursor never moves back: the"
        " answer says where it stands.",
        needs="root",
        takes=wire.CursorOrder,
        example={"offset": 1000},
        gives={200: wire.Cursor},
    ),
    Operation(
        method="DELETE",
        path=CURSOR,
        handler=delete_cursor,
        tag="Journal",
        summary="Forget a cursor, and let go of what it held",
        needs="root",
        gives={204: None},
        fails=(CursorNotFound,),
    ),
)
