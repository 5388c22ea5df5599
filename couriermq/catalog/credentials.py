"""Changes to credentials."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from couriermq.catalog.shelf import Shelf
from couriermq.clock import mint_id
from couriermq.core import limits
from couriermq.core.errors import AlreadyExists, Invalid
from couriermq.core.events import EventKind
from couriermq.core.model import DAY, USES, Credential, Json, OldSecret, Scope

SECRET_BYTES = 48  # 64 characters of base64url, as the strictest dialect wants its keys
OVERLAP_MS = 7 * DAY
OLD_SECRET_COUNT = 5
SIZED = frozenset({"scopes", "dialect_scopes", "dialect_facts", "annotations"})
"""What a credential can grow by."""
_URL_SAFE = str.maketrans("+/", "-_")


class Credentials(Shelf):
    """Ways into a tenant; a secret is shown once and kept as a hash."""

    async def create_credential(
        self,
        tenant: str,
        name: str,
        *,
        scopes: Sequence[Scope] | None = None,
        expires_at: int | None = None,
        requests_per_second: float | None = None,
        enabled: bool = True,
        annotations: dict[str, Json] | None = None,
        dialect_scopes: dict[str, tuple[str, ...]] | None = None,
        dialect_facts: Callable[[str], dict[str, Json]] | None = None,
        name_is_free: Callable[[Sequence[Credential]], bool] | None = None,
        principal: str,
    ) -> tuple[Credential, str]:
        """A new credential and its secret, which nobody can ask for again.

        `dialect_facts` makes what a dialect keeps of it from the secret. `name_is_free` is given all credentials of
        that name which the tenant has when it is this change's turn; raises AlreadyExists where it says no.
        """
        secret = self._mint_secret()
        async with self._writing:
            self.tenant(tenant)
            self._check_name_free(tenant, name, name_is_free)
            now = self._clock.now()
            credential = Credential(
                id=mint_id(self._clock),
                tenant=tenant,
                name=name,
                secret_hash=hash_secret(secret),
                scopes=tuple(scopes) if scopes is not None else tuple(Scope(action) for action in USES),
                expires_at=expires_at,
                requests_per_second=requests_per_second,
                enabled=enabled,
                annotations=annotations or {},
                dialect_scopes=dialect_scopes or {},
                dialect_facts=dialect_facts(secret) if dialect_facts is not None else {},
                created_at=now,
                changed_at=now,
            )
            _check_size(credential)
            return await self._put(credential, EventKind.CREDENTIAL_ADDED, principal), secret

    async def change_credential(
        self,
        credential: Credential,
        change: Callable[[Credential], Mapping[str, Any]] | None = None,
        *,
        name_is_free: Callable[[Sequence[Credential]], bool] | None = None,
        principal: str,
        **changes: Any,
    ) -> Credential:
        """Change name, scopes, dialect_scopes, enabled, expires_at, requests_per_second or annotations.

        `change` makes the changes from the credential as it stands when it is this change's turn, or raises.
        """
        async with self._writing:
            present = self.credential(credential.tenant, credential.id)
            wanted = {**changes, **(change(present) if change is not None else {})}
            if wanted.get("name", present.name) != present.name:
                self._check_name_free(present.tenant, wanted["name"], name_is_free)
            changed = msgspec.structs.replace(present, **wanted, changed_at=self._clock.now())
            if not wanted.keys().isdisjoint(SIZED):
                _check_size(changed)
            return await self._put(changed, EventKind.CREDENTIAL_CHANGED, principal)

    async def rotate_credential(
        self,
        credential: Credential,
        *,
        overlap_ms: int = 0,
        check: Callable[[Credential], None] | None = None,
        principal: str,
    ) -> tuple[Credential, str]:
        """Give the credential a new secret; the present one is good for `overlap_ms` more, older ones end by then.

        `check` is given the credential as it stands when it is this change's turn, and raises where that forbids it.
        """
        if not 0 <= overlap_ms <= OVERLAP_MS:
            raise Invalid(f"overlap_ms is {overlap_ms}; it must be from 0 to {OVERLAP_MS}", field="overlap_ms")
        secret = self._mint_secret()

        def change(present: Credential) -> dict[str, Any]:
            if check is not None:
                check(present)
            old = _kept_secrets(present, overlap_ms, self._clock.now())
            return {"secret_hash": hash_secret(secret), "old_secrets": old}

        return await self.change_credential(credential, change, principal=principal), secret

    def _check_name_free(self, tenant: str, name: str, is_free: Callable[[Sequence[Credential]], bool] | None) -> None:
        same = [credential for credential in self.credentials(tenant) if credential.name == name]
        if same and is_free is not None and not is_free(same):
            raise AlreadyExists("credential", name)

    async def delete_credential(self, credential: Credential, *, principal: str) -> None:
        async with self._writing:
            credential = self.credential(credential.tenant, credential.id)
            await self._drop([credential], EventKind.CREDENTIAL_DELETED, principal)

    def _mint_secret(self) -> str:
        return msgspec.json.encode(self._clock.random_bytes(SECRET_BYTES)).decode().strip('"').translate(_URL_SAFE)


def _check_size(credential: Credential) -> None:
    """All credentials are kept in memory, and many of them are shown in one response."""
    size = len(msgspec.msgpack.encode(credential))
    if size > limits.CREDENTIAL_BYTES:
        raise Invalid(
            f"the credential is {size} bytes with its scopes, and at most {limits.CREDENTIAL_BYTES} are allowed;"
            " name fewer queues in its scopes",
            field="scopes",
        )


def _kept_secrets(credential: Credential, overlap_ms: int, now: int) -> tuple[OldSecret, ...]:
    """The secrets that stay good after a rotation: no overlap ends them all at once."""
    ends_at = now + overlap_ms
    known = (OldSecret(credential.secret_hash, ends_at), *credential.old_secrets)
    kept = (OldSecret(old.secret_hash, min(old.expires_at, ends_at)) for old in known)
    return tuple(old for old in kept if old.expires_at > now)[:OLD_SECRET_COUNT]


def hash_secret(secret: str) -> bytes:
    """How a secret is kept: it has 384 random bits, so one round is as good as many."""
    return hashlib.sha256(secret.encode()).digest()
