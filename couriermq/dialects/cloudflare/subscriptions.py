"""Event subscriptions: kept and shown as they were configured."""

from operator import attrgetter

import msgspec

from couriermq.core.errors import Forbidden
from couriermq.core.model import Action, Record
from couriermq.dialects.cloudflare.access import sees, tenant_of
from couriermq.dialects.cloudflare.limits import PER_PAGE
from couriermq.dialects.cloudflare.wire import subscriptions as wire
from couriermq.dialects.cloudflare.wire.envelope import ok, page
from couriermq.dialects.cloudflare.wire.queues import cut, read_page
from couriermq.web.call import Call, Reply


async def list_subscriptions(call: Call) -> Reply:
    tenant = tenant_of(call)
    number, per_page = read_page(call.argument("page"), call.argument("per_page"), default=PER_PAGE)
    order, downwards = wire.read_order(call.argument("order"), call.argument("direction"))
    queue_id = call.argument("queue_id")
    records = [
        record
        for record in call.services.catalog.records(wire.RECORD, tenant)
        if queue_id in {None, wire.subscription_of(record).queue_id} and _sees(call, record)
    ]
    shown = [wire.write_subscription(record) for record in records]
    shown.sort(key=_by_source if order == "source" else attrgetter(order), reverse=downwards)
    return page(*cut(shown, number, per_page))


def _by_source(subscription: wire.SubscriptionObject) -> str:
    return str(subscription.source["type"])


async def create_subscription(call: Call) -> Reply:
    tenant = tenant_of(call)
    subscription = wire.read_new(call.body)
    return await _put(call, tenant, _led(call, tenant, subscription), None)


async def get_subscription(call: Call) -> Reply:
    return ok(wire.write_subscription(_record(call)))


async def edit_subscription(call: Call) -> Reply:
    record = _record(call)
    old = wire.subscription_of(record)
    subscription = wire.read_change(call.body, old)
    _may_manage(call, record)
    if subscription.queue_id != old.queue_id:
        subscription = _led(call, record.tenant, subscription)
    return await _put(call, record.tenant, subscription, record.id)


async def delete_subscription(call: Call) -> Reply:
    record = _record(call)
    _may_manage(call, record)
    await call.services.catalog.delete_record(record.kind, record.tenant, record.id, principal=call.principal.id)
    return ok(wire.write_subscription(record))


async def _put(call: Call, tenant: str, subscription: wire.Subscription, record_id: str | None) -> Reply:
    record = await call.services.catalog.put_record(
        wire.RECORD, tenant, msgspec.to_builtins(subscription), record_id=record_id, principal=call.principal.id
    )
    return ok(wire.write_subscription(record))


def _led(call: Call, tenant: str, subscription: wire.Subscription) -> wire.Subscription:
    """The subscription with the id of its queue, which may have been called by its name and must be the caller's."""
    queue = call.services.catalog.queue(tenant, subscription.queue_id)
    call.principal.require(Action.MANAGE, queue)
    return msgspec.structs.replace(subscription, queue_id=queue.id)


def _record(call: Call) -> Record:
    record = call.services.catalog.record(wire.RECORD, tenant_of(call), call.params["subscription_id"])
    if not _sees(call, record):
        raise Forbidden("see", f"subscription {record.id!r}")
    return record


def _sees(call: Call, record: Record) -> bool:
    """Whoever sees the queue; of a queue that is gone, nobody but the tenant's managers."""
    queue = call.services.catalog.queue_of_id(wire.subscription_of(record).queue_id)
    if queue is not None:
        return sees(call.principal, queue)
    return call.principal.is_root or _manages_all(call, record.tenant)


def _manages_all(call: Call, tenant: str) -> bool:
    try:
        call.principal.require_all(Action.MANAGE, tenant)
    except Forbidden:
        return False
    return True


def _may_manage(call: Call, record: Record) -> None:
    queue = call.services.catalog.queue_of_id(wire.subscription_of(record).queue_id)
    if queue is not None:
        call.principal.require(Action.MANAGE, queue)
    else:
        call.principal.require_all(Action.MANAGE, record.tenant)
