"""Workers: where the scripts run that consumers of the type `worker` name."""

import contextlib

from couriermq.core import consumers
from couriermq.core.errors import TenantNotFound, WorkerNotFound
from couriermq.core.model import Action, Secret
from couriermq.dialects.native.access import whole_tenant
from couriermq.dialects.native.operations import TENANT, Operation, gone, ok
from couriermq.dialects.native.wire import workers as wire
from couriermq.dialects.native.wire.paging import PageQuery, page_of
from couriermq.dialects.native.wire.reading import read, read_query
from couriermq.web.call import Call, Reply


async def list_workers(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    query = read_query(call, PageQuery)
    page, following = page_of(call.services.catalog.workers(tenant.id), query, key=lambda worker: worker.script)
    return ok(wire.Workers([_write(call, worker) for worker in page], following))


async def read_worker(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    return ok(_write(call, call.services.catalog.worker(tenant.id, call.params["script"])))


async def attach_worker(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    order = read(wire.ATTACHMENT, call.body)
    await call.services.deliveries.check_urls({"url": order.url}, tenant=tenant.id)
    script, present = call.params["script"], _secrets(call, tenant.id)
    secrets = present if order.secret is None and present else (_secret(call, order.secret),)
    worker = await call.services.catalog.attach_worker(
        tenant.id, script, order.url, secrets=secrets, principal=call.principal.id
    )
    return ok(_write(call, worker, reveal=secrets != present), secret=True)


def _secrets(call: Call, tenant: str) -> tuple[Secret, ...]:
    """What batches of the script are signed with now."""
    with contextlib.suppress(WorkerNotFound):
        return call.services.catalog.worker(tenant, call.params["script"]).secrets
    return ()


def _secret(call: Call, value: str | None) -> Secret:
    deliveries = call.services.deliveries
    return deliveries.new_secret() if value is None else deliveries.given_secret(value)


async def detach_worker(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.MANAGE)
    await call.services.catalog.detach_worker(tenant.id, call.params["script"], principal=call.principal.id)
    return gone()


def _write(call: Call, worker: consumers.Worker, *, reveal: bool = False) -> wire.Worker:
    deliveries = call.services.deliveries
    found = [(queue, deliveries.consumer(queue)) for queue in call.services.catalog.queues(worker.tenant)]
    served = [
        (queue, consumer, deliveries.health(consumer))
        for queue, consumer in found
        if consumer is not None and consumer.script == worker.script
    ]
    return wire.write_worker(worker, served, reveal=reveal)


WORKER = TENANT + "/workers/{script}"
NOT_FOUND = (TenantNotFound, WorkerNotFound)

OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/workers",
        handler=list_workers,
        tag="Workers",
        summary="List the Workers of a tenant",
        description="By the name of their script, each with the consumers that it serves.",
        needs="manage, on all queues",
        query=PageQuery,
        gives={200: wire.Workers},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="GET",
        path=WORKER,
        handler=read_worker,
        tag="Workers",
        summary="Read a Worker and how its consumers do",
        needs="manage, on all queues",
        gives={200: wire.Worker},
        fails=NOT_FOUND,
    ),
    Operation(
        method="PUT",
        path=WORKER,
        handler=attach_worker,
        tag="Workers",
        summary="Attach a script to the bridge that runs it",
        description="Every consumer of the type `worker` that names the script is served at the URL from now on. A URL"
        " at an address that is not public is refused unless the server's `delivery_allow` has its network.",
        needs="manage, on all queues",
        takes=wire.WorkerAttachment,
        example={"url": "https://workers.example.com/bridge"},
        gives={200: wire.Worker},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="DELETE",
        path=WORKER,
        handler=detach_worker,
        tag="Workers",
        summary="Detach a script",
        description="Its consumers stay; their messages wait.",
        needs="manage, on all queues",
        gives={204: None},
        fails=NOT_FOUND,
    ),
)
