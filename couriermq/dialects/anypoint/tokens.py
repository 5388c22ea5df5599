"""Access tokens for client apps, connected apps and people, in every form in which clients are known to ask."""

import base64
import binascii

from couriermq.auth.principal import Principal
from couriermq.catalog import DEFAULT_TENANT
from couriermq.core.errors import Unauthenticated
from couriermq.core.model import HOUR
from couriermq.dialects.anypoint import place
from couriermq.dialects.anypoint.asking import secret_reply
from couriermq.dialects.anypoint.clients import is_client_app
from couriermq.dialects.anypoint.forms import read_fields
from couriermq.web.call import Call, Reply
from couriermq.web.errors import MalformedRequest

TTL_MS = HOUR
WRONG = "Unauthorized"


async def authorize(call: Call) -> Reply:
    """A client app's token: always the same one, good for an hour after each use.

    The path may name an environment, because the connector of version 4 has it in its base URL.
    """
    principal, secret = _client(call)
    if place.is_strict(call) and not _is(call, principal, client_app=True):
        raise Unauthenticated(WRONG)
    call.principal = principal
    tenant = place.tenant(call) if "environment" in call.params else principal.tenant or DEFAULT_TENANT
    return secret_reply({
        "access_token": _issue(call, principal, secret),
        "simple_client": _simple_client(call, tenant),
        "token_type": "bearer",
    })  # fmt: skip


async def connected_app_token(call: Call) -> Reply:
    principal, secret = _client(call)
    if place.is_strict(call) and not _is(call, principal, client_app=False):
        raise Unauthenticated(WRONG)
    return secret_reply({
        "access_token": _issue(call, principal, secret),
        "expires_in": TTL_MS // 1_000,
        "token_type": "bearer",
    })  # fmt: skip


async def login(call: Call) -> Reply:
    """A person's token; the user name is a credential's id (or root) and the password its secret."""
    fields = read_fields(call)
    secret = fields.get("password", "")
    principal = call.services.auth.admit_client(call, fields.get("username", ""), secret)
    return secret_reply({
        "access_token": _issue(call, principal, secret),
        "token_type": "bearer",
        "redirectUrl": "/home/",
    })  # fmt: skip


def bearer(call: Call) -> Principal:
    """The caller by its token: `Bearer` in any case, and also without the space that some clients forget."""
    header = call.header(b"authorization") or ""
    if header[:6].lower() != "bearer":
        raise Unauthenticated
    principal = call.services.auth.admit_token(call, header[6:].strip())
    principal.require_dialect(place.NAME)
    return principal


def _issue(call: Call, principal: Principal, secret: str) -> str:
    principal.require_dialect(place.NAME)
    call.services.audit.signed_in(call, principal)
    return call.services.auth.issue_token(principal, ttl_ms=TTL_MS, sliding=True, secret=secret)


def _simple_client(call: Call, tenant: str) -> dict[str, str]:
    organization, environment = place.names_of(call.services.catalog.tenant(tenant))
    return {"envId": environment, "orgId": organization}


def _is(call: Call, principal: Principal, *, client_app: bool) -> bool:
    """Root is both; any other credential is one or the other."""
    credential = call.services.catalog.credential_of_id(principal.id)
    return credential is None or is_client_app(credential) is client_app


# -- what the caller says it is -------------------------------------------------------------------------------


def _client(call: Call) -> tuple[Principal, str]:
    """The client that a call proves to be, and the secret that proves it."""
    fields = read_fields(call)
    if fields.get("grant_type", "client_credentials") != "client_credentials":
        raise MalformedRequest("grant_type must be client_credentials")
    client_id, secret = _basic(call) or (fields.get("client_id", ""), fields.get("client_secret", ""))
    return call.services.auth.admit_client(call, client_id, secret), secret


def _basic(call: Call) -> tuple[str, str] | None:
    scheme, _, value = (call.header(b"authorization") or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        client_id, _, secret = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise Unauthenticated(WRONG) from None
    return client_id, secret
