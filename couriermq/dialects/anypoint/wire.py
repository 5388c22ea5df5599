"""Messages and locks as Anypoint writes them: headers, properties and a body that is always a string."""

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from couriermq.core.errors import CourierError, Invalid
from couriermq.core.model import Attribute, Draft, Lease, Message, Queue
from couriermq.core.parsing import signed_number
from couriermq.core.surrogates import has_half, json_attributes, json_text, original, storable_attributes, text_bytes
from couriermq.core.trace_context import traceparent_of
from couriermq.dialects.anypoint import limits
from couriermq.dialects.anypoint.dates import http_date

Scalar = str | int | float | bool

CONTENT_TYPE = "contentType"
DEFAULT_CONTENT_TYPE = "text/plain; charset=UTF-8"
ENCODING = "contentTransferEncoding"
CUSTOM_HEADERS = "anypoint.headers"
"""The attribute that remembers which attributes came as headers (and which of these as properties too).

A publisher may have a property of this name. Then the note has the same name with a plus sign appended, and so on: of
all attributes with such names the longest name is the note's.
"""

HEADERS = frozenset(
    {"messageId", "lockId", "created", "deliveryCount", "ttl", "messageGroupId", "deliveryDelay", "payloadHidden"}
    | {"traceparent"}
)

FULL, NONE, CONDITIONAL = "full", "none", "conditional"

SUCCESSFUL, FAILURE = "successful", "failure"
PUBLISHED = "Message sent successfully"
ACKED = "Acknowledgement operation successful"
NACKED = "Negative acknowledgement operation successful"
EXTENDED = "Lock TTL modification successful"


class WireMessage(msgspec.Struct, gc=False):
    """A message as its publisher writes it."""

    body: str
    headers: dict[str, Scalar | None] | None = None
    properties: dict[str, Scalar | None] | None = None


class WireLock(msgspec.Struct, gc=False):
    messageId: str | None = None  # noqa: N815
    lockId: str | None = None  # noqa: N815
    ttl: int | float | str | None = None


class Outcome(msgspec.Struct, gc=False, omit_defaults=True):
    """What became of one message; `lockId` only where the operation was about locks in a batch."""

    messageId: str  # noqa: N815
    status: str
    statusMessage: str  # noqa: N815
    lockId: str | None = None  # noqa: N815


MESSAGE: msgspec.json.Decoder[WireMessage] = msgspec.json.Decoder(WireMessage)
MESSAGES: msgspec.json.Decoder[list[WireMessage]] = msgspec.json.Decoder(list[WireMessage])
LOCK: msgspec.json.Decoder[WireLock] = msgspec.json.Decoder(WireLock)
LOCKS: msgspec.json.Decoder[list[WireLock]] = msgspec.json.Decoder(list[WireLock])

_CUSTOM: msgspec.json.Decoder[tuple[dict[str, Scalar], list[str]]] = msgspec.json.Decoder(
    tuple[dict[str, Scalar], list[str]]
)


# -- in -------------------------------------------------------------------------------------------------------


def read_draft(
    wire: WireMessage, *, message_id: str, queue: Queue | None, routed: Iterable[str] = (), trace: str | None = None
) -> Draft:
    """The message as the broker takes it; `routed` names the standard headers that routing rules look at."""
    headers = storable_attributes(wire.headers or {})
    attributes: dict[str, Attribute] = {}
    if wire.properties:
        attributes = {name: value for name, value in wire.properties.items() if value is not None}
        attributes = storable_attributes(attributes)
    _add_headers(attributes, headers, {"messageId": message_id}, routed)
    return Draft(
        body=text_bytes(wire.body),
        content_type=_content_type(attributes),
        attributes=attributes,
        id=limits.check_message_id(message_id),
        delay_ms=_delay(headers, queue),
        retention_ms=_retention(headers),
        group=_group(headers),
        trace=_trace(headers) or trace,
    )


def _add_headers(
    attributes: dict[str, Attribute],
    headers: dict[str, Scalar | None],
    extra: dict[str, Scalar],
    routed: Iterable[str],
) -> None:
    """Let rules see headers as they see properties; a property wins over a header of the same name."""
    known = {**headers, **extra} if routed else headers
    custom = {n: v for n, v in known.items() if v is not None and (n not in HEADERS or n in routed)}
    both = [name for name in custom if name in attributes]
    for name, value in custom.items():
        attributes.setdefault(name, value)
    taken = _note_name(attributes)
    if custom or taken is not None:
        attributes[CUSTOM_HEADERS if taken is None else f"{taken}+"] = msgspec.json.encode((custom, both)).decode()


def _note_name(attributes: Iterable[str]) -> str | None:
    """The longest of the names that a note about custom headers can have."""
    names = [name for name in attributes if name.startswith(CUSTOM_HEADERS)]
    return max((name for name in names if not name[len(CUSTOM_HEADERS) :].strip("+")), key=len, default=None)


def _content_type(attributes: dict[str, Attribute]) -> str:
    given = attributes.get(CONTENT_TYPE)
    return given if isinstance(given, str) and 0 < len(given) <= 256 else DEFAULT_CONTENT_TYPE


def _delay(headers: dict[str, Scalar | None], queue: Queue | None) -> int | None:
    value = whole_or_none("deliveryDelay", headers.get("deliveryDelay"))
    if value is None:
        return None
    limits.check_delay(value, queue)
    return value or (None if queue is not None and queue.kind == "fifo" else 0)


def _retention(headers: dict[str, Scalar | None]) -> int | None:
    value = whole_or_none("ttl", headers.get("ttl"))
    return None if value is None else limits.check_range("ttl", value, 1, limits.TTL_MS)


def _group(headers: dict[str, Scalar | None]) -> str | None:
    value = headers.get("messageGroupId")
    if isinstance(value, str) and has_half(original(value)):
        raise Invalid("messageGroupId holds half of a surrogate pair; send whole characters")
    return None if value is None or value == "" else limits.check_group(_text(value))


def _trace(headers: dict[str, Scalar | None]) -> str | None:
    value = headers.get("traceparent")
    return traceparent_of(value) if isinstance(value, str) else None


def whole_or_none(name: str, value: object) -> int | None:
    """A whole number, also where a client wrote it as a string; None where it wrote nothing."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        number = signed_number(value)
        return _not_whole(name, value) if number is None else number
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return _not_whole(name, value)


def _not_whole(name: str, value: object) -> int:
    shown = repr(str(value)[:40]) if isinstance(value, str | int | float) else "a list or an object"
    raise Invalid(f"{name} must be a whole number, not {shown}")


# -- out ------------------------------------------------------------------------------------------------------


def write_leases(leases: Sequence[Lease], visibility: str) -> bytes:
    return msgspec.json.encode([_lease(lease, visibility) for lease in leases])


def _lease(lease: Lease, visibility: str) -> dict[str, Any]:
    message = lease.message
    properties: dict[str, Attribute] = message.attributes
    custom: dict[str, Attribute] = {}
    if (note := _note_name(properties)) is not None:
        custom, properties = _split(properties, note)
    body, properties = _body(message, properties)
    headers: dict[str, Any] = {**{name: _text(value) for name, value in custom.items()}, **_headers(lease, message)}
    if visibility == NONE or (visibility == CONDITIONAL and message.size > limits.CONDITIONAL_BYTES):
        headers["payloadHidden"] = "true"
        body = ""
    shown = json_attributes(headers) if custom else headers
    return {"headers": shown, "properties": json_attributes(properties), "body": body}


def _headers(lease: Lease, message: Message) -> dict[str, str]:
    headers = {
        "messageId": message.id,
        "lockId": lease.receipt,
        "created": http_date(message.sent_at),
        "deliveryCount": str(message.attempts),
    }
    if message.retention_ms is not None:
        headers["ttl"] = str(message.retention_ms)
    if message.group:
        headers["messageGroupId"] = message.group
    if message.delay_ms:
        headers["deliveryDelay"] = str(message.delay_ms)
    if message.trace:
        headers["traceparent"] = message.trace
    return headers


def _split(attributes: dict[str, Attribute], note: str) -> tuple[dict[str, Attribute], dict[str, Attribute]]:
    """Custom headers and properties, told apart by the note that publishing left."""
    try:
        custom, both = _CUSTOM.decode(str(attributes[note]))
    except msgspec.MsgspecError:
        return {}, attributes  # somebody else's attribute of that name
    hidden = {*set(custom).difference(both), note}
    properties = {name: value for name, value in attributes.items() if name not in hidden}
    return {name: value for name, value in custom.items() if name not in HEADERS}, properties


def _body(message: Message, properties: dict[str, Attribute]) -> tuple[str | msgspec.Raw, dict[str, Attribute]]:
    """The body as a string, and the properties that a reader needs in order to understand it."""
    extra: dict[str, Attribute] = {}
    body = json_text(message.body)
    if body is None:
        body = base64.b64encode(message.body).decode()
        extra[ENCODING] = "base64"
    if message.content_type != DEFAULT_CONTENT_TYPE and CONTENT_TYPE not in properties:
        extra[CONTENT_TYPE] = message.content_type
    return body, {**properties, **extra} if extra else properties


def _text(value: Attribute) -> str:
    """Header values are strings, numbers and booleans too."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def write_outcomes(
    outcomes: Sequence[object], message_ids: Sequence[str], sentence: str, explain: Callable[[CourierError], str]
) -> list[Outcome]:
    return [
        failed(message_id, explain(outcome)) if isinstance(outcome, CourierError) else done(message_id, sentence)
        for outcome, message_id in zip(outcomes, message_ids, strict=True)
    ]


def done(message_id: str, sentence: str, lock_id: str | None = None) -> Outcome:
    return Outcome(message_id, SUCCESSFUL, sentence, lock_id)


def failed(message_id: str, sentence: str, lock_id: str | None = None) -> Outcome:
    return Outcome(message_id, FAILURE, sentence, lock_id)
