"""API keys: the tenant's credentials, in Discue's words."""

import msgspec

from couriermq.clock import mint_id
from couriermq.core.errors import AlreadyExists
from couriermq.core.model import Credential, Json
from couriermq.dialects.discue import rights
from couriermq.dialects.discue.access import tenant_of
from couriermq.dialects.discue.key_facts import KeyFacts, facts_of, forget_gone, keep_facts
from couriermq.dialects.discue.limits import KEY_PREFIX_CHARS
from couriermq.dialects.discue.paging import cut
from couriermq.dialects.discue.wire import keys as wire
from couriermq.dialects.discue.wire.answers import answer, path_of
from couriermq.dialects.discue.wire.reading import read_page
from couriermq.web.call import Call, Reply


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
        rights.require_grants(call, order.grants)
        name = mint_id(call.services.clock) if order.name is None else order.name
        _check_free(call, tenant, name)
        scopes = rights.in_our_words(order.grants)
        credential, secret = await call.services.catalog.create_credential(
            tenant, name, scopes=scopes, enabled=order.enabled is not False, principal=call.principal.id
        )
        facts = KeyFacts(
            by_alias=order.by_alias,
            grants=order.grants,
            scopes=scopes,
            prefix=secret[:KEY_PREFIX_CHARS],
            secret_hash=credential.secret_hash.hex(),
        )
        await keep_facts(call, credential, facts)
        key = self._write(call, credential, secret)
        document = {"api_key": key} if order.by_alias else {"api_key": secret, "id": key["id"], "name": key["name"]}
        return answer(call, document, wire.key_path(credential))

    async def get_key(self, call: Call) -> Reply:
        return self._written(call, _key(call))

    async def change_key(self, call: Call) -> Reply:
        """Scopes are replaced whole; a key that is given none becomes permissive again."""
        credential = _key(call)
        order = wire.read_key(call.body)
        changes: dict[str, object] = {}
        if order.name is not None and order.name != credential.name:
            _check_free(call, credential.tenant, order.name)
            changes["name"] = order.name
        if order.enabled is not None:
            changes["enabled"] = order.enabled
        if order.says_scopes:
            rights.require_grants(call, order.grants)
            changes["scopes"] = await _keep_grants(call, credential, order)
        if changes:
            credential = await call.services.catalog.change_credential(
                credential, principal=call.principal.id, **changes
            )
        return self._written(call, credential)

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


def _check_free(call: Call, tenant: str, name: str) -> None:
    if any(one.name == name for one in call.services.catalog.credentials(tenant)):
        raise AlreadyExists("api key", name)


async def _keep_grants(call: Call, credential: Credential, order: wire.KeyChange) -> object:
    """Keep what is granted, and return what it amounts to in our words: until both are written, the less counts."""
    scopes = rights.in_our_words(order.grants)
    facts = msgspec.structs.replace(
        facts_of(call.services.catalog, credential), grants=order.grants, scopes=scopes, by_alias=order.by_alias
    )
    await keep_facts(call, credential, facts)
    return scopes
