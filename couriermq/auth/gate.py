"""Who gets in: judges tokens and secrets, and how often a credential may ask."""

import hashlib
import hmac
from collections.abc import Callable, Hashable
from typing import Any, TypeVarTuple

import msgspec

from couriermq.auth.guard import Attempt, Guard, client_attempt, token_attempt
from couriermq.auth.principal import Principal
from couriermq.auth.throttle import Throttle
from couriermq.auth.tokens import AccessToken, AccessTokens
from couriermq.catalog import DEFAULT_TENANT, Catalog, hash_secret
from couriermq.clock import Clock
from couriermq.core.errors import CredentialEnded, RecordNotFound, TooManyRequests, Unauthenticated
from couriermq.core.model import HOUR, MINUTE, Credential, Json, Record
from couriermq.core.scopes import end_of
from couriermq.web.call import Call

ROOT = Principal(id="root", tenant=None)

SESSION_MS = 12 * HOUR
"""How long a browser stays signed in after its last request."""
TICKET_MS = MINUTE

Given = TypeVarTuple("Given")

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
        self._sessions = AccessTokens(hmac.digest(token_key, b"session", "sha256"))
        self._tickets = AccessTokens(hmac.digest(token_key, b"ticket", "sha256"))
        self._learnt: dict[str, object] = {}
        self._limits = Throttle()
        self._guard = Guard(clock)
        self._principals: dict[str, tuple[Credential, Principal]] = {}

    # -- who calls --------------------------------------------------------------------------------------------

    def bearer(self, call: Call) -> Principal:
        """The caller by its `Authorization: Bearer` header."""
        scheme, _, token = (call.header(b"authorization") or "").partition(" ")
        return self.admit_token(call, token.strip() if scheme.lower() == "bearer" else "")

    def admit_token(self, call: Call, token: str) -> Principal:
        """The holder of the token that a call presents; wrong ones are counted, and after many none is looked at."""
        if not token:
            raise Unauthenticated
        return self._admitted(call, token_attempt(call.origin.address, token), self.by_token, token)

    def admit_client(self, call: Call, client_id: str, secret: str) -> Principal:
        """The OAuth client that a call presents, counted in the same way."""
        if not client_id or not secret:
            raise Unauthenticated("the client id or its secret is missing")
        attempt = client_attempt(call.origin.address, client_id)
        return self._admitted(call, attempt, self.by_client, client_id, secret)

    def _admitted(
        self, call: Call, attempt: Attempt, judge: Callable[[*Given], Principal], *given: *Given
    ) -> Principal:
        """Whom `judge` finds by what was given; called for every request."""
        if call.attempt is None:  # else it was checked before, and the catalog has learnt something since
            self._guard.check(attempt)
        try:
            principal = judge(*given)
        except CredentialEnded:
            raise
        except Unauthenticated:
            if call.attempt is None:
                self._guard.count_wrong(attempt)
                call.attempt = attempt
            raise
        self._guard.count_right(attempt)
        return principal

    def may_be_news(self, call: Call) -> bool:
        """Whether the store should be asked, after a call was refused, if another node knows its credential."""
        return call.attempt is not None and self._guard.may_ask(call.attempt)

    def by_token(self, token: str) -> Principal:
        """The holder of a secret, of the root token, or of an access token; counts nothing."""
        digest = hashlib.sha256(token.encode()).digest()
        if hmac.compare_digest(digest, self._root_hash):
            return ROOT
        credential = self._catalog.credential_of_secret(digest)
        if credential is None:
            return self._by_access_token(self._tokens, token, digest)
        if digest != credential.secret_hash and digest not in credential.secret_hashes(self._clock.now()):
            raise CredentialEnded("the secret was replaced by another; use that")
        return self._admit(credential)

    def by_client(self, client_id: str, secret: str) -> Principal:
        """An OAuth client: a credential's id and secret, or `root` and the root token."""
        given = hash_secret(secret)
        if client_id == ROOT.id:
            if hmac.compare_digest(given, self._root_hash):
                return ROOT
            raise Unauthenticated("the client id or its secret is wrong")
        credential = self._catalog.credential_of_id(client_id)
        kept = credential.secret_hashes(self._clock.now()) if credential else (_NOBODY,)
        known = [hmac.compare_digest(given, one) for one in kept]
        if credential is None or not any(known):
            raise Unauthenticated("the client id or its secret is wrong")
        return self._admit(credential)

    def _by_access_token(self, tokens: AccessTokens, token: str, digest: bytes) -> Principal:
        holder = tokens.holder(token, digest)
        credential = self._catalog.credential_of_id(holder) if holder else None
        now = self._clock.now()
        for secret_hash in self._secret_hashes(holder, credential, now):
            alive = tokens.admits(token, digest, secret_hash, now)
            if alive:
                return self._admit(credential) if credential else ROOT
            if alive is not None:
                raise CredentialEnded("the access token has expired; ask for another")
        raise Unauthenticated("the credential is unknown or has ended")

    def _secret_hashes(self, holder: str | None, credential: Credential | None, now: int) -> tuple[bytes, ...]:
        """From which secrets the holder's access tokens may have been made."""
        if credential is not None:
            return credential.secret_hashes(now)
        return (self._root_hash,) if holder == ROOT.id else ()

    def _admit(self, credential: Credential) -> Principal:
        if (end := end_of(credential, now=self._clock.now())) is not None:
            raise CredentialEnded(f"the credential {end}")
        if credential.requests_per_second is not None:
            self._check_rate(credential.id, credential.requests_per_second)
        tenant_rate = self._catalog.quotas(credential.tenant).requests_per_second
        if tenant_rate is not None:
            self._check_rate((credential.tenant,), tenant_rate)
        known = self._principals.get(credential.id)
        if known is not None and known[0] is credential:
            return known[1]
        principal = Principal.of(credential)
        self._principals[credential.id] = (credential, principal)
        return principal

    # -- how often --------------------------------------------------------------------------------------------

    def _check_rate(self, key: Hashable, rate: float) -> None:
        if wait_ms := self._limits.wait_ms(key, rate=rate, burst=max(1.0, rate), now=self._clock.now()):
            raise TooManyRequests(wait_ms)

    def allowance(self, principal: Principal) -> Allowance | None:
        """What the limits of a credential and its tenant leave it now, the tighter one; None where there is none."""
        credential = self._catalog.credential_of_id(principal.id)
        if credential is None:
            return None
        rates: list[tuple[Hashable, float | None]] = [
            (credential.id, credential.requests_per_second),
            ((credential.tenant,), self._catalog.quotas(credential.tenant).requests_per_second),
        ]
        left = [self._left(key, rate) for key, rate in rates if rate is not None]
        return min(left, key=lambda allowance: allowance.remaining_count, default=None)

    def _left(self, key: Hashable, rate: float) -> Allowance:
        remaining, full_at = self._limits.left(key, rate=rate, burst=max(1.0, rate), now=self._clock.now())
        return Allowance(rate, remaining, full_at)

    # -- access tokens ----------------------------------------------------------------------------------------

    def issue_token(
        self, holder: Principal | Credential, *, ttl_ms: int, sliding: bool = False, secret: str | None = None
    ) -> str:
        """An access token for the holder, the same one while it lives; `sliding` means that each use extends it.

        It ends with the `secret` that the holder has shown for it, which may be one that was replaced and ends soon.
        """
        now, credential = self._clock.now(), self._catalog.credential_of_id(holder.id)
        good = self._secret_hashes(ROOT.id, credential, now)
        shown = hash_secret(secret) if secret is not None else good[0]
        return self._tokens.issue(
            holder.id, shown if shown in good else good[0], ttl_ms=ttl_ms, sliding=sliding, now=now
        )

    async def save_tokens(self) -> None:
        """Keep when each access token ends, for the next start and for other nodes, and learn what those have kept."""
        self.load_tokens()
        for record_id, tokens in self._kept.items():
            if tokens.changed:
                await self._save(record_id, tokens)

    async def _save(self, record_id: str, tokens: AccessTokens) -> None:
        def renew(record: Record | None) -> Json:
            """What other nodes have kept meanwhile stays."""
            if record is not None:
                tokens.restore(msgspec.convert(record.document, list[AccessToken]))
            return msgspec.to_builtins(tokens.snapshot(self._clock.now()))

        await self._catalog.put_record(_RECORD_KIND, DEFAULT_TENANT, renew, record_id=record_id, principal="courier")

    def load_tokens(self) -> None:
        for record_id, tokens in self._kept.items():
            document = _document(self._catalog, record_id)
            if document is not None:
                tokens.restore(msgspec.convert(document, list[AccessToken]))

    @property
    def _kept(self) -> dict[str, AccessTokens]:
        """Each kind of token by the record that it is kept in."""
        return {"tokens": self._tokens, "sessions": self._sessions, "tickets": self._tickets}

    # -- browsers ---------------------------------------------------------------------------------------------

    def issue_session(self, holder: Principal, *, shown: str) -> str:
        """What a browser keeps instead of the secret; it ends with the secret, and 12 hours after its last use.

        `shown` is what the holder was admitted by: a secret, or a token, session or ticket that was made from one.
        """
        return self._issue_new(self._sessions, holder, shown, ttl_ms=SESSION_MS, sliding=True)

    def issue_ticket(self, holder: Principal, *, shown: str) -> tuple[str, int]:
        """What signs a browser in once, and when it ends."""
        ticket = self._issue_new(self._tickets, holder, shown, ttl_ms=TICKET_MS, sliding=False)
        return ticket, self._clock.now() + TICKET_MS

    def _issue_new(self, tokens: AccessTokens, holder: Principal, shown: str, *, ttl_ms: int, sliding: bool) -> str:
        now, digest = self._clock.now(), hash_secret(shown)
        good = self._secret_hashes(ROOT.id, self._catalog.credential_of_id(holder.id), now)
        origins = [digest, *(kind.made_from(digest) for kind in self._kept.values())]
        secret_hash = next((one for one in origins if one in good), None)
        if secret_hash is None:
            raise Unauthenticated("the credential has ended")
        return tokens.issue_new(holder.id, secret_hash, ttl_ms=ttl_ms, sliding=sliding, now=now)

    def admit_session(self, call: Call, session: str) -> Principal:
        """The holder of a session, counted as any other credential."""
        self._learn_ends("sessions")
        return self._admitted(call, token_attempt(call.origin.address, session), self._by_session, session)

    def _by_session(self, session: str) -> Principal:
        return self._by_access_token(self._sessions, session, hashlib.sha256(session.encode()).digest())

    def _learn_ends(self, kind: str) -> None:
        """What other nodes have ended of a kind; its record is a new object each time it changes."""
        document = _document(self._catalog, kind)
        if document is not None and document is not self._learnt.get(kind):
            self._kept[kind].restore(msgspec.convert(document, list[AccessToken]))
        self._learnt[kind] = document

    async def end_session(self, session: str) -> None:
        """Admit a session no more, here and, once it has learnt of it, at any other node."""
        self._by_session(session)
        self._sessions.end(hashlib.sha256(session.encode()).digest())
        await self._save("sessions", self._sessions)

    async def redeem_ticket(self, call: Call, ticket: str) -> Principal:
        """The holder of a ticket, who cannot use it a second time."""
        self._learn_ends("tickets")
        digest = hashlib.sha256(ticket.encode()).digest()
        attempt = token_attempt(call.origin.address, ticket)
        principal = self._admitted(call, attempt, self._by_access_token, self._tickets, ticket, digest)
        self._tickets.end(digest)
        await self._save("tickets", self._tickets)
        return principal


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
