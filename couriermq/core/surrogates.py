"""JSON whose strings hold one half of a surrogate pair, as JavaScript writes a string that was cut inside an emoji.

Such JSON is valid, but msgspec refuses it and UTF-8 cannot express the character. Here it is read all the same, and
these are the forms in which it is kept:

- JSON text stays as it was written: the escape itself is ASCII.
- A text body is encoded with the three bytes that UTF-8 would use if it could (WTF-8).
- An attribute is written with a mark in front of the four hex digits of the half: `storable` and `original`.
"""

import json
import re
from typing import Any, TypeVar

import msgspec

from couriermq.core.parsing import UNREADABLE

T = TypeVar("T")

MARK = "\ufdd0"
"""A noncharacter, which Unicode keeps for use inside a program."""

MOST_ESCAPES = 200_000
"""How many surrogates a text with halves may spell as escapes: each is looked at, and a server has others to serve."""

# A run of backslashes is looked at from its first, which stands outside the group: the last one escapes what follows
# if the number of the others is even.
_HIGH, _LOW = rb"[dD][89abAB][0-9a-fA-F]{2}", rb"[dD][c-fC-F][0-9a-fA-F]{2}"
_SURROGATE = re.compile(
    rb"\\(?<!\\\\)(\\*)u(?:(%b)\\u(%b)|(%b|%b|[fF][dD][dD]0))|(\xef\xb7\x90)" % (_HIGH, _LOW, _HIGH, _LOW)
)
_MAY_HAVE_HALF = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_MARK_ESCAPE = re.compile(rb"\\(?<!\\\\)(\\*)ufdd0([0-9a-fA-F]{4}|----)")
_MARKED = re.compile(MARK + "([0-9a-fA-F]{4}|----)")
_LONE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_UNSTORABLE = re.compile(f"[\ud800-\udfff{MARK}]")
_STORED = re.compile(MARK + "([0-9a-f]{4})")


# -- reading --------------------------------------------------------------------------------------------------


def decode(decoder: "msgspec.json.Decoder[T]", text: bytes) -> T:
    """What the decoder reads, halves included; raises what the decoder raises."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if _MAY_HAVE_HALF.search(text) is None:
            raise
    marked, count = _SURROGATE.subn(_mark, text, count=MOST_ESCAPES + 1)
    if count > MOST_ESCAPES:
        raise msgspec.DecodeError(f"it holds halves of surrogate pairs and more than {MOST_ESCAPES} escaped surrogates")
    return _restored(decoder.decode(marked))  # type: ignore[no-any-return]


def _mark(match: re.Match[bytes]) -> bytes:
    """The mark and the digits in place of a half; the mark itself is marked, so that it can be told apart."""
    run, _, low, half, mark = match.groups()
    if mark is not None:
        return b"\\ufdd0----"
    if len(run) % 2:  # these digits are text, and what looked like the other half of a pair has none
        return match[0] if low is None else match[0][:-6] + b"\\ufdd0" + low
    return match[0] if half is None else run + b"\\ufdd0" + half


def _restored(value: Any) -> Any:
    """The value with every mark replaced by what it stands for; the decoder has just made it, so it may be changed."""
    match value:
        case str():
            return _MARKED.sub(_half, value) if MARK in value else value
        case msgspec.Raw():
            return msgspec.Raw(_MARK_ESCAPE.sub(_written, bytes(value)))
        case list():
            return [_restored(item) for item in value]
        case dict():
            return {_restored(name): _restored(item) for name, item in value.items()}
        case msgspec.Struct():
            for name in value.__struct_fields__:
                setattr(value, name, _restored(getattr(value, name)))
    return value


def _half(match: re.Match[str]) -> str:
    return MARK if match[1] == "----" else chr(int(match[1], 16))


def _written(match: re.Match[bytes]) -> bytes:
    run, digits = match.groups()
    if len(run) % 2:
        return match[0]
    return run + (b"\xef\xb7\x90" if digits == b"----" else b"\\u" + digits)


_any = msgspec.json.Decoder()
_raw = msgspec.json.Decoder(msgspec.Raw)


def is_json(text: bytes) -> bool:
    """Whether the bytes are JSON in UTF-8."""
    try:
        text.decode()  # the decoder checks the grammar, but skips over the strings
        decode(_raw, text)
    except UNREADABLE:
        return False
    return True


def complaint(text: bytes, error: msgspec.DecodeError, *, halves: bool) -> str:
    """What is wrong with a body that was refused as JSON: where no `halves` may stand, it may be JSON with halves."""
    if not halves and is_json(text):
        return "the body holds half of a surrogate pair; send whole characters"
    return f"the body is not JSON: {error}"


def document_of(text: bytes) -> Any:
    """The value of JSON text; raises one of UNREADABLE."""
    return decode(_any, text)


def blanked(text: bytes) -> bytes:
    """JSON of which no half is wanted: each is replaced by the character that stands for what cannot be shown.

    With more than MOST_ESCAPES of them it stays as it is.
    """
    if _MAY_HAVE_HALF.search(text) is None:
        return text
    blank, count = _SURROGATE.subn(_blank, text, count=MOST_ESCAPES + 1)
    return text if count > MOST_ESCAPES else blank


def _blank(match: re.Match[bytes]) -> bytes:
    run, _, low, half, mark = match.groups()
    if mark is not None:
        return match[0]
    if len(run) % 2:
        return match[0] if low is None else match[0][:-6] + b"\\ufffd"
    return match[0] if half is None or half[:1] in b"fF" else run + b"\\ufffd"


# -- keeping --------------------------------------------------------------------------------------------------


def text_bytes(text: str) -> bytes:
    """A text body as it is kept."""
    return text.encode("utf-8", "surrogatepass")


def text_of(body: bytes) -> str | None:
    """The text that a body holds, halves included; None where it is not text."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        pass
    try:
        text = body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    # Two halves side by side are one character, which has another spelling: these bytes would not come back.
    return None if _PAIR.search(text) else text


def has_half(text: str) -> bool:
    return not text.isascii() and _LONE.search(text) is not None


def storable(text: str) -> str:
    """An attribute, or its name, as it is kept: text without halves that stands for it."""
    if text.isascii() or _UNSTORABLE.search(text) is None:
        return text
    return _UNSTORABLE.sub(lambda match: f"{MARK}{ord(match[0]):04x}", text)


def original(text: str) -> str:
    """The attribute that `storable` has made storable."""
    return _STORED.sub(lambda match: chr(int(match[1], 16)), text) if MARK in text else text


def storable_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    if not attributes or all(
        name.isascii() and (type(value) is not str or value.isascii()) for name, value in attributes.items()
    ):
        return attributes
    return {storable(name): storable(value) if type(value) is str else value for name, value in attributes.items()}


# -- writing --------------------------------------------------------------------------------------------------


def json_text(body: bytes) -> str | msgspec.Raw | None:
    """The text of a body in a form that msgspec can encode; None where it is not text."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        text = text_of(body)
        return None if text is None else msgspec.Raw(json.dumps(text).encode())


def replaced(text: str) -> str:
    """The text for a place that cannot hold halves: each is replaced by the character that stands for the unknown."""
    return _LONE.sub("\ufffd", text) if has_half(text) else text


def json_attributes(attributes: dict[str, Any]) -> dict[str, Any] | msgspec.Raw:
    """Attributes as they were sent, in a form that msgspec can encode."""
    if not any(MARK in name or (type(value) is str and MARK in value) for name, value in attributes.items()):
        return attributes
    shown = {original(name): original(value) if type(value) is str else value for name, value in attributes.items()}
    return msgspec.Raw(json.dumps(shown).encode())
