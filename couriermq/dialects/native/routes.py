"""Every operation of the native API, in the order in which its documentation shows them."""

from couriermq.dialects.native import (
    audit,
    browsing,
    claims,
    credentials,
    cursors,
    diagnosis,
    exchanges,
    journal,
    listeners,
    overview,
    queues,
    receiving,
    sending,
    sessions,
    shards,
    stages,
    stats,
    tenants,
    workers,
)

OPERATIONS = (
    *sending.OPERATIONS[:1],
    *receiving.OPERATIONS,
    *browsing.OPERATIONS,
    *queues.OPERATIONS,
    *exchanges.OPERATIONS,
    *sending.OPERATIONS[1:],
    *listeners.OPERATIONS,
    *workers.OPERATIONS,
    *claims.OPERATIONS,
    *stages.OPERATIONS,
    *tenants.OPERATIONS,
    *credentials.OPERATIONS,
    *overview.OPERATIONS,
    *stats.OPERATIONS,
    *diagnosis.OPERATIONS,
    *journal.OPERATIONS,
    *cursors.OPERATIONS,
    *audit.OPERATIONS,
    *shards.OPERATIONS,
    *sessions.OPERATIONS,
)

ROUTES = tuple(operation.route for operation in OPERATIONS)
