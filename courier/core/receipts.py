"""Tokens that prove themselves: receipts for leases, refs for messages that were only looked at, minted message ids.

Each carries the numbers that find a row at once and a keyed checksum, so that a made-up or altered token is told
from one that has merely grown old, and nothing need be stored to do so.
"""

import base64
import binascii
import struct
from hashlib import blake2b
from hmac import compare_digest

_RECEIPT = struct.Struct(">IQI")  # queue key, seq, lease number
_REF = struct.Struct(">IQ")
# Payload and tag together are a multiple of three bytes: base64 then has exactly one spelling of each token.
_RECEIPT_TAG = 14
_REF_TAG = 15


class Sealer:
    """Writes and reads tokens under one secret key of the store."""

    def __init__(self, key: bytes) -> None:
        self._receipts = blake2b(key=key, digest_size=_RECEIPT_TAG, person=b"receipt")
        self._refs = blake2b(key=key, digest_size=_REF_TAG, person=b"ref")
        self._ids = blake2b(key=key, digest_size=8, person=b"id")

    def receipt(self, queue_key: int, seq: int, lease_no: int) -> str:
        return _seal(self._receipts, _RECEIPT.pack(queue_key, seq, lease_no))

    def read_receipt(self, token: str) -> tuple[int, int, int] | None:
        """(queue key, seq, lease number), or None for a token that we never wrote."""
        payload = _unseal(self._receipts, token, _RECEIPT.size)
        return _RECEIPT.unpack(payload) if payload else None

    def ref(self, queue_key: int, seq: int) -> str:
        return _seal(self._refs, _REF.pack(queue_key, seq))

    def read_ref(self, token: str) -> tuple[int, int] | None:
        payload = _unseal(self._refs, token, _REF.size)
        return _REF.unpack(payload) if payload else None

    def message_id(self, seq: int) -> str:
        """32 hex digits that lead back to `seq`, so that a minted id needs no index."""
        payload = seq.to_bytes(8, "big")
        return _tag(self._ids, payload).hex() + payload.hex()

    def seq_of(self, message_id: str) -> int | None:
        """The seq inside an id that we minted; None for any other id."""
        if len(message_id) != 32:
            return None
        try:
            raw = bytes.fromhex(message_id)
        except ValueError:
            return None
        if raw.hex() != message_id or not compare_digest(raw[:8], _tag(self._ids, raw[8:])):
            return None
        return int.from_bytes(raw[8:], "big")


def _tag(keyed: blake2b, payload: bytes) -> bytes:
    digest = keyed.copy()
    digest.update(payload)
    return digest.digest()


def _seal(keyed: blake2b, payload: bytes) -> str:
    return base64.urlsafe_b64encode(payload + _tag(keyed, payload)).decode()


def _unseal(keyed: blake2b, token: str, size: int) -> bytes | None:
    try:
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    if base64.urlsafe_b64encode(raw).decode() != token:  # Python reads + and / too
        return None
    if len(raw) != size + keyed.digest_size or not compare_digest(raw[size:], _tag(keyed, raw[:size])):
        return None
    return raw[:size]
