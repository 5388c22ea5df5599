"""Ids as 32 hex digits, for a dialect whose programs accept no other form.

An id of Courier has 21 characters of 63, which is a number below 2**126, so that it fits into 128 bits and can be read
back. Any other text is shown as its digest: it can be compared with others, but not read back.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

_CHARACTERS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUES = {character: value for value, character in enumerate(_CHARACTERS)}
_LENGTH = 21
_END = len(_CHARACTERS) ** _LENGTH
_DIGITS = 32

DIALECT = "cloudflare"
"""Whose aliases of queues and tenants are shown in place of their ids."""

HEX_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_OURS = re.compile(r"[A-Za-z0-9-]{21}", re.ASCII)


def hex_of(text: str) -> str:
    """32 hex digits for an id: themselves, those that `id_of` reads back, or a digest."""
    return text if HEX_ID.fullmatch(text) else _written(text)


@lru_cache(maxsize=4_096)
def _written(text: str) -> str:
    if _OURS.fullmatch(text):
        number = 0
        for character in text:
            number = number * len(_CHARACTERS) + _VALUES[character]
        return f"{number:0{_DIGITS}x}"
    return digest_of(text)


def id_of(digits: str) -> str | None:
    """The id that `hex_of` has written as these digits; None where they cannot stand for one."""
    if not HEX_ID.fullmatch(digits):
        return None
    number = int(digits, 16)
    if number >= _END:
        return None
    characters = []
    for _ in range(_LENGTH):
        number, value = divmod(number, len(_CHARACTERS))
        characters.append(_CHARACTERS[value])
    return "".join(reversed(characters))


def digest_of(text: str) -> str:
    """32 hex digits that no two texts share."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGITS // 2).hexdigest()


def queue_hex(queue_id: str, aliases: Mapping[str, str]) -> str:
    """The id that the queue has had at the vendor, where an alias keeps it; else its own as hex digits."""
    return aliases.get(DIALECT) or hex_of(queue_id)


def tenant_hex(tenant_id: str, aliases: Mapping[str, str]) -> str:
    """The alias of a tenant where it is 32 hex digits; else its own id as hex digits."""
    alias = aliases.get(DIALECT, "")
    return alias if HEX_ID.fullmatch(alias) else hex_of(tenant_id)
