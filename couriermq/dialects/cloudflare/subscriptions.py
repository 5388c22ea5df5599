"""Event subscriptions: kept and shown as they were configured; those of the source `queues` fire."""

from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter

import msgspec

from couriermq.core.errors import Forbidden, RecordNotFound
from couriermq.core.model import Action, Json, Record
from couriermq.dialects.cloudflare.access import named_queue, sees, tenant_of
from couriermq.dialects.cloudflare.ids import hex_of, id_of, is_same
from couriermq.dialects.cloudflare.ids import queue_id as shown_id
from couriermq.dialects.cloudflare.limits import PER_PAGE, SUBSCRIPTIONS
from couriermq.dialects.cloudflare.wire import subscriptions as wire
from couriermq.dialects.cloudflare.wire.envelope import ok, page
from couriermq.dialects.cloudflare.wire.queues import cut, read_page
from couriermq.web.call import Call, Reply


async def list_subscriptions(call: Call) -> Reply:
    tenant = tenant_of(call)
    number, per_page = read_page(call.argument("page"), call.argument("per_page"), default=PER_PAGE)
    order, downwards = wire.read_order(call.argument("order"), call.argument("direction"))
    queue_id = call.argument("queue_id")
    records = [record for record in call.services.catalog.records(wire.RECORD, tenant) if _sees(call, record)]
    shown = [_written(call, record) for record in records if queue_id is None or _leads_to(call, record, queue_id)]
    shown.sort(key=_by_source if order == "source" else attrgetter(order), reverse=downwards)
    return page(*cut(shown, number, per_page))


def _by_source(subscription: wire.SubscriptionObject) -> str:
    return str(subscription.source["type"])


async def create_subscription(call: Call) -> Reply:
    tenant = tenant_of(call)
    if not call.principal.may_somewhere((Action.MANAGE,)):
        raise Forbidden("manage", "any queue")
    subscription = _led(call, tenant, wire.read_new(call.body))
    _may_follow(call, tenant, subscription)
    catalog = call.services.catalog

    def document(_: Record | None) -> Json:
        if len(catalog.records(wire.RECORD, tenant)) >= SUBSCRIPTIONS:
            raise wire.too_many()
        return msgspec.to_builtins(subscription)

    record = await catalog.put_record(wire.RECORD, tenant, document, principal=call.principal.id)
    return ok(_written(call, record))


async def get_subscription(call: Call) -> Reply:
    return ok(_written(call, _record(call)))


async def edit_subscription(call: Call) -> Reply:
    record = _record(call)

    def change(document: Json) -> Json:
        old = msgspec.convert(document, wire.Subscription)
        _may_manage(call, record.tenant, old)
        subscription = wire.read_change(call.body, old, now=call.services.clock.now())
        if subscription.queue_id != old.queue_id:
            subscription = _led(call, record.tenant, subscription)
        if subscription.enabled and subscription != old:
            _may_follow(call, record.tenant, subscription)
        return msgspec.to_builtins(subscription)

    with _told_missing(call):
        changed = await call.services.catalog.change_record(
            record.kind, record.tenant, record.id, change, principal=call.principal.id
        )
    return ok(_written(call, changed))


async def delete_subscription(call: Call) -> Reply:
    record = _record(call)
    _may_manage(call, record.tenant, wire.subscription_of(record))
    with _told_missing(call):
        await call.services.catalog.delete_record(record.kind, record.tenant, record.id, principal=call.principal.id)
    return ok(_written(call, record))


def _written(call: Call, record: Record) -> wire.SubscriptionObject:
    queue_id = wire.subscription_of(record).queue_id
    queue = call.services.catalog.queue_of_id(queue_id)
    return wire.write_subscription(record, queue_id=hex_of(queue_id) if queue is None else shown_id(queue))


def _leads_to(call: Call, record: Record, asked: str) -> bool:
    queue_id = wire.subscription_of(record).queue_id
    return is_same(asked, queue_id) or asked == _written(call, record).destination.queue_id


def _led(call: Call, tenant: str, subscription: wire.Subscription) -> wire.Subscription:
    """The subscription with the id of its queue, which may have been called by its name and must be the caller's."""
    queue = named_queue(call, tenant, subscription.queue_id, Action.MANAGE)
    return msgspec.structs.replace(subscription, queue_id=queue.id)


def _record(call: Call) -> Record:
    """The call's subscription; one that the caller may not see is answered like one that does not exist."""
    asked, tenant = call.params["subscription_id"], tenant_of(call)
    with _told_missing(call):
        record = call.services.catalog.record(wire.RECORD, tenant, id_of(asked) or asked)
        if not _sees(call, record):
            raise RecordNotFound(record.id)
        return record


@contextmanager
def _told_missing(call: Call) -> Iterator[None]:
    try:
        yield
    except RecordNotFound:
        raise wire.no_subscription(call.params["subscription_id"]) from None


def _sees(call: Call, record: Record) -> bool:
    """Whoever sees the queue; of a queue that is gone, nobody but the tenant's managers."""
    queue = call.services.catalog.queue_of_id(wire.subscription_of(record).queue_id)
    return call.principal.may_all(Action.MANAGE) if queue is None else sees(call.principal, queue)


def _may_follow(call: Call, tenant: str, subscription: wire.Subscription) -> None:
    """Events of the source `queues` name every queue of the tenant, so that a right on some queues is too little."""
    if subscription.source["type"] == wire.SOURCE and not call.principal.may_all(Action.STATS, Action.MANAGE):
        raise Forbidden("follow", f"all queues of tenant {tenant!r}; that needs stats or manage on all queues")


def _may_manage(call: Call, tenant: str, subscription: wire.Subscription) -> None:
    queue = call.services.catalog.queue_of_id(subscription.queue_id)
    if queue is not None:
        call.principal.require(Action.MANAGE, queue)
    else:
        call.principal.require_all(Action.MANAGE, tenant)
