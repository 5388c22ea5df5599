"""Exchanges and the bindings that lead from them to queues."""

from urllib.parse import quote

from msgspec import UNSET

from couriermq.core.errors import (
    AlreadyExists,
    BindingNotFound,
    ExchangeNotFound,
    QueueNotFound,
    QuotaExceeded,
    TenantNotFound,
)
from couriermq.core.model import Action
from couriermq.core.routing import Document, matches
from couriermq.dialects.native.access import READ, exchange_for, part_of_tenant, queue_for, visible, whole_tenant
from couriermq.dialects.native.operations import EXCHANGE, LOCATION, TENANT, Operation, created, gone, ok
from couriermq.dialects.native.wire import exchanges as wire
from couriermq.dialects.native.wire.annotations import check_annotations
from couriermq.dialects.native.wire.paging import NamesQuery, page_of
from couriermq.dialects.native.wire.reading import read, read_optional, read_query
from couriermq.web.call import Call, Reply


async def list_exchanges(call: Call) -> Reply:
    tenant = part_of_tenant(call, *READ)
    query = read_query(call, NamesQuery)
    seen = visible(call.principal, call.services.catalog.exchanges(tenant.id, prefix=query.prefix), *READ)
    page, following = page_of(seen, query, key=lambda exchange: exchange.name)
    return ok(wire.Exchanges([wire.write_exchange(exchange) for exchange in page], following))


async def create_exchange(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    new = read(wire.NEW_EXCHANGE, call.body)
    exchange = await call.services.catalog.create_exchange(
        tenant.id, new.name, annotations=check_annotations(new.annotations), principal=call.principal.id
    )
    return created(wire.write_exchange(exchange), call.path, quote(exchange.name, safe=""))


async def read_exchange(call: Call) -> Reply:
    return ok(wire.write_exchange(exchange_for(call, *READ)))


async def change_exchange(call: Call) -> Reply:
    exchange = exchange_for(call, Action.MANAGE)
    change = read(wire.EXCHANGE_CHANGE, call.body)
    exchange = await call.services.catalog.change_exchange(
        exchange, annotations=check_annotations(change.annotations), principal=call.principal.id
    )
    return ok(wire.write_exchange(exchange))


async def delete_exchange(call: Call) -> Reply:
    exchange = exchange_for(call, Action.MANAGE)
    await call.services.catalog.delete_exchange(exchange, principal=call.principal.id)
    return gone()


async def list_bindings(call: Call) -> Reply:
    exchange, catalog = exchange_for(call, *READ), call.services.catalog
    bound = ((binding, catalog.queue_of_id(binding.queue_id)) for binding in catalog.bindings_of(exchange))
    written = [
        wire.write_binding(binding, exchange, queue)
        for binding, queue in bound
        if queue is not None and call.principal.may_on(queue.name, queue, *READ)
    ]
    return ok(wire.Bindings(sorted(written, key=lambda binding: binding.queue)))


async def bind_queue(call: Call) -> Reply:
    exchange, queue = exchange_for(call, Action.MANAGE), queue_for(call, Action.MANAGE)
    rules = wire.rules_of(read_optional(wire.BIND, call.body))
    binding = await call.services.catalog.bind(exchange, queue, rules=rules, principal=call.principal.id)
    return ok(wire.write_binding(binding, exchange, queue))


async def unbind_queue(call: Call) -> Reply:
    exchange, queue = exchange_for(call, Action.MANAGE), queue_for(call, Action.MANAGE)
    await call.services.catalog.unbind(exchange, queue, principal=call.principal.id)
    return gone()


async def try_route(call: Call) -> Reply:
    exchange, catalog = exchange_for(call, *READ), call.services.catalog
    order = read(wire.ROUTE, call.body)
    document = Document(b"" if order.json is UNSET else bytes(order.json))
    routed = []
    for binding in catalog.bindings_of(exchange):
        queue = catalog.queue_of_id(binding.queue_id)
        if queue is not None and call.principal.may_on(queue.name, queue, *READ):
            failed = next((rule for rule in binding.rules if not matches((rule,), order.attributes, document)), None)
            routed.append(wire.Routed(queue.name, queue.id, failed is None, failed))
    return ok(wire.RoutedQueues(sorted(routed, key=lambda one: one.queue)))


BINDING = EXCHANGE + "/bindings/{queue}"

OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/exchanges",
        handler=list_exchanges,
        tag="Exchanges",
        summary="List exchanges",
        needs="manage, browse or stats",
        query=NamesQuery,
        gives={200: wire.Exchanges},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="POST",
        path=TENANT + "/exchanges",
        handler=create_exchange,
        tag="Exchanges",
        summary="Create an exchange",
        description="Queues and exchanges share their names.",
        needs="manage, on all queues",
        takes=wire.NewExchange,
        example={"name": "events"},
        gives={201: wire.Exchange},
        answer_headers=LOCATION,
        fails=(TenantNotFound, AlreadyExists, QuotaExceeded),
    ),
    Operation(
        method="GET",
        path=EXCHANGE,
        handler=read_exchange,
        tag="Exchanges",
        summary="Read an exchange",
        needs="manage, browse or stats",
        gives={200: wire.Exchange},
        fails=(ExchangeNotFound,),
    ),
    Operation(
        method="PATCH",
        path=EXCHANGE,
        handler=change_exchange,
        tag="Exchanges",
        summary="Change an exchange's annotations",
        needs="manage",
        takes=wire.ExchangeChange,
        example={"annotations": {"owner": "shop"}},
        gives={200: wire.Exchange},
        fails=(ExchangeNotFound,),
    ),
    Operation(
        method="DELETE",
        path=EXCHANGE,
        handler=delete_exchange,
        tag="Exchanges",
        summary="Delete an exchange and its bindings",
        needs="manage",
        gives={204: None},
        fails=(ExchangeNotFound,),
    ),
    Operation(
        method="POST",
        path=EXCHANGE + "/route",
        handler=try_route,
        tag="Exchanges",
        summary="Try out where a message would go",
        description="Nothing is sent. Each queue that is bound, whether it would get a copy, and the first rule that"
        " refuses it.",
        needs="manage, browse or stats",
        takes=wire.RouteOrder,
        example={"attributes": {"colour": "red"}},
        gives={200: wire.RoutedQueues},
        fails=(ExchangeNotFound,),
    ),
    Operation(
        method="GET",
        path=EXCHANGE + "/bindings",
        handler=list_bindings,
        tag="Exchanges",
        summary="List an exchange's bindings",
        needs="manage, browse or stats",
        gives={200: wire.Bindings},
        fails=(ExchangeNotFound,),
    ),
    Operation(
        method="PUT",
        path=BINDING,
        handler=bind_queue,
        tag="Exchanges",
        summary="Bind a queue, or replace the rules of its binding",
        needs="manage, on the exchange and the queue",
        takes=wire.BindOrder,
        body_optional=True,
        example={"rules": [{"attribute": "colour", "type": "string", "matcher": "eq", "value": "red"}]},
        gives={200: wire.Binding},
        fails=(ExchangeNotFound, QueueNotFound),
    ),
    Operation(
        method="DELETE",
        path=BINDING,
        handler=unbind_queue,
        tag="Exchanges",
        summary="Unbind a queue",
        needs="manage, on the exchange and the queue",
        gives={204: None},
        fails=(ExchangeNotFound, QueueNotFound, BindingNotFound),
    ),
)
