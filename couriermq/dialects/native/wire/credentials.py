"""Credentials on the wire: never the hash, and the secret only in the answer that makes it."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.catalog.credentials import OVERLAP_MS
from couriermq.core import model
from couriermq.core.model import Scope
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.annotations import Annotations
from couriermq.dialects.native.wire.reading import Order

Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS)]
Instant = Annotated[int, Meta(ge=0, le=limits.NUMBER)]
Scopes = Annotated[list[Scope], Meta(max_length=limits.LIST_COUNT)]
Rate = Annotated[float, Meta(ge=0.001, le=100_000)]
Word = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS)]
DialectScopes = dict[Literal["anypoint"], Annotated[tuple[Word, ...], Meta(max_length=limits.LIST_COUNT)]]


class NewCredential(Order):
    """Without `scopes` the credential may do everything in its tenant.

    With `dialect_scopes` it can use only the dialects that these name, and in each only these of the dialect's own
    scopes, such as `{"anypoint": ["clear:destinations"]}`.
    """

    name: Name
    scopes: Scopes | None = None
    dialect_scopes: DialectScopes = msgspec.field(default_factory=dict)
    expires_at: Instant | None = None
    requests_per_second: Rate | None = None
    annotations: Annotations = msgspec.field(default_factory=dict)


class CredentialChange(Order):
    """What to change; what is left out stays as it is."""

    name: Name | UnsetType = UNSET
    scopes: Scopes | UnsetType = UNSET
    dialect_scopes: DialectScopes | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    expires_at: Instant | UnsetType | None = UNSET
    requests_per_second: Rate | UnsetType | None = UNSET
    annotations: Annotations | UnsetType = UNSET


class RotateCredentialOrder(Order):
    """The old secret is good for `overlap_ms` more; without it, it is refused at once."""

    overlap_ms: Annotated[int, Meta(ge=0, le=OVERLAP_MS)] = 0


class Credential(msgspec.Struct, kw_only=True):
    id: str
    name: str
    tenant: str
    scopes: tuple[Scope, ...]
    dialect_scopes: dict[str, tuple[str, ...]]
    enabled: bool
    expires_at: int | None
    requests_per_second: float | None
    annotations: Annotations
    old_secret_expires_at: int | UnsetType = UNSET
    created_at: int
    changed_at: int


class SecretCredential(Credential, kw_only=True):
    """A credential with its secret, which is shown this once."""

    secret: str


class Credentials(msgspec.Struct):
    """A page of credentials, oldest first. `next` goes into `after` for the page that follows; null is the end."""

    credentials: list[Credential]
    next: str | None


NEW_CREDENTIAL = msgspec.json.Decoder(NewCredential)
ROTATE = msgspec.json.Decoder(RotateCredentialOrder)
CREDENTIAL_CHANGE = msgspec.json.Decoder(CredentialChange)


def changes_of(change: CredentialChange) -> dict[str, Any]:
    changes = {name: value for name in change.__struct_fields__ if (value := getattr(change, name)) is not UNSET}
    if "scopes" in changes:
        changes["scopes"] = tuple(changes["scopes"])
    return changes


def cursor_of(credential: model.Credential) -> str:
    """Where a credential stands in the list: by age, then by id."""
    return f"{credential.created_at:015d}.{credential.id}"


def write_credential(credential: model.Credential) -> Credential:
    return Credential(**_fields(credential))


def write_secret(credential: model.Credential, secret: str) -> SecretCredential:
    return SecretCredential(**_fields(credential), secret=secret)


def _fields(credential: model.Credential) -> dict[str, Any]:
    fields = {name: getattr(credential, name) for name in Credential.__struct_fields__}
    if credential.old_secret_expires_at is None:
        fields["old_secret_expires_at"] = UNSET
    return fields
