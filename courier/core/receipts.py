"""Tokens that prove themselves: receipts for leases, refs for messages that were only looked at, minted message ids.

Each holds the numbers that find a row at once, sealed: a keyed checksum tells a made-up or altered token from one that
has merely grown old, and a pad made from that checksum hides the numbers, which would tell a tenant how busy the others
are. Nothing need be stored to read a token back.
"""

import binascii
import struct
from collections.abc import Sequence
from hashlib import blake2b
from hmac import compare_digest

_RECEIPT = struct.Struct(">IQI")  # queue key, seq, lease number
_REF = struct.Struct(">IQ")
_ID = struct.Struct(">Q")

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PLAIN = bytes.maketrans(b"-_+/=", b"+/***")  # a second spelling of the same token becomes none


class _Seal:
    """One kind of token: `tag ‖ payload ⊕ pad(tag)`, the tag being a keyed hash of the payload."""

    def __init__(self, key: bytes, name: bytes, *, tag_bytes: int, payload_bytes: int) -> None:
        self._tag = blake2b(key=key, person=name + b"-tag", digest_size=tag_bytes)
        self._pad = blake2b(key=key, person=name + b"-pad", digest_size=payload_bytes)
        self._tag_bytes = tag_bytes
        self._payload_bytes = payload_bytes
        self._token_bytes = tag_bytes + payload_bytes

    def close(self, payload: bytes) -> bytes:
        return self.close_all([payload])[0]

    def close_all(self, payloads: Sequence[bytes]) -> list[bytes]:
        """A token each; every message needs one at least once, so no call is made that can be spared."""
        begin, begin_pad = self._tag.copy, self._pad.copy
        tags, pads = [], []
        for payload in payloads:
            digest = begin()
            digest.update(payload)
            tag = digest.digest()
            digest = begin_pad()
            digest.update(tag)
            tags.append(tag)
            pads.append(digest.digest())
        mixed, size = _xor(b"".join(payloads), b"".join(pads)), self._payload_bytes
        return [tag + mixed[at : at + size] for tag, at in zip(tags, range(0, len(mixed), size), strict=True)]

    def open(self, token: bytes) -> bytes | None:
        """The payload, or None for a token that we never wrote."""
        return self.open_all([token])[0]

    def open_all(self, tokens: Sequence[bytes]) -> list[bytes | None]:
        """What `open` says of each."""
        begin, begin_pad, cut, length = self._tag.copy, self._pad.copy, self._tag_bytes, self._token_bytes
        whole = [token for token in tokens if len(token) == length]
        pads = []
        for token in whole:
            digest = begin_pad()
            digest.update(token[:cut])
            pads.append(digest.digest())
        mixed, size = _xor(b"".join([token[cut:] for token in whole]), b"".join(pads)), self._payload_bytes
        found: list[bytes | None] = []
        at = 0
        for token in tokens:
            payload = None
            if len(token) == length:
                payload = mixed[at : at + size]
                at += size
                digest = begin()
                digest.update(payload)
                if not compare_digest(token[:cut], digest.digest()):
                    payload = None
            found.append(payload)
        return found


class Sealer:
    """Writes and reads tokens under one secret key of the store."""

    def __init__(self, key: bytes) -> None:
        # A whole token is a multiple of three bytes: base64 then has exactly one spelling of it.
        self._receipts = _Seal(key, b"receipt", tag_bytes=14, payload_bytes=_RECEIPT.size)
        self._refs = _Seal(key, b"ref", tag_bytes=15, payload_bytes=_REF.size)
        self._ids = _Seal(key, b"id", tag_bytes=8, payload_bytes=_ID.size)

    def receipt(self, queue_key: int, seq: int, lease_no: int) -> str:
        return _encode(self._receipts.close(_RECEIPT.pack(queue_key, seq, lease_no)))

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
        return _encode(self._refs.close(_REF.pack(queue_key, seq)))

    def read_ref(self, token: str) -> tuple[int, int] | None:
        payload = self._refs.open(_decode(token))
        return _REF.unpack(payload) if payload else None

    def message_id(self, seq: int) -> str:
        """32 hex digits that lead back to `seq`, so that a minted id needs no index."""
        return self._ids.close(_ID.pack(seq)).hex()

    def message_ids(self, seqs: Sequence[int]) -> list[str]:
        """The id of each."""
        return [token.hex() for token in self._ids.close_all([_ID.pack(seq) for seq in seqs])]

    def seq_of(self, message_id: str) -> int | None:
        """The seq inside an id that we minted; None for any other id."""
        try:
            raw = bytes.fromhex(message_id)
        except ValueError:
            return None
        payload = self._ids.open(raw) if raw.hex() == message_id else None
        return int.from_bytes(payload, "big") if payload else None


def _xor(left: bytes, right: bytes) -> bytes:
    mixed = int.from_bytes(left, "big") ^ int.from_bytes(right, "big")
    return mixed.to_bytes(len(left), "big")


def _encode(token: bytes) -> str:
    return binascii.b2a_base64(token, newline=False).translate(_URL_SAFE).decode()


def _decode(token: str) -> bytes:
    try:
        raw = binascii.a2b_base64(token.encode("ascii").translate(_PLAIN), strict_mode=True)
    except (binascii.Error, ValueError):
        return b""
    return raw
