"""Looking at messages without taking them, and moving or removing those that were looked at."""

from couriermq.core.errors import BatchTooLarge, MessageNotFound, PurgeNotFound, QueueNotFound
from couriermq.core.model import Action
from couriermq.dialects.native.access import READ, named_queue, names_of_queues, queue_for
from couriermq.dialects.native.operations import QUEUE, Operation, gone, ok
from couriermq.dialects.native.wire import choices as wire
from couriermq.dialects.native.wire import messages
from couriermq.dialects.native.wire.reading import read, read_optional, read_query
from couriermq.purges import Purge
from couriermq.web.call import Call, Reply

PURGE_SECONDS = 30
"""How long a purge is waited for."""


async def browse_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.BROWSE)
    query = read_query(call, wire.BrowseQuery)
    after = call.numbers.true_cursor(query.after or None, field="after")
    page = await call.services.broker.browse(queue, where=wire.filter_of(query), limit=query.limit, after=after)
    return ok(messages.write_page(page, names_of_queues(call), call.numbers))


async def read_message(call: Call) -> Reply:
    queue = queue_for(call, Action.BROWSE)
    message = await call.services.broker.read_message(queue, call.params["message"])
    return ok(messages.write_message(message, names_of_queues(call), call.numbers.seq(message.seq)))


async def cancel_message(call: Call) -> Reply:
    queue = queue_for(call, Action.SEND)
    await call.services.broker.cancel(queue, call.params["message"], principal=call.principal.id)
    return gone()


async def purge_queue(call: Call) -> Reply:
    queue = queue_for(call, Action.MANAGE)
    purge = await call.services.purges.purge(queue, principal=call.principal.id, patience_seconds=PURGE_SECONDS)
    reply = ok(_written(purge))
    reply.status = 202 if purge.ended_at is None else 200
    return reply


async def read_purge(call: Call) -> Reply:
    queue = queue_for(call, *READ)
    purge = call.services.purges.last(queue)
    if purge is None:
        raise PurgeNotFound(queue.name)
    return ok(_written(purge))


def _written(purge: Purge) -> wire.Purge:
    return wire.Purge(purge.count, purge.started_at, purge.ended_at)


async def remove_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.MANAGE)
    chosen = wire.check_seqs(read(wire.REMOVE, call.body).seqs)
    shown = {seq: one for one in chosen if (seq := call.numbers.true_seq(one)) is not None}
    removed = await call.services.broker.remove(queue, list(shown), principal=call.principal.id) if shown else ()
    return ok(wire.Removed([shown[seq] for seq in removed]))


async def move_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.MANAGE)
    order = read(wire.MOVE, call.body)
    target = named_queue(call, queue.tenant, order.target, Action.SEND, Action.MANAGE, field="target")
    count = await call.services.broker.move(
        queue, target, seqs=_true_seqs(call, order.seqs), principal=call.principal.id
    )
    return ok(wire.Count(count))


async def redrive_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.MANAGE)
    order = read_optional(wire.REDRIVE, call.body)
    target = None
    if order.target is not None:
        target = named_queue(call, queue.tenant, order.target, Action.SEND, Action.MANAGE, field="target")
    count = await call.services.broker.redrive(
        queue, seqs=_true_seqs(call, order.seqs), target=target, principal=call.principal.id
    )
    return ok(wire.Count(count))


def _true_seqs(call: Call, seqs: list[int] | None) -> list[int] | None:
    """The store's numbers of the messages that the caller has chosen; one that was never shown chooses nothing."""
    return None if seqs is None else [call.numbers.true_seq(seq) or 0 for seq in seqs]


OPERATIONS = (
    Operation(
        method="GET",
        path=QUEUE + "/messages",
        handler=browse_messages,
        tag="Messages",
        summary="Browse messages without leasing them",
        description="Oldest first. A filtered page may hold fewer messages than `limit` and still have a `next`.",
        needs="browse",
        query=wire.BrowseQuery,
        gives={200: messages.Messages},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="GET",
        path=QUEUE + "/messages/{message}",
        handler=read_message,
        tag="Messages",
        summary="Read one message by its id",
        needs="browse",
        gives={200: messages.Message},
        fails=(QueueNotFound, MessageNotFound),
    ),
    Operation(
        method="DELETE",
        path=QUEUE + "/messages/{message}",
        handler=cancel_message,
        tag="Messages",
        summary="Cancel a message that nobody has received",
        needs="send",
        gives={204: None},
        fails=(QueueNotFound, MessageNotFound),
    ),
    Operation(
        method="POST",
        path=QUEUE + "/purge",
        handler=purge_queue,
        tag="Messages",
        summary="Remove every message",
        description="Whatever their state. Messages that are sent while it runs stay. A purge that takes longer than"
        " 30 seconds is answered with 202 and goes on, after a restart of the server, too.",
        needs="manage",
        gives={200: wire.Purge, 202: wire.Purge},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="GET",
        path=QUEUE + "/purge",
        handler=read_purge,
        tag="Messages",
        summary="See how far the last purge has come",
        needs="manage, browse or stats",
        gives={200: wire.Purge},
        fails=(QueueNotFound, PurgeNotFound),
    ),
    Operation(
        method="POST",
        path=QUEUE + "/remove",
        handler=remove_messages,
        tag="Messages",
        summary="Remove chosen messages",
        needs="manage",
        takes=wire.RemoveOrder,
        example={"seqs": [1, 2, 3]},
        gives={200: wire.Removed},
        fails=(QueueNotFound, BatchTooLarge),
    ),
    Operation(
        method="POST",
        path=QUEUE + "/move",
        handler=move_messages,
        tag="Messages",
        summary="Move messages to another queue",
        description="Messages that somebody holds stay. The caller also needs send or manage on the target.",
        needs="manage",
        takes=wire.MoveOrder,
        example={"target": "orders-2"},
        gives={200: wire.Count},
        fails=(QueueNotFound, BatchTooLarge),
    ),
    Operation(
        method="POST",
        path=QUEUE + "/redrive",
        handler=redrive_messages,
        tag="Messages",
        summary="Send dead letters back",
        description="Without `target` each goes back to the queue it died in, with fresh attempts.",
        needs="manage",
        takes=wire.RedriveOrder,
        body_optional=True,
        example={"seqs": [1, 2, 3]},
        gives={200: wire.Count},
        fails=(QueueNotFound, BatchTooLarge),
    ),
)
