"""What a token gives access to: programs ask this first, to find the ids that all other paths need.

An organization and an environment are one tenant of Courier. An organization that several tenants have in their
aliases has an environment for each of them; only root sees more than one. The clients of the vendor reject an
environment with a field that they do not know.
"""

from couriermq.catalog import DEFAULT_TENANT
from couriermq.core.model import Json, Tenant
from couriermq.dialects.anypoint import place
from couriermq.dialects.anypoint.asking import reply
from couriermq.dialects.anypoint.dates import iso_date
from couriermq.web.call import Call, Reply

ROOT = "root"
ENTITLEMENTS = {
    "createEnvironments": False,
    "createSubOrgs": False,
    "globalDeployment": False,
    "mqAdvancedFeatures": {"enabled": True},
}
"""Of all that the vendor sells, what concerns messages; an organization of Courier is set up by its operator."""


async def read_me(call: Call) -> Reply:
    """The caller as a user. Root, which belongs to no organization, is shown in that of the default tenant."""
    home = place.names_of(call.services.catalog.tenant(call.principal.tenant or DEFAULT_TENANT))[0]
    visible = _visible_tenants(call)
    members = [_member(organization) for organization in dict.fromkeys(place.names_of(one)[0] for one in visible)]
    username = _username(call)
    user = {
        "id": call.principal.id,
        "username": username,
        "firstName": username,
        "lastName": "",
        "email": "",
        "enabled": True,
        "type": "host",
        "organizationId": home,
        "organization": _organization(home, [one for one in visible if place.names_of(one)[0] == home]),
        "memberOfOrganizations": members,
        "contributorOfOrganizations": members,
    }
    return reply({"user": user})


async def read_organization(call: Call) -> Reply:
    return reply(_organization(call.params["organization"], _tenants(call)))


async def list_environments(call: Call) -> Reply:
    data = [_environment(tenant) for tenant in _tenants(call)]
    return reply({"data": data, "total": len(data)})


async def read_environment(call: Call) -> Reply:
    return reply(_environment(call.services.catalog.tenant(place.tenant(call))))


def _visible_tenants(call: Call) -> list[Tenant]:
    """The caller's own tenant; all of them for root."""
    own = call.principal.tenant
    return [tenant for tenant in call.services.catalog.tenants() if own in (None, tenant.id)]


def _tenants(call: Call) -> list[Tenant]:
    """The tenants of the path's organization that the caller may see."""
    return [call.services.catalog.tenant(tenant) for tenant in place.tenants(call)]


def _username(call: Call) -> str:
    credential = call.services.catalog.credential_of_id(call.principal.id)
    return credential.name if credential is not None else ROOT


def _member(organization: str) -> dict[str, Json]:
    return {"id": organization, "name": organization, "subOrganizationIds": []}


def _organization(organization: str, tenants: list[Tenant]) -> dict[str, Json]:
    created = iso_date(min(tenant.created_at for tenant in tenants))
    return {
        **_member(organization),
        "createdAt": created,
        "updatedAt": created,
        "ownerId": ROOT,
        "domain": organization,
        "orgType": "anypoint",
        "isRoot": True,
        "isMaster": True,
        "isFederated": False,
        "parentOrganizationIds": [],
        "tenantOrganizationIds": [],
        "environments": [_environment(tenant) for tenant in tenants],
        "entitlements": ENTITLEMENTS,
        "properties": {},
    }


def _environment(tenant: Tenant) -> dict[str, Json]:
    """Under the tenant's own id as its name: the id of the environment is often a UUID."""
    organization, environment = place.names_of(tenant)
    return {
        "id": environment,
        "name": tenant.id,
        "organizationId": organization,
        "isProduction": True,
        "type": "production",
    }
