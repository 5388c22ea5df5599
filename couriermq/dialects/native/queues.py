"""Queues: list, create, read, change, delete, count."""

from urllib.parse import quote

from msgspec import UNSET

from couriermq.core.errors import (
    AlreadyExists,
    DeadLetterCycle,
    InUse,
    Invalid,
    QueueNotFound,
    QuotaExceeded,
    TenantNotFound,
)
from couriermq.core.limits import check_settings
from couriermq.core.model import Action, QueueSettings
from couriermq.dialects.native.access import (
    READ,
    named_queue,
    names_of_queues,
    part_of_tenant,
    queue_for,
    visible,
    whole_tenant,
)
from couriermq.dialects.native.operations import LOCATION, QUEUE, TENANT, Operation, created, gone, ok
from couriermq.dialects.native.wire import queues as wire
from couriermq.dialects.native.wire.annotations import check_annotations
from couriermq.dialects.native.wire.paging import NamesQuery, page_of
from couriermq.dialects.native.wire.reading import read, read_query
from couriermq.web.call import Call, Reply


async def list_queues(call: Call) -> Reply:
    tenant = part_of_tenant(call, *READ)
    query = read_query(call, NamesQuery)
    seen = visible(call.principal, call.services.catalog.queues(tenant.id, prefix=query.prefix), *READ)
    page, following = page_of(seen, query, key=lambda queue: queue.name)
    name_of = names_of_queues(call)
    return ok(wire.Queues([wire.write_queue(queue, name_of) for queue in page], following))


async def create_queue(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    new = read(wire.NEW_QUEUE, call.body)
    queue = await call.services.catalog.create_queue(
        tenant.id,
        new.name,
        kind=new.kind,
        settings=_settings(call, tenant.id, new.settings, QueueSettings()),
        annotations=check_annotations(new.annotations),
        aliases=new.aliases,
        principal=call.principal.id,
    )
    return created(wire.write_queue(queue, names_of_queues(call)), call.path, quote(queue.name, safe=""))


async def read_queue(call: Call) -> Reply:
    return ok(wire.write_queue(queue_for(call, *READ), names_of_queues(call)))


async def change_queue(call: Call) -> Reply:
    queue = queue_for(call, Action.MANAGE)
    change = read(wire.QUEUE_CHANGE, call.body)
    some = change.settings
    call.principal.require_names(queue, () if change.name is UNSET else (change.name,))
    call.principal.require_names(queue, () if change.aliases is UNSET else change.aliases.values())
    queue = await call.services.catalog.change_queue(
        queue,
        name=None if change.name is UNSET else change.name,
        settings=None if some is UNSET else lambda base: _settings(call, queue.tenant, some, base),
        annotations=None if change.annotations is UNSET else check_annotations(change.annotations),
        aliases=None if change.aliases is UNSET else change.aliases,
        principal=call.principal.id,
    )
    return ok(wire.write_queue(queue, names_of_queues(call)))


async def delete_queue(call: Call) -> Reply:
    queue = queue_for(call, Action.MANAGE)
    await call.services.catalog.delete_queue(queue, principal=call.principal.id)
    return gone()


async def count_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.STATS)
    counters = await call.services.broker.counters(queue)
    return ok(wire.write_counters(counters, now=call.services.clock.now()))


async def count_tenant_messages(call: Call) -> Reply:
    tenant, services = part_of_tenant(call, Action.STATS), call.services
    queues = visible(call.principal, services.catalog.queues(tenant.id), Action.STATS)
    found, now = await services.broker.counters_of(queues), services.clock.now()
    figures = {queue.name: wire.write_counters(found[queue.key], now=now) for queue in queues if queue.key in found}
    return ok(wire.TenantCounters(figures))


def _settings(call: Call, tenant: str, some: wire.SomeSettings, base: QueueSettings) -> QueueSettings:
    def id_of(target: str) -> str:
        field = "settings.dead_letter_queue"
        return named_queue(call, tenant, target, Action.SEND, Action.MANAGE, field=field).id

    settings = wire.settings_of(some, base, id_of)
    try:
        check_settings(settings)
    except Invalid as error:
        raise Invalid(str(error), field=f"settings.{error.field}") from None
    return settings


OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/queues",
        handler=list_queues,
        tag="Queues",
        summary="List queues",
        description="By name. A caller sees the queues that it may manage, browse or read the stats of.",
        needs="manage, browse or stats",
        query=NamesQuery,
        gives={200: wire.Queues},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="POST",
        path=TENANT + "/queues",
        handler=create_queue,
        tag="Queues",
        summary="Create a queue",
        needs="manage, on all queues",
        takes=wire.NewQueue,
        example={"name": "orders", "settings": {"lease_ms": 30_000, "max_attempts": 5}},
        gives={201: wire.Queue},
        answer_headers=LOCATION,
        fails=(TenantNotFound, AlreadyExists, DeadLetterCycle, QuotaExceeded),
    ),
    Operation(
        method="GET",
        path=QUEUE,
        handler=read_queue,
        tag="Queues",
        summary="Read a queue",
        needs="manage, browse or stats",
        gives={200: wire.Queue},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="PATCH",
        path=QUEUE,
        handler=change_queue,
        tag="Queues",
        summary="Change a queue",
        description="What is left out stays as it is; null clears `max_attempts`, `max_leased` and"
        " `dead_letter_queue`.",
        needs="manage",
        takes=wire.QueueChange,
        example={"settings": {"paused": True}},
        gives={200: wire.Queue},
        fails=(QueueNotFound, AlreadyExists, DeadLetterCycle),
    ),
    Operation(
        method="DELETE",
        path=QUEUE,
        handler=delete_queue,
        tag="Queues",
        summary="Delete a queue and its messages",
        needs="manage",
        gives={204: None},
        fails=(QueueNotFound, InUse),
    ),
    Operation(
        method="GET",
        path=QUEUE + "/counters",
        handler=count_messages,
        tag="Queues",
        summary="Count a queue's messages",
        needs="stats",
        gives={200: wire.Counters},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="GET",
        path=TENANT + "/counters",
        handler=count_tenant_messages,
        tag="Queues",
        summary="Count the messages of every queue",
        description="The figures are at most a second old; those of a single queue are exact.",
        needs="stats",
        gives={200: wire.TenantCounters},
        fails=(TenantNotFound,),
    ),
)
