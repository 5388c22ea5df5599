"""Doing something with all messages of a queue that match, in the background."""

import msgspec

from couriermq.console.session import read_only
from couriermq.core.errors import InUse, Invalid, QueueNotFound, RecordNotFound, TenantNotFound
from couriermq.core.model import Action, Queue, Tenant
from couriermq.dialects.native.access import READ, named_queue, names_of_queues, part_of_tenant, tenant_for
from couriermq.dialects.native.browsing import id_of
from couriermq.dialects.native.operations import TENANT, Operation, ok
from couriermq.dialects.native.wire import bulk as wire
from couriermq.dialects.native.wire.messages import write_previews
from couriermq.dialects.native.wire.reading import read
from couriermq.operations import Operation as Running
from couriermq.operations import Verb, Where
from couriermq.web.call import Call, Reply

PREVIEW_BYTES = 256


async def start_operation(call: Call) -> Reply:
    tenant, services = tenant_for(call), call.services
    order = read(wire.OPERATION, call.body)
    queue = named_queue(call, tenant.id, order.queue, Action.MANAGE, field="queue")
    if order.where.contains is not None or order.where.attribute:
        call.principal.require(Action.BROWSE, queue)  # how many messages match would tell what they contain
    where = wire.where_of(order.where, call.numbers, lambda name: id_of(call, tenant.id, name))
    if order.preview:
        return await _preview(call, queue, order, where)
    if services.sessions.is_read_only(call):
        raise read_only()
    target = _target(call, tenant, queue, order)
    principal = call.principal
    operation = await services.operations.start(
        queue,
        target,
        order.verb,
        where,
        per_second=order.per_second,
        principal=principal.id,
        credential=None if principal.is_root else principal.id,
    )
    reply = ok(_written(call, operation))
    reply.status = 202
    return reply


async def _preview(call: Call, queue: Queue, order: wire.OperationOrder, where: Where) -> Reply:
    """Bodies and attributes are shown to those who may browse the queue."""
    found = await call.services.operations.preview(queue, order.verb, where)
    preview_bytes, chosen = PREVIEW_BYTES, found.examples
    if not call.principal.may(Action.BROWSE, queue):
        preview_bytes, chosen = 0, [msgspec.structs.replace(one, attributes={}) for one in chosen]
    examples = write_previews(chosen, names_of_queues(call), call.numbers, preview_bytes=preview_bytes)
    return ok(
        wire.OperationPreview(
            matched_count=found.matched_count,
            looked_count=found.looked_count,
            without_body_count=found.without_body_count,
            complete=found.complete,
            examples=examples,
        )
    )


def _target(call: Call, tenant: Tenant, queue: Queue, order: wire.OperationOrder) -> Queue | None:
    if order.verb is Verb.REMOVE:
        return None
    if order.target is None:
        if order.verb is Verb.MOVE:
            raise Invalid("to move messages takes a target", field="target")
        return None
    target = named_queue(call, tenant.id, order.target, Action.SEND, Action.MANAGE, field="target")
    if target.id == queue.id and order.verb in (Verb.MOVE, Verb.REDRIVE):
        raise Invalid("a queue's messages cannot be moved to itself", field="target")
    return target


async def list_operations(call: Call) -> Reply:
    tenant = part_of_tenant(call, *READ)
    seen = [one for one in call.services.operations.all(tenant.id) if _may_see(call, one)]
    return ok(wire.OperationList([_written(call, one) for one in seen]))


async def read_operation(call: Call) -> Reply:
    return ok(_written(call, _found(call, *READ)))


async def cancel_operation(call: Call) -> Reply:
    operation = _found(call, Action.MANAGE)
    operation = await call.services.operations.cancel(call.params["tenant"], operation.id)
    return ok(_written(call, operation))


def _written(call: Call, operation: Running) -> wire.OperationState:
    queue = call.services.catalog.queue_of_id(operation.queue_id)
    may_browse = call.principal.may(Action.BROWSE, queue) if queue else call.principal.may_all(Action.BROWSE)
    return wire.write_operation(operation, call.numbers, names_of_queues(call), content=may_browse)


def _found(call: Call, *actions: Action) -> Running:
    """One that the caller has no right to is as one that does not exist."""
    tenant = part_of_tenant(call, *actions)
    operation = call.services.operations.one(tenant.id, call.params["operation"])
    if not _may_see(call, operation, *actions):
        raise RecordNotFound(operation.id)
    return operation


def _may_see(call: Call, operation: Running, *actions: Action) -> bool:
    queue = call.services.catalog.queue_of_id(operation.queue_id)
    if queue is None:
        return call.principal.may_all(Action.MANAGE)
    return call.principal.may_on(queue.name, queue, *(actions or READ))


ONE = TENANT + "/operations/{operation}"

OPERATIONS = (
    Operation(
        method="POST",
        path=TENANT + "/operations",
        handler=start_operation,
        tag="Messages",
        summary="Do something with all messages that match",
        description="`redrive` sends dead letters back to where each died, or to `target`; `move` and `remove` say what"
        " they do; `resend` sends a copy of each to `target`, or to the same queue; `replay` sends again what was sent"
        " to the queue from `where.from` up to `where.to`, from journal and archive. It runs in the background, at most"
        " `per_second`, goes on after a restart, and concerns messages that were there when it began. It stops when the"
        " credential that started it has ended or has lost the rights to it; `error` says so. Copies are sent"
        " exactly once. With `preview` it only counts, up to 100,000 messages, and shows five. A target needs `send` or"
        " `manage` too, and `contains` and `attribute` need `browse`.",
        needs="manage",
        takes=wire.OperationOrder,
        example={"verb": "redrive", "queue": "failed", "where": {"reason": "attempts exhausted"}, "per_second": 100},
        gives={200: wire.OperationPreview, 202: wire.OperationState},
        fails=(TenantNotFound, InUse),
    ),
    Operation(
        method="GET",
        path=TENANT + "/operations",
        handler=list_operations,
        tag="Messages",
        summary="List operations",
        description="Those that run and the last ones that ended, a hundred in all, of queues that the caller may see.",
        needs="manage, browse or stats",
        gives={200: wire.OperationList},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="GET",
        path=ONE,
        handler=read_operation,
        tag="Messages",
        summary="See how far an operation has come",
        needs="manage, browse or stats",
        gives={200: wire.OperationState},
        fails=(TenantNotFound, QueueNotFound, RecordNotFound),
    ),
    Operation(
        method="DELETE",
        path=ONE,
        handler=cancel_operation,
        tag="Messages",
        summary="Cancel an operation",
        description="What is done stays done.",
        needs="manage",
        gives={200: wire.OperationState},
        fails=(TenantNotFound, RecordNotFound),
    ),
)
