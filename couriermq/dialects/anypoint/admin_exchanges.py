"""The admin API's exchanges, their bindings to queues, and the routing rules on those."""

from collections.abc import Callable, Sequence

from couriermq.core.errors import AlreadyExists, BindingNotFound, ExchangeNotFound
from couriermq.core.model import Binding, Exchange, Queue, Rule
from couriermq.dialects.anypoint import admin_wire, limits, place, rights
from couriermq.dialects.anypoint.admin_queues import page
from couriermq.dialects.anypoint.asking import NOTHING, choice, read_object, reply, reply_list, starts_with
from couriermq.web.call import Call, Reply

# -- exchanges ------------------------------------------------------------------------------------------------


async def read_exchange(call: Call) -> Reply:
    exchange = rights.exchange(call, *rights.LOOK)
    return reply(admin_wire.write_exchange(exchange))


async def put_exchange(call: Call) -> Reply:
    """Create the exchange; where it exists, change what the body gives."""
    tenant = place.tenant(call)
    exchange = _find(call, tenant)
    rights.require(call, call.params["exchange"], exchange, rights.ADMINISTER)
    if exchange is None:
        rights.require_all(call, tenant, rights.ADMINISTER)
        try:
            return reply(admin_wire.write_exchange(await _create(call, tenant)))
        except AlreadyExists:
            exchange = _find(call, tenant)
            if exchange is None:  # the name is a queue's; else another call has just created it
                raise
    return await _change(call, exchange)


async def patch_exchange(call: Call) -> Reply:
    return await _change(call, _administered(call))


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
    encrypted = admin_wire.read_flag(read_object(call), "encrypted")
    if encrypted is not None:
        exchange = await call.services.catalog.change_exchange(
            exchange,
            annotations=lambda present: {**present, admin_wire.ENCRYPTED: encrypted},
            principal=call.principal.id,
        )
    return reply(admin_wire.write_exchange(exchange))


def _administered(call: Call) -> Exchange:
    return rights.exchange(call, rights.ADMINISTER)


# -- bindings -------------------------------------------------------------------------------------------------


async def list_bindings_of_exchange(call: Call) -> Reply:
    exchange = rights.exchange(call, *rights.LOOK)
    catalog = call.services.catalog
    bound = [(exchange, catalog.queue_by_id(exchange.tenant, b.queue_id), b) for b in catalog.bindings_of(exchange)]
    return _list(call, [one for one in bound if one[1].name.startswith(starts_with(call))])


async def list_bindings_of_queue(call: Call) -> Reply:
    queue = rights.queue(call, *rights.LOOK)
    catalog = call.services.catalog
    bound = [(catalog.exchange(queue.tenant, b.exchange_id), queue, b) for b in catalog.bindings_to(queue)]
    return _list(call, [one for one in bound if one[0].name.startswith(starts_with(call))])


def _list(call: Call, bound: list[tuple[Exchange, Queue, Binding]]) -> Reply:
    """Those of the bindings of which the caller may see both ends."""
    seen = [one for one in bound if rights.may(call, one[0], *rights.LOOK) and rights.may(call, one[1], *rights.LOOK)]
    seen.sort(key=lambda one: (one[0].name, one[1].name))
    return reply_list(call, [_write(call, *one) for one in page(call, seen)])


def _write(call: Call, exchange: Exchange, queue: Queue, binding: Binding) -> object:
    every = choice(call, "inclusion", ("minimal", "all")) == "all"
    return admin_wire.write_binding(exchange, queue, binding.rules if every else None)


async def read_binding(call: Call) -> Reply:
    exchange, queue = rights.exchange(call, *rights.LOOK), rights.queue(call, *rights.LOOK)
    return reply(_write(call, exchange, queue, call.services.catalog.binding(exchange, queue)))


async def put_binding(call: Call) -> Reply:
    """Bind; a binding that is there keeps its rule."""
    exchange, queue = _administered_ends(call)
    binding = await _bind(call, exchange, queue, lambda present: present.rules if present is not None else ())
    return reply(admin_wire.write_binding(exchange, queue, binding.rules))


async def delete_binding(call: Call) -> Reply:
    exchange, queue = _administered_ends(call)
    await call.services.catalog.unbind(exchange, queue, principal=call.principal.id)
    return NOTHING


def _administered_ends(call: Call) -> tuple[Exchange, Queue]:
    """The exchange and the queue of the path, for those who may administer both."""
    return rights.exchange(call, rights.ADMINISTER), rights.queue(call, rights.ADMINISTER)


# -- routing rules --------------------------------------------------------------------------------------------


async def put_rules(call: Call) -> Reply:
    exchange, queue = _administered_ends(call)
    rules = admin_wire.read_rules(call.json(admin_wire.RULES))
    binding = await _bind(call, exchange, queue, _replacing(exchange, queue, rules))
    return reply(admin_wire.write_binding(exchange, queue, binding.rules), status=201)


async def delete_rules(call: Call) -> Reply:
    exchange, queue = _administered_ends(call)
    await _bind(call, exchange, queue, _replacing(exchange, queue, ()))
    return NOTHING


Rules = Callable[[Binding | None], Sequence[Rule]]
"""From the binding as it stands to the rules that it shall have."""


def _replacing(exchange: Exchange, queue: Queue, rules: Sequence[Rule]) -> Rules:
    """Other rules for a binding that is there."""

    def replace(present: Binding | None) -> Sequence[Rule]:
        if present is None:
            raise BindingNotFound(f"{exchange.name} to {queue.name}")
        return rules

    return replace


async def _bind(call: Call, exchange: Exchange, queue: Queue, rules: Rules) -> Binding:
    catalog = call.services.catalog
    limits.check_bindable(queue)

    def chosen(present: Binding | None) -> Sequence[Rule]:
        asked = tuple(rules(present))
        others = [binding for binding in catalog.bindings_of(exchange) if binding.queue_id != queue.id]
        limits.check_bindings(
            [*others, Binding(tenant=exchange.tenant, exchange_id=exchange.id, queue_id=queue.id, rules=asked)]
        )
        return asked

    return await catalog.bind(exchange, queue, rules=chosen, principal=call.principal.id)
