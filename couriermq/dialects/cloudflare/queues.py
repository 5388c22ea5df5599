"""Queues: list, create, get, replace, edit, delete, metrics."""

from collections.abc import Callable
from contextlib import suppress

import msgspec

from couriermq.core.errors import RecordNotFound
from couriermq.core.model import Action, Queue
from couriermq.dialects.cloudflare.access import is_legacy, queue_of, sees, tenant_of
from couriermq.dialects.cloudflare.limits import NEW_QUEUE
from couriermq.dialects.cloudflare.wire import queues as wire
from couriermq.dialects.cloudflare.wire import subscriptions
from couriermq.dialects.cloudflare.wire.envelope import ok, page
from couriermq.dialects.cloudflare.wire.fields import QUEUE
from couriermq.dialects.cloudflare.wire.pull import write_metrics
from couriermq.purges import RECORD as PURGE_RECORD
from couriermq.web.call import Call, Reply


async def list_queues(call: Call) -> Reply:
    """All that the caller may see; `name`, which may be repeated, keeps those of exactly that name."""
    tenant = tenant_of(call)
    number, per_page = wire.read_page(call.argument("page"), call.argument("per_page"), default=None)
    names = call.query.get("name")
    queues = [
        queue
        for queue in call.services.catalog.queues(tenant)
        if (names is None or queue.name in names) and sees(call.principal, queue)
    ]
    shown, info = wire.cut(queues, number, per_page)
    legacy = is_legacy(call)
    return page([wire.write_queue(queue, name_of=name_of(call), legacy=legacy) for queue in shown], info)


async def create_queue(call: Call) -> Reply:
    tenant = tenant_of(call)
    call.principal.require_all(Action.MANAGE, tenant)
    order = wire.read_queue(call.body)
    queue = await new_queue(call, tenant, wire.check_name(order.name), order.settings, order.jurisdiction)
    return written(call, queue)


async def new_queue(call: Call, tenant: str, name: str, settings: dict[str, object], jurisdiction: str | None) -> Queue:
    return await call.services.catalog.create_queue(
        tenant,
        name,
        settings=msgspec.structs.replace(NEW_QUEUE, **settings),
        annotations={wire.JURISDICTION: jurisdiction} if jurisdiction else {},
        principal=call.principal.id,
    )


async def get_queue(call: Call) -> Reply:
    return written(call, queue_of(call, None))


async def replace_queue(call: Call) -> Reply:
    """What the caller leaves out goes back to what a new queue has, except its name and its consumer."""
    queue = queue_of(call, Action.MANAGE)
    defaults = {field.ours: getattr(NEW_QUEUE, field.ours) for field in QUEUE}
    return await _change(call, queue, wire.read_queue(call.body), defaults)


async def edit_queue(call: Call) -> Reply:
    queue = queue_of(call, Action.MANAGE)
    return await _change(call, queue, wire.read_queue(call.body), {})


async def _change(call: Call, queue: Queue, order: wire.QueueChange, defaults: dict[str, object]) -> Reply:
    def check(present: Queue) -> None:
        wire.check_jurisdiction(order.jurisdiction, present)
        if order.name is not None and order.name != present.name:
            wire.check_name(order.name)

    call.principal.require_names(queue, () if order.name is None else (order.name,))
    changed = await call.services.catalog.change_queue(
        queue,
        name=order.name,
        settings=lambda present: msgspec.structs.replace(present, **(defaults | order.settings)),
        check=check,
        principal=call.principal.id,
    )
    return written(call, changed)


async def delete_queue(call: Call) -> Reply:
    """Remove the queue, the event subscriptions that led to it, and what was known of its last purge."""
    queue = queue_of(call, Action.MANAGE)
    catalog, principal = call.services.catalog, call.principal.id
    await catalog.delete_queue(queue, principal=principal)
    led_here = [
        record
        for record in catalog.records(subscriptions.RECORD, queue.tenant)
        if subscriptions.subscription_of(record).queue_id == queue.id
    ]
    purged = [record for record in catalog.records(PURGE_RECORD, queue.tenant) if record.id == queue.id]
    for record in led_here + purged:
        with suppress(RecordNotFound):  # another call has deleted it
            await catalog.delete_record(record.kind, record.tenant, record.id, principal=principal)
    return ok(None)


async def get_metrics(call: Call) -> Reply:
    queue = queue_of(call, Action.STATS, Action.MANAGE)
    return ok(write_metrics(await call.services.broker.counters(queue)))


def written(call: Call, queue: Queue) -> Reply:
    return ok(wire.write_queue(queue, name_of=name_of(call), legacy=is_legacy(call)))


def name_of(call: Call) -> Callable[[str], str]:
    """From the id of a queue to its name, empty for one that is gone."""

    def find(queue_id: str) -> str:
        queue = call.services.catalog.queue_of_id(queue_id)
        return queue.name if queue else ""

    return find
