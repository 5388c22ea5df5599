"""Tenants, and the caller itself, on the wire."""

from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.auth.principal import Principal
from couriermq.catalog import Catalog
from couriermq.core import limits, model
from couriermq.core import quotas as core_quotas
from couriermq.core.model import Action, Scope
from couriermq.dialects.native.wire.reading import Order

TenantId = Annotated[str, Meta(extra_json_schema={"pattern": f"^{limits.TENANT.pattern}$"})]
Networks = Annotated[
    list[Annotated[str, Meta(max_length=64)]],
    Meta(
        description="Networks such as 10.0.0.0/8 that the tenant's listeners may be in, beside those of the server's"
        " setting `delivery_allow`. Only root sets and sees them.",
        max_length=limits.NETWORK_COUNT,
    ),
]
Limit = Annotated[int, Meta(ge=0, le=2**53)]
Aliases = dict[str, Annotated[str, Meta(min_length=1, max_length=limits.ID_CHARS)]]


class Quotas(Order):
    """The tenant's own limits; null leaves one to the server's setting `quotas`."""

    max_queues: Limit | None = None
    max_listeners: Limit | None = None
    max_messages: Limit | None = None
    max_message_bytes: Limit | None = None
    max_stages: Limit | None = None
    max_waiting_receivers: Limit | None = None
    requests_per_second: Annotated[float, Meta(gt=0, le=1e9)] | None = None


class NewTenant(Order):
    """`aliases` holds the ids under which a dialect knows the tenant, by dialect name."""

    id: TenantId
    aliases: Aliases = msgspec.field(default_factory=dict)
    delivery_allow: Networks = msgspec.field(default_factory=list)
    quotas: Quotas = msgspec.field(default_factory=Quotas)


class TenantChange(Order):
    """The new aliases, networks and quotas, each in place of all the old ones; what is left out stays as it is."""

    aliases: Aliases | UnsetType = UNSET
    delivery_allow: Networks | UnsetType = UNSET
    quotas: Quotas | UnsetType = UNSET


class Tenant(msgspec.Struct):
    id: str
    aliases: dict[str, str]
    created_at: int
    delivery_allow: Networks | UnsetType = UNSET
    quotas: Quotas | UnsetType = UNSET
    """Only root sees it."""


class Allotment(msgspec.Struct):
    """What the tenant uses of a quota; `limit` is null where there is none."""

    used: int
    limit: int | None


class Usage(msgspec.Struct):
    """What the tenant uses of each quota; messages and stages as of `counted_at`.

    Waiting receivers and requests are counted and limited on each node by itself.
    """

    counted_at: int
    quotas: dict[str, Allotment]
    requests_per_second: float | None


class Tenants(msgspec.Struct):
    """A page of tenants by id. `next` goes into `after` for the page that follows; null is the end."""

    tenants: list[Tenant]
    next: str | None


class Whoami(msgspec.Struct):
    """The caller; root has no tenant and may do everything."""

    id: str
    name: str
    tenant: str | None
    scopes: tuple[Scope, ...]


class About(msgspec.Struct):
    name: str
    version: str


NEW_TENANT = msgspec.json.Decoder(NewTenant)
TENANT_CHANGE = msgspec.json.Decoder(TenantChange)

_EVERYTHING = tuple(Scope(action) for action in Action)


def read_quotas(quotas: Quotas) -> core_quotas.Quotas:
    return core_quotas.Quotas(**msgspec.structs.asdict(quotas))


def write_usage(counted_at: int, used: dict[str, int], quotas: core_quotas.Quotas) -> Usage:
    allotments = {name: Allotment(count, getattr(quotas, name)) for name, count in used.items()}
    return Usage(counted_at, allotments, quotas.requests_per_second)


def write_tenant(tenant: model.Tenant, *, to_root: bool) -> Tenant:
    shown = Tenant(tenant.id, tenant.aliases, tenant.created_at)
    if to_root:
        shown.delivery_allow = list(tenant.delivery_allow)
        shown.quotas = Quotas(**msgspec.structs.asdict(tenant.quotas))
    return shown


def write_tenants(tenants: Iterable[model.Tenant], following: str | None, *, to_root: bool) -> Tenants:
    return Tenants([write_tenant(tenant, to_root=to_root) for tenant in tenants], following)


def name_of(principal: Principal, catalog: Catalog) -> str:
    credential = catalog.credential_of_id(principal.id)
    return credential.name if credential else principal.id


def write_principal(principal: Principal, catalog: Catalog) -> Whoami:
    scopes = _EVERYTHING if principal.is_root else principal.scopes
    return Whoami(principal.id, name_of(principal, catalog), principal.tenant, scopes)
