"""The journal: every change there was, in order, as JSON or as an Arrow stream."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import UNSET

from courier.core.errors import Invalid, OffsetGone, TenantNotFound
from courier.core.events import Entry
from courier.core.model import Action
from courier.dialects.native import limits
from courier.dialects.native.operations import PREFIX, Operation, ok
from courier.dialects.native.wire import events as wire
from courier.dialects.native.wire.reading import read_query
from courier.journal import arrow
from courier.web.call import Call, Header, Reply
from courier.web.errors import NotAcceptable

NEXT = "courier-next"


class Reading(msgspec.Struct, frozen=True):
    """The offsets to read, `start` up to `stop`, and whose events to keep; None means everybody's."""

    start: int
    stop: int
    tenant: str | None


async def read_journal(call: Call) -> Reply:
    _tenant_of(call, None)
    span = await call.services.broker.span()
    return ok(wire.Journal(span.oldest, span.next))


async def read_events(call: Call) -> Reply:
    query = read_query(call, wire.EventsQuery)
    tenant = _tenant_of(call, query.tenant)
    as_arrow = _wants_arrow(call, query)
    if as_arrow:
        await asyncio.to_thread(arrow.head)  # loads pyarrow, the first time: too long to hold the loop
    reading = await _reading(call, query, tenant, limits.ARROW_EVENT_COUNT if as_arrow else limits.JSON_EVENT_COUNT)
    if as_arrow:
        headers: tuple[Header, ...] = (ARROW_TYPE, (NEXT.encode(), b"%d" % reading.stop))
        return Reply(200, _stream(call, reading), headers)
    entries = [entry async for batch in _batches(call, reading) for entry in batch]
    return ok(wire.write_events(entries, reading.stop))


def _tenant_of(call: Call, asked: str | None) -> str | None:
    """Whose events the caller gets: root chooses, everybody else gets those of the own tenant."""
    principal = call.principal
    if principal.tenant is None:
        return call.services.catalog.tenant(asked).id if asked is not None else None
    principal.require_all(Action.STATS, principal.tenant if asked is None else asked)
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


async def _reading(call: Call, query: wire.EventsQuery, tenant: str | None, most: int) -> Reading:
    if query.limit > most:
        raise Invalid(f"limit is {query.limit}; choose from 1 to {most} for this format", field="limit")
    span = await call.services.broker.span()
    start = span.oldest if query.start is UNSET else query.start
    if start < span.oldest:
        raise OffsetGone(start, span.oldest)
    stop = min(start + query.limit, span.next if query.stop is UNSET else min(query.stop, span.next))
    return Reading(start, max(start, stop), tenant)


async def _batches(call: Call, reading: Reading) -> AsyncIterator[Sequence[Entry]]:
    """The entries of a reading, so many at a time that others get their turn in between."""
    offset = reading.start
    while offset < reading.stop:
        limit = min(limits.BATCH_EVENT_COUNT, reading.stop - offset)
        entries = await call.services.broker.read_events(start=offset, limit=limit)
        if not entries:
            return
        offset = entries[-1].offset + 1
        yield [e for e in entries if e.event.tenant == reading.tenant] if reading.tenant is not None else entries


async def _stream(call: Call, reading: Reading) -> AsyncIterator[bytes]:
    yield arrow.head()
    async for entries in _batches(call, reading):
        if entries:
            yield arrow.batch(entries)
    yield arrow.END


ARROW_TYPE: Header = (b"content-type", arrow.MEDIA_TYPE.encode())

OPERATIONS = (
    Operation(
        method="GET",
        path=PREFIX + "/journal",
        handler=read_journal,
        tag="Journal",
        summary="Say which offsets can be read",
        needs="stats, on all queues",
        gives={200: wire.Journal},
    ),
    Operation(
        method="GET",
        path=PREFIX + "/journal/events",
        handler=read_events,
        tag="Journal",
        summary="Read events in order",
        description="Covers up to `limit` offsets from `from` on: at most 10,000 as JSON, 1,000,000 as an Arrow stream."
        " Root sees the events of every tenant, or of the one it names; any other caller sees those of its own tenant,"
        " under their true offsets. The header `Courier-Next` of an Arrow stream is the `next` of the JSON answer.",
        needs="stats, on all queues",
        query=wire.EventsQuery,
        gives={200: wire.Events},
        streams=(arrow.MEDIA_TYPE,),
        answer_headers={"Courier-Next": "The offset to go on from; with an Arrow stream only."},
        fails=(TenantNotFound, OffsetGone, NotAcceptable),
    ),
)
