"""Where a call points: organization and environment are a tenant.

Regions are labels: every region of an environment shows the same destinations.
"""

from couriermq.config import AnypointSettings
from couriermq.core.errors import Forbidden, RecordNotFound, TenantNotFound
from couriermq.core.model import Tenant
from couriermq.web.call import Call

NAME = "anypoint"


def customs(call: Call) -> AnypointSettings:
    return call.services.settings.dialects.anypoint


def is_strict(call: Call) -> bool:
    return customs(call).mode == "strict"


def tenant(call: Call) -> str:
    """The tenant of the path; a stranger learns only that it is not theirs, whether or not it exists."""
    organization, environment = call.params["organization"], call.params["environment"]
    found = _find(call, organization, environment)
    if call.principal.tenant is not None and (found is None or found.id != call.principal.tenant):
        raise Forbidden("use", f"environment {environment!r} of organization {organization!r}")
    if found is None:
        raise TenantNotFound(f"{organization}/{environment}")
    _check_region(call)
    return found.id


def _find(call: Call, organization: str, environment: str) -> Tenant | None:
    catalog = call.services.catalog
    try:
        return catalog.tenant_of_alias(NAME, f"{organization}/{environment}")
    except TenantNotFound:
        if organization != environment:
            return None
    try:
        return catalog.tenant_of_alias(NAME, organization)
    except TenantNotFound:
        return None


def tenants(call: Call) -> list[str]:
    """All tenants of the path's organization that the caller belongs to."""
    organization, own = call.params["organization"], call.principal.tenant
    found = [
        one.id for one in call.services.catalog.tenants() if names_of(one)[0] == organization and own in (None, one.id)
    ]
    if not found:
        raise TenantNotFound(organization) if own is None else Forbidden("use", f"organization {organization!r}")
    return found


def names_of(tenant: Tenant) -> tuple[str, str]:
    """Organization and environment id under which Anypoint clients know a tenant."""
    organization, slash, environment = tenant.aliases.get(NAME, tenant.id).partition("/")
    return organization, environment if slash else organization


def _check_region(call: Call) -> None:
    region = call.params.get("region")
    if region is not None and is_strict(call) and region not in customs(call).regions:
        raise RecordNotFound(region)
