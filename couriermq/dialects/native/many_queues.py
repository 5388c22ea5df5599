"""The same change to many queues, a page of them in one call."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from couriermq.core.errors import CourierError, Invalid, TenantNotFound, Unavailable
from couriermq.core.model import SECOND, Action, Queue
from couriermq.dialects.native.access import named_queue, part_of_tenant, visible
from couriermq.dialects.native.operations import TENANT, Operation, ok
from couriermq.dialects.native.wire import many_queues as wire
from couriermq.dialects.native.wire.reading import read
from couriermq.web.call import Call, Reply

TURN_MS = 10 * SECOND
"""The time limit of one call; its answer says where the next call continues."""
PURGE_SECONDS = 1.0
"""How long a call waits for each purge, so that they do not all run at the same time."""


async def change_queues(call: Call) -> Reply:
    tenant = part_of_tenant(call, Action.MANAGE)
    order = read(wire.CHANGE, call.body)
    names = _chosen(order, visible(call.principal, call.services.catalog.queues(tenant.id), Action.MANAGE))
    done, last = wire.QueuesChanged(matched_count=len(names)), call.services.clock.now() + TURN_MS
    for name in [name for name in names if order.after is None or name > order.after][: order.limit]:
        try:
            await _change(call, named_queue(call, tenant.id, name, Action.MANAGE, field="queues"), order.change)
            done.changed_count += 1
        except Unavailable:
            raise
        except CourierError as error:
            done.failures.append(wire.QueueFailure(name, str(error)))
        done.next = name if name != names[-1] else None
        if call.services.clock.now() >= last:
            break
    return ok(done)


def _chosen(order: wire.QueuesChange, queues: Sequence[Queue]) -> list[str]:
    """The names of the queues that the order is about, in their order."""
    if (order.queues is UNSET) == (order.find is UNSET):
        raise Invalid("give either queues or find", field="queues")
    if order.queues is not UNSET:
        return sorted(set(order.queues))
    part = "" if order.find is UNSET else order.find.lower()
    return sorted(queue.name for queue in queues if part in queue.name.lower())


async def _change(call: Call, queue: Queue, change: str) -> None:
    services, principal = call.services, call.principal.id
    if change == "purge":
        await services.purges.purge(queue, principal=principal, patience_seconds=PURGE_SECONDS)
    elif queue.settings.paused != (change == "pause"):
        await services.catalog.change_queue(
            queue,
            settings=lambda settings: msgspec.structs.replace(settings, paused=change == "pause"),
            principal=principal,
        )


OPERATIONS = (
    Operation(
        method="POST",
        path=TENANT + "/queue-changes",
        handler=change_queues,
        tag="Queues",
        summary="Pause, resume or purge many queues",
        description="Those of `queues`, or all with `find` in their name that the caller may manage, in the order of"
        " their names, `limit` of them in one call and no more than it can within ten seconds; `next` goes into"
        " `after`. A purge that takes long goes on in the background. A queue that cannot be changed is among the"
        " `failures`, and the others are changed nevertheless.",
        needs="manage",
        takes=wire.QueuesChange,
        example={"change": "pause", "find": "orders"},
        gives={200: wire.QueuesChanged},
        fails=(TenantNotFound,),
    ),
)
