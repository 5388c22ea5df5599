"""Many values as one parameter, in those of PostgreSQL's ways to write an array that are cheap to make and to read."""

import struct
from collections.abc import Iterable

BYTEA, TEXT = 17, 25

_head = struct.Struct(">iiIii").pack
_length = struct.Struct(">i").pack
_NULL = _length(-1)


class Packed(bytes):
    """A whole array of byte strings in PostgreSQL's binary form."""


class PackedText(Packed):
    """The same of texts."""


def numbers(values: Iterable[int | None]) -> str:
    return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"


def truths(values: Iterable[bool]) -> str:
    return "{" + ",".join(["t" if value else "f" for value in values]) + "}"


def blobs(values: Iterable[bytes | None]) -> Packed:
    return Packed(_packed(list(values), BYTEA))


def texts(values: Iterable[str]) -> PackedText:
    return PackedText(_packed([value.encode() for value in values], TEXT))


def _packed(values: list[bytes | None], kind: int) -> bytes:
    if not values:
        return _head(0, 0, kind, 0, 0)[:12]
    parts = [_head(1, 1, kind, len(values), 1)]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts += (_length(len(value)), value)
    return b"".join(parts)
