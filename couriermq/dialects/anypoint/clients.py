"""Client apps: credentials that publish and consume in one environment."""

from collections.abc import Sequence
from typing import Any

from couriermq.catalog.credentials import OVERLAP_MS
from couriermq.core.errors import AlreadyExists, CredentialNotFound, Invalid
from couriermq.core.model import Action, Credential, Scope
from couriermq.dialects.anypoint import place, rights
from couriermq.dialects.anypoint.asking import number, read_object, reply, secret_reply
from couriermq.web.call import Call, Reply

FACTS = {place.NAME: {"client_app": True}}
"""What tells a client app from every other credential."""
NAME_CHARS = 256
SCOPES = (Scope(Action.SEND), Scope(Action.RECEIVE))
DIALECT_SCOPES: dict[str, tuple[str, ...]] = {place.NAME: (rights.PUBLISH, rights.SUBSCRIBE)}
"""What a client app may do in Anypoint's words: set for one whose maker is limited to such scopes itself."""


def is_client_app(credential: Credential) -> bool:
    facts = credential.dialect_facts.get(place.NAME)
    return isinstance(facts, dict) and bool(facts.get("client_app"))


async def list_clients(call: Call) -> Reply:
    tenant = place.tenant(call)
    rights.require_all(call, tenant, rights.VIEW_CLIENTS, rights.MANAGE_CLIENTS)
    return reply([_write(credential) for credential in client_apps(call, tenant)])


async def put_client(call: Call) -> Reply:
    tenant = _managed(call)
    name = read_object(call).get("name")
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARS:
        raise Invalid(f"name is required: a string of 1 to {NAME_CHARS} characters")
    principal = call.principal
    dialect_scopes = DIALECT_SCOPES if principal.dialect_scopes else {}
    principal.require_grant(
        SCOPES,
        dialect_scopes=dialect_scopes,
        expires_at=principal.expires_at,
        requests_per_second=principal.requests_per_second,
    )
    try:
        credential, secret = await call.services.catalog.create_credential(
            tenant,
            name,
            scopes=SCOPES,
            dialect_scopes=dialect_scopes,
            dialect_facts=lambda secret: {**FACTS},
            expires_at=principal.expires_at,
            requests_per_second=principal.requests_per_second,
            name_is_free=_no_client_app,
            principal=principal.id,
        )
    except AlreadyExists:
        raise AlreadyExists("client", name) from None
    return secret_reply(_write(credential, secret))


def _no_client_app(credentials: Sequence[Credential]) -> bool:
    """Client apps have names of their own; other credentials may have the same."""
    return not any(map(is_client_app, credentials))


async def regenerate_secret(call: Call) -> Reply:
    overlap_ms = number(call, "overlapMs", 0, 0, OVERLAP_MS)  # Courier's own parameter
    credential, secret = await call.services.catalog.rotate_credential(
        _client_app(call, _managed(call)),
        overlap_ms=overlap_ms,
        check=call.principal.require_grant_of,
        principal=call.principal.id,
    )
    return secret_reply(_write(credential, secret))


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
