"""Standard Webhooks: HMAC-SHA256 (`v1`, secrets `whsec_…`) and ed25519 (`v1a`, keys `whsk_…`/`whpk_…`).

What is signed is `{id}.{timestamp}.{body}`, exactly the bytes that are sent, anew for every attempt.
"""

import hashlib
import hmac
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Sequence
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from couriermq.clock import Clock
from couriermq.core.errors import Invalid
from couriermq.core.model import HOUR, Secret

HMAC_PREFIX = "whsec_"
KEY_PREFIX = "whsk_"
PUBLIC_PREFIX = "whpk_"

SECRET_BYTES = 32
HMAC_BYTES = range(24, 65)
SEED_BYTES = 32
OVERLAP_MS = 24 * HOUR
"""How long an old secret goes on signing beside the new one."""
MOST_SECRETS = 10

Signer = Callable[[bytes], bytes]


def new_secret(clock: Clock, *, asymmetric: bool = False) -> Secret:
    """A fresh secret; an asymmetric one lets receivers verify without being able to sign."""
    prefix, size = (KEY_PREFIX, SEED_BYTES) if asymmetric else (HMAC_PREFIX, SECRET_BYTES)
    return Secret(value=prefix + _base64(clock.random_bytes(size)), created_at=clock.now())


def given_secret(value: str, *, now: int) -> Secret:
    """A secret of the caller's choice; raises Invalid when nothing could be signed with it."""
    signer(value)
    return Secret(value=value, created_at=now)


def rotated(secrets: Sequence[Secret], new: Secret, *, overlap_ms: int, now: int) -> tuple[Secret, ...]:
    """The new secret before the old ones, each of which signs for `overlap_ms` more at most."""
    ends_at = now + overlap_ms
    kept = [secret for secret in secrets if (secret.expires_at or ends_at) > now] if overlap_ms else []
    old = (
        Secret(value=s.value, created_at=s.created_at, expires_at=min(s.expires_at or ends_at, ends_at)) for s in kept
    )
    return (new, *old)[:MOST_SECRETS]


def signature(secrets: Sequence[Secret], message_id: str, timestamp: int, body: bytes, *, now: int) -> bytes:
    """The value of `webhook-signature`: one signature for each secret that is in force."""
    content = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    live = (secret for secret in secrets if secret.expires_at is None or secret.expires_at > now)
    return b" ".join([signer(secret.value)(content) for secret in live])


@lru_cache(maxsize=10_000)
def signer(value: str) -> Signer:
    """What signs with a secret; raises Invalid when it is not one."""
    if value.startswith(HMAC_PREFIX):
        return _hmac_signer(_decoded(value, HMAC_PREFIX))
    if value.startswith(KEY_PREFIX):
        return _ed25519_signer(_private_key(value))
    raise Invalid(f"a secret starts with {HMAC_PREFIX} or {KEY_PREFIX}", field="secret")


def public_key(value: str) -> str | None:
    """What a receiver verifies with, for a key of its own kind: `whpk_…`; an HMAC secret has none."""
    if not value.startswith(KEY_PREFIX):
        return None
    return PUBLIC_PREFIX + _base64(_private_key(value).public_key().public_bytes_raw())


def _hmac_signer(key: bytes) -> Signer:
    if len(key) not in HMAC_BYTES:
        raise Invalid(f"a {HMAC_PREFIX} secret holds 24 to 64 bytes, this one {len(key)}", field="secret")

    def sign(content: bytes) -> bytes:
        return b"v1," + b2a_base64(hmac.digest(key, content, hashlib.sha256), newline=False)

    return sign


def _ed25519_signer(key: Ed25519PrivateKey) -> Signer:
    def sign(content: bytes) -> bytes:
        return b"v1a," + b2a_base64(key.sign(content), newline=False)

    return sign


def _private_key(value: str) -> Ed25519PrivateKey:
    """A key is its 32-byte seed; the usual 64-byte form has the public half behind it."""
    seed = _decoded(value, KEY_PREFIX)
    if len(seed) not in {SEED_BYTES, 2 * SEED_BYTES}:
        raise Invalid(f"a {KEY_PREFIX} key holds 32 or 64 bytes, this one {len(seed)}", field="secret")
    key = Ed25519PrivateKey.from_private_bytes(seed[:SEED_BYTES])
    if seed[SEED_BYTES:] not in {b"", key.public_key().public_bytes_raw()}:
        raise Invalid(f"the halves of the {KEY_PREFIX} key do not belong together", field="secret")
    return key


def _decoded(value: str, prefix: str) -> bytes:
    try:
        return a2b_base64(value.removeprefix(prefix), strict_mode=True)
    except (NotBase64, ValueError):
        raise Invalid(f"what follows {prefix} is base64", field="secret") from None


def _base64(data: bytes) -> str:
    return b2a_base64(data, newline=False).decode()
