"""Messages that go out: pulled with a lease or peeked at with a ref, and the metrics beside them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from couriermq.core.model import Counters, Lease, Message
from couriermq.core.surrogates import json_attributes
from couriermq.dialects.cloudflare import limits
from couriermq.dialects.cloudflare.errors import Code
from couriermq.dialects.cloudflare.ids import HEX_ID, hex_of
from couriermq.dialects.cloudflare.wire import bodies
from couriermq.dialects.cloudflare.wire.reading import in_seconds, read, whole
from couriermq.subscriptions import SOURCE_ATTRIBUTE as SOURCE


class PullOrder(msgspec.Struct):
    batch_size: Any = None
    visibility_timeout_ms: Any = None
    visibility_timeout: Any = None
    """What old documents and wrangler's own curl call it."""


_pull = msgspec.json.Decoder(PullOrder)


def read_pull(body: bytes) -> tuple[int | None, int | None]:
    """(limit, lease_ms), None where the caller leaves it to the consumer."""
    order = read(_pull, body, invalid=Code.BODY_INVALID, malformed=Code.JSON_BODY_MALFORMED)
    limit, lease = order.batch_size, order.visibility_timeout_ms
    if lease is None:
        lease = order.visibility_timeout
    return (
        None if limit is None else _batch_size(limit),
        None
        if lease is None
        else whole(lease, name="visibility_timeout_ms", low=0, high=limits.LEASE_MS, code=Code.BODY_INVALID),
    )


def _batch_size(value: object) -> int:
    return whole(value, name="batch_size", low=1, high=limits.PULL_COUNT, code=Code.BODY_INVALID)


class PeekOrder(msgspec.Struct):
    batch_size: Any = None


_peek = msgspec.json.Decoder(PeekOrder)


def read_peek(body: bytes) -> int:
    order = read(_peek, body, invalid=Code.BODY_INVALID, malformed=Code.JSON_BODY_MALFORMED)
    return limits.PULL_DEFAULT if order.batch_size is None else _batch_size(order.batch_size)


class Metrics(msgspec.Struct):
    backlog_bytes: int
    backlog_count: int
    oldest_message_timestamp_ms: int


class Metadata(msgspec.Struct):
    metrics: Metrics


class PushResult(msgspec.Struct):
    metadata: Metadata


class PulledMessage(msgspec.Struct, gc=False):
    id: str
    body: str | msgspec.Raw
    attempts: int
    timestamp_ms: int
    metadata: Any
    lease_id: str


class PullResult(msgspec.Struct):
    message_backlog_count: int
    messages: list[PulledMessage]
    metadata: Metadata


class PeekedMessage(msgspec.Struct, gc=False):
    id: str
    body: str | msgspec.Raw
    attempts: int
    timestamp_ms: int
    metadata: Any
    ref: str


class PeekResult(msgspec.Struct):
    messages: list[PeekedMessage]


def write_metrics(counters: Counters) -> Metrics:
    return Metrics(counters.byte_count, counters.total_count, counters.oldest_at or 0)


def write_push(counters: Counters) -> PushResult:
    return PushResult(Metadata(write_metrics(counters)))


def write_pull(leases: Sequence[Lease], counters: Counters, *, json_plain: bool) -> PullResult:
    messages = []
    for lease in leases:
        message = lease.message
        word, body = bodies.written(message, json_plain=json_plain)
        messages.append(
            PulledMessage(
                hex_of(message.id), body, message.attempts, message.sent_at, _metadata(message, word), lease.receipt
            )
        )
    return PullResult(counters.total_count, messages, Metadata(write_metrics(counters)))


def write_peek(messages: Sequence[tuple[Message, str]], *, json_plain: bool) -> PeekResult:
    """Messages, each with the ref that purges it."""
    peeked = []
    for message, ref in messages:
        word, body = bodies.written(message, json_plain=json_plain)
        peeked.append(
            PeekedMessage(hex_of(message.id), body, message.attempts, message.sent_at, _metadata(message, word), ref)
        )
    return PeekResult(peeked)


ID = "Courier-Message-Id"
"""The id that another dialect's sender gave the message, where that is not 32 hex digits."""
KIND, DELAY = "CF-Content-Type", "CF-msg-delay-secs"
SOURCES = frozenset({"api", "worker", "queues"})
"""Where Courier itself says that a message came from."""
_OURS = frozenset({KIND, SOURCE, DELAY, ID})
_PLAIN = {word: msgspec.Raw(msgspec.json.encode({KIND: word, SOURCE: "api"})) for word in bodies.MIME}


def _metadata(message: Message, word: str) -> object:
    """Courier's own entries; attributes with other names, which another dialect gave, stand beside them, as strings."""
    is_ours = HEX_ID.fullmatch(message.id) is not None
    if is_ours and not message.delay_ms and not message.attributes:
        return _PLAIN[word]
    metadata = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in message.attributes.items()
        if name not in _OURS
    }
    source = message.attributes.get(SOURCE)
    metadata[SOURCE] = source if isinstance(source, str) and source in SOURCES else "api"
    metadata[KIND] = word
    if message.delay_ms:
        metadata[DELAY] = str(in_seconds(message.delay_ms))
    if not is_ours:
        metadata[ID] = message.id
    return json_attributes(metadata)
