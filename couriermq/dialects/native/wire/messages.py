"""Messages on their way in and out."""

from binascii import Error as NotBase64
from binascii import a2b_base64
from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from couriermq.core import limits, model
from couriermq.core.errors import BatchTooLarge, CourierError, Invalid
from couriermq.core.model import Attribute, Draft
from couriermq.core.numbers import Numbers
from couriermq.core.surrogates import has_half, json_attributes, json_text, storable_attributes, text_bytes
from couriermq.dialects.native.errors import Problem, problem_of
from couriermq.dialects.native.wire.reading import Order

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
BYTES = "application/octet-stream"

# Ranges that the broker itself checks are only documented here: its sentences say more.
Duration = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": limits.DELAY_MS})]
Retention = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": limits.RETENTION_MS})]
Id = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": limits.ID_CHARS})]
Group = Annotated[str, Meta(extra_json_schema={"maxLength": limits.GROUP_CHARS})]
ContentType = Annotated[str, Meta(extra_json_schema={"maxLength": limits.CONTENT_TYPE_CHARS})]
Base64 = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
AnyJson = Annotated[Raw, Meta(description="Any JSON value; its text is kept exactly as it was sent.")]
Batch = Meta(extra_json_schema={"minItems": 1, "maxItems": limits.BATCH_COUNT})


class NewMessage(Order):
    """A message to send. Its body is exactly one of `body` (text), `body_base64` (bytes) and `json` (any value)."""

    one_of: ClassVar = ("body", "body_base64", "json")

    body: str | UnsetType = UNSET
    body_base64: Base64 | UnsetType = UNSET
    json: AnyJson | UnsetType = UNSET
    content_type: ContentType | None = None
    attributes: dict[str, Attribute] = msgspec.field(default_factory=dict)
    id: Id | None = None
    delay_ms: Duration | None = None
    retention_ms: Retention | None = None
    group: Group | None = None
    dedup_id: Id | None = None


class NewMessages(Order):
    """Messages to send together; each has its own outcome, in the same order."""

    messages: Annotated[list[NewMessage], Batch]


class SendOrder(NewMessage):
    """One message, or several under `messages`: both in one struct, so that one decoder reads either."""

    messages: list[NewMessage] | UnsetType = UNSET


class Failed(msgspec.Struct, gc=False):
    """The outcome of an item that was refused; the others of its batch are not affected."""

    error: Problem


class Sent(msgspec.Struct, gc=False):
    """The message is on disk; `duplicate` says that this is the message that an earlier send had brought."""

    seq: int
    id: str
    duplicate: bool


class Published(msgspec.Struct, gc=False):
    """The message is on disk in every queue that the exchange routed it to."""

    id: str
    queue_count: int


class Results(msgspec.Struct, gc=False):
    """One outcome an item, in the order of the items."""

    results: Sequence[object]


class Death(msgspec.Struct, kw_only=True, gc=False):
    """Why and whence a message came to a dead letter queue; a source that was deleted has no name any more."""

    reason: str
    source_queue: str | None
    source_queue_id: str
    attempts: int
    died_at: int


class Message(msgspec.Struct, gc=False):
    """A live message. The body is `body` where it is valid UTF-8, else `body_base64`."""

    seq: int
    id: str
    state: Annotated[str, Meta(extra_json_schema={"enum": ["delayed", "ready", "leased"]})]
    content_type: str
    attributes: dict[str, Attribute] | Raw
    attempts: int
    sent_at: int
    entered_at: int
    due_at: int
    discard_at: int
    size: int
    body: str | Raw | UnsetType = UNSET
    body_base64: bytes | UnsetType = UNSET
    group: str | UnsetType = UNSET
    trace: str | UnsetType = UNSET
    death: Death | UnsetType = UNSET
    body_truncated: bool | UnsetType = UNSET


class Lease(msgspec.Struct, gc=False):
    """A message in the caller's hands until `expires_at`; the receipt acks, releases or extends it."""

    receipt: str
    expires_at: int
    message: Message


class Leases(msgspec.Struct, gc=False):
    leases: list[Lease]


class Messages(msgspec.Struct):
    """A page of messages, oldest first. `next` goes into `after` for the page that follows; null is the end."""

    messages: list[Message]
    next: str | None
    looked_count: int | UnsetType = UNSET


STATES = tuple(state.name.lower() for state in model.State)
NameOf = Callable[[str], str | None]

SEND = msgspec.json.Decoder(SendOrder)

_MESSAGE_FIELDS = NewMessage.__struct_fields__
_UNTOUCHED = tuple(getattr(SendOrder(), name) for name in _MESSAGE_FIELDS)


def draft_of(new: NewMessage, trace: str | None) -> Draft:
    """The message in our words; raises Invalid unless it has exactly one body."""
    if new.body is not UNSET and new.body_base64 is UNSET and new.json is UNSET:
        body, content_type = text_bytes(new.body), TEXT
    else:
        body, content_type = _other_body(new)
    _check_labels(new)
    return Draft(
        body=body,
        content_type=new.content_type or content_type,
        attributes=storable_attributes(new.attributes),
        id=new.id,
        delay_ms=new.delay_ms,
        retention_ms=new.retention_ms,
        group=new.group,
        dedup_id=new.dedup_id,
        trace=trace,
    )


def _check_labels(new: NewMessage) -> None:
    """Only bodies and attributes may hold half of a surrogate pair: the rest is looked up or stands in headers."""
    if not (new.id or new.group or new.dedup_id or new.content_type):
        return
    for field in ("id", "group", "dedup_id", "content_type"):
        value = getattr(new, field)
        if value is not None and has_half(value):
            raise Invalid(f"{field} holds half of a surrogate pair; send whole characters", field=field)


def _other_body(new: NewMessage) -> tuple[bytes, str]:
    if (new.body is not UNSET) + (new.body_base64 is not UNSET) + (new.json is not UNSET) != 1:
        raise Invalid("a message has exactly one of body, body_base64 and json", field="body")
    if new.json is not UNSET:
        return _json_text(new.json), JSON
    assert new.body_base64 is not UNSET
    try:
        return a2b_base64(new.body_base64.encode("ascii"), strict_mode=True), BYTES
    except (NotBase64, ValueError):
        raise Invalid("body_base64 is not base64", field="body_base64") from None


def _json_text(raw: Raw) -> bytes:
    text = bytes(raw)
    try:
        text.decode()  # the decoder has checked the grammar but skipped over the strings
    except UnicodeDecodeError:
        raise Invalid("json is not UTF-8", field="json") from None
    return text


def drafts_of(order: SendOrder, trace: str | None) -> list[Draft | CourierError]:
    """The drafts of a batch, each one or what is wrong with it."""
    assert order.messages is not UNSET
    if tuple(getattr(order, name) for name in _MESSAGE_FIELDS) != _UNTOUCHED:
        raise Invalid("give either one message or messages, not both", field="messages")
    if not 1 <= len(order.messages) <= limits.BATCH_COUNT:
        raise BatchTooLarge(len(order.messages), limits.BATCH_COUNT)
    return [_draft_or_error(new, trace) for new in order.messages]


def _draft_or_error(new: NewMessage, trace: str | None) -> Draft | CourierError:
    try:
        return draft_of(new, trace)
    except Invalid as error:
        return error


def write_outcomes(outcomes: Sequence[object]) -> Results:
    """A batch's answer; what succeeded is written as it is."""
    return Results([Failed(problem_of(o)) if isinstance(o, CourierError) else o for o in outcomes])


def write_sent(sent: model.Sent, numbers: Numbers) -> Sent:
    return Sent(numbers.seq(sent.seq), sent.id, sent.duplicate)


def write_sent_batch(
    outcomes: Sequence[model.Sent | CourierError], numbers: Numbers
) -> Sequence[model.Sent | Sent | CourierError]:
    """The outcomes with the numbers that the caller sees."""
    if numbers.is_plain:
        return outcomes
    seqs = iter(numbers.seqs([o.seq for o in outcomes if isinstance(o, model.Sent)]))
    return [Sent(next(seqs), o.id, o.duplicate) if isinstance(o, model.Sent) else o for o in outcomes]


def write_leases(leases: Sequence[model.Lease], name_of: NameOf, numbers: Numbers) -> Leases:
    messages = write_messages([lease.message for lease in leases], name_of, numbers)
    return Leases([Lease(lease.receipt, lease.expires_at, m) for lease, m in zip(leases, messages, strict=True)])


def write_page(page: model.Page, name_of: NameOf, numbers: Numbers) -> Messages:
    return Messages(write_messages(page.messages, name_of, numbers), numbers.cursor(page.next))


def write_previews(
    messages: Sequence[model.Message], name_of: NameOf, numbers: Numbers, *, preview_bytes: int | None
) -> list[Message]:
    """Messages whose bodies are cut; `size` is that of the whole body, and with 0 bytes there is no body at all."""
    cut = [msgspec.structs.replace(one, body=_start_of(one.body, preview_bytes)) for one in messages]
    shown = write_messages(cut, name_of, numbers)
    for message, whole in zip(shown, messages, strict=True):
        message.size = whole.size
        if preview_bytes is not None and whole.size > preview_bytes:
            message.body_truncated = True
        if preview_bytes == 0:
            message.body = message.body_base64 = UNSET
    return shown


def _start_of(body: bytes, count: int | None) -> bytes:
    """The first bytes, without a character of which only a part is among them."""
    if count is None or len(body) <= count:
        return body
    for missing in range(min(4, count)):
        if json_text(body[: count - missing]) is not None:
            return body[: count - missing]
    return body[:count]


def write_messages(messages: Sequence[model.Message], name_of: NameOf, numbers: Numbers) -> list[Message]:
    seqs = numbers.seqs([message.seq for message in messages])
    return [write_message(message, name_of, seq) for message, seq in zip(messages, seqs, strict=True)]


def write_message(message: model.Message, name_of: NameOf, seq: int) -> Message:
    """The message under the `seq` that the caller sees."""
    body = message.body
    text = json_text(body)
    return Message(
        seq,
        message.id,
        STATES[message.state],
        message.content_type,
        json_attributes(message.attributes),
        message.attempts,
        message.sent_at,
        message.entered_at,
        message.due_at,
        message.discard_at,
        len(body),
        UNSET if text is None else text,
        body if text is None else UNSET,
        UNSET if message.group is None else message.group,
        UNSET if message.trace is None else message.trace,
        UNSET if message.death is None else _write_death(message.death, name_of),
    )


def _write_death(death: model.Death, name_of: NameOf) -> Death:
    return Death(
        reason=death.reason,
        source_queue=name_of(death.source_queue),
        source_queue_id=death.source_queue,
        attempts=death.attempts,
        died_at=death.died_at,
    )
