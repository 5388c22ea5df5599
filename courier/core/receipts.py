"""Tokens that prove themselves: receipts for leases, refs for messages that were only looked at, minted message ids.

Each holds the numbers that find a row at once, enciphered: they would tell a tenant how busy the others are. What was
added to them before, and a keyed checksum after, tell a made-up or altered token from one that has merely grown old.
Nothing need be stored to read a token back.
"""

import binascii
import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from threading import Lock

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_BLOCK = 16
_RECEIPT = struct.Struct(">IQI")  # queue key, seq, lease number
_REF = struct.Struct(">IQ4x")
_ID = struct.Struct(">Q8x")
_ID_DIGITS = 2 * _BLOCK

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PLAIN = bytes.maketrans(b"-_+/=", b"+/***")  # a second spelling of the same token becomes none


class _Blocks:
    """AES over many single blocks at once. A block is a whole message, and no two messages are the same: that is the
    one use for which the mode that knows no chaining is the right one."""

    def __init__(self, key: bytes, name: bytes) -> None:
        digest = blake2b(key=key, person=name, digest_size=32).digest()
        cipher = Cipher(algorithms.AES(digest), modes.ECB())  # noqa: S305
        self._encryptor, self._decryptor = cipher.encryptor(), cipher.decryptor()
        self._lock = Lock()  # each lets one thread in at a time, and fails for the others

    def encipher(self, blocks: bytes) -> bytes:
        with self._lock:
            return self._encryptor.update(blocks)

    def decipher(self, blocks: bytes) -> bytes:
        with self._lock:
            return self._decryptor.update(blocks)


class _Seal:
    """One kind of token: `hidden ‖ tag`, the hidden being the payload enciphered and the tag a keyed hash of that."""

    def __init__(self, key: bytes, name: bytes, *, tag_bytes: int) -> None:
        self._hidden = _Blocks(key, name)
        self._tags = _Blocks(key, name + b"-tag")
        self._tag_bytes = tag_bytes

    def close_all(self, payloads: Sequence[bytes]) -> list[bytes]:
        """A token each, for payloads of one block; every message needs one at least once, so all go in one call."""
        hidden, length = self._hidden.encipher(b"".join(payloads)), self._tag_bytes
        starts = range(0, len(hidden), _BLOCK)
        tags = self._tags.encipher(hidden)
        return [hidden[at : at + _BLOCK] + tags[at : at + length] for at in starts]

    def open_all(self, tokens: Sequence[bytes]) -> list[bytes | None]:
        """The payload of each, or None for one that we never wrote; what padded a payload is for the caller to see."""
        length = _BLOCK + self._tag_bytes
        whole = [token for token in tokens if len(token) == length]
        hidden = b"".join([token[:_BLOCK] for token in whole])
        payloads, tags = self._hidden.decipher(hidden), self._tags.encipher(hidden)
        found: list[bytes | None] = []
        at = 0
        for token in tokens:
            if len(token) != length:
                found.append(None)
                continue
            is_ours = compare_digest(token[_BLOCK:], tags[at : at + self._tag_bytes])
            found.append(payloads[at : at + _BLOCK] if is_ours else None)
            at += _BLOCK
        return found


class Sealer:
    """Writes and reads tokens under one secret key of the store."""

    def __init__(self, key: bytes) -> None:
        # A whole token is a multiple of three bytes: base64 then has exactly one spelling of it.
        self._receipts = _Seal(key, b"receipt", tag_bytes=14)
        self._refs = _Seal(key, b"ref", tag_bytes=11)
        self._ids = _Blocks(key, b"id")  # without a tag: eight bytes that must be zero prove it

    def receipt(self, queue_key: int, seq: int, lease_no: int) -> str:
        return self.receipts([(queue_key, seq, lease_no)])[0]

    def receipts(self, leases: Sequence[tuple[int, int, int]]) -> list[str]:
        """One for each queue key, seq and lease number."""
        return [_encode(token) for token in self._receipts.close_all([_RECEIPT.pack(*lease) for lease in leases])]

    def read_receipt(self, token: str) -> tuple[int, int, int] | None:
        """(queue key, seq, lease number), or None for a token that we never wrote."""
        return self.read_receipts([token])[0]

    def read_receipts(self, tokens: Sequence[str]) -> list[tuple[int, int, int] | None]:
        payloads = self._receipts.open_all([_decode(token) for token in tokens])
        return [_RECEIPT.unpack(payload) if payload else None for payload in payloads]

    def ref(self, queue_key: int, seq: int) -> str:
        (token,) = self._refs.close_all([_REF.pack(queue_key, seq)])
        return _encode(token)

    def read_ref(self, token: str) -> tuple[int, int] | None:
        (payload,) = self._refs.open_all([_decode(token)])
        return _REF.unpack(payload) if payload else None

    def message_id(self, seq: int) -> str:
        """32 hex digits that lead back to `seq`, so that a minted id needs no index."""
        return self.message_ids([seq])[0]

    def message_ids(self, seqs: Sequence[int]) -> list[str]:
        """The id of each."""
        digits = self._ids.encipher(_ids(len(seqs)).pack(*seqs)).hex()
        return [digits[at : at + _ID_DIGITS] for at in range(0, len(digits), _ID_DIGITS)]

    def seq_of(self, message_id: str) -> int | None:
        """The seq inside an id that we minted; None for any other id."""
        try:
            raw = bytes.fromhex(message_id)
        except ValueError:
            return None
        if len(raw) != _BLOCK or raw.hex() != message_id:
            return None
        payload = self._ids.decipher(raw)
        return None if any(payload[_BLOCK // 2 :]) else int(_ID.unpack(payload)[0])


@lru_cache(maxsize=128)
def _ids(count: int) -> struct.Struct:
    """As many blocks of `_ID`, one after the other."""
    return struct.Struct(">" + count * "Q8x")


def _encode(token: bytes) -> str:
    return binascii.b2a_base64(token, newline=False).translate(_URL_SAFE).decode()


def _decode(token: str) -> bytes:
    try:
        raw = binascii.a2b_base64(token.encode("ascii").translate(_PLAIN), strict_mode=True)
    except (binascii.Error, ValueError):
        return b""
    return raw
