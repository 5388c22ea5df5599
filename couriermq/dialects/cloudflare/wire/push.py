"""Messages that come in: one push or a batch, read into drafts that may all be stored."""

from collections.abc import Sequence
from typing import Any

import msgspec

from couriermq.core import surrogates
from couriermq.core.json_size import compact
from couriermq.core.model import Draft, Queue
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.errors import Code, Refused
from couriermq.dialects.cloudflare.wire import bodies
from couriermq.dialects.cloudflare.wire.reading import pointer, read, seconds, shown

ABSENT = msgspec.Raw()
QUOTE = ord('"')


class PushOrder(msgspec.Struct):
    body: msgspec.Raw = ABSENT
    content_type: Any = None
    delay_seconds: Any = None


class BatchOrder(msgspec.Struct):
    messages: list[PushOrder] | None = None
    delay_seconds: Any = None


_push = msgspec.json.Decoder(PushOrder)
_batch = msgspec.json.Decoder(BatchOrder)
_text = msgspec.json.Decoder(str)


def read_push(body: bytes, queue: Queue, *, trace: str | None) -> Draft:
    order = read(_push, body, invalid=Code.JSON_BODY_INVALID, malformed=Code.JSON_BODY_MALFORMED, halves=True)
    draft = _draft(order, "", trace=trace)
    check_size(draft, queue, "")
    return draft


def read_batch(body: bytes, queue: Queue, *, trace: str | None) -> list[Draft]:
    """Drafts that may all be stored: one that is not refuses the whole batch."""
    order = read(_batch, body, invalid=Code.BATCH_INVALID, malformed=Code.JSON_BODY_MALFORMED, halves=True)
    pushes = order.messages or []
    check_count(len(pushes))
    delay_ms = None if order.delay_seconds is None else batch_delay(order.delay_seconds)
    drafts = []
    for index, push in enumerate(pushes):
        place = f"messages[{index}]."
        draft = _draft(push, place, trace=trace)
        if draft.delay_ms is None:
            draft.delay_ms = delay_ms
        check_size(draft, queue, place)
        drafts.append(draft)
    check_total(drafts)
    return drafts


def _draft(order: PushOrder, place: str, *, trace: str | None) -> Draft:
    delay = order.delay_seconds
    delay_ms = None if delay is None else message_delay(delay, place)
    word = order.content_type
    raw = bytes(order.body)
    if not raw:
        raise _body_refused('Required at "{}"', place, "send the message as `body`")
    if word is None or word == bodies.JSON:
        if raw[0] == QUOTE:
            raise _body_refused('Expected object, received string at "{}"', place, "a string needs content_type `text`")
        return Draft(body=raw, content_type=bodies.MIME[bodies.JSON], delay_ms=delay_ms, trace=trace)
    body = _text_body(raw, check_word(word, place), place)
    return Draft(body=body, content_type=bodies.MIME[word], delay_ms=delay_ms, trace=trace)


def _text_body(raw: bytes, word: str, place: str) -> bytes:
    if raw[0] != QUOTE:
        raise _body_refused(f'Expected string, received {_type_of(raw)} at "{{}}"', place, f"`{word}` takes a string")
    text = surrogates.decode(_text, raw)
    if word == bodies.TEXT:
        return surrogates.text_bytes(text)
    body = bodies.from_base64(text)
    if body is None:
        raise _body_refused('Invalid base64 at "{}"', place, f"`{word}` takes the bytes as base64")
    return body


def _type_of(raw: bytes) -> str:
    return {ord("{"): "object", ord("["): "array", ord("t"): "boolean", ord("f"): "boolean", ord("n"): "null"}.get(
        raw[0], "number"
    )


def _body_refused(sentence: str, place: str, hint: str) -> Refused:
    path = f"{place}body"
    return Refused(Code.JSON_BODY_INVALID, sentence.format(path), hint=hint, pointer=pointer(path))


def check_word(word: object, place: str) -> str:
    if isinstance(word, str) and word in bodies.MIME:
        return word
    raise Refused(
        Code.MESSAGE_METADATA_INVALID,
        f"content_type is {shown(word)}; choose text, json, bytes or v8",
        pointer=pointer(f"{place}content_type"),
    )


def message_delay(value: object, place: str) -> int:
    return seconds(value, name=f"{place}delay_seconds", code=Code.MESSAGE_METADATA_INVALID, high=limits.DELAY_S)


def batch_delay(value: object) -> int:
    return seconds(value, name="delay_seconds", code=Code.BATCH_DELAY_INVALID, high=limits.DELAY_S)


def check_size(draft: Draft, queue: Queue, place: str) -> None:
    """Refuse a message that is too large; JSON that is so only in the sender's spelling is kept in its compact form."""
    most = min(limits.MESSAGE_BYTES, queue.settings.max_body_bytes)
    if len(draft.body) > most:
        _make_compact(draft)
    size = len(draft.body)
    if size > most:
        raise Refused(
            Code.MESSAGE_SIZE_OUT_OF_BOUNDS,
            f"the message is {size} bytes; at most {most} are allowed",
            pointer=pointer(f"{place}body"),
        )


def _make_compact(draft: Draft) -> None:
    if draft.content_type == bodies.MIME[bodies.JSON]:
        draft.body = compact(draft.body)


def check_count(count: int) -> None:
    if count == 0:
        raise Refused(Code.BATCH_INVALID, "the batch is empty; send between 1 and 100 messages", pointer="/messages")
    if count > limits.BATCH_COUNT:
        raise Refused(
            Code.BATCH_COUNT_OUT_OF_BOUNDS,
            f"the batch has {count} messages; send at most {limits.BATCH_COUNT}",
            pointer="/messages",
        )


def check_total(drafts: Sequence[Draft]) -> None:
    size = sum([len(draft.body) for draft in drafts])
    if size > limits.BATCH_BYTES:
        for draft in drafts:
            _make_compact(draft)
        size = sum([len(draft.body) for draft in drafts])
    if size > limits.BATCH_BYTES:
        raise Refused(
            Code.BATCH_SIZE_OUT_OF_BOUNDS,
            f"the batch is {size} bytes; send at most {limits.BATCH_BYTES}",
            pointer="/messages",
        )
