"""Facts of messages that share a row of the database: one kind after the other, those of a kind side by side.

Each is as MessagePack writes it, and all of a kind are of one width. So some of the messages can be cut out without
looking at each, and their facts go into the journal's columns as they are (see `core.chronicle`).
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat

import msgspec

LONG, SHORT, ID = 9, 5, 34
"""How many bytes a number, a size and an id take."""
_LONG_TAG, _SHORT_TAG, _ID_TAG = 0xCF, 0xCE, "\xd9\x20"
_long, _short = struct.Struct(">BQ").pack, struct.Struct(">BI").pack
_array = struct.Struct(">BH").pack
_ARRAY_TAG = 0xDC
_MANY = 16
"""From so many on an array begins with three bytes, and not with one."""

_encode = msgspec.msgpack.Encoder().encode
_raws = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def longs(values: Sequence[int]) -> bytes:
    """Seqs or instants; what came together came at the same instant, mostly."""
    if values.count(values[0]) == len(values):
        return len(values) * long(values[0])
    return b"".join(map(_long, repeat(_LONG_TAG), values))


def long(value: int) -> bytes:
    """One of `longs`."""
    return _long(_LONG_TAG, value)


def shorts(values: Sequence[int]) -> bytes:
    """Sizes."""
    return b"".join(map(_short, repeat(_SHORT_TAG), values))


def ids(values: Iterable[str]) -> bytes:
    """Ids that we minted: all of 32 characters."""
    return (_ID_TAG + _ID_TAG.join(values)).encode("latin-1")


def items(values: Sequence[object]) -> bytes:
    """Whatever else there is, one after the other."""
    return _encode(values)[1 if len(values) < _MANY else 3 :]


def read_longs(strip: bytes) -> tuple[int, ...]:
    return _reader("Q", len(strip) // LONG).unpack(strip)


def read_shorts(strip: bytes) -> tuple[int, ...]:
    return _reader("I", len(strip) // SHORT).unpack(strip)


def read_ids(strip: bytes) -> list[str]:
    text = strip.decode("latin-1")
    return [text[at + 2 : at + ID] for at in range(0, len(text), ID)]


def first_long(strip: bytes) -> int:
    return int.from_bytes(strip[1:LONG], "big")


def last_long(strip: bytes) -> int:
    return int.from_bytes(strip[1 - LONG :], "big")


def array(count: int, items: bytes) -> bytes:
    """What stands one after the other, as an array."""
    return _array(_ARRAY_TAG, count) + items


def pieces(count: int, items: bytes) -> list[bytes]:
    """What stands one after the other, each for itself."""
    return [bytes(item) for item in _raws(array(count, items))]


@lru_cache(maxsize=2_000)
def _reader(kind: str, count: int) -> struct.Struct:
    return struct.Struct(">" + count * ("x" + kind))
