"""Messages on their way in: to a queue, or through an exchange."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import UNSET

from couriermq.broker import only
from couriermq.core.errors import (
    BatchTooLarge,
    BodyTooLarge,
    CourierError,
    ExchangeNotFound,
    QueueNotFound,
    StorageExceeded,
)
from couriermq.core.model import Action, Draft
from couriermq.dialects.native.access import exchange_for, queue_for
from couriermq.dialects.native.operations import EXCHANGE, QUEUE, Batch, OneOf, Operation, encode, ok
from couriermq.dialects.native.wire import messages as wire
from couriermq.dialects.native.wire.reading import read
from couriermq.web.call import Call, Reply


async def send_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.SEND)
    found = _drafts(call)
    broker, principal = call.services.broker, call.principal.id
    if isinstance(found, Draft):
        sent = await broker.send_one(queue, found, principal=principal)
        return Reply(201, encode(sent if call.numbers.is_plain else wire.write_sent(sent, call.numbers)))

    async def send(drafts: list[Draft]) -> Sequence[object]:
        return wire.write_sent_batch(await broker.send(queue, drafts, principal=principal), call.numbers)

    return await _batch(found, send)


async def publish_messages(call: Call) -> Reply:
    exchange = exchange_for(call, Action.SEND)
    found = _drafts(call)
    broker, principal = call.services.broker, call.principal.id
    if isinstance(found, Draft):
        return Reply(201, encode(only(await broker.publish(exchange, [found], principal=principal))))
    return await _batch(found, lambda drafts: broker.publish(exchange, drafts, principal=principal))


def _drafts(call: Call) -> Draft | Sequence[Draft | CourierError]:
    """One draft, or those of a batch. The text of the request is dropped: it need not wait for the store with them."""
    order = read(wire.SEND, call.body, halves=True)
    call.body = b""
    return wire.draft_of(order, call.trace) if order.messages is UNSET else wire.drafts_of(order, call.trace)


async def _batch(
    items: Sequence[Draft | CourierError], send: Callable[[list[Draft]], Awaitable[Sequence[object]]]
) -> Reply:
    """Send the items that could be read; the others answer for themselves."""
    drafts = [item for item in items if type(item) is Draft]
    sent = await send(drafts) if drafts else ()
    if len(sent) == len(items):
        return ok(wire.write_outcomes(sent))
    outcomes = iter(sent)
    return ok(wire.write_outcomes([next(outcomes) if type(item) is Draft else item for item in items]))


TRACEPARENT = {"traceparent": "A W3C trace context; it is carried to whoever receives the messages."}
EXAMPLE = {"body": "hello", "attributes": {"colour": "red"}}
SENDING = (BodyTooLarge, BatchTooLarge, StorageExceeded)

OPERATIONS = (
    Operation(
        method="POST",
        path=QUEUE + "/messages",
        handler=send_messages,
        tag="Messages",
        summary="Send one message or up to 1,000",
        description="One message answers 201. A batch under `messages` answers 200 with one outcome for each message:"
        " a message that is refused leaves the others sent. The answer leaves when everything is on disk.",
        needs="send",
        headers=TRACEPARENT,
        takes=OneOf((wire.NewMessage, wire.NewMessages)),
        example=EXAMPLE,
        gives={201: wire.Sent, 200: Batch("SendResults", (wire.Sent, wire.Failed))},
        fails=(QueueNotFound, *SENDING),
    ),
    Operation(
        method="POST",
        path=EXCHANGE + "/messages",
        handler=publish_messages,
        tag="Exchanges",
        summary="Publish one message or up to 1,000",
        description="Each message is copied to every queue whose binding lets it through, all in one transaction.",
        needs="send",
        headers=TRACEPARENT,
        takes=OneOf((wire.NewMessage, wire.NewMessages)),
        example=EXAMPLE,
        gives={201: wire.Published, 200: Batch("PublishResults", (wire.Published, wire.Failed))},
        fails=(ExchangeNotFound, *SENDING),
    ),
)
