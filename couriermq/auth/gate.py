"""Who gets in: judges tokens and secrets, and how often a credential may ask."""

import hashlib
from hmac import compare_digest
from typing import Any

import msgspec

from couriermq.auth.principal import Principal
from couriermq.auth.throttle import Throttle
from couriermq.auth.tokens import AccessToken, AccessTokens
from couriermq.catalog import DEFAULT_TENANT, Catalog, hash_secret
from couriermq.clock import Clock
from couriermq.core.errors import RecordNotFound, TooManyRequests, Unauthenticated
from couriermq.core.model import Credential
from couriermq.web.call import Call

ROOT = Principal(id="root", tenant=None)
BAD_CREDENTIAL_BURST = 100
BAD_CREDENTIALS_PER_SECOND = 5.0

_RECORD_KIND = "courier"
_NOBODY = bytes(32)


class Allowance(msgspec.Struct, frozen=True):
    """A limit and what is left of it: `remaining_count` requests at once, all of them again at `full_at`."""

    requests_per_second: float
    remaining_count: int
    full_at: int


class Gate:
    """Root, the credentials of the catalog, and the access tokens issued for either."""

    def __init__(self, catalog: Catalog, clock: Clock, *, root_hash: bytes, token_key: bytes) -> None:
        self._catalog = catalog
        self._clock = clock
        self._root_hash = root_hash
        self._tokens = AccessTokens(token_key)
        self._limits = Throttle()
        self._failures = Throttle()
        self._principals: dict[str, tuple[Credential, Principal]] = {}

    # -- who calls --------------------------------------------------------------------------------------------

    def by_token(self, token: str) -> Principal:
        """The holder of a secret, of the root token, or of an access token."""
        digest = hashlib.sha256(token.encode()).digest()
        if compare_digest(digest, self._root_hash):
            return ROOT
        credential = self._catalog.credential_of_secret(digest)
        if credential is not None:
            return self._admit(credential)
        return self._by_access_token(token, digest)

    def by_client(self, client_id: str, secret: str) -> Principal:
        """An OAuth client: a credential's id and secret, or `root` and the root token."""
        given = hash_secret(secret)
        if client_id == ROOT.id:
            if compare_digest(given, self._root_hash):
                return ROOT
            raise Unauthenticated("the client id or its secret is wrong")
        credential = self._catalog.credential_of_id(client_id)
        kept = credential.secret_hash if credential else _NOBODY
        if not compare_digest(given, kept) or credential is None:
            raise Unauthenticated("the client id or its secret is wrong")
        return self._admit(credential)

    def bearer(self, call: Call) -> Principal:
        """The caller by its `Authorization: Bearer` header."""
        scheme, _, token = (call.header(b"authorization") or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthenticated
        return self.by_token(token.strip())

    def _by_access_token(self, token: str, digest: bytes) -> Principal:
        holder = self._tokens.holder(token, digest)
        credential = self._catalog.credential_of_id(holder) if holder else None
        secret_hash = credential.secret_hash if credential else self._root_hash if holder == ROOT.id else None
        if secret_hash is None or not self._tokens.admits(token, digest, secret_hash, self._clock.now()):
            raise Unauthenticated("the credential is unknown or has ended")
        return self._admit(credential) if credential else ROOT

    def _admit(self, credential: Credential) -> Principal:
        if not credential.enabled:
            raise Unauthenticated("the credential is disabled")
        if credential.expires_at is not None and credential.expires_at <= self._clock.now():
            raise Unauthenticated("the credential has expired")
        if credential.requests_per_second is not None:
            self._check_rate(credential.id, credential.requests_per_second)
        known = self._principals.get(credential.id)
        if known is not None and known[0] is credential:
            return known[1]
        principal = Principal(id=credential.id, tenant=credential.tenant, scopes=credential.scopes)
        self._principals[credential.id] = (credential, principal)
        return principal

    # -- how often --------------------------------------------------------------------------------------------

    def _check_rate(self, key: str, rate: float) -> None:
        if wait_ms := self._limits.wait_ms(key, rate=rate, burst=max(1.0, rate), now=self._clock.now()):
            raise TooManyRequests(wait_ms)

    def allowance(self, principal: Principal) -> Allowance | None:
        """What a credential's limit leaves it now; None where there is no limit."""
        credential = self._catalog.credential_of_id(principal.id)
        if credential is None or credential.requests_per_second is None:
            return None
        rate = credential.requests_per_second
        remaining, full_at = self._limits.left(credential.id, rate=rate, burst=max(1.0, rate), now=self._clock.now())
        return Allowance(rate, remaining, full_at)

    def count_failure(self, address: str) -> None:
        """Note a bad credential from a client's address; raises TooManyRequests when there were too many."""
        if wait_ms := self._failures.wait_ms(
            address, rate=BAD_CREDENTIALS_PER_SECOND, burst=BAD_CREDENTIAL_BURST, now=self._clock.now()
        ):
            raise TooManyRequests(wait_ms)

    # -- access tokens ----------------------------------------------------------------------------------------

    def issue_token(self, holder: Principal | Credential, *, ttl_ms: int, sliding: bool = False) -> str:
        """An access token for the holder, the same one while it lives; `sliding` means that each use extends it."""
        credential = self._catalog.credential_of_id(holder.id)
        secret_hash = credential.secret_hash if credential else self._root_hash
        return self._tokens.issue(holder.id, secret_hash, ttl_ms=ttl_ms, sliding=sliding, now=self._clock.now())

    async def save_tokens(self) -> None:
        """Keep when each access token ends, for the next start and for other nodes, and learn what those have kept."""
        self.load_tokens()
        if self._tokens.changed:
            document = msgspec.to_builtins(self._tokens.snapshot(self._clock.now()))
            await self._catalog.put_record(
                _RECORD_KIND, DEFAULT_TENANT, document, record_id="tokens", principal="courier"
            )

    def load_tokens(self) -> None:
        document = _document(self._catalog, "tokens")
        if document is not None:
            self._tokens.restore(msgspec.convert(document, list[AccessToken]))


async def open_gate(catalog: Catalog, clock: Clock, *, root_token: str | None) -> tuple[Gate, str | None]:
    """The gate of a store, and the root token when this is the first start and one had to be made."""
    document = _document(catalog, "gate")
    keys, given, minted = dict(document or {}), root_token, None
    if root_token is None and "root_hash" not in keys:
        minted = root_token = clock.random_bytes(32).hex()
        keys["root_hash"] = hash_secret(minted).hex()
    if minted or "token_key" not in keys:
        keys.setdefault("token_key", clock.random_bytes(32).hex())
        write = catalog.keep_record if document is None else catalog.put_record
        record = await write(_RECORD_KIND, DEFAULT_TENANT, keys, record_id="gate", principal="courier")
        if record.document != keys:  # another node that starts was faster: its keys are everybody's
            return await open_gate(catalog, clock, root_token=given)
    root_hash = hash_secret(root_token) if root_token else bytes.fromhex(keys["root_hash"])
    gate = Gate(catalog, clock, root_hash=root_hash, token_key=bytes.fromhex(keys["token_key"]))
    gate.load_tokens()
    return gate, minted


def _document(catalog: Catalog, record_id: str) -> Any:
    try:
        return catalog.record(_RECORD_KIND, DEFAULT_TENANT, record_id).document
    except RecordNotFound:
        return None
