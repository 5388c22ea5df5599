"""The names of messages: an attribute that their sender gave, or a name that somebody gave them later.

A message never changes once it is stored, so later names are kept beside the queue, for as long as their messages are
in it.
"""

from contextlib import suppress

from couriermq.broker import Broker
from couriermq.core.errors import Invalid, MessageNotFound, NotFound, RecordNotFound
from couriermq.core.model import Attributes, Json, Queue, Record
from couriermq.dialects.discue.limits import RENAMED_COUNT
from couriermq.web.call import Call

ATTRIBUTE = "name"
RECORD = "discue.names"
"""The record that keeps the later names of a queue's messages, by message id; its own id is the queue's."""


def given_name(attributes: Attributes) -> str | None:
    name = attributes.get(ATTRIBUTE)
    return name if isinstance(name, str) else None


def later_names(call: Call, queue: Queue) -> dict[str, str]:
    try:
        document: Json = call.services.catalog.record(RECORD, queue.tenant, queue.id).document
    except NotFound:
        return {}
    return dict(document)


def name_of(message_id: str, attributes: Attributes, later: dict[str, str]) -> str:
    """What has no name is called by its id."""
    return later.get(message_id) or given_name(attributes) or message_id


async def rename(call: Call, queue: Queue, message_id: str, name: str) -> None:
    """Names of messages that are gone make room for others."""
    kept, gone = later_names(call, queue), set[str]()
    if message_id not in kept and len(kept) >= RENAMED_COUNT:
        gone = {key for key in kept if not await _is_there(call.services.broker, queue, key)}

    def change(present: Record | None) -> Json:
        document = present.document if present is not None else {}
        names = {key: value for key, value in document.items() if key not in gone} | {message_id: name}
        if len(names) > RENAMED_COUNT:
            raise Invalid(f"at most {RENAMED_COUNT} messages of a queue can have a later name at a time", field="name")
        return names

    await call.services.catalog.put_record(
        RECORD, queue.tenant, change, record_id=queue.id, principal=call.principal.id
    )


async def _is_there(broker: Broker, queue: Queue, message_id: str) -> bool:
    try:
        await broker.read_message(queue, message_id)
    except MessageNotFound:
        return False
    return True


async def forget_message(call: Call, queue: Queue, message_id: str) -> None:
    def change(present: Json) -> Json:
        return {key: value for key, value in present.items() if key != message_id}

    if message_id in later_names(call, queue):
        with suppress(RecordNotFound):  # the queue has just been deleted with its names
            await call.services.catalog.change_record(
                RECORD, queue.tenant, queue.id, change, principal=call.principal.id
            )


async def forget_queue(call: Call, queue: Queue) -> None:
    """The queue is gone; so are its later names, and those of queues that went by another way."""
    catalog = call.services.catalog
    for record in catalog.records(RECORD, queue.tenant):
        if catalog.queue_of_id(record.id) is not None:
            continue
        with suppress(RecordNotFound):  # another call has deleted it
            await catalog.delete_record(RECORD, queue.tenant, record.id, principal=call.principal.id)
