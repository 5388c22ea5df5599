"""Emptying an environment or a whole organization.

The ids stay known and so do credentials that are not client apps: a program that starts over finds its place.
"""

from contextlib import suppress

from couriermq.core.errors import NotFound
from couriermq.dialects.anypoint import clients, place, rights
from couriermq.dialects.anypoint.asking import NOTHING
from couriermq.web.call import Call, Reply


async def delete_environment(call: Call) -> Reply:
    tenant = place.tenant(call)
    _require(call, tenant)
    await _empty(call, tenant)
    return NOTHING


async def delete_organization(call: Call) -> Reply:
    tenants = place.tenants(call)
    for tenant in tenants:
        _require(call, tenant)
    for tenant in tenants:
        await _empty(call, tenant)
    return NOTHING


def _require(call: Call, tenant: str) -> None:
    rights.require_all(call, tenant, rights.ADMINISTER)
    rights.require_all(call, tenant, rights.MANAGE_CLIENTS)


async def _empty(call: Call, tenant: str) -> None:
    """Delete what there is; what another call has deleted meanwhile is gone as well."""
    catalog, principal = call.services.catalog, call.principal.id
    for exchange in catalog.exchanges(tenant):
        with suppress(NotFound):
            await catalog.delete_exchange(exchange, principal=principal)
    while queues := catalog.queues(tenant):
        for queue in queues:
            if not catalog.dead_letter_sources(queue):  # those come first, and then it is free
                with suppress(NotFound):
                    await catalog.delete_queue(queue, principal=principal)
    for credential in clients.client_apps(call, tenant):
        with suppress(NotFound):
            await catalog.delete_credential(credential, principal=principal)
