"""Why queues are stuck."""

from couriermq.core.errors import QueueNotFound, TenantNotFound
from couriermq.core.model import Action, Tenant
from couriermq.diagnosing import Diagnosing
from couriermq.dialects.native.access import part_of_tenant, queue_for, visible
from couriermq.dialects.native.operations import QUEUE, TENANT, Operation, ok
from couriermq.dialects.native.wire import diagnosis as wire
from couriermq.web.call import Call, Reply


async def diagnose_queue(call: Call) -> Reply:
    queue = queue_for(call, Action.STATS)
    findings = await _diagnosing(call).of_queue(queue)
    written = [wire.write_finding(finding, queue, call.numbers) for finding in findings]
    return ok(wire.Diagnosis(at=call.services.clock.now(), findings=written))


async def diagnose_tenant(call: Call) -> Reply:
    return ok(await diagnosis_of_tenant(call, part_of_tenant(call, Action.STATS)))


async def diagnosis_of_tenant(call: Call, tenant: Tenant) -> wire.Diagnosis:
    """The findings about all queues that the caller may read the stats of."""
    queues = visible(call.principal, call.services.catalog.queues(tenant.id), Action.STATS)
    found = await _diagnosing(call).of_queues(queues)
    written = [wire.write_finding(finding, queue, call.numbers) for queue, finding in found]
    return wire.Diagnosis(at=call.services.clock.now(), findings=written)


def _diagnosing(call: Call) -> Diagnosing:
    services = call.services
    return Diagnosing(
        services.broker, services.catalog, services.claims, services.deliveries, services.stats, services.clock
    )


OPERATIONS = (
    Operation(
        method="GET",
        path=QUEUE + "/diagnosis",
        handler=diagnose_queue,
        tag="Stats",
        summary="Find out why a queue is stuck",
        description="Each finding is a sentence with the figures that it rests on and, where one call helps, that call."
        " Nothing is leased. `courier why` prints the same.",
        needs="stats",
        gives={200: wire.Diagnosis},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="GET",
        path=TENANT + "/diagnosis",
        handler=diagnose_tenant,
        tag="Stats",
        summary="Find out which queues of a tenant are stuck",
        description="Looks at the 200 queues with the oldest messages, and at up to 20 of the oldest messages of each,"
        " fewer where they are large. Gives the 100 worst findings.",
        needs="stats",
        gives={200: wire.Diagnosis},
        fails=(TenantNotFound,),
    ),
)
