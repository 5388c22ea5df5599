"""What is known of a key beside the credential that it is: its rights in Discue's own words.

The credential holds it among the facts of dialects, which nobody but this dialect can write: with annotations, a
manager could give a key rights that the manager does not have.
"""

from contextlib import suppress
from typing import Literal

import msgspec

from couriermq.catalog import Catalog
from couriermq.core.errors import RecordNotFound
from couriermq.core.model import Credential, Json, Scope
from couriermq.web.call import Call

Access = Literal["read", "write"]

NAME = "discue"
RECORD = "discue.key"
"""Where an older Courier kept the facts of a key; the record's id is the credential's."""
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
    needs: tuple[Scope, ...] = ()
    """What one must have to hand out the key in any dialect, beside its scopes."""
    prefix: str = ""
    """How the key begins whose hash this is; it may have been replaced since."""
    secret_hash: str = ""


def facts_of(catalog: Catalog, credential: Credential) -> KeyFacts:
    document = credential.dialect_facts.get(NAME)
    if document is None:
        try:
            document = catalog.record(RECORD, credential.tenant, credential.id).document
        except RecordNotFound:
            return KeyFacts()
    return msgspec.convert(document, KeyFacts)


def with_facts(credential: Credential, facts: KeyFacts) -> dict[str, Json]:
    """All that dialects keep of the credential, with these facts of ours."""
    return {**credential.dialect_facts, NAME: msgspec.to_builtins(facts)}


def grants_of(catalog: Catalog, credential: Credential) -> Grants | None:
    """The grants of a key, unless it may do everything or its scopes were changed in our words since."""
    facts = facts_of(catalog, credential)
    return facts.grants if facts.scopes == credential.scopes else None


def prefix_of(facts: KeyFacts, credential: Credential) -> str:
    return facts.prefix if facts.secret_hash == credential.secret_hash.hex() else ""


async def forget_gone(call: Call, tenant: str) -> None:
    """Let go of the facts of keys that were deleted, here or through another dialect."""
    catalog = call.services.catalog
    for record in catalog.records(RECORD, tenant):
        if catalog.credential_of_id(record.id) is not None:
            continue
        with suppress(RecordNotFound):  # another call has deleted it
            await catalog.delete_record(RECORD, tenant, record.id, principal=call.principal.id)
