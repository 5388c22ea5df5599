"""Changes to credentials."""

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from couriermq.catalog.shelf import Shelf
from couriermq.clock import mint_id
from couriermq.core.events import EventKind
from couriermq.core.model import Action, Credential, Json, Scope

SECRET_BYTES = 48  # 64 characters of base64url, as the strictest dialect wants its keys
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
        principal: str,
    ) -> tuple[Credential, str]:
        """A new credential and its secret, which nobody can ask for again."""
        secret = self._mint_secret()
        async with self._writing:
            self.tenant(tenant)
            now = self._clock.now()
            credential = Credential(
                id=mint_id(self._clock),
                tenant=tenant,
                name=name,
                secret_hash=hash_secret(secret),
                scopes=tuple(scopes) if scopes is not None else tuple(Scope(action) for action in Action),
                expires_at=expires_at,
                requests_per_second=requests_per_second,
                enabled=enabled,
                annotations=annotations or {},
                created_at=now,
                changed_at=now,
            )
            return await self._put(credential, EventKind.CREDENTIAL_ADDED, principal), secret

    async def change_credential(self, credential: Credential, *, principal: str, **changes: Any) -> Credential:
        """Change name, scopes, enabled, expires_at, requests_per_second or annotations."""
        async with self._writing:
            credential = self.credential(credential.tenant, credential.id)
            changed = msgspec.structs.replace(credential, **changes, changed_at=self._clock.now())
            return await self._put(changed, EventKind.CREDENTIAL_CHANGED, principal)

    async def rotate_credential(self, credential: Credential, *, principal: str) -> tuple[Credential, str]:
        """Give the credential a new secret; the old one is refused from now on."""
        secret = self._mint_secret()
        changed = await self.change_credential(credential, secret_hash=hash_secret(secret), principal=principal)
        return changed, secret

    async def delete_credential(self, credential: Credential, *, principal: str) -> None:
        async with self._writing:
            credential = self.credential(credential.tenant, credential.id)
            await self._drop([credential], EventKind.CREDENTIAL_DELETED, principal)

    def _mint_secret(self) -> str:
        return msgspec.json.encode(self._clock.random_bytes(SECRET_BYTES)).decode().strip('"').translate(_URL_SAFE)


def hash_secret(secret: str) -> bytes:
    """How a secret is kept: it has 384 random bits, so one round is as good as many."""
    return hashlib.sha256(secret.encode()).digest()
