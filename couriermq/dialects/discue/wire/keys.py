"""API keys on the wire: a list of scopes to the older generation, a map to the newer."""

from typing import Any, Literal

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Credential, Json
from couriermq.dialects.discue import limits
from couriermq.dialects.discue.key_facts import Access, Grant, Grants, KeyFacts, prefix_of
from couriermq.dialects.discue.rights import PROTECTED, RESOURCES, UNSERVED
from couriermq.dialects.discue.wire.answers import path_of
from couriermq.dialects.discue.wire.reading import Named, read, visible_name

ENABLED, DISABLED = "enabled", "disabled"


class ScopeOrder(msgspec.Struct):
    access: Access = "write"
    targets: str | list[str] | None = None
    resource: str | None = None


class KeyOrder(Named):
    status: Literal["enabled", "disabled"] | None = None
    scopes: list[ScopeOrder] | dict[str, ScopeOrder | None] | None = None


_order = msgspec.json.Decoder(KeyOrder)


class KeyChange(msgspec.Struct):
    """What a caller wants of a key; None is what it did not say. No grants at all are the permissive default."""

    name: str | None
    enabled: bool | None
    says_scopes: bool
    grants: Grants | None
    by_alias: bool


def read_key(body: bytes) -> KeyChange:
    order = read(_order, body)
    name = order.called
    return KeyChange(
        name=None if name is None else visible_name(name, most=limits.KEY_NAME_CHARS),
        enabled=None if order.status is None else order.status == ENABLED,
        says_scopes=order.scopes is not None,
        grants=_read_grants(order.scopes) if order.scopes else None,
        by_alias=order.alias is not None or (order.name is None and isinstance(order.scopes, dict)),
    )


def _read_grants(scopes: list[ScopeOrder] | dict[str, ScopeOrder | None]) -> Grants:
    named = scopes.items() if isinstance(scopes, dict) else [(scope.resource, scope) for scope in scopes]
    grants: Grants = {}
    for word, scope in named:
        if scope is None:
            continue
        resource = _check_resource(word)
        if resource in grants:
            raise Invalid(f"scopes name {resource} twice", field="scopes")
        grants[resource] = Grant(scope.access, _targets(scope.targets))
    return grants


def _check_resource(resource: str | None) -> str:
    if resource in PROTECTED:
        raise Invalid(f"a scope for {resource} cannot be set", field="scopes")
    if resource is None or (resource not in RESOURCES and resource not in UNSERVED):
        known = ", ".join(sorted({*RESOURCES, *UNSERVED}))
        raise Invalid(f"a scope is for one of {known}, not {str(resource)[:40]!r}", field="scopes")
    return resource


def _targets(given: str | list[str] | None) -> tuple[str, ...]:
    """No target means all."""
    targets = (given,) if isinstance(given, str) else tuple(given or ())
    return tuple(dict.fromkeys(targets)) or ("*",)


def key_path(credential: Credential) -> str:
    return path_of("api_keys", credential.id)


def write_key(
    credential: Credential, facts: KeyFacts, grants: Grants, *, last_used_at: int | None, secret: str | None = None
) -> dict[str, Json]:
    return {
        "id": credential.id,
        "name": credential.name,
        "alias": credential.name,
        "status": ENABLED if credential.enabled else DISABLED,
        "key": prefix_of(facts, credential) if secret is None else secret,
        "scopes": write_grants(grants, as_map=facts.by_alias),
        "created_at": credential.created_at,
        "updated_at": credential.changed_at,
        "last_used_at": last_used_at,
    }


def write_grants(grants: Grants, *, as_map: bool) -> Any:
    written = {resource: {"access": grant.access, "targets": grant.targets} for resource, grant in grants.items()}
    return written if as_map else [{"resource": resource, **scope} for resource, scope in written.items()]
