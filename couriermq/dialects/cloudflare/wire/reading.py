"""Reading what a caller sent: JSON whatever its Content-Type says, an absent body as `{}`, any spelling of a number."""

import json
import math
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from couriermq.core import surrogates
from couriermq.dialects.cloudflare.errors import Refused

T = TypeVar("T")


def read(decoder: "msgspec.json.Decoder[T]", body: bytes, *, invalid: int, malformed: int, halves: bool = False) -> T:
    """The body as the decoder's type; `malformed` is the code for what is no JSON, `invalid` for the wrong JSON.

    Where a body holds messages, `halves` lets its strings hold halves of surrogate pairs.
    """
    body = body or b"{}"
    try:
        body.decode()  # a raw value inside is not looked at, and must be UTF-8 all the same
        return surrogates.decode(decoder, body) if halves else decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refused(invalid, f"the body does not fit: {error}", pointer=_place_in(str(error))) from None
    except msgspec.DecodeError as error:
        raise Refused(malformed, surrogates.complaint(body, error, halves=halves)) from None
    except UnicodeDecodeError:
        raise Refused(malformed, "the body is not JSON: it is not UTF-8") from None
    except RecursionError:
        raise Refused(malformed, "the body is not JSON: it is nested too deeply") from None


def pointer(path: str) -> str:
    """A place such as `messages[3].body` as a JSON pointer."""
    return "/" + path.replace("[", "/").replace("]", "").replace(".", "/").removeprefix("/")


def _place_in(sentence: str) -> str | None:
    """The pointer to the place that msgspec names in its errors, unless it is a list's every item."""
    _, found, path = sentence.rpartition("`$")
    return pointer(path.rstrip("`")) if found and "[...]" not in path else None


def number(value: object) -> float | None:
    """A JSON number, never a boolean."""
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return value
    return None


def whole(value: object, *, name: str, low: int, high: int, code: int) -> int:
    """A whole number in range; 10.0 is one, since the SDKs type every number as a float."""
    found = number(value)
    if found is None or found != int(found) or not low <= found <= high:
        raise Refused(
            code, f"{name} is {shown(value)}; choose a whole number from {low} to {high}", pointer=pointer(name)
        )
    return int(found)


def seconds(value: object, *, name: str, code: int, low: int = 0, high: int) -> int:
    """A whole number of seconds in range, as milliseconds."""
    found = number(value)
    if found is None or not low <= found <= high:
        raise Refused(code, f"{name} is {shown(value)}; choose from {low} to {high} seconds", pointer=pointer(name))
    if found != int(found):
        raise Refused(code, f"{name} is {shown(value)}; choose a whole number of seconds", pointer=pointer(name))
    return int(found) * 1_000


def in_seconds(milliseconds: int) -> float:
    """Seconds as Cloudflare shows them: whole where they are."""
    return milliseconds // 1_000 if milliseconds % 1_000 == 0 else milliseconds / 1_000


def instant(at: int) -> str:
    """RFC 3339 with microseconds and a Z, as the vendor writes it."""
    return f"{datetime.fromtimestamp(at // 1_000, UTC):%Y-%m-%dT%H:%M:%S}.{at % 1_000:03d}000Z"


def shown(value: Any) -> str:
    """What the caller sent, short enough for an error."""
    try:
        text = msgspec.json.encode(value).decode()
    except RecursionError:  # it was decoded with less on the stack
        return "nested too deeply"
    except UnicodeEncodeError:
        text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
