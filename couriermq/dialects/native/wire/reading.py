"""From bytes and query strings to typed structs; what does not fit is named with its place and the reason."""

import re
from typing import TypeVar

import msgspec

from couriermq.core.errors import Invalid
from couriermq.web.call import Call
from couriermq.web.decoding import decode

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

_PLACE = re.compile(r"^(?P<reason>.*?)(?: - at `(?:key in )?\$\.?(?P<place>.*)`)?$", re.DOTALL)
_FIELD = re.compile(r"(?:unknown|required) field `(?P<name>.*)`$", re.DOTALL)


class Order(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every request body descends from: a field that we do not know is an error, not a misunderstanding."""


def read(decoder: "msgspec.json.Decoder[T]", body: bytes, *, halves: bool = False) -> T:
    """The body as the decoder's type; raises Invalid that names the field, or MalformedRequest when it is not JSON."""
    return decode(decoder, body, misfit=misfit, halves=halves)


def read_optional(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """The same for a body in which every field is optional: no body means none of them."""
    return read(decoder, body or b"{}")


def read_query(call: Call, kind: type[S]) -> S:
    """The query parameters as a struct: each at most once, except those whose field is a list."""
    lists = {field.encode_name for field in msgspec.structs.fields(kind) if _is_list(field)}
    given: dict[str, str | list[str]] = {}
    for name, values in call.query.items():
        if name in lists:
            given[name] = values
        elif len(values) > 1:
            raise Invalid(f"give {name} once, not {len(values)} times", field=name)
        else:
            given[name] = values[0]
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise misfit(error, noun="query parameter") from None


def _is_list(field: msgspec.structs.FieldInfo) -> bool:
    return getattr(field.type, "__origin__", field.type) in (list, tuple)


def misfit(error: msgspec.ValidationError, *, noun: str = "field") -> Invalid:
    """The validation error as one sentence of ours and the place that it speaks of."""
    found = _PLACE.match(str(error))
    reason, place = (found["reason"], found["place"] or "") if found else (str(error), "")
    if named := _FIELD.search(reason):
        place = f"{place}.{named['name']}" if place else named["name"]
        verb = "is missing" if "required" in reason else f"is not a {noun} that is known here"
        return Invalid(f"{place} {verb}", field=place)
    reason = reason[:1].lower() + reason[1:]
    return Invalid(f"{place}: {reason}" if place else reason, field=place or None)
