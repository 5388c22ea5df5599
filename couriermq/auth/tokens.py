"""Access tokens: what an OAuth client gets for its secret and shows in its place.

A token is made from its holder's secret and a key of this store, so it is never stored: the same holder gets the
same token while it lives, and it dies with the secret. Only the instant at which each ends is kept; a node that did not
issue it learns from the others for how much longer a sliding one lives, and which were ended.
"""

import base64
import binascii
import hmac
import struct
from collections.abc import Iterable

import msgspec

from couriermq.core.errors import TooManyRequests

_PAYLOAD = struct.Struct(">QQ?")  # issued_at, ttl_ms, sliding
_TAG_BYTES = 16
_HOLDER_BYTES = 128
_SWEEP_COUNT = 10_000
HOLDER_COUNT = 10_000
"""Tokens of one holder that are remembered until they end, where each is a new one."""


class AccessToken(msgspec.Struct, array_like=True):
    """What is remembered of a token. A sliding one ends `ttl_ms` after its last use."""

    holder: str
    issued_at: int
    ttl_ms: int
    sliding: bool
    expires_at: int
    ended: bool = False
    """Whether its holder has given it up before that."""


class AccessTokens:
    """Issues and recognises tokens under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._alive: dict[tuple[str, int, bool], AccessToken] = {}  # what a holder is given
        self._known: dict[tuple[str, int, bool, int], AccessToken] = {}  # that, and what else is worth remembering
        self._seen: dict[bytes, tuple[AccessToken, bytes]] = {}  # by digest: the token and the secret it was made from
        self.changed = False
        """Whether there is something that `snapshot` should keep."""

    def issue(self, holder: str, secret_hash: bytes, *, ttl_ms: int, sliding: bool, now: int) -> str:
        """The holder's token: the one that is alive, else a new one."""
        token = self._alive.get((holder, ttl_ms, sliding))
        if token is None or token.expires_at <= now:
            token = AccessToken(holder, now, ttl_ms, sliding, now + ttl_ms)
            self._alive[holder, ttl_ms, sliding] = self._known[_identity(token)] = token
            self.changed = True
        self._use(token, now)
        return self._seal(token, secret_hash)

    def issue_new(self, holder: str, secret_hash: bytes, *, ttl_ms: int, sliding: bool, now: int) -> str:
        """A token that nobody else has: ending it ends no other. Raises TooManyRequests for one too many."""
        ends = [token.expires_at for token in self._known.values() if token.holder == holder and token.expires_at > now]
        if len(ends) >= HOLDER_COUNT:
            raise TooManyRequests(min(ends) - now)
        token = AccessToken(holder, now, ttl_ms, sliding, now + ttl_ms)
        while _identity(token) in self._known:
            token.issued_at += 1
        self._known[_identity(token)] = token
        self.changed = True
        return self._seal(token, secret_hash)

    def holder(self, text: str, digest: bytes) -> str | None:
        """Whom a token claims to be from; `admits` tells whether that is true."""
        seen = self._seen.get(digest)
        token = seen[0] if seen else _parse(text)
        return token.holder if token else None

    def admits(self, text: str, digest: bytes, secret_hash: bytes, now: int) -> bool | None:
        """Whether the token is alive, or None if it was not made from this secret; a sliding one lives on from now."""
        seen = self._seen.get(digest)
        if seen is None or seen[1] != secret_hash:
            token = self._recognise(text, secret_hash)
            if token is None:
                return None
            if len(self._seen) >= _SWEEP_COUNT:
                self._seen.clear()
            self._seen[digest] = (token, secret_hash)
            if token.sliding:
                self._known.setdefault(_identity(token), token)
        else:
            token = seen[0]
        if token.ended or token.expires_at <= now:
            return False
        self._use(token, now)
        return True

    def made_from(self, digest: bytes) -> bytes | None:
        """The hash of the secret that a token was made from which was admitted just now; None for any other text."""
        seen = self._seen.get(digest)
        return seen[1] if seen else None

    def end(self, digest: bytes) -> None:
        """Admit a token no more that was admitted just now."""
        token, secret_hash = self._seen[digest]
        token = self._known.setdefault(_identity(token), token)
        token.ended = self.changed = True
        self._seen[digest] = token, secret_hash

    def snapshot(self, now: int) -> list[AccessToken]:
        """What a restart must know: the tokens that are alive."""
        self._alive = {key: token for key, token in self._alive.items() if token.expires_at > now}
        self._seen = {digest: seen for digest, seen in self._seen.items() if seen[0].expires_at > now}
        self._known = {identity: token for identity, token in self._known.items() if token.expires_at > now}
        self.changed = False
        return list(self._known.values())

    def restore(self, tokens: Iterable[AccessToken]) -> None:
        """Learn what was kept, by this node or another; a token lives as long as anybody knows it to."""
        for told in tokens:
            token = self._known.setdefault(_identity(told), told)
            token.expires_at = max(token.expires_at, told.expires_at)
            token.ended |= told.ended
            self._alive.setdefault((token.holder, token.ttl_ms, token.sliding), token)

    def _use(self, token: AccessToken, now: int) -> None:
        if token.sliding and token.expires_at < now + token.ttl_ms:
            token.expires_at = now + token.ttl_ms
            self.changed = True

    def _recognise(self, text: str, secret_hash: bytes) -> AccessToken | None:
        token = _parse(text)
        if token is None or not hmac.compare_digest(text, self._seal(token, secret_hash)):
            return None
        return self._known.get(_identity(token), token)

    def _seal(self, token: AccessToken, secret_hash: bytes) -> str:
        payload = _PAYLOAD.pack(token.issued_at, token.ttl_ms, token.sliding) + token.holder.encode()
        tag = hmac.digest(self._key, secret_hash + payload, "sha256")[:_TAG_BYTES]
        return base64.urlsafe_b64encode(tag + payload).decode().rstrip("=")


def _identity(token: AccessToken) -> tuple[str, int, bool, int]:
    return token.holder, token.ttl_ms, token.sliding, token.issued_at


def _parse(text: str) -> AccessToken | None:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        holder = raw[_TAG_BYTES + _PAYLOAD.size :].decode()
    except (binascii.Error, ValueError):
        return None
    if not 1 <= len(holder) <= _HOLDER_BYTES:
        return None
    issued_at, ttl_ms, sliding = _PAYLOAD.unpack(raw[_TAG_BYTES : _TAG_BYTES + _PAYLOAD.size])
    return AccessToken(holder, issued_at, ttl_ms, sliding, issued_at + ttl_ms)
