"""The past of queues: from the lake's tables, and from the journal for what is newer."""

from msgspec import UNSET, UnsetType

from couriermq.core.errors import Invalid, QueueNotFound, TenantNotFound
from couriermq.core.model import HOUR, Action
from couriermq.dialects.native import limits
from couriermq.dialects.native.access import part_of_tenant, queue_for, visible
from couriermq.dialects.native.operations import QUEUE, TENANT, Operation, ok
from couriermq.dialects.native.wire import stats as wire
from couriermq.dialects.native.wire.reading import read_query
from couriermq.web.call import Call, Reply


async def read_queue_stats(call: Call) -> Reply:
    queue, services = queue_for(call, Action.STATS), call.services
    query, now = read_query(call, wire.StatsQuery), services.clock.now()
    start, end = _window(query.start, query.end, now)
    if (end - start) / query.step > limits.STATS_COUNT:
        raise Invalid(f"that would be more than {limits.STATS_COUNT} steps; choose longer ones", field="step")
    counters = await services.broker.counters(queue)
    course = await services.stats.of(queue, counters, start=start, end=end, step=query.step, now=now)
    return ok(wire.write_stats(queue.name, query.step, wire.write_fresh(course.border, now, call.numbers), course))


async def read_tenant_stats(call: Call) -> Reply:
    tenant, services = part_of_tenant(call, Action.STATS), call.services
    query, now = read_query(call, wire.TenantStatsQuery), services.clock.now()
    start, end = _window(query.start, query.end, now)
    queues = visible(call.principal, services.catalog.queues(tenant.id), Action.STATS)
    totals, border = await services.stats.totals(tenant.id, queues, start=start, end=end)
    written = {name: wire.QueueTotals(**counts) for name, counts in totals.items()}
    return ok(wire.TenantStats(start=start, end=end, fresh=wire.write_fresh(border, now, call.numbers), queues=written))


def _window(start: int | UnsetType, end: int | UnsetType, now: int) -> tuple[int, int]:
    until = now + 1 if end is UNSET else end
    since = max(0, until - HOUR) if start is UNSET else start
    if since >= until:
        raise Invalid("from must be before to", field="from")
    return since, until


OPERATIONS = (
    Operation(
        method="GET",
        path=QUEUE + "/stats",
        handler=read_queue_stats,
        tag="Stats",
        summary="Read a queue's past in steps",
        description="From the lake's tables as far as they go, and from the journal for what is newer; `fresh` says"
        " where the one ends and the other begins. Steps begin at multiples of `step` milliseconds, a whole number of"
        " minutes; at most 10,000 of them.",
        needs="stats",
        query=wire.StatsQuery,
        gives={200: wire.QueueStats},
        fails=(QueueNotFound,),
    ),
    Operation(
        method="GET",
        path=TENANT + "/stats",
        handler=read_tenant_stats,
        tag="Stats",
        summary="Read what happened in every queue of a tenant",
        needs="stats",
        query=wire.TenantStatsQuery,
        gives={200: wire.TenantStats},
        fails=(TenantNotFound,),
    ),
)
