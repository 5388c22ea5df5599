"""The past of queues: from the lake's tables, and from the journal for what is newer."""

import asyncio

import msgspec
from msgspec import UNSET, UnsetType

from couriermq.core.errors import Invalid, QueueNotFound, TenantNotFound
from couriermq.core.model import DAY, HOUR, Action
from couriermq.dialects.native import limits
from couriermq.dialects.native.access import part_of_tenant, queue_for, visible, whole_tenant
from couriermq.dialects.native.operations import QUEUE, TENANT, Operation, ok
from couriermq.dialects.native.wire import stats as wire
from couriermq.dialects.native.wire.reading import read_query
from couriermq.lake.border import find_border
from couriermq.lake.tables import day_of
from couriermq.lake.usage import usage_by_day
from couriermq.web.call import Call, Reply

USAGE_MS, MOST_USAGE_MS = 31 * DAY, 366 * DAY


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


async def read_tenant_usage(call: Call) -> Reply:
    tenant, services = whole_tenant(call, Action.STATS), call.services
    query = read_query(call, wire.UsageQuery)
    start, end = _window(query.start, query.end, services.clock.now(), usual_ms=USAGE_MS)
    if end - start > MOST_USAGE_MS:
        raise Invalid("that would be more than 366 days; ask for fewer", field="from")
    border = await find_border(services.lake, services.broker)
    if border is None:  # there are no tables, or only those of another store
        return ok(wire.TenantUsage(start=start, end=end, tables_until=None, days=[]))
    used = await asyncio.to_thread(usage_by_day, services.lake, tenant.id, first=day_of(start), last=day_of(end - 1))
    days = [wire.UsageDay(**msgspec.structs.asdict(one)) for one in used]
    return ok(wire.TenantUsage(start=start, end=end, tables_until=border.at, days=days))


def _window(start: int | UnsetType, end: int | UnsetType, now: int, *, usual_ms: int = HOUR) -> tuple[int, int]:
    until = now + 1 if end is UNSET else end
    since = max(0, until - usual_ms) if start is UNSET else start
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
    Operation(
        method="GET",
        path=TENANT + "/usage",
        handler=read_tenant_usage,
        tag="Stats",
        summary="Read what a tenant used, by the day",
        description="From the lake's table `tenant_usage`, which `courier pipeline` fills: `tables_until` says how far"
        " it goes, and is null where there are no tables. Days are those of UTC, at most 366; the first and the last"
        " are given whole. A billable unit is 100 KB of a message that was received, begun or whole, and at least one.",
        needs="stats, on all queues",
        query=wire.UsageQuery,
        gives={200: wire.TenantUsage},
        fails=(TenantNotFound,),
    ),
)
