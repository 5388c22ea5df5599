"""Consumption exactly once: jobs open an epoch, claim messages under numbers, read them and ack the claims."""

import asyncio
from collections.abc import AsyncIterator

from couriermq.claims import READ_COUNT
from couriermq.core.errors import ClaimGone, Fenced, Invalid, JobNotFound, QueueNotFound, QueuePaused
from couriermq.core.model import Action, Queue, Slice
from couriermq.dialects.native import limits
from couriermq.dialects.native.access import READ, names_of_queues, queue_for
from couriermq.dialects.native.operations import QUEUE, Operation, ok
from couriermq.dialects.native.wire import claims as wire
from couriermq.dialects.native.wire.choices import Count
from couriermq.dialects.native.wire.reading import read, read_query
from couriermq.journal import arrow
from couriermq.web.call import Call, Header, Reply

ARROW_TYPE: Header = (b"content-type", arrow.MEDIA_TYPE.encode())


async def list_jobs(call: Call) -> Reply:
    queue = queue_for(call, *READ, Action.RECEIVE)
    return ok(wire.Jobs([wire.write_job(job) for job in await call.services.claims.jobs(queue)]))


async def open_job(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    job, stamp = await call.services.claims.open(queue, call.params["job"]), call.services.stamp()
    return ok(wire.write_opened(job, store=stamp.store, incarnation=stamp.incarnation))


async def claim_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    order = read(wire.CLAIM, call.body)
    claim = await call.services.claims.claim(
        queue,
        call.params["job"],
        number_in(call),
        epoch=order.epoch,
        limit=order.limit,
        ready_by=order.ready_by,
        principal=call.principal.id,
    )
    reply = ok(wire.write_claim(claim))
    reply.status = 201 if claim.is_new and claim.count else 200
    return reply


async def read_claim(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    query = read_query(call, wire.ClaimQuery)
    as_arrow = _wants_arrow(call, query)
    columns = wire.columns_of(query.columns)
    if query.columns is not None and not as_arrow:
        raise Invalid("columns are for Arrow only", field="columns")
    first = await _read(call, queue, query, query.start)  # before the status: who may not read is told so
    if as_arrow:
        return Reply(200, _stream(call, queue, query, columns, first), (ARROW_TYPE,))
    return ok(wire.write_held(first, names_of_queues(call), call.numbers))


def _wants_arrow(call: Call, query: wire.ClaimQuery) -> bool:
    if query.format is not None:
        return query.format == "arrow"
    return arrow.MEDIA_TYPE in (call.header(b"accept") or "").lower()


async def _read(call: Call, queue: Queue, query: wire.ClaimQuery, start: int) -> Slice:
    return await call.services.claims.read(
        queue, call.params["job"], number_in(call), epoch=query.epoch, start=start, stop=query.stop
    )


async def _stream(
    call: Call, queue: Queue, query: wire.ClaimQuery, columns: tuple[str, ...], part: Slice
) -> AsyncIterator[bytes]:
    """The slice, so many messages at a time that others get their turn in between."""
    yield await asyncio.to_thread(wire.head, columns)
    start, stop = query.start, min(query.stop, part.count)
    while start < stop:
        if part.messages:
            yield await asyncio.to_thread(wire.batch, part.messages, queue, columns, call.numbers)
        start = min(start + READ_COUNT, stop) if part.next is None else part.next
        if start < stop:
            part = await _read(call, queue, query, start)
    yield arrow.END


async def ack_claims(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    order = read(wire.ACK, call.body)
    count = await call.services.claims.ack(
        queue, call.params["job"], upto=order.upto, epoch=order.epoch, principal=call.principal.id
    )
    return ok(Count(count))


async def free_job(call: Call) -> Reply:
    queue = queue_for(call, Action.MANAGE, Action.RECEIVE)
    return ok(Count(await call.services.claims.free(queue, call.params["job"], principal=call.principal.id)))


def number_in(call: Call, place: str = "number") -> int:
    """The number that the path names in this place."""
    text = call.params[place]
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= limits.NUMBER):
        raise Invalid(f"{place} is from 0 to {limits.NUMBER}", field=place)
    return int(text)


JOB = QUEUE + "/jobs/{job}"
CLAIM = JOB + "/claims/{number}"

OPERATIONS = (
    Operation(
        method="GET",
        path=QUEUE + "/jobs",
        handler=list_jobs,
        tag="Jobs",
        summary="List the queue's jobs and what they hold",
        needs="manage, browse, stats or receive",
        gives={200: wire.Jobs},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="POST",
        path=JOB + "/open",
        handler=open_job,
        tag="Jobs",
        summary="Open a job",
        description="Begins a new epoch: calls of an earlier one fail with `fenced` from now on, so that of two"
        " processes that take themselves for the job only the newer can act. A job is made when it is first opened.",
        needs="receive",
        gives={200: wire.OpenedJob},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="PUT",
        path=CLAIM,
        handler=claim_messages,
        tag="Jobs",
        summary="Claim messages under a number",
        description="Holds up to `limit` messages that are ready, without end. Asked again for the same number, also"
        " after a crash of either side, the answer (then 200) is the same claim of the same messages. A claim with"
        " `count` 0 found nothing ready and is not kept. Held messages are shown as leased; purge and retention take"
        " them away as they do any other.",
        needs="receive",
        takes=wire.ClaimOrder,
        example={"epoch": 1, "limit": 10_000},
        gives={200: wire.Claim, 201: wire.Claim},
        fails=(QueueNotFound, QueuePaused, Fenced, ClaimGone),
    ),
    Operation(
        method="GET",
        path=CLAIM,
        handler=read_claim,
        tag="Jobs",
        summary="Read messages of a claim",
        description="Positions `from` up to `to`, as JSON at most 1,000 of them, as an Arrow stream all. The same"
        " position is the same message every time. `columns` names the columns of an Arrow stream, with commas between"
        " them.",
        needs="receive",
        query=wire.ClaimQuery,
        gives={200: wire.HeldMessages},
        streams=(arrow.MEDIA_TYPE,),
        fails=(QueueNotFound, Fenced, ClaimGone),
    ),
    Operation(
        method="POST",
        path=JOB + "/ack",
        handler=ack_claims,
        tag="Jobs",
        summary="Ack claims up to a number",
        description="What the claims still hold is done. Acking them again changes nothing.",
        needs="receive",
        takes=wire.AckClaimsOrder,
        example={"epoch": 1, "upto": 7},
        gives={200: Count},
        fails=(QueueNotFound, Fenced),
    ),
    Operation(
        method="POST",
        path=JOB + "/free",
        handler=free_job,
        tag="Jobs",
        summary="Free what a job holds",
        description="For a job that will not come back: its epoch ends and its messages are released, as after a failed"
        " attempt.",
        needs="manage or receive",
        gives={200: Count},
        fails=(QueueNotFound, JobNotFound),
    ),
)
