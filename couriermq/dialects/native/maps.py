"""How messages flow: senders, exchanges, queues, receivers and listeners, with rates between them."""

from collections.abc import Iterator, Sequence

from couriermq.core.errors import TenantNotFound
from couriermq.core.model import Action, Listener, Tenant
from couriermq.dialects.native.access import part_of_tenant, visible
from couriermq.dialects.native.operations import TENANT, Operation, ok
from couriermq.dialects.native.overview import seen_queues
from couriermq.dialects.native.receivers import name_of
from couriermq.dialects.native.wire import maps as wire
from couriermq.dialects.native.wire.overview import PerSecond, flags_of
from couriermq.monitor.overview import Row, Wanted
from couriermq.monitor.rates import ACKED, DEAD, RECEIVED, SENT
from couriermq.web.call import Call, Reply

NODE_COUNT = 2_000
PRINCIPAL_COUNT = 200


async def read_map(call: Call) -> Reply:
    tenant = part_of_tenant(call, Action.STATS)
    queues = seen_queues(call, tenant)
    wanted = Wanted(sort="total", descending=True, limit=NODE_COUNT)
    rows, following, _ = await call.services.monitor.overview.rows(tenant.id, queues, wanted)
    shown = {row.queue.id for row in rows}
    edges = [*_bindings(call, tenant, shown), *_dead_letters(rows, shown), *_deliveries(call, rows)]
    people = list(_principals(call, rows))
    flags = flags_of([row.queue for row in rows], call.services.catalog, tenant.id)
    nodes = [
        *_exchange_nodes(call, tenant),
        *map(_queue_node, rows, flags),
        *(_listener_node(listener) for row in rows for listener in call.services.catalog.listeners_of(row.queue)),
        *_principal_nodes(call, people),
    ]
    kept = {node.id for node in nodes[:NODE_COUNT]}
    ways = [edge for edge in (*edges, *people) if edge.source in kept and edge.target in kept]
    is_cut = following is not None or len(nodes) > NODE_COUNT
    return ok(wire.FlowMap(call.services.clock.now(), nodes[:NODE_COUNT], ways, is_cut))


def _exchange_nodes(call: Call, tenant: Tenant) -> Iterator[wire.MapNode]:
    second = call.services.clock.now() // 1_000
    for exchange in visible(call.principal, call.services.catalog.exchanges(tenant.id), Action.STATS):
        rates = call.services.monitor.rates.of(exchange.id)
        sent = rates.per_second(SENT, second)
        yield wire.MapNode(
            id=exchange.id, kind="exchange", name=exchange.name, per_second=PerSecond(sent, 0, 0, 0, 0, 0)
        )


def _queue_node(row: Row, flags: list[str]) -> wire.MapNode:
    return wire.MapNode(
        id=row.queue.id,
        kind="queue",
        name=row.queue.name,
        flags=flags,
        ready_count=row.counters.ready_count,
        delayed_count=row.counters.delayed_count,
        leased_count=row.counters.leased_count,
        per_second=PerSecond(**row.per_second),
    )


def _listener_node(listener: Listener) -> wire.MapNode:
    return wire.MapNode(id=listener.id, kind="listener", name=listener.name, state=listener.state)


def _bindings(call: Call, tenant: Tenant, shown: set[str]) -> Iterator[wire.MapEdge]:
    catalog = call.services.catalog
    for exchange in visible(call.principal, catalog.exchanges(tenant.id), Action.STATS):
        for binding in catalog.bindings_of(exchange):
            if binding.queue_id in shown:
                yield wire.MapEdge(source=exchange.id, target=binding.queue_id, kind="binding", rules=binding.rules)


def _dead_letters(rows: Sequence[Row], shown: set[str]) -> Iterator[wire.MapEdge]:
    for row in rows:
        target = row.queue.settings.dead_letter_queue
        if target in shown and target is not None:
            rate = row.per_second[DEAD]
            yield wire.MapEdge(source=row.queue.id, target=target, kind="dead_letters", per_second=rate)


def _deliveries(call: Call, rows: Sequence[Row]) -> Iterator[wire.MapEdge]:
    services, second = call.services, call.services.clock.now() // 1_000
    for row in rows:
        for listener in services.catalog.listeners_of(row.queue):
            outbox = services.monitor.rates.of(listener.outbox_id)
            sent, acked = outbox.per_second(SENT, second), outbox.per_second(ACKED, second)
            yield wire.MapEdge(
                source=row.queue.id, target=listener.id, kind="delivery", per_second=acked, stuck=sent > 0 and not acked
            )


def _principals(call: Call, rows: Sequence[Row]) -> Iterator[wire.MapEdge]:
    """Who sent to or received from each queue in the last minute."""
    second = call.services.clock.now() // 1_000
    for row in rows:
        for principal, activity in row.rates.principals.items():
            if sent := activity.per_second(SENT, second):
                yield wire.MapEdge(source=principal, target=row.queue.id, kind="sends", per_second=sent)
            if received := activity.per_second(RECEIVED, second):
                yield wire.MapEdge(
                    source=row.queue.id,
                    target=principal,
                    kind="receives",
                    per_second=received,
                    stuck=bool(row.counters.ready_count) and not activity.per_second(ACKED, second),
                )


def _principal_nodes(call: Call, edges: Sequence[wire.MapEdge]) -> Iterator[wire.MapNode]:
    found = {edge.source if edge.kind == "sends" else edge.target for edge in edges}
    for principal in sorted(found)[:PRINCIPAL_COUNT]:
        yield wire.MapNode(id=principal, kind="principal", name=name_of(call, principal) or principal)


OPERATIONS = (
    Operation(
        method="GET",
        path=TENANT + "/map",
        handler=read_map,
        tag="Stats",
        summary="See how messages flow",
        description="Exchanges, queues, listeners, and the principals that sent or received in the last minute, and the"
        " ways between them. Rates of principals are means of a minute, all others of ten seconds. At most 2,000 nodes,"
        " the queues with the most messages first.",
        needs="stats",
        gives={200: wire.FlowMap},
        fails=(TenantNotFound,),
    ),
)
