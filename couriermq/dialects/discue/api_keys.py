"""API keys: the tenant's credentials, in Discue's words."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from couriermq.catalog import hash_secret
from couriermq.clock import mint_id
from couriermq.core.errors import AlreadyExists
from couriermq.core.model import Credential, Json, Scope
from couriermq.dialects.discue import rights
from couriermq.dialects.discue.access import tenant_of
from couriermq.dialects.discue.key_facts import NAME, KeyFacts, facts_of, forget_gone, grants_of, with_facts
from couriermq.dialects.discue.limits import KEY_PREFIX_CHARS
from couriermq.dialects.discue.paging import cut
from couriermq.dialects.discue.wire import keys as wire
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.reading import read_page
from couriermq.web.call import NO_STORE, Call, Reply


class ApiKeys:
    """The handlers, and when each key was last used here since the server started."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def note_use(self, credential_id: str, at: int) -> None:
        self._used[credential_id] = at

    async def list_keys(self, call: Call) -> Reply:
        tenant = _managed(call)
        path = path_of("api_keys")
        shown, headers = cut(call, call.services.catalog.credentials(tenant), read_page(call), path)
        children = [(one.name, wire.key_path(one)) for one in shown]
        written = [self._write(call, one) for one in shown]
        return answer(call, {"api_keys": written}, path, children=children, headers=headers)

    async def create_key(self, call: Call) -> Reply:
        """The older generation gets the key itself, the newer an object that holds it; neither gets it again."""
        tenant = _managed(call)
        order = wire.read_key(call.body)
        scopes, principal = rights.in_our_words(order.grants), call.principal
        rights.require_grants(call, order.grants)
        principal.require_grant(
            scopes, expires_at=principal.expires_at, requests_per_second=principal.requests_per_second
        )
        name = mint_id(call.services.clock) if order.name is None else order.name
        with _named(name):
            credential, secret = await call.services.catalog.create_credential(
                tenant,
                name,
                scopes=scopes,
                expires_at=principal.expires_at,
                requests_per_second=principal.requests_per_second,
                enabled=order.enabled is not False,
                dialect_facts=lambda secret: {NAME: msgspec.to_builtins(_facts(order, scopes, secret))},
                name_is_free=_never,
                principal=principal.id,
            )
        key = self._write(call, credential, secret)
        document = {"api_key": key} if order.by_alias else {"api_key": secret, "id": key["id"], "name": key["name"]}
        return answer(call, document, wire.key_path(credential), headers=(NO_STORE,))

    async def get_key(self, call: Call) -> Reply:
        return self._written(call, _key(call))

    async def change_key(self, call: Call) -> Reply:
        """Scopes are replaced whole; a key that is given none becomes permissive again."""
        credential = _key(call)
        order = wire.read_key(call.body)
        if order.name is None and order.enabled is None and not order.says_scopes:
            return self._written(call, credential)
        with _named(order.name or credential.name):
            changed = await call.services.catalog.change_credential(
                credential,
                lambda present: _changes(call, order, present),
                name_is_free=_never,
                principal=call.principal.id,
            )
        return self._written(call, changed)

    async def delete_key(self, call: Call) -> Reply:
        credential = _key(call)
        await call.services.catalog.delete_credential(credential, principal=call.principal.id)
        await forget_gone(call, credential.tenant)
        self._used.pop(credential.id, None)
        return answer(call, {}, wire.key_path(credential))

    def _written(self, call: Call, credential: Credential) -> Reply:
        return answer(call, {"api_key": self._write(call, credential)}, wire.key_path(credential))

    def _write(self, call: Call, credential: Credential, secret: str | None = None) -> dict[str, Json]:
        catalog = call.services.catalog
        facts, grants = facts_of(catalog, credential), rights.in_their_words(catalog, credential)
        return wire.write_key(credential, facts, grants, last_used_at=self._used.get(credential.id), secret=secret)


def _managed(call: Call) -> str:
    """The tenant, for those who may manage all of it."""
    rights.require(call, rights.MANAGE_KEYS)
    return tenant_of(call)


def _key(call: Call) -> Credential:
    return call.services.catalog.credential(_managed(call), call.params["api_key_id"])


def _facts(order: wire.KeyChange, scopes: tuple[Scope, ...], secret: str) -> KeyFacts:
    return KeyFacts(
        by_alias=order.by_alias,
        grants=order.grants,
        scopes=scopes,
        needs=rights.needs_of(order.grants),
        prefix=secret[:KEY_PREFIX_CHARS],
        secret_hash=hash_secret(secret).hex(),
    )


def _changes(call: Call, order: wire.KeyChange, present: Credential) -> dict[str, Any]:
    """What changes of a key as it stands; who changes its scopes, or enables it, must have all that it then has."""
    catalog = call.services.catalog
    changes: dict[str, Any] = {}
    if order.name is not None:
        changes["name"] = order.name
    if order.enabled is not None:
        changes["enabled"] = order.enabled
    if order.says_scopes:
        scopes, facts = rights.in_our_words(order.grants), facts_of(catalog, present)
        facts = msgspec.structs.replace(
            facts, grants=order.grants, scopes=scopes, needs=rights.needs_of(order.grants), by_alias=order.by_alias
        )
        changes |= {"scopes": scopes, "dialect_facts": with_facts(present, facts)}
    if order.says_scopes or order.enabled:
        wanted = msgspec.structs.replace(present, **changes)
        call.principal.require_grant_of(wanted)
        rights.require_grants(call, grants_of(catalog, wanted), scopes=wanted.scopes)
    return changes


def _never(same: Sequence[Credential]) -> bool:
    """Each key has a name of its own among all credentials of its tenant."""
    return False


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Says of a name that is taken that it is a key's."""
    try:
        yield
    except AlreadyExists:
        raise AlreadyExists("api key", name) from None
