"""Client apps: credentials that publish and consume in one environment."""

from typing import Any

from couriermq.core.errors import AlreadyExists, CredentialNotFound, Invalid
from couriermq.core.model import Action, Credential, Scope
from couriermq.dialects.anypoint import place, rights
from couriermq.dialects.anypoint.asking import read_object, reply
from couriermq.web.call import Call, Reply

CLIENT_APP = "anypoint.client_app"
"""The annotation that tells a client app from every other credential."""
NAME_CHARS = 256
SCOPES = (Scope(Action.SEND), Scope(Action.RECEIVE))


def is_client_app(credential: Credential) -> bool:
    return bool(credential.annotations.get(CLIENT_APP))


async def list_clients(call: Call) -> Reply:
    tenant = place.tenant(call)
    rights.require_all(call, tenant, rights.VIEW_CLIENTS, rights.MANAGE_CLIENTS)
    return reply([_write(credential) for credential in client_apps(call, tenant)])


async def put_client(call: Call) -> Reply:
    tenant = _managed(call)
    name = read_object(call).get("name")
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS:
        raise Invalid(f"name is required: a string of 1 to {NAME_CHARS} characters")
    if any(credential.name == name for credential in client_apps(call, tenant)):
        raise AlreadyExists("client", name)
    credential, secret = await call.services.catalog.create_credential(
        tenant, name, scopes=SCOPES, annotations={CLIENT_APP: True}, principal=call.principal.id
    )
    return reply(_write(credential, secret))


async def regenerate_secret(call: Call) -> Reply:
    credential = _client_app(call, _managed(call))
    credential, secret = await call.services.catalog.rotate_credential(credential, principal=call.principal.id)
    return reply(_write(credential, secret))


async def delete_client(call: Call) -> Reply:
    credential = _client_app(call, _managed(call))
    await call.services.catalog.delete_credential(credential, principal=call.principal.id)
    return reply(_write(credential))


def client_apps(call: Call, tenant: str) -> list[Credential]:
    return [credential for credential in call.services.catalog.credentials(tenant) if is_client_app(credential)]


def _managed(call: Call) -> str:
    tenant = place.tenant(call)
    rights.require_all(call, tenant, rights.MANAGE_CLIENTS)
    return tenant


def _client_app(call: Call, tenant: str) -> Credential:
    """Other credentials of the tenant are not this API's to touch."""
    credential = call.services.catalog.credential(tenant, call.params["client"])
    if not is_client_app(credential):
        raise CredentialNotFound(credential.id)
    return credential


def _write(credential: Credential, secret: str | None = None) -> dict[str, Any]:
    """The secret is shown when it is made and never again: only its hash is kept."""
    fields = {"name": credential.name, "clientId": credential.id}
    return fields if secret is None else {**fields, "clientSecret": secret}
