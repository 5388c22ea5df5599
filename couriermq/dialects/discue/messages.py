"""Messages: add, look, rename, delete."""

from couriermq.clock import mint_id
from couriermq.core.errors import Invalid, MessageNotFound
from couriermq.core.events import Event
from couriermq.core.model import Attributes, Json, Listener, Message, Queue
from couriermq.core.removal import Removable, Removal
from couriermq.core.routing import Document, matches
from couriermq.dialects.discue import deleted, names, rights, schemas
from couriermq.dialects.discue.access import queue_for, queues_of
from couriermq.dialects.discue.errors import Held
from couriermq.dialects.discue.history import Remembrance
from couriermq.dialects.discue.limits import DEEPEST_PAGE
from couriermq.dialects.discue.paging import next_page
from couriermq.dialects.discue.wire import messages as wire
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.reading import PageOrder, read_page
from couriermq.web.call import Call, Reply

BROWSE_CHUNK = 200

Seen = tuple[Queue, Message]


async def add_message(call: Call) -> Reply:
    """Nothing is stored of a message that its queue's schema does not allow."""
    queue = queue_for(call, rights.ADD_MESSAGES)
    new = wire.read_message(call.body)
    schema = schemas.schema_of(queue)
    if schema is not None:
        schemas.check_data(schema, new.data)
    draft = wire.draft_of(new, message_id=mint_id(call.services.clock), trace=call.trace)
    sent = await call.services.broker.send_one(queue, draft, principal=call.principal.id)
    return _answered(call, queue, sent.id, wire.write_ref(sent.id, new.name or sent.id))


async def list_messages(call: Call) -> Reply:
    queue = queue_for(call, rights.READ_MESSAGES)
    return await _listed(call, [queue], path_of("queues", queue.id, "messages"))


async def list_all_messages(call: Call) -> Reply:
    rights.require_some(call, rights.READ_MESSAGES)
    return await _listed(call, queues_of(call, rights.READ_MESSAGES), path_of("messages"))


async def rename_message(call: Call) -> Reply:
    queue = queue_for(call, rights.CHANGE_MESSAGES)
    name = wire.read_name(call.body)
    message = await call.services.broker.read_message(queue, call.params["message_id"])
    if name is not None:
        await names.rename(call, queue, message.id, name)
    return _answered(call, queue, message.id, await _written(call, queue, message))


class OneMessage:
    """Reads and deletes one message, be it in its queue or, once every listener has got it, in the journal of the last
    day."""

    def __init__(self, remembrance: Remembrance) -> None:
        self._remembrance = remembrance

    async def get_message(self, call: Call) -> Reply:
        queue, asked = queue_for(call, rights.READ_MESSAGES), call.params["message_id"]
        message = await _find(call, queue, asked)
        if message is not None:
            return _answered(call, queue, message.id, await _written(call, queue, message))
        return _answered(call, queue, asked, await self._delivered(call, queue, asked))

    async def delete_message(self, call: Call) -> Reply:
        """The message, and every copy of it that still waits for a listener or was given up; one that every listener
        has got cannot be read any more."""
        queue, asked = queue_for(call, rights.CHANGE_MESSAGES), call.params["message_id"]
        message = await _find(call, queue, asked)
        removal = None if message is None else await _remove(call, queue, message, Removable.UNLEASED)
        if removal is not None and removal.kept:
            raise Held(asked)
        if removal is None or not removal.gone:
            await self._sent_event(call, queue, asked)
            await deleted.remember(call, queue, asked)
        catalog = call.services.catalog
        for listener in catalog.listeners_of(queue):
            for place in (catalog.outbox(listener), catalog.dead_letters(listener)):
                if (copy := await _find(call, place, asked)) is not None:
                    await _remove(call, place, copy, Removable.ANY)
        await names.forget_message(call, queue, asked)
        return _answered(call, queue, asked, None)

    async def _sent_event(self, call: Call, queue: Queue, message_id: str) -> tuple[Event, int]:
        """A delivered message as it was sent, and when the last listener had got it; raises MessageNotFound."""
        known = await self._remembrance.history(call).sent_event(queue.tenant, queue.id, message_id)
        if known is None or deleted.is_deleted(call, queue, message_id, delivered_at=known[1]):
            raise MessageNotFound(message_id)
        return known

    async def _delivered(self, call: Call, queue: Queue, message_id: str) -> dict[str, Json]:
        event, delivered_at = await self._sent_event(call, queue, message_id)
        detail = event.detail or {}
        attributes, document = detail.get("attributes") or {}, Document(detail.get("body", b""))
        name = names.name_of(message_id, attributes, names.later_names(call, queue))
        body = wire.write_body(detail["body"], detail.get("content_type", "")) if "body" in detail else {}
        listeners = [one for one in call.services.catalog.listeners_of(queue) if one.created_at <= event.at]
        deliveries = [_settled(one, attributes, document) for one in listeners]
        return {
            **wire.write_ref(message_id, name),
            **body,
            "state": wire.DELIVERED,
            "deliveries": deliveries,
            "created_at": event.at,
            "delivered_at": delivered_at,
        }


# -- looking --------------------------------------------------------------------------------------------------


async def _listed(call: Call, queues: list[Queue], path: str) -> Reply:
    order = read_page(call)
    seen = await _look(call, queues, order)
    shown, headers = seen[: order.per_page], next_page(call, order, path) if len(seen) > order.per_page else []
    later = {queue.id: names.later_names(call, queue) for queue, _ in shown}
    written, children = [], []
    for queue, message in shown:
        name = names.name_of(message.id, message.attributes, later[queue.id])
        written.append(wire.write_ref(message.id, name))
        children.append((name, wire.message_path(queue.id, message.id)))
    return answer(call, {"messages": written}, path, children=children, headers=headers)


async def _look(call: Call, queues: list[Queue], order: PageOrder) -> list[Seen]:
    """The messages of a page and one more, if there is one; whole queues before it are passed over by their counts."""
    skip, wanted = order.skip, order.per_page + 1
    seen: list[Seen] = []
    for queue in queues:
        count = (await call.services.broker.counters(queue)).total_count
        if skip >= count:
            skip -= count
            continue
        seen += [(queue, message) for message in await _browse(call, queue, skip, wanted - len(seen))]
        skip = 0
        if len(seen) >= wanted:
            break
    return seen


async def _browse(call: Call, queue: Queue, skip: int, wanted: int) -> list[Message]:
    """What is passed over has to be read all the same: a little at a time, and not for ever."""
    if skip > DEEPEST_PAGE:
        raise Invalid(f"pages reach {DEEPEST_PAGE} messages deep into a queue; what lies behind comes up in time")
    found: list[Message] = []
    after = None
    while len(found) < skip + wanted:
        page = await call.services.broker.browse(
            queue, limit=min(BROWSE_CHUNK, skip + wanted - len(found)), after=after
        )
        for message in page.messages:
            message.body = b""  # a list shows names only, and a deep page must not hold every body before it
        found += page.messages
        after = page.next
        if after is None:
            break
    return found[skip:]


async def _find(call: Call, queue: Queue, message_id: str) -> Message | None:
    try:
        return await call.services.broker.read_message(queue, message_id)
    except MessageNotFound:
        return None


async def _remove(call: Call, queue: Queue, message: Message, which: Removable) -> Removal:
    return await call.services.broker.remove(queue, [message.seq], which=which, principal=call.principal.id)


# -- writing --------------------------------------------------------------------------------------------------


def _answered(call: Call, queue: Queue, message_id: str, written: dict[str, Json] | None) -> Reply:
    document = {} if written is None else {"message": written}
    return answer(call, document, wire.message_path(queue.id, message_id))


async def _written(call: Call, queue: Queue, message: Message) -> dict[str, Json]:
    name = names.name_of(message.id, message.attributes, names.later_names(call, queue))
    listeners = call.services.catalog.listeners_of(queue)
    document = Document(message.body)
    deliveries = [d for one in listeners if (d := await _delivery(call, one, message, document)) is not None]
    return wire.write_message(message, name, deliveries)


async def _delivery(call: Call, listener: Listener, message: Message, document: Document) -> wire.Delivery | None:
    """How far the message has come with a listener; None for one that it was never meant for."""
    catalog = call.services.catalog
    if (copy := await _find(call, catalog.outbox(listener), message.id)) is not None:
        return wire.Delivery(listener.id, listener.name, wire.PENDING, copy.attempts)
    if (copy := await _find(call, catalog.dead_letters(listener), message.id)) is not None:
        return wire.Delivery(listener.id, listener.name, wire.MISSED, copy.death.attempts if copy.death else None)
    if listener.created_at > message.sent_at:
        return None
    return _settled(listener, message.attributes, document)


def _settled(listener: Listener, attributes: Attributes, document: Document) -> wire.Delivery:
    """What has become of a message of which the listener has no copy any more, or never had one."""
    state = wire.DELIVERED if matches(listener.settings.rules, attributes, document) else wire.FILTERED
    return wire.Delivery(listener.id, listener.name, state, None)
