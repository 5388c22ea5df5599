"""Looking at messages without taking them, and moving or removing those that were looked at."""

from couriermq.core.errors import BatchTooLarge, MessageNotFound, PurgeNotFound, QueueNotFound
from couriermq.core.model import HOUR, Action, Message
from couriermq.core.search import Search
from couriermq.dialects.native import limits
from couriermq.dialects.native.access import READ, named_queue, names_of_queues, queue_for
from couriermq.dialects.native.operations import QUEUE, Operation, gone, ok
from couriermq.dialects.native.wire import choices as wire
from couriermq.dialects.native.wire import messages
from couriermq.dialects.native.wire.reading import read, read_optional, read_query
from couriermq.monitor.search import LOOK_BYTES, LOOK_COUNT, search
from couriermq.purges import Purge
from couriermq.web.call import Call, Header, Reply

DOWNLOAD: tuple[Header, ...] = (
    (b"content-type", b"application/octet-stream"),
    (b"content-disposition", b'attachment; filename="message"'),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"sandbox"),
)
"""A body is never shown by the browser itself: it may be a page with scripts."""
EXAMPLE_COUNT = 3
PURGE_SECONDS = 30
"""How long a purge is waited for."""


async def browse_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.BROWSE)
    query = read_query(call, wire.BrowseQuery)
    broker, numbers = call.services.broker, call.numbers
    after = numbers.true_cursor(query.after or None, field="after")
    where = wire.search_of(query, lambda name: id_of(call, queue.tenant, name))
    preview_bytes = query.preview_bytes if query.bodies else 0
    if where.is_plain and query.order == "oldest" and preview_bytes is None:
        page = await broker.browse(queue, where=wire.filter_of(where), limit=query.limit, after=after)
        return ok(messages.write_page(page, names_of_queues(call), numbers))
    hits = await search(
        broker,
        queue,
        where,
        limit=query.limit,
        after=after,
        now=call.services.clock.now(),
        newest=query.order == "newest",
    )
    shown = messages.write_previews(hits.messages, names_of_queues(call), numbers, preview_bytes=preview_bytes)
    return ok(messages.Messages(shown, numbers.cursor(hits.next), hits.looked_count))


def id_of(call: Call, tenant: str, name: str) -> str:
    """The id of a queue that may be gone; then the name is taken for one."""
    try:
        return call.services.catalog.queue(tenant, name).id
    except QueueNotFound:
        return name


async def read_message(call: Call) -> Reply:
    queue = queue_for(call, Action.BROWSE)
    query = read_query(call, wire.DownloadQuery)
    message = await call.services.broker.read_message(queue, call.params["message"])
    if query.download:
        return Reply(200, message.body, DOWNLOAD)
    return ok(messages.write_message(message, names_of_queues(call), call.numbers.seq(message.seq)))


async def summarize_dead_letters(call: Call) -> Reply:
    queue = queue_for(call, Action.BROWSE)
    broker, now = call.services.broker, call.services.clock.now()
    found = await search(broker, queue, Search(), limit=LOOK_COUNT, after=None, now=now, most_bytes=LOOK_BYTES)
    groups: dict[tuple[str | None, str | None, str], wire.DeadGroup] = {}
    for message in found.messages:
        death = message.death
        key = (death.source_queue if death else None, death.reason if death else None, message.content_type)
        group = groups.get(key) or groups.setdefault(key, _new_group(call, key))
        _add_to(group, message, call, now)
    listed = sorted(groups.values(), key=lambda group: -group.count)[: limits.LIST_COUNT]
    total = (await broker.counters(queue)).total_count
    return ok(
        wire.DeadSummary(groups=listed, looked_count=found.looked_count, total_count=total, complete=found.next is None)
    )


def _new_group(call: Call, key: tuple[str | None, str | None, str]) -> wire.DeadGroup:
    source, reason, content_type = key
    return wire.DeadGroup(
        source_queue=names_of_queues(call)(source) if source else None,
        source_queue_id=source,
        reason=reason,
        content_type=content_type,
        count=0,
        oldest_at=limits.NUMBER,
        newest_at=0,
        hours=[0] * 24,
        examples=[],
    )


def _add_to(group: wire.DeadGroup, message: Message, call: Call, now: int) -> None:
    at = message.death.died_at if message.death else message.entered_at
    group.count += 1
    group.oldest_at, group.newest_at = min(group.oldest_at, at), max(group.newest_at, at)
    age_hours = (now - at) // HOUR
    if 0 <= age_hours < len(group.hours):
        group.hours[-1 - age_hours] += 1
    if len(group.examples) < EXAMPLE_COUNT:
        group.examples.append(wire.DeadExample(call.numbers.seq(message.seq), message.id))


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
    if not shown:
        return ok(wire.Removed([]))
    removal = await call.services.broker.remove(queue, list(shown), principal=call.principal.id)
    return ok(wire.Removed([shown[seq] for seq in removal.gone]))


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
        description="Oldest first, or newest with `order=newest`. `attribute` is `name:value` and may be given again;"
        " `contains` is a text in the body, the id or an attribute. A filtered page may hold fewer messages than"
        " `limit` and still have a `next`: one call looks at up to 10,000 messages; `looked_count` says at how many."
        " `preview_bytes` cuts bodies (`body_truncated`), `bodies=false` leaves them out.",
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
        description="With `download=true` its body alone, as a file.",
        needs="browse",
        query=wire.DownloadQuery,
        streams=("application/octet-stream",),
        gives={200: messages.Message},
        fails=(QueueNotFound, MessageNotFound),
    ),
    Operation(
        method="GET",
        path=QUEUE + "/dead-letters/summary",
        handler=summarize_dead_letters,
        tag="Messages",
        summary="Group a dead letter queue's messages",
        description="By the queue they died in, the reason and the content type, of the oldest 10,000 messages.",
        needs="browse",
        gives={200: wire.DeadSummary},
        fails=(QueueNotFound,),
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
