"""The queue binding of the Workers runtime: a raw body or a batch of base64, options in headers, camelCase back."""

from typing import Any

import msgspec

from couriermq.core.model import Counters, Draft, Queue
from couriermq.core.parsing import UNREADABLE
from couriermq.core.surrogates import is_json
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.wire import bodies, push
from couriermq.dialects.cloudflare.wire.reading import pointer, read
from couriermq.subscriptions import SOURCE_ATTRIBUTE as SOURCE
from couriermq.web.call import Reply

WORKER = {SOURCE: "worker"}


class BatchItem(msgspec.Struct, rename={"content_type": "contentType", "delay_seconds": "delaySecs"}):
    body: str
    content_type: Any = None
    delay_seconds: Any = None


class BatchOrder(msgspec.Struct):
    messages: list[BatchItem]


_batch = msgspec.json.Decoder(BatchOrder)
_json_number = msgspec.json.Decoder(int | float)


def read_message(body: bytes, queue: Queue, *, form: str | None, delay: str | None, trace: str | None) -> Draft:
    """One message as it stands; no format means V8's own, as the runtime meant it from the start."""
    word = push.check_word(bodies.V8 if form is None else form.lower(), "")
    delay_ms = None if delay is None else push.message_delay(_number(delay), "")
    draft = _draft(body, word, delay_ms, "", trace)
    push.check_size(draft, queue, "")
    return draft


def read_messages(body: bytes, queue: Queue, *, delay: str | None, trace: str | None) -> list[Draft]:
    order = read(_batch, body, invalid=Code.BATCH_INVALID, malformed=Code.JSON_BODY_MALFORMED)
    push.check_count(len(order.messages))
    batch_delay_ms = None if delay is None else push.batch_delay(_number(delay))
    drafts = []
    for index, item in enumerate(order.messages):
        place = f"messages[{index}]."
        draft = _draft(
            _bytes(item.body, place), _word(item, place), _delay_ms(item, place, batch_delay_ms), place, trace
        )
        push.check_size(draft, queue, place)
        drafts.append(draft)
    push.check_total(drafts)
    return drafts


def _word(item: BatchItem, place: str) -> str:
    return bodies.V8 if item.content_type is None else push.check_word(item.content_type, place)


def _delay_ms(item: BatchItem, place: str, batch_delay_ms: int | None) -> int | None:
    return batch_delay_ms if item.delay_seconds is None else push.message_delay(item.delay_seconds, place)


def _bytes(text: str, place: str) -> bytes:
    body = bodies.from_base64(text)
    if body is None:
        path = f"{place}body"
        raise Refused(Code.JSON_BODY_INVALID, f'Invalid base64 at "{path}"', pointer=pointer(path))
    return body


def _draft(body: bytes, word: str, delay_ms: int | None, place: str, trace: str | None) -> Draft:
    if (word == bodies.TEXT and not _is_text(body)) or (word == bodies.JSON and not is_json(body)):
        path = f"{place}body"
        raise Refused(Code.JSON_BODY_INVALID, f'Expected {word} at "{path}"', pointer=pointer(path))
    return Draft(body=body, content_type=bodies.MIME[word], attributes=dict(WORKER), delay_ms=delay_ms, trace=trace)


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _number(text: str) -> object:
    """A header's value as a JSON number, where it is one."""
    try:
        return _json_number.decode(text)
    except UNREADABLE:
        return text


class Metrics(msgspec.Struct, rename="camel"):
    backlog_count: int
    backlog_bytes: int
    oldest_message_timestamp: int


def write_metrics(counters: Counters) -> Metrics:
    return Metrics(counters.total_count, counters.byte_count, counters.oldest_at or 0)


def plain(document: object) -> Reply:
    """The runtime reads no envelope."""
    return Reply(200, msgspec.json.encode(document))


def sent(counters: Counters) -> Reply:
    return plain({"metadata": {"metrics": write_metrics(counters)}})
