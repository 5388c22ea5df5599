"""The caller and its accounts: what the vendor's tools ask before they do anything else.

An account is a tenant, a user the credential that calls. Any credential may ask about itself and its own account.
"""

from couriermq.auth.principal import Principal
from couriermq.core.model import Tenant
from couriermq.dialects.cloudflare.access import tenant_of
from couriermq.dialects.cloudflare.limits import PER_PAGE
from couriermq.dialects.cloudflare.wire import accounts as wire
from couriermq.dialects.cloudflare.wire.envelope import ok, page
from couriermq.dialects.cloudflare.wire.queues import cut, read_page
from couriermq.web.call import Call, Reply


async def verify_token(call: Call) -> Reply:
    """A credential that has ended does not get here."""
    return ok(wire.write_token(call.principal))


async def verify_account_token(call: Call) -> Reply:
    tenant_of(call)
    return ok(wire.write_token(call.principal))


async def get_user(call: Call) -> Reply:
    return ok(wire.write_user(call.principal, _name(call, call.principal)))


async def list_accounts(call: Call) -> Reply:
    """Root sees every account, any other caller its own; `name` keeps those of exactly that name."""
    name = call.argument("name")
    return _listed(call, [wire.write_account(one) for one in _tenants(call) if name in (None, one.id)])


async def get_account(call: Call) -> Reply:
    return ok(wire.write_account(call.services.catalog.tenant(tenant_of(call))))


async def list_memberships(call: Call) -> Reply:
    return _listed(call, [wire.write_membership(tenant, call.principal) for tenant in _tenants(call)])


def _listed(call: Call, items: list[object]) -> Reply:
    number, per_page = read_page(call.argument("page"), call.argument("per_page"), default=PER_PAGE)
    return page(*cut(items, number, per_page))


def _tenants(call: Call) -> list[Tenant]:
    catalog, own = call.services.catalog, call.principal.tenant
    return catalog.tenants() if own is None else [catalog.tenant(own)]


def _name(call: Call, principal: Principal) -> str:
    credential = call.services.catalog.credential_of_id(principal.id)
    return principal.id if credential is None else credential.name
