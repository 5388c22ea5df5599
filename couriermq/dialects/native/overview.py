"""What a tenant's queues hold and do now."""

from collections.abc import Sequence

from msgspec import UNSET

from couriermq.core.errors import Invalid, QueueNotFound, TenantNotFound
from couriermq.core.model import Action, Queue, Tenant
from couriermq.dialects.native.access import names_of_queues, part_of_tenant, queue_for, visible
from couriermq.dialects.native.operations import QUEUE, TENANT, Operation, ok
from couriermq.dialects.native.wire import overview as wire
from couriermq.dialects.native.wire.reading import read_query
from couriermq.monitor.overview import spark_of, sum_of_sparks, totals_of
from couriermq.monitor.rates import ARRIVED, SECONDS, SHOWN, backlog
from couriermq.web.call import Call, Reply

STEPS = {"seconds": 1_000, "minutes": 60_000}


async def read_overview(call: Call) -> Reply:
    tenant = part_of_tenant(call, Action.STATS)
    return ok(await overview_of(call, tenant, read_query(call, wire.OverviewQuery)))


async def overview_of(call: Call, tenant: Tenant, query: wire.OverviewQuery) -> wire.Overview:
    """A page of the queues that the caller may see the stats of."""
    services, now = call.services, call.services.clock.now()
    rows, following, every = await services.monitor.overview.rows(
        tenant.id, seen_queues(call, tenant), wire.wanted_of(query)
    )
    spark = sum_of_sparks([spark_of(row, now) for row in every if row.is_live]) if query.spark else None
    name_of, spark_at = names_of_queues(call), now if query.spark else None
    flags = wire.flags_of([row.queue for row in rows], services.catalog, tenant.id)
    return wire.Overview(
        now,
        [wire.write_row(row, flagged, name_of, spark_at) for row, flagged in zip(rows, flags, strict=True)],
        following,
        len(every),
        wire.write_totals(totals_of(every), spark),
    )


def seen_queues(call: Call, tenant: Tenant) -> Sequence[Queue]:
    queues = call.services.catalog.queues(tenant.id)
    return queues if call.principal.may_all(Action.STATS) else visible(call.principal, queues, Action.STATS)


async def read_rates(call: Call) -> Reply:
    queue = queue_for(call, Action.STATS)
    query = read_query(call, wire.RatesQuery)
    if query.seconds is not UNSET and query.minutes is not UNSET:
        raise Invalid("give seconds or minutes, not both", field="minutes")
    by_minutes = query.minutes is not UNSET
    count = query.minutes if query.minutes is not UNSET else SECONDS if query.seconds is UNSET else query.seconds
    return ok(await _rates_of(call, queue, count, by_minutes=by_minutes))


async def _rates_of(call: Call, queue: Queue, count: int, *, by_minutes: bool) -> wire.QueueRates:
    row = await call.services.monitor.overview.row(queue)
    step_ms = STEPS["minutes" if by_minutes else "seconds"]
    stop = call.services.clock.now() // step_ms + 1
    start = stop - count
    read = row.rates.minutes if by_minutes else row.rates.seconds
    return wire.QueueRates(
        queue=queue.name,
        step_ms=step_ms,
        start=start * step_ms,
        **{name: read(name, start, stop) for name in (*SHOWN, ARRIVED)},
        backlog=backlog(row.rates, row.counters.total_count, start, stop, by_minutes=by_minutes),
    )


OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/overview",
        handler=read_overview,
        tag="Stats",
        summary="See all queues with their figures and rates",
        description="Those that the caller may read the stats of. `find` is a part of the name; sorting and paging"
        " happen after it. Rates are means of the last ten seconds, counted in memory since this node's start; `spark`"
        " is the last hour by minutes. Figures are at most a second old, or older with many thousands of queues.",
        needs="stats",
        query=wire.OverviewQuery,
        gives={200: wire.Overview},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="GET",
        path=QUEUE + "/rates",
        handler=read_rates,
        tag="Stats",
        summary="See what happened in a queue second by second",
        description="The last 900 seconds, or fewer with `seconds`; with `minutes` the last so many minutes, up to a"
        " day. Counted in memory since this node's start. On PostgreSQL the counts of all nodes: while nobody watches,"
        " what happened within a minute shows at its end.",
        needs="stats",
        query=wire.RatesQuery,
        gives={200: wire.QueueRates},
        fails=(QueueNotFound,),
    ),
)
