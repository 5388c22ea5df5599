"""What is known of a key beside the credential that it is.

It is kept in a record, which nobody can write but this dialect, and not in the credential's annotations: with those, a
manager could give a key of his own making rights that he does not have.
"""

from typing import Literal

import msgspec

from couriermq.catalog import Catalog
from couriermq.core.errors import RecordNotFound
from couriermq.core.model import Credential, Scope
from couriermq.web.call import Call

Access = Literal["read", "write"]

RECORD = "discue.key"
"""The record of a key; its id is the credential's."""
EVERYTHING = ("*",)


class Grant(msgspec.Struct, frozen=True):
    """What one of Discue's scopes allows on one kind of resource; writing includes reading."""

    access: Access
    targets: tuple[str, ...] = EVERYTHING


Grants = dict[str, Grant]


class KeyFacts(msgspec.Struct, frozen=True, kw_only=True):
    by_alias: bool = False
    """Whether it was made by the newer generation, which writes scopes as a map."""
    grants: Grants | None = None
    """None for a key that may do everything."""
    scopes: tuple[Scope, ...] = ()
    """What the grants amounted to in our words when they were given."""
    prefix: str = ""
    """How the key begins whose hash this is; it may have been replaced since."""
    secret_hash: str = ""


def facts_of(catalog: Catalog, credential: Credential) -> KeyFacts:
    try:
        return msgspec.convert(catalog.record(RECORD, credential.tenant, credential.id).document, KeyFacts)
    except RecordNotFound:
        return KeyFacts()


def grants_of(catalog: Catalog, credential: Credential) -> Grants | None:
    """The grants of a key, unless it may do everything or its scopes were changed in our words since."""
    facts = facts_of(catalog, credential)
    return facts.grants if facts.scopes == credential.scopes else None


def prefix_of(facts: KeyFacts, credential: Credential) -> str:
    return facts.prefix if facts.secret_hash == credential.secret_hash.hex() else ""


async def keep_facts(call: Call, credential: Credential, facts: KeyFacts) -> None:
    await call.services.catalog.put_record(
        RECORD,
        credential.tenant,
        msgspec.to_builtins(facts),
        record_id=credential.id,
        principal=call.principal.id,
    )


async def forget_gone(call: Call, tenant: str) -> None:
    """Let go of the facts of keys that were deleted, here or through another dialect."""
    catalog = call.services.catalog
    for record in catalog.records(RECORD, tenant):
        if catalog.credential_of_id(record.id) is None:
            await catalog.delete_record(RECORD, tenant, record.id, principal=call.principal.id)
