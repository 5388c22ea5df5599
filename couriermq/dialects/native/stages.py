"""Sending in two steps: many stage messages, one publishes them all at once, exactly once."""

import asyncio

import msgspec

from couriermq.core.errors import (
    BatchTooLarge,
    BodyTooLarge,
    ExchangeNotFound,
    NotFound,
    PublicationNotFound,
    QueueNotFound,
    QuotaExceeded,
    StageNotFound,
    StorageExceeded,
)
from couriermq.core.model import Action, Draft, Exchange, Publication, Queue
from couriermq.dialects.native.access import exchange_for, queue_for
from couriermq.dialects.native.claims import number_in
from couriermq.dialects.native.operations import EXCHANGE, QUEUE, Operation, gone, ok
from couriermq.dialects.native.wire import stages as wire
from couriermq.dialects.native.wire.reading import read
from couriermq.journal import arrow
from couriermq.web.call import Call, Handler, Reply
from couriermq.web.errors import RequestTooLarge

Target = Queue | Exchange


async def stage_messages(call: Call) -> Reply:
    return await _stage(call, queue_for(call, Action.SEND))


async def drop_stage(call: Call) -> Reply:
    return await _drop(call, queue_for(call, Action.SEND))


async def publish_stages(call: Call) -> Reply:
    return await _publish(call, queue_for(call, Action.SEND))


async def read_publication(call: Call) -> Reply:
    return await _read(call, queue_for(call, Action.SEND))


async def stage_exchange_messages(call: Call) -> Reply:
    return await _stage(call, exchange_for(call, Action.SEND))


async def drop_exchange_stage(call: Call) -> Reply:
    return await _drop(call, exchange_for(call, Action.SEND))


async def publish_exchange_stages(call: Call) -> Reply:
    return await _publish(call, exchange_for(call, Action.SEND))


async def read_exchange_publication(call: Call) -> Reply:
    return await _read(call, exchange_for(call, Action.SEND))


async def _stage(call: Call, target: Target) -> Reply:
    drafts = await _drafts(call)
    await call.services.stages.stage(
        target, call.params["stage"], number_in(call, "part"), drafts, principal=call.principal.id
    )
    return gone()


async def _drafts(call: Call) -> list[Draft]:
    if arrow.MEDIA_TYPE in (call.header(b"content-type") or "").lower():
        limit = call.services.settings.max_request_bytes
        return await asyncio.to_thread(wire.drafts_of_arrow, call.body, limit=limit)
    return wire.drafts_of_json(call.body)


async def _drop(call: Call, target: Target) -> Reply:
    await call.services.stages.drop(target, [call.params["stage"]])
    return gone()


async def _publish(call: Call, target: Target) -> Reply:
    order = read(wire.PUBLISH, call.body)
    published = await call.services.stages.publish(
        target, call.params["series"], order.number, order.stages, principal=call.principal.id,
        parts=order.parts,
    )  # fmt: skip
    return ok(_written(published))


async def _read(call: Call, target: Target) -> Reply:
    return ok(_written(await call.services.stages.publication(target, call.params["series"])))


def _written(publication: Publication) -> wire.Publication:
    return wire.Publication(**msgspec.structs.asdict(publication))


def _missing(place: str) -> type[NotFound]:
    return QueueNotFound if place == QUEUE else ExchangeNotFound


def _staging(place: str, stage: Handler, drop: Handler) -> tuple[Operation, ...]:
    """For queues or for exchanges."""
    return (
        Operation(
            method="PUT",
            path=place + "/stages/{stage}/{part}",
            handler=stage,
            tag="Stages",
            summary="Stage messages",
            description="Keeps a part of a stage, up to 10,000 messages, until the stage is published: nobody sees"
            " anything of it before. A part that was kept already stays as it is, so that it can be sent again when the"
            " answer was lost. All its messages are kept or, when one is refused, none. The body is JSON or an Arrow"
            f" stream (`{arrow.MEDIA_TYPE}`) with a column `body` and, as wanted, "
            + ", ".join(f"`{name}`" for name in wire.OTHERS)
            + "; they may be compressed, and count as what they are when unpacked. A stage that nobody publishes within"
            " a day is forgotten; bringing a part again that it has gives it at least 23 hours more.",
            needs="send",
            takes=wire.StagedMessages,
            takes_also=(arrow.MEDIA_TYPE,),
            example={"messages": [{"body": "hello"}]},
            gives={204: None},
            fails=(_missing(place), BatchTooLarge, BodyTooLarge, RequestTooLarge, QuotaExceeded, StorageExceeded),
        ),
        Operation(
            method="DELETE",
            path=place + "/stages/{stage}",
            handler=drop,
            tag="Stages",
            summary="Drop a stage",
            description="What was published stays; a stage that is not there is dropped already.",
            needs="send",
            gives={204: None},
            fails=(_missing(place),),
        ),
    )


def _publishing(place: str, publish: Handler, look: Handler) -> tuple[Operation, ...]:
    return (
        Operation(
            method="PUT",
            path=place + "/publications/{series}",
            handler=publish,
            tag="Stages",
            summary="Publish stages",
            description="Sends all that the stages hold, or nothing: whoever looks sees all of it or none. `parts` says"
            " how many parts a stage has: where it has another number, because it was forgotten and has begun anew, the"
            " answer is `stage-not-found`, and its messages must be staged again. The series remembers its newest"
            " `number` for a year; publishing that number or a lower one again sends nothing and"
            " answers with what was published.",
            needs="send",
            takes=wire.PublicationOrder,
            example={"number": 7, "stages": ["f3a1", "0b77"], "parts": {"f3a1": 3, "0b77": 1}},
            gives={200: wire.Publication},
            fails=(_missing(place), StageNotFound),
        ),
        Operation(
            method="GET",
            path=place + "/publications/{series}",
            handler=look,
            tag="Stages",
            summary="Say what was last published",
            needs="send",
            gives={200: wire.Publication},
            fails=(_missing(place), PublicationNotFound),
        ),
    )


OPERATIONS = (
    *_staging(QUEUE, stage_messages, drop_stage),
    *_publishing(QUEUE, publish_stages, read_publication),
    *_staging(EXCHANGE, stage_exchange_messages, drop_exchange_stage),
    *_publishing(EXCHANGE, publish_exchange_stages, read_exchange_publication),
)
