"""Secrets of listeners at rest: sealed with a key that is not in the data directory, where the operator gives one.

A sealed listener is stored with the origin of its URLs and without secrets, headers and authorization; those are in
`sealed`, AES-256-GCM under a key of the key file. Its first key seals, all of them open, so that keys can be changed.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec.structs import replace

from couriermq.core.model import Listener, Secret
from couriermq.core.redaction import redacted_url

KEY_BYTES = 32
NONCE_BYTES = 12
ID_BYTES = 8
KEY_COUNT = 100


class CannotUnseal(Exception):
    """A secret is sealed with a key that is not at hand, or was damaged."""


class StoredListener(Listener, frozen=True, kw_only=True):
    """A listener as the store has it; `sealed` begins with the id of its key."""

    sealed: bytes = b""


class _Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What of a listener is sealed."""

    url: str
    liveness_url: str | None
    secrets: tuple[Secret, ...]
    headers: dict[str, str]
    authorization: dict[str, str] | None


class Vault:
    """Without keys nothing is sealed, and what was sealed cannot be read."""

    def __init__(self, keys: Sequence[bytes] = (), random_bytes: Callable[[int], bytes] | None = None) -> None:
        self._ciphers = {_key_id(key): AESGCM(key) for key in keys}
        self._newest = _key_id(keys[0]) if keys else b""
        self._random_bytes = random_bytes

    def sealed(self, listener: Listener) -> Listener:
        """The listener as it is to be stored."""
        if not self._newest or self._random_bytes is None:
            return listener
        contents = _Contents(
            url=listener.url,
            liveness_url=listener.liveness_url,
            secrets=listener.secrets,
            headers=listener.settings.headers,
            authorization=listener.settings.authorization,
        )
        sealed = self.seal(msgspec.msgpack.encode(contents), place=_place(listener))
        shown = replace(
            listener,
            url=redacted_url(listener.url),
            liveness_url=listener.liveness_url and redacted_url(listener.liveness_url),
            secrets=(),
            settings=replace(listener.settings, headers={}, authorization=None),
        )
        facts = {name: getattr(shown, name) for name in Listener.__struct_fields__}
        return StoredListener(**facts, sealed=sealed)

    def opened(self, stored: StoredListener) -> Listener:
        """The listener as it is used; raises CannotUnseal."""
        facts = {name: getattr(stored, name) for name in Listener.__struct_fields__}
        listener = Listener(**facts)
        if not stored.sealed:
            return listener
        text = self.unseal(stored.sealed, place=_place(stored), whose=f"listener {stored.id}")
        try:
            contents = msgspec.msgpack.decode(text, type=_Contents)
        except msgspec.MsgspecError:
            raise _damaged(f"listener {stored.id}") from None
        settings = replace(listener.settings, headers=contents.headers, authorization=contents.authorization)
        return replace(
            listener,
            url=contents.url,
            liveness_url=contents.liveness_url,
            secrets=contents.secrets,
            settings=settings,
        )

    def is_current(self, sealed: bytes) -> bool:
        """Whether secrets are stored as they would be now; nothing sealed stands for secrets in the clear."""
        return sealed[:ID_BYTES] == self._newest

    def seal(self, secrets: bytes, *, place: bytes) -> bytes:
        """Encrypt with the newest key; nothing where there is no key. `place` says whose secrets they are."""
        if not self._newest or self._random_bytes is None:
            return b""
        nonce = self._random_bytes(NONCE_BYTES)
        return self._newest + nonce + self._ciphers[self._newest].encrypt(nonce, secrets, place)

    def unseal(self, sealed: bytes, *, place: bytes, whose: str) -> bytes:
        """What `seal` was given, for the same place; raises CannotUnseal."""
        key_id, nonce = sealed[:ID_BYTES], sealed[ID_BYTES : ID_BYTES + NONCE_BYTES]
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            raise CannotUnseal(
                f"the secrets of {whose} are encrypted with key {key_id.hex()}, which secrets_key_file"
                " does not have; add that key to the file"
            )
        try:
            return cipher.decrypt(nonce, sealed[ID_BYTES + NONCE_BYTES :], place)
        except InvalidTag:
            raise _damaged(whose) from None


def _damaged(whose: str) -> CannotUnseal:
    return CannotUnseal(f"the encrypted secrets of {whose} are damaged; restore a backup")


def read_keys(path: Path) -> list[bytes]:
    """The keys of a file, one a line in base64, the newest first; raises ValueError with the sentence that helps."""
    try:
        lines = [line.strip() for line in path.read_text().splitlines() if line.strip() and line[:1] != "#"]
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not 1 <= len(lines) <= KEY_COUNT:
        raise ValueError(f"{path} has {len(lines)} keys; it must have 1 to {KEY_COUNT}")
    try:
        keys = [base64.b64decode(line, validate=True) for line in lines]
    except binascii.Error:
        raise ValueError(f"{path} has a line that is not base64; `courier secrets new-key` makes keys") from None
    if any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"{path} has a key that is not {KEY_BYTES} bytes long; `courier secrets new-key` makes keys")
    return keys


def _key_id(key: bytes) -> bytes:
    return hashlib.sha256(b"courier secrets key\0" + key).digest()[:ID_BYTES]


def _place(listener: Listener) -> bytes:
    """Binds what is sealed to its listener, so that it cannot be moved to another."""
    return f"{listener.tenant}/{listener.id}".encode()
