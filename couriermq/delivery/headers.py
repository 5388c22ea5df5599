"""The head of a delivery: what is the same for every message of a listener, and what each message adds."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from couriermq import __version__
from couriermq.core.errors import Invalid
from couriermq.core.model import Attribute, Message, Secret
from couriermq.core.surrogates import original, replaced
from couriermq.core.trace_context import traceparent_of
from couriermq.core.webhook_ids import webhook_id
from couriermq.delivery.signing import signature

USER_AGENT = f"Courier/{__version__}"
DEFAULT_TYPE = "application/octet-stream"
HEADER_COUNT = 50
VALUE_CHARS = 4_096

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_VALUE = re.compile(r"[\x20-\x7e\t]*", re.ASCII)
_EXTENSION = re.compile(r"[a-z0-9]{1,20}", re.ASCII)

OURS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "keep-alive", "upgrade", "te",
     "trailer", "expect", "proxy-authorization", "proxy-connection", "traceparent"}
)  # fmt: skip
OUR_PREFIXES = ("webhook-", "ce-", "courier-")

EVENT_TYPE = "courier.message"
EVENT_WORDS = {"type": "type", "source": "source", "subject": "subject", "dataschema": "dataschema"}
"""Attributes of a message that say what CloudEvents itself has a word for."""
RESERVED = frozenset({"id", "specversion", "time", "datacontenttype", "data", *EVENT_WORDS})

_ID_SAFE = "!#$&'()*+,-./:;=?@[]_~"
_EVENT_SAFE = "!#$&'()*+,-./:;<=>?@[]^_`{|}~ "


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise Invalid for a header that could not be sent, or that is Courier's own."""
    if len(headers) > HEADER_COUNT:
        raise Invalid(f"a listener has at most {HEADER_COUNT} headers of its own", field="headers")
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise Invalid(f"{name!r} is not the name of a header", field="headers")
        if name.lower() in OURS or name.lower().startswith(OUR_PREFIXES):
            raise Invalid(f"the header {name!r} is set by Courier", field="headers")
        if len(value) > VALUE_CHARS or not _VALUE.fullmatch(value):
            raise Invalid(f"the header {name!r} has a value that cannot be sent", field="headers")


def is_sendable(value: str) -> bool:
    """Whether a value can stand in a header."""
    return _VALUE.fullmatch(value) is not None


def fixed_lines(headers: Mapping[str, str], authorization: str | None) -> bytes:
    """The lines that every delivery of a listener has in common."""
    lines = {"User-Agent": USER_AGENT, "Accept": "*/*"}
    named = {name.lower() for name in headers}
    lines = {name: value for name, value in lines.items() if name.lower() not in named} | dict(headers)
    if authorization is not None:
        lines = {name: value for name, value in lines.items() if name.lower() != "authorization"}
        lines["Authorization"] = authorization
    return "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode("ascii")


def message_lines(message: Message, secrets: tuple[Secret, ...], *, now: int, wall: int) -> bytes:
    """The lines of one attempt: what the body is, and the proof of whom it comes from.

    Receivers compare the timestamp with the time of day, so it is the wall clock's; secrets expire by Courier's clock.
    """
    kind = message.content_type if message.content_type and is_sendable(message.content_type) else DEFAULT_TYPE
    message_id = quote(replaced(original(message.id)), safe=_ID_SAFE).encode("ascii")
    signed = signed_lines(webhook_id(message), kind, message.body, secrets, now=now, wall=wall)
    return b"courier-message-id: %b\r\n" % message_id + signed + _trace_line(message.trace)


def signed_lines(
    delivery_id: str, content_type: str, body: bytes, secrets: tuple[Secret, ...], *, now: int, wall: int
) -> bytes:
    """What a body is, and the proof of whom it comes from."""
    timestamp = wall // 1_000
    signed = signature(secrets, delivery_id, timestamp, body, now=now)
    return b"Content-Type: %b\r\nwebhook-id: %b\r\nwebhook-timestamp: %d\r\n%b" % (
        content_type.encode("ascii"),
        delivery_id.encode("ascii"),
        timestamp,
        b"webhook-signature: %b\r\n" % signed if signed else b"",
    )


def _trace_line(trace: str | None) -> bytes:
    carried = traceparent_of(trace)
    return b"" if carried is None else b"traceparent: %b\r\n" % carried.encode("ascii")


def event_lines(message: Message, *, tenant: str, queue: str) -> bytes:
    """CloudEvents in binary mode: the body stays as it is, the attributes become `ce-` headers."""
    event: dict[str, Attribute] = {
        "specversion": "1.0",
        "id": webhook_id(message),
        "source": f"/tenants/{tenant}/queues/{queue}",
        "type": EVENT_TYPE,
        "time": _rfc3339(message.sent_at),
    }
    for name, value in message.attributes.items():
        if name in EVENT_WORDS and isinstance(value, str) and value:
            event[EVENT_WORDS[name]] = value
        elif name not in RESERVED and _EXTENSION.fullmatch(name):
            event[name] = value
    return "".join(f"ce-{name}: {_event_value(value)}\r\n" for name, value in event.items()).encode("ascii")


def _event_value(value: Attribute) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(replaced(original(str(value))), safe=_EVENT_SAFE)


def _rfc3339(at: int) -> str:
    return datetime.fromtimestamp(at / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
