"""Operations on all messages that match, on the wire."""

from typing import Annotated

import msgspec
from msgspec import Meta

from couriermq.core.limits import BATCH_COUNT, CONTENT_TYPE_CHARS, GROUP_CHARS, ID_CHARS
from couriermq.core.numbers import Numbers
from couriermq.dialects.native import limits
from couriermq.dialects.native.wire.choices import AttributeText, StateName, attributes_of, states_of
from couriermq.dialects.native.wire.messages import Message
from couriermq.dialects.native.wire.queues import IdOf, NameOf
from couriermq.dialects.native.wire.reading import Order
from couriermq.operations import Operation, State, Verb, Where

Instant = Annotated[int, Meta(ge=0, le=limits.NUMBER)]
Seq = Annotated[int, Meta(ge=1, le=limits.NUMBER)]
LEAST_PER_SECOND = 0.001


class MessageChoice(Order, rename={"start": "from", "end": "to"}):
    """Which messages; all conditions must hold. `from` and `to` are when they came into the queue, or were sent."""

    state: Annotated[list[StateName], Meta(max_length=3)] = msgspec.field(default_factory=list)
    attribute: list[Annotated[AttributeText, Meta(max_length=1_000)]] = msgspec.field(default_factory=list)
    group: Annotated[str, Meta(max_length=GROUP_CHARS)] | None = None
    attempts_min: Annotated[int, Meta(ge=0, le=limits.NUMBER)] = 0
    contains: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    reason: Annotated[str, Meta(max_length=1_000)] | None = None
    source_queue: Annotated[str, Meta(max_length=ID_CHARS)] | None = None
    content_type: Annotated[str, Meta(max_length=CONTENT_TYPE_CHARS)] | None = None
    seqs: Annotated[list[Seq], Meta(max_length=BATCH_COUNT)] | None = None
    start: Instant | None = None
    end: Instant | None = None


class OperationOrder(Order):
    """What to do with all messages of a queue that match; with `preview` nothing is done."""

    verb: Verb
    queue: str
    where: MessageChoice = msgspec.field(default_factory=MessageChoice)
    target: str | None = None
    per_second: Annotated[float, Meta(ge=LEAST_PER_SECOND, le=1_000_000)] | None = None
    preview: bool = False


class OperationPreview(msgspec.Struct, kw_only=True):
    """What an operation would be about, as far as was looked, which is all where `complete`."""

    matched_count: int
    looked_count: int
    without_body_count: int
    complete: bool
    examples: list[Message]


class OperationState(msgspec.Struct, kw_only=True):
    """An operation and how far it has come; `total_count` is how many messages the queue had."""

    id: str
    verb: Verb
    queue: str | None
    queue_id: str
    target: str | None
    where: MessageChoice
    per_second: float | None
    state: State
    matched_count: int
    done_count: int
    failed_count: int
    looked_count: int
    total_count: int | None
    error: str | None
    principal: str
    started_at: int
    ended_at: int | None


class OperationList(msgspec.Struct):
    """The newest first."""

    operations: list[OperationState]


OPERATION = msgspec.json.Decoder(OperationOrder)


def where_of(choice: MessageChoice, numbers: Numbers, id_of: IdOf) -> Where:
    seqs = None if choice.seqs is None else tuple(numbers.true_seq(seq) or 0 for seq in choice.seqs)
    return Where(
        states=tuple(int(state) for state in states_of(choice.state)) if choice.state else (),
        attributes=attributes_of(choice.attribute),
        group=choice.group,
        attempts_min=choice.attempts_min,
        contains=choice.contains,
        reason=choice.reason,
        source_queue=None if choice.source_queue is None else id_of(choice.source_queue),
        content_type=choice.content_type,
        seqs=seqs,
        start=choice.start,
        end=choice.end,
    )


def write_operation(operation: Operation, numbers: Numbers, name_of: NameOf, *, content: bool) -> OperationState:
    """Without `content` the conditions on what messages contain are left out."""
    where = operation.where if content else msgspec.structs.replace(operation.where, contains=None, attributes=())
    return OperationState(
        id=operation.id,
        verb=operation.verb,
        queue=name_of(operation.queue_id),
        queue_id=operation.queue_id,
        target=None if operation.target_id is None else name_of(operation.target_id),
        where=_write_where(where, numbers, name_of),
        per_second=operation.per_second,
        state=operation.state,
        matched_count=operation.matched_count,
        done_count=operation.done_count,
        failed_count=operation.failed_count,
        looked_count=operation.looked_count,
        total_count=operation.total_count,
        error=operation.error,
        principal=operation.principal,
        started_at=operation.started_at,
        ended_at=operation.ended_at,
    )


def _write_where(where: Where, numbers: Numbers, name_of: NameOf) -> MessageChoice:
    return MessageChoice(
        state=[("delayed", "ready", "leased")[state] for state in where.states],
        attribute=[f"{name}:{msgspec.json.encode(value).decode()}" for name, value in where.attributes],
        group=where.group,
        attempts_min=where.attempts_min,
        contains=where.contains,
        reason=where.reason,
        source_queue=None if where.source_queue is None else name_of(where.source_queue) or where.source_queue,
        content_type=where.content_type,
        seqs=None if where.seqs is None else list(numbers.seqs(where.seqs)),
        start=where.start,
        end=where.end,
    )
