"""API clients, or organizations: tenants. Root makes them; each may read and rename itself."""

import msgspec

from couriermq.clock import mint_id
from couriermq.core.errors import Forbidden, Invalid, TenantNotFound
from couriermq.core.model import Json, Tenant
from couriermq.dialects.discue import limits, rights
from couriermq.dialects.discue.access import tenant_of
from couriermq.dialects.discue.paging import cut
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.reading import Named, read, read_page, visible_name
from couriermq.web.call import Call, Reply

ALIAS = "discue"
"""What a tenant is called here is its alias in this dialect, else its id."""


class ClientOrder(Named):
    id: str | None = None


_order = msgspec.json.Decoder(ClientOrder)


async def list_clients(call: Call) -> Reply:
    catalog, path = call.services.catalog, path_of("api_clients")
    tenants = catalog.tenants() if call.principal.is_root else [catalog.tenant(tenant_of(call))]
    shown, headers = cut(call, tenants, read_page(call), path)
    children = [(_name(tenant), _path(tenant)) for tenant in shown]
    return answer(call, {"api_clients": [_write(tenant) for tenant in shown]}, path, children=children, headers=headers)


async def create_client(call: Call) -> Reply:
    call.principal.require_root()
    order = read(_order, call.body)
    name = _read_name(order)
    tenant = await call.services.catalog.create_tenant(
        order.id or mint_id(call.services.clock),
        aliases={} if name is None else {ALIAS: name},
        principal=call.principal.id,
    )
    return _answered(call, tenant)


async def get_client(call: Call) -> Reply:
    return _answered(call, _tenant(call))


async def change_client(call: Call) -> Reply:
    tenant = _tenant(call)
    rights.require(call, rights.MANAGE_CLIENT)
    order = read(_order, call.body)
    name = _read_name(order)
    if order.id not in {None, tenant.id}:
        raise Invalid("the id of an api client cannot be changed", field="id")
    if name is not None:
        tenant = await call.services.catalog.change_tenant(
            tenant.id, aliases=lambda present: {**present, ALIAS: name}, principal=call.principal.id
        )
    return _answered(call, tenant)


def _tenant(call: Call) -> Tenant:
    """The tenant that is meant; to others than root, there is none but their own."""
    asked = call.params["api_client_id"]
    try:
        tenant = call.services.catalog.tenant_of_alias(ALIAS, asked)
    except TenantNotFound:
        if call.principal.is_root:
            raise
        tenant = None
    if tenant is None or call.principal.tenant not in {None, tenant.id}:
        raise Forbidden("use", f"api client {asked[:80]!r}")
    return tenant


def _read_name(order: ClientOrder) -> str | None:
    return None if order.called is None else visible_name(order.called, most=limits.CLIENT_NAME_CHARS)


def _name(tenant: Tenant) -> str:
    return tenant.aliases.get(ALIAS, tenant.id)


def _path(tenant: Tenant) -> str:
    return path_of("api_clients", tenant.id)


def _write(tenant: Tenant) -> dict[str, Json]:
    return {"id": tenant.id, "name": _name(tenant), "alias": _name(tenant), "created_at": tenant.created_at}


def _answered(call: Call, tenant: Tenant) -> Reply:
    return answer(call, {"api_client": _write(tenant)}, _path(tenant))
