"""Queues, and the schemas that belong to them."""

from couriermq.clock import mint_id
from couriermq.core.errors import RecordNotFound
from couriermq.core.model import Json, Queue
from couriermq.dialects.discue import names, rights, schemas
from couriermq.dialects.discue.access import names_of, queue_for, queues_of, tenant_of
from couriermq.dialects.discue.limits import NEW_QUEUE
from couriermq.dialects.discue.paging import cut
from couriermq.dialects.discue.wire import queues as wire
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.reading import read_page
from couriermq.web.call import Call, Reply

QUEUES = "/queues"


async def list_queues(call: Call) -> Reply:
    rights.require_some(call, rights.READ_QUEUES)
    shown, headers = cut(call, queues_of(call, rights.READ_QUEUES), read_page(call), QUEUES)
    children = [(queue.name, wire.queue_path(queue.id)) for queue in shown]
    return answer(
        call, {"queues": [wire.write_ref(queue) for queue in shown]}, QUEUES, children=children, headers=headers
    )


async def create_queue(call: Call) -> Reply:
    rights.require(call, rights.CHANGE_QUEUES)
    order = wire.read_queue(call.body)
    queue = await call.services.catalog.create_queue(
        tenant_of(call),
        mint_id(call.services.clock) if order.name is None else order.name,
        settings=NEW_QUEUE,
        annotations=_with_schema({}, order),
        principal=call.principal.id,
    )
    return _written(call, queue)


async def get_queue(call: Call) -> Reply:
    return _written(call, queue_for(call, rights.READ_QUEUES))


async def change_queue(call: Call) -> Reply:
    queue = queue_for(call, rights.CHANGE_QUEUES)
    order = wire.read_queue(call.body)
    if order.name is not None and order.name != queue.name:
        rights.require(call, rights.CHANGE_QUEUES, order.name)  # a name brings others' scopes for it
    queue = await call.services.catalog.change_queue(
        queue,
        name=order.name,
        annotations=lambda present: _with_schema(present, order),
        principal=call.principal.id,
    )
    return _written(call, queue)


async def delete_queue(call: Call) -> Reply:
    queue = queue_for(call, rights.CHANGE_QUEUES)
    await call.services.catalog.delete_queue(queue, principal=call.principal.id)
    await names.forget_queue(call, queue)
    return answer(call, {}, wire.queue_path(queue.id))


async def get_schema(call: Call) -> Reply:
    queue = queue_for(call, rights.READ_SCHEMAS)
    asked, schema = call.params["schema_id"], schemas.schema_of(queue)
    if schema is None or schemas.schema_id(schema) != asked:
        raise RecordNotFound(asked)
    return answer(call, {"schema": schema}, path_of("queues", queue.id, "schemas", asked))


def _with_schema(annotations: dict[str, Json], order: wire.QueueChange) -> dict[str, Json]:
    kept = {key: value for key, value in annotations.items() if key != schemas.ANNOTATION}
    if order.schema is None:
        return kept
    return kept | {schemas.ANNOTATION: order.schema} if isinstance(order.schema, dict) else annotations


def _written(call: Call, queue: Queue) -> Reply:
    listeners = [
        one
        for one in call.services.catalog.listeners_of(queue)
        if rights.allows(call, rights.READ_LISTENERS, one.id, *names_of(queue))
    ]
    return answer(
        call,
        {"queue": wire.write_queue(queue, listeners)},
        wire.queue_path(queue.id),
        children=wire.listener_children(listeners),
    )
