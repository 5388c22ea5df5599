"""Tenants, the caller itself, and what this server is."""

from msgspec import UNSET

from couriermq import __version__
from couriermq.core.errors import AlreadyExists, InUse, TenantNotFound
from couriermq.core.model import Action
from couriermq.dialects.native.access import tenant_for, whole_tenant
from couriermq.dialects.native.operations import LOCATION, PREFIX, TENANT, Operation, created, gone, ok
from couriermq.dialects.native.wire import tenants as wire
from couriermq.dialects.native.wire.paging import PageQuery, page_of
from couriermq.dialects.native.wire.reading import read, read_query
from couriermq.web.call import Call, Reply


async def about(call: Call) -> Reply:
    return ok(wire.About("courier", __version__))


async def whoami(call: Call) -> Reply:
    return ok(wire.write_principal(call.principal, call.services.catalog))


async def list_tenants(call: Call) -> Reply:
    catalog, own = call.services.catalog, call.principal.tenant
    query = read_query(call, PageQuery)
    page, following = page_of(catalog.tenants() if own is None else [catalog.tenant(own)], query, lambda t: t.id)
    return ok(wire.write_tenants(page, following, to_root=call.principal.is_root))


async def create_tenant(call: Call) -> Reply:
    call.principal.require_root()
    new = read(wire.NEW_TENANT, call.body)
    tenant = await call.services.catalog.create_tenant(
        new.id,
        aliases=new.aliases,
        delivery_allow=new.delivery_allow,
        quotas=wire.read_quotas(new.quotas),
        principal=call.principal.id,
    )
    return created(wire.write_tenant(tenant, to_root=True), call.path, tenant.id)


async def read_tenant(call: Call) -> Reply:
    return ok(wire.write_tenant(tenant_for(call), to_root=call.principal.is_root))


async def change_tenant(call: Call) -> Reply:
    call.principal.require_root()
    change = read(wire.TENANT_CHANGE, call.body)
    tenant = await call.services.catalog.change_tenant(
        call.params["tenant"],
        aliases=None if change.aliases is UNSET else change.aliases,
        delivery_allow=None if change.delivery_allow is UNSET else change.delivery_allow,
        quotas=None if change.quotas is UNSET else wire.read_quotas(change.quotas),
        principal=call.principal.id,
    )
    return ok(wire.write_tenant(tenant, to_root=True))


async def read_usage(call: Call) -> Reply:
    tenant = whole_tenant(call, Action.STATS).id
    catalog, usage = call.services.catalog, call.services.broker.usage
    held = await usage.held(tenant)
    used = {
        "max_queues": catalog.queue_count(tenant),
        "max_listeners": catalog.listener_count(tenant),
        "max_messages": held.messages,
        "max_message_bytes": held.message_bytes,
        "max_stages": len(held.stages),
        "max_waiting_receivers": usage.waiting_count(tenant),
    }
    return ok(wire.write_usage(held.counted_at, used, catalog.quotas(tenant)))


async def delete_tenant(call: Call) -> Reply:
    call.principal.require_root()
    await call.services.catalog.delete_tenant(call.params["tenant"], principal=call.principal.id)
    return gone()


OPERATIONS = (
    Operation(
        method="GET",
        path=PREFIX,
        handler=about,
        tag="Server",
        summary="Say what this server is",
        gives={200: wire.About},
        public=True,
    ),
    Operation(
        method="GET",
        path=PREFIX + "/whoami",
        handler=whoami,
        tag="Server",
        summary="Say who the caller is",
        gives={200: wire.Whoami},
    ),
    Operation(
        method="GET",
        path=PREFIX + "/tenants",
        handler=list_tenants,
        tag="Tenants",
        summary="List tenants",
        description="Root sees every tenant, any other caller its own.",
        query=PageQuery,
        gives={200: wire.Tenants},
    ),
    Operation(
        method="POST",
        path=PREFIX + "/tenants",
        handler=create_tenant,
        tag="Tenants",
        summary="Create a tenant",
        needs="root",
        takes=wire.NewTenant,
        example={"id": "acme", "aliases": {"cloudflare": "023e105f4ecef8ad9ca31a8372d0c353"}},
        gives={201: wire.Tenant},
        answer_headers=LOCATION,
        fails=(AlreadyExists,),
    ),
    Operation(
        method="GET",
        path=TENANT,
        handler=read_tenant,
        tag="Tenants",
        summary="Read a tenant",
        gives={200: wire.Tenant},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="PATCH",
        path=TENANT,
        handler=change_tenant,
        tag="Tenants",
        summary="Change a tenant's aliases, networks and quotas",
        needs="root",
        takes=wire.TenantChange,
        example={"aliases": {"cloudflare": "023e105f4ecef8ad9ca31a8372d0c353"}},
        gives={200: wire.Tenant},
        fails=(TenantNotFound, AlreadyExists),
    ),
    Operation(
        method="GET",
        path=TENANT + "/quotas",
        handler=read_usage,
        tag="Tenants",
        summary="Read what a tenant uses of its quotas",
        needs="stats, on all queues",
        gives={200: wire.Usage},
        fails=(TenantNotFound,),
    ),
    Operation(
        method="DELETE",
        path=TENANT,
        handler=delete_tenant,
        tag="Tenants",
        summary="Delete a tenant that owns nothing any more",
        needs="root",
        gives={204: None},
        fails=(TenantNotFound, InUse),
    ),
)
