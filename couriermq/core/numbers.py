"""Which numbers of the store a caller sees: root the store's own, a tenant only its own.

`seq` of messages and offsets of events count what all tenants do. A tenant sees images of them instead, which tell
nothing but whether two numbers are the same, and positions in lists and in the journal as sealed texts.
"""

import binascii
import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from couriermq.core.errors import Invalid
from couriermq.core.permutation import Permutation
from couriermq.core.receipts import Blocks

ERASED = "erased-"
"""With which the id begins of a message that was erased; the store's own `seq` follows."""
LARGEST_OFFSET = 2**63 - 1
CURSOR_CHARS = 24_000
"""The longest cursor that is read: one with an offset of each lane of 64 shards has 23,300 characters."""

POSITION, CURSOR = b"position", b"cursor"
"""What texts are sealed for."""

_ERASED_ID = re.compile(rf"{ERASED}\d+", re.ASCII)
_NUMBER = re.compile(r"\d{1,19}", re.ASCII)
_POSITION = struct.Struct(">BQQ12s")  # version, tag of the store's incarnation, offset, nonce: 45 bytes with the tag
_VERSION = 1
_NONCE_BYTES = 12
_PAD_BYTES = 48  # a text is padded to a multiple of it: its length would tell how many digits its numbers have

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_PLAIN = bytes.maketrans(b"-_+/=", b"+/***")  # a second spelling of the same text becomes none

RandomBytes = Callable[[int], bytes]
Position = int | str
"""A place in the journal as a caller sees it: an offset for root, a sealed text for a tenant."""


class Numbers:
    """Root's view: everything as the store has it."""

    is_plain = True

    def seq(self, seq: int) -> int:
        return seq

    def seqs(self, seqs: Sequence[int]) -> Sequence[int]:
        """The same for many at once."""
        return seqs

    def true_seq(self, seq: int) -> int | None:
        """The store's number behind one that the caller was shown; None where it cannot have been shown."""
        return seq

    def offset(self, offset: int) -> int:
        return offset

    def offsets(self, offsets: Sequence[int]) -> Sequence[int]:
        """The same for many at once."""
        return offsets

    def true_offset(self, offset: int) -> int | None:
        return offset

    def position(self, offset: int) -> Position:
        """The place before the event of this offset."""
        return offset

    def true_position(self, position: str, *, field: str) -> int:
        """The offset that a position stands for; raises Invalid, about `field`, for one that was not given out."""
        if not _NUMBER.fullmatch(position) or int(position) > LARGEST_OFFSET:
            raise Invalid(f"{field} is an offset: a whole number from 0 to {LARGEST_OFFSET}", field=field)
        return int(position)

    def cursor(self, cursor: str | None) -> str | None:
        """Where a page ends."""
        return cursor

    def true_cursor(self, cursor: str | None, *, field: str) -> str | None:
        return cursor

    def message_id(self, message_id: str | None, seq: int | None) -> str | None:
        return message_id


class TenantNumbers(Numbers):
    """A tenant's view, under keys of the store."""

    is_plain = False

    def __init__(self, tenant: str, keys: "_Keys") -> None:
        tweak = int.from_bytes(blake2b(tenant.encode(), key=keys.tweaks, digest_size=8).digest(), "big")
        self._seqs = Permutation(keys.seqs, tweak)
        self._offsets = Permutation(keys.offsets, tweak)
        self._tenant = tenant.encode()
        self._keys = keys

    def seq(self, seq: int) -> int:
        return self._seqs.image(seq)

    def seqs(self, seqs: Sequence[int]) -> Sequence[int]:
        return self._seqs.images(seqs)

    def true_seq(self, seq: int) -> int | None:
        return self._seqs.number(seq)

    def offset(self, offset: int) -> int:
        return self._offsets.image(offset + 1)

    def offsets(self, offsets: Sequence[int]) -> Sequence[int]:
        return self._offsets.images([offset + 1 for offset in offsets])

    def true_offset(self, offset: int) -> int | None:
        number = self._offsets.number(offset)
        return None if number is None else number - 1

    def position(self, offset: int) -> Position:
        """A new text each time, so that it tells not even whether the journal has grown."""
        return self._seal(POSITION, _POSITION.pack(_VERSION, self._keys.tag, offset, self._keys.random(_NONCE_BYTES)))

    def true_position(self, position: str, *, field: str) -> int:
        payload = self._open(POSITION, position)
        if payload is None or len(payload) != _POSITION.size:
            raise Invalid(f"{field} is not a position that the journal gave to this tenant", field=field)
        version, tag, offset, _ = _POSITION.unpack(payload)
        if (version, tag) != (_VERSION, self._keys.tag):
            raise Invalid(
                f"{field} is a position of an earlier incarnation: the store was restored from a copy since, and may"
                " have lost events that were read before; begin at the journal's `oldest` again",
                field=field,
            )
        return int(offset)

    def cursor(self, cursor: str | None) -> str | None:
        if cursor is None:
            return None
        text = self._keys.random(_NONCE_BYTES) + cursor.encode()
        return self._seal(CURSOR, text + bytes(-len(text) % _PAD_BYTES))

    def true_cursor(self, cursor: str | None, *, field: str) -> str | None:
        if cursor is None:
            return None
        payload = self._open(CURSOR, cursor)
        if payload is None:
            raise Invalid(
                "the cursor is not one that a page ended with, or is from before the store was restored; begin with the"
                " first page",
                field=field,
            )
        return payload[_NONCE_BYTES:].rstrip(b"\0").decode()

    def message_id(self, message_id: str | None, seq: int | None) -> str | None:
        """An erased message's id with the tenant's `seq` in it.

        Whatever number stands in the id, the answer depends on the message alone: senders choose ids, and one who saw
        what becomes of a number of their choice could find out which seqs are being given out.
        """
        if message_id is None or seq is None or not _ERASED_ID.fullmatch(message_id):
            return message_id
        return f"{ERASED}{self.seq(seq)}"

    def _seal(self, use: bytes, payload: bytes) -> str:
        sealed = self._keys.texts.encrypt(payload, self._context(use))
        return binascii.b2a_base64(sealed, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()

    def _open(self, use: bytes, text: str) -> bytes | None:
        if len(text) > CURSOR_CHARS:
            return None
        try:
            padded = text.encode("ascii").translate(_PLAIN) + b"=" * (-len(text) % 4)
            return self._keys.texts.decrypt(binascii.a2b_base64(padded, strict_mode=True), self._context(use))
        except (ValueError, InvalidTag):
            return None

    def _context(self, use: bytes) -> list[bytes]:
        """What a text is sealed for. A position tells its incarnation itself."""
        tag = self._keys.tag if use == CURSOR else 0
        return [use, self._tenant, tag.to_bytes(8, "big")] if tag else [use, self._tenant]


class _Keys:
    """What the views of all tenants share."""

    def __init__(self, key: bytes, random: RandomBytes, tag: Callable[[], int]) -> None:
        self._tag = tag
        self.seqs = Blocks(key, b"seq")
        self.offsets = Blocks(key, b"offset")
        self.tweaks = blake2b(key=key, person=b"tweak", digest_size=32).digest()
        self.texts = AESSIV(blake2b(key=key, person=b"text", digest_size=64).digest())
        self.random = random

    @property
    def tag(self) -> int:
        return self._tag()


class Numbering:
    """Gives every caller its view; `key` is a secret of the store, `tag` tells that of its incarnation."""

    def __init__(self, key: bytes, random: RandomBytes, *, tag: Callable[[], int] = lambda: 0) -> None:
        keys = _Keys(key, random, tag)
        self._of = lru_cache(maxsize=1_024)(lambda tenant: TenantNumbers(tenant, keys))

    def of(self, tenant: str | None) -> Numbers:
        """The view of a tenant's credentials; None stands for root."""
        return PLAIN if tenant is None else self._of(tenant)


PLAIN = Numbers()
