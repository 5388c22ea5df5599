"""Tenants, and the caller itself, on the wire."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from couriermq.auth.principal import Principal
from couriermq.core import limits, model
from couriermq.core.model import Action, Scope
from couriermq.dialects.native.wire.reading import Order

TenantId = Annotated[str, Meta(extra_json_schema={"pattern": f"^{limits.TENANT.pattern}$"})]
Aliases = dict[str, Annotated[str, Meta(min_length=1, max_length=limits.ID_CHARS)]]


class NewTenant(Order):
    """`aliases` holds the ids under which a dialect knows the tenant, by dialect name."""

    id: TenantId
    aliases: Aliases = msgspec.field(default_factory=dict)


class TenantChange(Order):
    """The new aliases, in place of all the old ones."""

    aliases: Aliases


class Tenant(msgspec.Struct):
    id: str
    aliases: dict[str, str]
    created_at: int


class Tenants(msgspec.Struct):
    """A page of tenants by id. `next` goes into `after` for the page that follows; null is the end."""

    tenants: list[Tenant]
    next: str | None


class Whoami(msgspec.Struct):
    """The caller; root has no tenant and may do everything."""

    id: str
    tenant: str | None
    scopes: tuple[Scope, ...]


class About(msgspec.Struct):
    name: str
    version: str


NEW_TENANT = msgspec.json.Decoder(NewTenant)
TENANT_CHANGE = msgspec.json.Decoder(TenantChange)

_EVERYTHING = tuple(Scope(action) for action in Action)


def write_tenant(tenant: model.Tenant) -> Tenant:
    return Tenant(tenant.id, tenant.aliases, tenant.created_at)


def write_tenants(tenants: Iterable[model.Tenant], following: str | None) -> Tenants:
    return Tenants([write_tenant(tenant) for tenant in tenants], following)


def write_principal(principal: Principal) -> Whoami:
    return Whoami(principal.id, principal.tenant, _EVERYTHING if principal.is_root else principal.scopes)
