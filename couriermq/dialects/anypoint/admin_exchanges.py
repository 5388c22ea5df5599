"""The admin API's exchanges, their bindings to queues, and the routing rules on those."""

from collections.abc import Sequence

from couriermq.core.errors import AlreadyExists, ExchangeNotFound
from couriermq.core.model import Binding, Exchange, Queue, Rule
from couriermq.dialects.anypoint import admin_wire, limits, place, rights
from couriermq.dialects.anypoint.admin_queues import page
from couriermq.dialects.anypoint.asking import NOTHING, choice, read_object, reply, reply_list, starts_with
from couriermq.web.call import Call, Reply

# -- exchanges ------------------------------------------------------------------------------------------------


async def read_exchange(call: Call) -> Reply:
    exchange = place.exchange(call)
    rights.require(call, exchange, *rights.LOOK)
    return reply(admin_wire.write_exchange(exchange))


async def put_exchange(call: Call) -> Reply:
    """Create the exchange; where it exists, change what the body gives."""
    tenant = place.tenant(call)
    exchange = _find(call, tenant)
    if exchange is None:
        rights.require_all(call, tenant, rights.ADMINISTER)
        try:
            return reply(admin_wire.write_exchange(await _create(call, tenant)))
        except AlreadyExists:
            exchange = _find(call, tenant)
            if exchange is None:  # the name is a queue's; else somebody was quicker than we
                raise
    return await _change(call, exchange)


async def patch_exchange(call: Call) -> Reply:
    return await _change(call, place.exchange(call))


async def delete_exchange(call: Call) -> Reply:
    exchange = _administered(call)
    await call.services.catalog.delete_exchange(exchange, principal=call.principal.id)
    return NOTHING


def _find(call: Call, tenant: str) -> Exchange | None:
    try:
        return call.services.catalog.exchange(tenant, call.params["exchange"])
    except ExchangeNotFound:
        return None


async def _create(call: Call, tenant: str) -> Exchange:
    limits.check_name(call.params["exchange"], strict=place.is_strict(call))
    return await call.services.catalog.create_exchange(
        tenant,
        call.params["exchange"],
        annotations={admin_wire.ENCRYPTED: bool(admin_wire.read_flag(read_object(call), "encrypted"))},
        principal=call.principal.id,
    )


async def _change(call: Call, exchange: Exchange) -> Reply:
    rights.require(call, exchange, rights.ADMINISTER)
    encrypted = admin_wire.read_flag(read_object(call), "encrypted")
    if encrypted is not None:
        exchange = await call.services.catalog.change_exchange(
            exchange,
            annotations={**exchange.annotations, admin_wire.ENCRYPTED: encrypted},
            principal=call.principal.id,
        )
    return reply(admin_wire.write_exchange(exchange))


def _administered(call: Call) -> Exchange:
    exchange = place.exchange(call)
    rights.require(call, exchange, rights.ADMINISTER)
    return exchange


# -- bindings -------------------------------------------------------------------------------------------------


async def list_bindings_of_exchange(call: Call) -> Reply:
    exchange = place.exchange(call)
    rights.require(call, exchange, *rights.LOOK)
    catalog = call.services.catalog
    bound = [(exchange, catalog.queue_by_id(exchange.tenant, b.queue_id), b) for b in catalog.bindings_of(exchange)]
    return _list(call, [one for one in bound if one[1].name.startswith(starts_with(call))])


async def list_bindings_of_queue(call: Call) -> Reply:
    queue = place.queue(call)
    rights.require(call, queue, *rights.LOOK)
    catalog = call.services.catalog
    bound = [(catalog.exchange(queue.tenant, b.exchange_id), queue, b) for b in catalog.bindings_to(queue)]
    return _list(call, [one for one in bound if one[0].name.startswith(starts_with(call))])


def _list(call: Call, bound: list[tuple[Exchange, Queue, Binding]]) -> Reply:
    bound.sort(key=lambda one: (one[0].name, one[1].name))
    return reply_list(call, [_write(call, *one) for one in page(call, bound)])


def _write(call: Call, exchange: Exchange, queue: Queue, binding: Binding) -> object:
    every = choice(call, "inclusion", ("minimal", "all")) == "all"
    return admin_wire.write_binding(exchange, queue, binding.rules if every else None)


async def read_binding(call: Call) -> Reply:
    exchange, queue = place.exchange(call), place.queue(call)
    rights.require(call, exchange, *rights.LOOK)
    return reply(_write(call, exchange, queue, call.services.catalog.binding(exchange, queue)))


async def put_binding(call: Call) -> Reply:
    """Bind; a binding that is there keeps its rule."""
    exchange, queue = _administered(call), place.queue(call)
    found = _binding(call, exchange, queue)
    if found is None:
        found = await _bind(call, exchange, queue, ())
    return reply(admin_wire.write_binding(exchange, queue, found.rules))


async def delete_binding(call: Call) -> Reply:
    exchange, queue = _administered(call), place.queue(call)
    await call.services.catalog.unbind(exchange, queue, principal=call.principal.id)
    return NOTHING


# -- routing rules --------------------------------------------------------------------------------------------


async def put_rules(call: Call) -> Reply:
    exchange, queue = _administered(call), place.queue(call)
    call.services.catalog.binding(exchange, queue)
    rules = admin_wire.read_rules(call.json(admin_wire.RULES))
    binding = await _bind(call, exchange, queue, rules)
    return reply(admin_wire.write_binding(exchange, queue, binding.rules), status=201)


async def delete_rules(call: Call) -> Reply:
    exchange, queue = _administered(call), place.queue(call)
    if call.services.catalog.binding(exchange, queue).rules:
        await _bind(call, exchange, queue, ())
    return NOTHING


def _binding(call: Call, exchange: Exchange, queue: Queue) -> Binding | None:
    return next((b for b in call.services.catalog.bindings_of(exchange) if b.queue_id == queue.id), None)


async def _bind(call: Call, exchange: Exchange, queue: Queue, rules: Sequence[Rule]) -> Binding:
    limits.check_bindable(queue)
    others = [b for b in call.services.catalog.bindings_of(exchange) if b.queue_id != queue.id]
    asked = Binding(tenant=exchange.tenant, exchange_id=exchange.id, queue_id=queue.id, rules=tuple(rules))
    limits.check_bindings([*others, asked])
    return await call.services.catalog.bind(exchange, queue, rules=rules, principal=call.principal.id)
