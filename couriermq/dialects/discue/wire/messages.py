"""Messages on the wire: `data` is a string, and it is what listeners get, as it is."""

from collections.abc import Sequence

import msgspec

from couriermq.core.errors import Invalid
from couriermq.core.model import Attribute, Draft, Json, Message
from couriermq.core.surrogates import is_json, json_text, text_bytes
from couriermq.dialects.discue import limits, names
from couriermq.dialects.discue.wire.answers import path_of
from couriermq.dialects.discue.wire.reading import Named, read, visible_name

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"


class MessageOrder(Named):
    data: str | None = None


_order = msgspec.json.Decoder(MessageOrder)


class NewMessage(msgspec.Struct):
    name: str | None
    data: str


def read_message(body: bytes) -> NewMessage:
    order = read(_order, body, halves=True)
    if order.data is None:
        raise Invalid("a message needs data, a string", field="data")
    name = order.called
    return NewMessage(None if name is None else visible_name(name, most=limits.MESSAGE_NAME_CHARS), order.data)


def read_name(body: bytes) -> str | None:
    """The new name of a message; nothing else of it can be changed."""
    order = read(_order, body)
    if order.data is not None:
        raise Invalid("the data of a message cannot be changed; add another message", field="data")
    name = order.called
    return None if name is None else visible_name(name, most=limits.MESSAGE_NAME_CHARS)


def draft_of(new: NewMessage, *, message_id: str, trace: str | None) -> Draft:
    body = text_bytes(new.data)
    attributes: dict[str, Attribute] = {} if new.name is None else {names.ATTRIBUTE: new.name}
    kind = content_type(body)
    return Draft(body=body, content_type=kind, attributes=attributes, id=message_id, trace=trace, minted=True)


def content_type(body: bytes) -> str:
    """What a receiver is told that the data is."""
    return JSON_TYPE if is_json(body) else TEXT_TYPE


# -- out ------------------------------------------------------------------------------------------------------


PENDING, DELIVERED, MISSED, FILTERED = "pending", "delivered", "missed", "filtered"


class Delivery(msgspec.Struct, frozen=True):
    """How far a message has come with one listener."""

    listener_id: str
    listener: str
    state: str
    attempts: int | None


def message_path(queue_id: str, message_id: str) -> str:
    return path_of("queues", queue_id, "messages", message_id)


def write_ref(message_id: str, name: str) -> dict[str, Json]:
    """A message in a list, or one that was just added."""
    return {"id": message_id, "name": name, "alias": name}


def write_message(message: Message, name: str, deliveries: Sequence[Delivery]) -> dict[str, Json]:
    return {
        **write_ref(message.id, name),
        **write_body(message.body, message.content_type),
        "state": message.state.name.lower(),
        "deliveries": deliveries,
        "created_at": message.sent_at,
    }


def write_body(body: bytes, kind: str) -> dict[str, Json]:
    """A string where it is one; bytes that another dialect has sent are shown in base64."""
    text = json_text(body)
    return {"data_base64" if text is None else "data": body if text is None else text, "content_type": kind}
