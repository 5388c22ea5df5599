"""Reading numbers and JSON that somebody else wrote, whatever it is."""

from collections.abc import Iterable

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)
"""All that msgspec raises for text that it cannot decode: no JSON or the wrong JSON, not UTF-8, nested too deeply."""

NESTING = 64
"""How deeply JSON may be nested that is kept and encoded again: a decoder that is called later has less stack."""

MOST_DIGITS = 18
"""No number of ours has more; Python itself refuses to read more than 4,300."""


def whole_number(text: str) -> int | None:
    """The number that a few ASCII digits write; None for any other text."""
    return int(text) if len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal() else None


def signed_number(text: str) -> int | None:
    """The number that a few ASCII digits write, perhaps after a minus sign; None for any other text."""
    number = whole_number(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def is_too_deep(document: object) -> bool:
    """Whether lists and objects stand in each other more than NESTING times."""
    level = [document]
    for _ in range(NESTING + 1):
        level = [inner for outer in level for inner in _parts(outer)]
    return bool(level)


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
