"""Tokens that prove themselves: receipts for leases, refs for messages that were only looked at, minted message ids.

Each holds the numbers that find a row at once, enciphered: they would tell a tenant how busy the others are. What was
added to them before, and a keyed checksum after, tell a made-up or altered token from one that has merely grown old.
Nothing need be stored to read a token back. Receipts and refs are sealed with a key of the store's incarnation; those
of an earlier one lead to no message. Ids are not: messages keep theirs when their store is restored.
"""

import binascii
import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from itertools import chain
from threading import Lock

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_BLOCK = 16
_RECEIPT = struct.Struct(">IQI")  # queue key, seq, lease number
_REF = struct.Struct(">IQ4x")
_ID = struct.Struct(">Q8x")
_ID_DIGITS = 2 * _BLOCK
_SEQ_END = 2**64
_NO_SEQ = 0
"""The seq of no message."""
MOST_EARLIER = 16
"""Incarnations before the present one whose tokens are told from made-up ones."""
IDS_AHEAD = 64
"""How many message ids are made at once where messages come one after the other."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PLAIN = bytes.maketrans(b"-_+/=", b"+/***")  # a second spelling of the same token becomes none


class Blocks:
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
        self._hidden = Blocks(key, name)
        self._tags = Blocks(key, name + b"-tag")
        self._tag_bytes = tag_bytes

    @property
    def width(self) -> int:
        """How many bytes a token takes."""
        return _BLOCK + self._tag_bytes

    def close(self, payloads: bytes) -> bytes:
        """Tokens one after the other, for payloads of one block each: every message needs one, so all go at once."""
        hidden = self._hidden.encipher(payloads)
        tags, length = self._tags.encipher(hidden), self._tag_bytes
        starts = range(0, len(hidden), _BLOCK)
        return b"".join([part for at in starts for part in (hidden[at : at + _BLOCK], tags[at : at + length])])

    def open(self, tokens: bytes) -> bytes | None:
        """The payloads, one after the other; None where we never wrote one of the tokens. What padded a payload is for
        the caller to see."""
        starts = range(0, len(tokens), self.width)
        hidden = b"".join([tokens[at : at + _BLOCK] for at in starts])
        given = b"".join([tokens[at + _BLOCK : at + self.width] for at in starts])
        tags, length = self._tags.encipher(hidden), self._tag_bytes
        right = b"".join([tags[at : at + length] for at in range(0, len(tags), _BLOCK)])
        return self._hidden.decipher(hidden) if compare_digest(given, right) else None


class Sealer:
    """Writes and reads tokens under one secret key of the store; `tags` are those of its incarnations, oldest first."""

    def __init__(self, key: bytes, tags: Sequence[int] = (0,)) -> None:
        self._key = key
        self.renew(tags)
        self._ids = Blocks(key, b"id")  # without a tag: eight bytes that must be zero prove it
        self._ahead: tuple[int, list[str]] = (0, [])

    def renew(self, tags: Sequence[int]) -> None:
        """Go on with the last of these incarnations."""
        keys = [_key_of(self._key, tag) for tag in reversed(tags[-1 - MOST_EARLIER :])]
        self._receipts, *self._earlier_receipts = map(_receipt_seal, keys)
        self._refs, *self._earlier_refs = map(_ref_seal, keys)

    def derived_key(self, name: bytes) -> bytes:
        """A key of 32 bytes for another use, from which nobody gets back to the store's own."""
        return blake2b(key=self._key, person=name, digest_size=32).digest()

    def receipt(self, queue_key: int, seq: int, lease_no: int) -> str:
        return self.receipts([(queue_key, seq, lease_no)])[0]

    def receipts(self, leases: Sequence[tuple[int, int, int]]) -> list[str]:
        """One for each queue key, seq and lease number."""
        payloads = _many("IQI", len(leases)).pack(*chain.from_iterable(leases))
        text, width = _encode(self._receipts.close(payloads)), _digits(self._receipts)
        return [text[at : at + width] for at in range(0, len(text), width)]

    def read_receipt(self, token: str) -> tuple[int, int, int] | None:
        """(queue key, seq, lease number), or None for a token that we never wrote."""
        return self.read_receipts([token])[0]

    def read_receipts(self, tokens: Sequence[str]) -> list[tuple[int, int, int] | None]:
        """Mostly all of them are good, and are read at once; where one is not, each is for itself.

        A receipt of an earlier incarnation is of its queue, but of no message: its lease is over.
        """
        payloads = self._read(self._receipts, tokens)
        if payloads is not None:
            return list(_RECEIPT.iter_unpack(payloads))
        if len(tokens) > 1:
            return [self.read_receipt(token) for token in tokens]
        earlier = self._read_earlier(self._earlier_receipts, tokens[0])
        return [None if earlier is None else (_RECEIPT.unpack(earlier)[0], _NO_SEQ, 0)]

    def ref(self, queue_key: int, seq: int) -> str:
        return _encode(self._refs.close(_REF.pack(queue_key, seq)))

    def read_ref(self, token: str) -> tuple[int, int] | None:
        """(queue key, seq), or None for a token that we never wrote; one of an earlier incarnation is of no message."""
        payload = self._read(self._refs, [token])
        if payload:
            return _REF.unpack(payload)
        earlier = self._read_earlier(self._earlier_refs, token)
        return None if earlier is None else (_REF.unpack(earlier)[0], _NO_SEQ)

    def _read_earlier(self, seals: Sequence[_Seal], token: str) -> bytes | None:
        return next((payload for seal in seals if (payload := self._read(seal, [token]))), None)

    def _read(self, seal: _Seal, tokens: Sequence[str]) -> bytes | None:
        width = _digits(seal)
        if any(len(token) != width for token in tokens):
            return None
        raw = _decode("".join(tokens))
        return None if raw is None else seal.open(raw)

    def message_id(self, seq: int) -> str:
        """32 hex digits that lead back to `seq`, so that a minted id needs no index.

        One call of the cipher costs about as much for many blocks as for one. So a seq that follows the last one has
        the ids of the next ones made with it.
        """
        first, ids = self._ahead
        end = first + len(ids)
        if not first <= seq < end:
            count = min(IDS_AHEAD, _SEQ_END - seq) if seq == end else 1
            first, ids = self._ahead = seq, self.message_ids(range(seq, seq + count))
        return ids[seq - first]

    def message_ids(self, seqs: Sequence[int]) -> list[str]:
        """The id of each."""
        digits = self._ids.encipher(_many("Q8x", len(seqs)).pack(*seqs)).hex()
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


def _key_of(key: bytes, tag: int) -> bytes:
    """The key that receipts and refs of an incarnation are sealed with; the first one's is the store's own."""
    return blake2b(tag.to_bytes(8, "big"), key=key, person=b"incarnation", digest_size=32).digest() if tag else key


# A whole token is a multiple of three bytes: base64 then has exactly one spelling of it, and that of many tokens is the
# spellings of each, one after the other.
def _receipt_seal(key: bytes) -> _Seal:
    return _Seal(key, b"receipt", tag_bytes=14)


def _ref_seal(key: bytes) -> _Seal:
    return _Seal(key, b"ref", tag_bytes=11)


@lru_cache(maxsize=256)
def _many(payload: str, count: int) -> struct.Struct:
    """As many payloads, one after the other."""
    return struct.Struct(">" + count * payload)


def _digits(seal: _Seal) -> int:
    """How long a token is as text."""
    return seal.width * 4 // 3


def _encode(tokens: bytes) -> str:
    return binascii.b2a_base64(tokens, newline=False).translate(_URL_SAFE).decode()


def _decode(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text.encode("ascii").translate(_PLAIN), strict_mode=True)
    except (binascii.Error, ValueError):
        return None
