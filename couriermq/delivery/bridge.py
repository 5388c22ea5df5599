"""Calls the bridge of a Worker: one request is one batch, its response what the handler made of it.

The request is a JSON head and the bodies behind it, so that no body is written in another form:

    4 bytes: length of the head, big endian | head | body of the first message | body of the second …

    {"queue": "orders", "metadata": {"metrics": {…}},
     "messages": [{"id": …, "timestamp": ms, "attempts": 1, "contentType": "json", "size": bytes}]}
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter

import msgspec

from couriermq.clock import Clock
from couriermq.core.content_types import word_for
from couriermq.core.hex_ids import hex_of
from couriermq.core.model import Counters, Lease
from couriermq.delivery.batch_result import OK, BatchResult, read_result
from couriermq.delivery.client import Client
from couriermq.delivery.connection import NotConnected, RequestFailed
from couriermq.delivery.consumers import WorkerConsumer
from couriermq.delivery.envelope import Envelope
from couriermq.delivery.guard import Refused
from couriermq.delivery.headers import signed_lines
from couriermq.delivery.model import Answer

BATCH_TYPE = "application/vnd.courier.batch"
UNREACHED = frozenset({*range(300, 500), 502, 503, 504})
"""Statuses with which the runtime, or a proxy before it, says that the handler was not called."""

_encode = msgspec.json.Encoder().encode


class BridgeAnswer(Answer, frozen=True, kw_only=True, gc=False):
    """What a batch came to."""

    result: BatchResult | None = None
    unreached: bool = False
    """Whether the handler was certainly not called."""


class _Metrics(msgspec.Struct, rename="camel", omit_defaults=True):
    backlog_count: int
    backlog_bytes: int
    oldest_message_timestamp: int | None = None


class _Metadata(msgspec.Struct):
    metrics: _Metrics


class _Item(msgspec.Struct, rename="camel"):
    id: str
    timestamp: int
    attempts: int
    content_type: str
    size: int


class _Head(msgspec.Struct):
    queue: str
    metadata: _Metadata
    messages: list[_Item]


def write_batch(queue: str, leases: Sequence[Lease], counters: Counters) -> bytes:
    """The body of the request."""
    metrics = _Metrics(counters.total_count, counters.byte_count, counters.oldest_at)
    messages = [lease.message for lease in leases]
    items = [
        _Item(hex_of(each.id), each.sent_at, each.attempts, word_for(each.content_type, each.body), each.size)
        for each in messages
    ]
    head = _encode(_Head(queue, _Metadata(metrics), items))
    return b"".join((len(head).to_bytes(4, "big"), head, *(each.body for each in messages)))


class Bridges:
    """Takes one batch to one bridge, once."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def deliver(
        self, consumer: WorkerConsumer, cover: Envelope, batch: bytes, *, may_send: Callable[[], bool]
    ) -> BridgeAnswer:
        """What the handler made of the batch; a failure of any kind is an answer too. Raises Withdrawn."""
        now, wall, timeout_ms = self._clock.now(), self._clock.wall(), consumer.settings.timeout_ms
        webhook_id = self._clock.random_bytes(16).hex()
        head = cover.head + signed_lines(webhook_id, BATCH_TYPE, batch, consumer.secrets, now=now, wall=wall)
        # A connection of its own: on one that is reused, a handler that ends its runtime looks like a stale connection.
        head += b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(batch)
        started = perf_counter()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                response = await self._client.request(cover.target, head, batch, may_send=may_send)
        except (NotConnected, Refused) as error:
            return BridgeAnswer(error=str(error), latency_ms=_since(started), unreached=True)
        except RequestFailed as error:
            return BridgeAnswer(error=str(error), latency_ms=_since(started))
        except TimeoutError:
            return BridgeAnswer(error=f"no answer within {timeout_ms} ms", latency_ms=_since(started))
        return _answer(response.status, response.body, _since(started))


def _answer(status: int, body: bytes, latency_ms: float) -> BridgeAnswer:
    result = read_result(body) if status == 200 else None
    if result is None and status == 200:
        error = "the answer is not a result of queue(); is the URL that of the bridge?"
        return BridgeAnswer(status=status, error=error, latency_ms=latency_ms, unreached=True)
    if result is None:
        error = f"the bridge answered {status}"
        return BridgeAnswer(status=status, error=error, latency_ms=latency_ms, unreached=status in UNREACHED)
    problem = None if result.outcome == OK else f"the handler ended with {result.outcome[:80]!r}"
    return BridgeAnswer(status=status, error=problem, latency_ms=latency_ms, result=result)


def _since(started: float) -> float:
    return (perf_counter() - started) * 1_000
