"""Reading what a call asks for beside its body, and answering it in JSON."""

from collections.abc import Sequence
from typing import Any

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.parsing import signed_number
from couriermq.dialects.anypoint import place
from couriermq.dialects.anypoint.limits import check_range
from couriermq.web.call import JSON_TYPE, NO_STORE, Call, Header, Reply
from couriermq.web.errors import MalformedRequest

NOTHING = Reply(204, b"", ())

_OBJECT: msgspec.json.Decoder[dict[str, Any]] = msgspec.json.Decoder(dict[str, Any])


def reply(document: object, *, status: int = 200, headers: Sequence[Header] = (JSON_TYPE,)) -> Reply:
    return Reply(status, msgspec.json.encode(document), headers)


def secret_reply(document: object) -> Reply:
    """A reply with a token or a secret; OAuth 2.0 asks for both headers."""
    return reply(document, headers=(JSON_TYPE, NO_STORE, (b"pragma", b"no-cache")))


def reply_list(call: Call, items: Sequence[object]) -> Reply:
    """An empty list is 204 by the letter of the vendor's documents; its Python client can only read `[]`."""
    return NOTHING if not items and place.is_strict(call) else reply(items)


def read_object(call: Call) -> dict[str, Any]:
    """The body as an object; no body at all is an empty one."""
    return call.json(_OBJECT) if call.body.strip() else {}


def number(call: Call, name: str, default: int, low: int, high: int) -> int:
    text = call.argument(name)
    if text is None or text == "":
        return default
    value = signed_number(text)
    if value is None:
        raise Invalid(f"{name} must be a whole number from {low} to {high}")
    return check_range(name, value, low, high)


def choice(call: Call, name: str, values: Sequence[str]) -> str:
    """One of the values, whatever their case; the first where the caller has not chosen."""
    text = call.argument(name) or values[0]
    if text.lower() not in values:
        raise Invalid(f"{name} must be {', '.join(values[:-1])} or {values[-1]}")
    return text.lower()


def names(call: Call, name: str) -> list[str]:
    """Every name that a parameter gives, separated by commas or in parameters of the same name, each once."""
    given = (one.strip() for text in call.query.get(name, ()) for one in text.split(","))
    return [one for one in dict.fromkeys(given) if one]


def required(call: Call, name: str) -> str:
    text = call.argument(name)
    if text is None:
        raise MalformedRequest(f"the query parameter {name} is required")
    return text


def starts_with(call: Call) -> str:
    """Required by the letter of the vendor's documents; every client leaves it out."""
    return required(call, "startsWith") if place.is_strict(call) else call.argument("startsWith") or ""
