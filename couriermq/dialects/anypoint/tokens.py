"""Access tokens for client apps, connected apps and people, in every form in which clients are known to ask."""

import base64
import binascii
from email import message_from_bytes
from urllib.parse import parse_qs

import msgspec

from couriermq.auth.principal import Principal
from couriermq.catalog import DEFAULT_TENANT
from couriermq.core.errors import Unauthenticated
from couriermq.core.model import HOUR
from couriermq.dialects.anypoint import place
from couriermq.dialects.anypoint.asking import reply
from couriermq.dialects.anypoint.clients import is_client_app
from couriermq.web.call import Call, Reply
from couriermq.web.errors import MalformedRequest

TTL_MS = HOUR
WRONG = "Unauthorized"

_FIELDS: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


async def authorize(call: Call) -> Reply:
    """A client app's token: always the same one, good for an hour after each use."""
    principal = _client(call)
    if place.is_strict(call) and not _is(call, principal, client_app=True):
        raise Unauthenticated(WRONG)
    return reply({
        "access_token": _issue(call, principal),
        "simple_client": _simple_client(call, principal),
        "token_type": "bearer",
    })  # fmt: skip


async def connected_app_token(call: Call) -> Reply:
    principal = _client(call)
    if place.is_strict(call) and not _is(call, principal, client_app=False):
        raise Unauthenticated(WRONG)
    return reply({
        "access_token": _issue(call, principal),
        "expires_in": TTL_MS // 1_000,
        "token_type": "bearer",
    })  # fmt: skip


async def login(call: Call) -> Reply:
    """A person's token; the user name is a credential's id (or root) and the password its secret."""
    fields = _fields(call)
    principal = call.services.auth.by_client(fields.get("username", ""), fields.get("password", ""))
    return reply({
        "access_token": _issue(call, principal),
        "token_type": "bearer",
        "redirectUrl": "/home/",
    })  # fmt: skip


def bearer(call: Call) -> Principal:
    """The caller by its token: `Bearer` in any case, and also without the space that some clients forget."""
    header = call.header(b"authorization") or ""
    if header[:6].lower() != "bearer":
        raise Unauthenticated
    return call.services.auth.by_token(header[6:].strip())


def _issue(call: Call, principal: Principal) -> str:
    return call.services.auth.issue_token(principal, ttl_ms=TTL_MS, sliding=True)


def _simple_client(call: Call, principal: Principal) -> dict[str, str]:
    tenant = call.services.catalog.tenant(principal.tenant or DEFAULT_TENANT)
    organization, environment = place.names_of(tenant)
    return {"envId": environment, "orgId": organization}


def _is(call: Call, principal: Principal, *, client_app: bool) -> bool:
    """Root is both; any other credential is one or the other."""
    credential = call.services.catalog.credential_of_id(principal.id)
    return credential is None or is_client_app(credential) is client_app


# -- what the caller says it is -------------------------------------------------------------------------------


def _client(call: Call) -> Principal:
    fields = _fields(call)
    if fields.get("grant_type", "client_credentials") != "client_credentials":
        raise MalformedRequest("grant_type must be client_credentials")
    client_id, secret = _basic(call) or (fields.get("client_id", ""), fields.get("client_secret", ""))
    return call.services.auth.by_client(client_id, secret)


def _basic(call: Call) -> tuple[str, str] | None:
    scheme, _, value = (call.header(b"authorization") or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        client_id, _, secret = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise Unauthenticated(WRONG) from None
    return client_id, secret


def _fields(call: Call) -> dict[str, str]:
    """The form, however it was sent: clients differ, and some do not say what they send."""
    kind = (call.header(b"content-type") or "").lower()
    if kind.startswith("multipart/form-data"):
        return _multipart(call)
    if "json" in kind or call.body.lstrip()[:1] == b"{":
        return {name: value for name, value in call.json(_FIELDS).items() if isinstance(value, str)}
    try:
        form = parse_qs(call.body.decode(), keep_blank_values=True)
    except ValueError:
        raise MalformedRequest("the form is not well formed") from None
    return {name: values[-1] for name, values in form.items()}


def _multipart(call: Call) -> dict[str, str]:
    kind = (call.header(b"content-type") or "").encode("latin-1")
    parts = message_from_bytes(b"Content-Type: " + kind + b"\r\n\r\n" + call.body)
    if not parts.is_multipart():
        raise MalformedRequest("the multipart form is not well formed")
    fields = {}
    for part in parts.get_payload():
        name = part.get_param("name", header="content-disposition")  # type: ignore[union-attr]
        payload = part.get_payload(decode=True)  # type: ignore[union-attr]
        if isinstance(name, str) and isinstance(payload, bytes):
            fields[name] = payload.decode(errors="replace").strip()
    return fields
