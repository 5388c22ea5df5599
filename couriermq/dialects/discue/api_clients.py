"""API clients, or organizations: tenants. Root makes them; each may read and rename itself."""

from contextlib import suppress

import msgspec

from couriermq.catalog import Catalog
from couriermq.clock import mint_id
from couriermq.core.errors import Forbidden, Invalid, RecordNotFound
from couriermq.core.model import Json, Tenant
from couriermq.dialects.discue import limits, rights
from couriermq.dialects.discue.access import tenant_of
from couriermq.dialects.discue.paging import cut
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.reading import Named, read, read_page, visible_name
from couriermq.web.call import Call, Reply

ALIAS = "discue"
"""Root's name for a tenant is its alias in this dialect, by which root finds it."""
RECORD = "discue.api_client"
"""The kind of record with the name that a tenant has given itself. It is only shown: a tenant that could take an alias
would learn by a refusal which other tenants exist, and could keep root from creating one of that name."""
RECORD_ID = "name"


class ClientOrder(Named):
    id: str | None = None


class _OwnName(msgspec.Struct):
    name: str


_order = msgspec.json.Decoder(ClientOrder)


async def list_clients(call: Call) -> Reply:
    catalog, path = call.services.catalog, path_of("api_clients")
    tenants = catalog.tenants() if call.principal.is_root else [catalog.tenant(tenant_of(call))]
    shown, headers = cut(call, tenants, read_page(call), path)
    children = [(_name(catalog, tenant), _path(tenant)) for tenant in shown]
    written = [_write(catalog, tenant) for tenant in shown]
    return answer(call, {"api_clients": written}, path, children=children, headers=headers)


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
        tenant = await _renamed(call, tenant, name)
    return _answered(call, tenant)


async def _renamed(call: Call, tenant: Tenant, name: str) -> Tenant:
    catalog, principal = call.services.catalog, call.principal
    if not principal.is_root:
        await catalog.put_record(RECORD, tenant.id, {"name": name}, record_id=RECORD_ID, principal=principal.id)
        return tenant
    changed = await catalog.change_tenant(
        tenant.id, aliases=lambda present: {**present, ALIAS: name}, principal=principal.id
    )
    with suppress(RecordNotFound):
        await catalog.delete_record(RECORD, tenant.id, RECORD_ID, principal=principal.id)
    return changed


def _tenant(call: Call) -> Tenant:
    """The tenant that is meant; to others than root, there is none but their own."""
    asked, catalog = call.params["api_client_id"], call.services.catalog
    if call.principal.tenant is None:
        return catalog.tenant_of_alias(ALIAS, asked)
    own = catalog.tenant(call.principal.tenant)
    if asked not in {own.id, own.aliases.get(ALIAS), _name(catalog, own)}:
        raise Forbidden("use", f"api client {asked[:80]!r}")
    return own


def _read_name(order: ClientOrder) -> str | None:
    return None if order.called is None else visible_name(order.called, most=limits.CLIENT_NAME_CHARS)


def _name(catalog: Catalog, tenant: Tenant) -> str:
    """What the tenant calls itself, else what root calls it."""
    try:
        document = catalog.record(RECORD, tenant.id, RECORD_ID).document
    except RecordNotFound:
        return tenant.aliases.get(ALIAS, tenant.id)
    return msgspec.convert(document, _OwnName).name


def _path(tenant: Tenant) -> str:
    return path_of("api_clients", tenant.id)


def _write(catalog: Catalog, tenant: Tenant) -> dict[str, Json]:
    name = _name(catalog, tenant)
    return {"id": tenant.id, "name": name, "alias": name, "created_at": tenant.created_at}


def _answered(call: Call, tenant: Tenant) -> Reply:
    return answer(call, {"api_client": _write(call.services.catalog, tenant)}, _path(tenant))
