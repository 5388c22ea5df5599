"""What a Worker's handler made of a batch, and what follows for each message."""

from collections.abc import Sequence

import msgspec

from couriermq.core.hex_ids import hex_of
from couriermq.core.model import DAY, SECOND, Ack, Lease, Release

OK = "ok"


class RetryMessage(msgspec.Struct, frozen=True, rename="camel"):
    msg_id: str
    delay_seconds: float | None = None


class RetryBatch(msgspec.Struct, frozen=True, rename="camel"):
    retry: bool = False
    delay_seconds: float | None = None


class BatchResult(msgspec.Struct, frozen=True, rename="camel"):
    """The result of `queue()` on a service binding, as the Workers runtime gives it."""

    outcome: str
    ack_all: bool = False
    retry_batch: RetryBatch = RetryBatch()
    explicit_acks: tuple[str, ...] = ()
    retry_messages: tuple[RetryMessage, ...] = ()


_decoder = msgspec.json.Decoder(BatchResult)


def read_result(body: bytes) -> BatchResult | None:
    """None for what is not a result."""
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError:
        return None


def settlements(result: BatchResult, leases: Sequence[Lease]) -> list[Ack | Release]:
    """One settlement a message, in the order of the leases.

    What the handler said of a message wins over what it said of the batch, and that over how the handler ended.
    """
    acked = set(result.explicit_acks)
    retried = {one.msg_id: one for one in result.retry_messages}
    return [_settlement(result, lease, acked, retried) for lease in leases]


def _settlement(result: BatchResult, lease: Lease, acked: set[str], retried: dict[str, RetryMessage]) -> Ack | Release:
    message_id = hex_of(lease.message.id)  # as the Worker knows it
    if message_id in acked:
        return Ack(lease.receipt)
    batch_delay_ms = _delay_ms(result.retry_batch.delay_seconds)
    if (retry := retried.get(message_id)) is not None:
        own_delay_ms = _delay_ms(retry.delay_seconds)
        return Release(lease.receipt, batch_delay_ms if own_delay_ms is None else own_delay_ms)
    if not result.ack_all and (result.retry_batch.retry or result.outcome != OK):
        return Release(lease.receipt, batch_delay_ms)
    return Ack(lease.receipt)


def _delay_ms(seconds: float | None) -> int | None:
    """None leaves it to the queue's retry delay; a day is the longest."""
    return None if seconds is None else round(min(max(seconds, 0), DAY // SECOND) * SECOND)
