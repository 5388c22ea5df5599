"""Jobs and their claims on the wire: numbers as JSON, messages as JSON or as an Arrow stream."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from couriermq.core import limits, model
from couriermq.core.errors import Invalid
from couriermq.core.numbers import Numbers
from couriermq.dialects.native import limits as ours
from couriermq.dialects.native.wire.messages import Message, NameOf, write_messages
from couriermq.dialects.native.wire.reading import Order
from couriermq.journal.schema import CLAIMED_COLUMNS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

Number = Annotated[int, Meta(ge=0, le=ours.NUMBER)]
ClaimLimit = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": limits.CLAIM_COUNT})]


class ClaimOrder(Order):
    """How many messages to hold, for the epoch that the job was opened with."""

    epoch: Number
    limit: ClaimLimit = 1_000
    ready_by: Number | None = None


class AckClaimsOrder(Order):
    epoch: Number
    upto: Number


class ClaimQuery(Order, rename={"start": "from", "stop": "to"}):
    """Which positions of a claim to read, and how to write them."""

    epoch: Number
    start: Annotated[int, Meta(ge=0, le=limits.CLAIM_COUNT)] = 0
    stop: Annotated[int, Meta(ge=0, le=limits.CLAIM_COUNT)] = limits.CLAIM_COUNT
    format: Literal["json", "arrow"] | None = None
    columns: str | None = None
    """Names with commas between them; for Arrow only."""


class Claim(msgspec.Struct):
    """Messages that a job holds until it acks them or is freed: positions 0 up to `count`."""

    number: int
    count: int
    byte_count: int
    claimed_at: int


class Job(msgspec.Struct):
    """Only the newest `epoch` of a job may act; claims up to number `done` are over."""

    name: str
    epoch: int
    done: int
    opened_at: int
    claims: list[Claim]


class OpenedJob(Job):
    """A job, and the store and incarnation whose claims it counts: a restore may have lost some of them."""

    store: str
    incarnation: str


class Jobs(msgspec.Struct):
    jobs: list[Job]


class Held(msgspec.Struct):
    """A message and its place in the claim."""

    position: int
    message: Message


class HeldMessages(msgspec.Struct):
    """The messages at the positions that were asked for; a message that is gone leaves its position empty.

    `next` goes into `from` where not all of them fit one response; null is the end.
    """

    held: list[Held]
    next: int | None


CLAIM = msgspec.json.Decoder(ClaimOrder)
ACK = msgspec.json.Decoder(AckClaimsOrder)

COLUMNS = tuple(name for name, _ in CLAIMED_COLUMNS)
_encode = msgspec.json.Encoder().encode


def write_claim(claim: model.Claim) -> Claim:
    return Claim(claim.number, claim.count, claim.byte_count, claim.claimed_at)


def write_job(job: model.Job) -> Job:
    return Job(job.name, job.epoch, job.done, job.opened_at, [write_claim(claim) for claim in job.claims])


def write_opened(job: model.Job, *, store: str, incarnation: str) -> OpenedJob:
    claims = [write_claim(claim) for claim in job.claims]
    return OpenedJob(job.name, job.epoch, job.done, job.opened_at, claims, store, incarnation)


def write_held(part: model.Slice, name_of: NameOf, numbers: Numbers) -> HeldMessages:
    messages = write_messages([message for _, message in part.messages], name_of, numbers)
    held = [Held(position, message) for (position, _), message in zip(part.messages, messages, strict=True)]
    return HeldMessages(held, part.next)


# -- Arrow --------------------------------------------------------------------------------------------------------


def columns_of(text: str | None) -> tuple[str, ...]:
    """The columns to write, the position first; raises Invalid for one that is not known."""
    if text is None:
        return COLUMNS
    columns = tuple(dict.fromkeys(("position", *text.split(","))))
    if not set(columns) <= set(COLUMNS):
        raise Invalid("columns are of " + ", ".join(COLUMNS), field="columns")
    return columns


def head(columns: tuple[str, ...]) -> bytes:
    """The schema, with which the stream begins."""
    return bytes(_schema(columns).serialize())


def batch(
    found: Sequence[tuple[int, model.Message]], queue: model.Queue, columns: tuple[str, ...], numbers: Numbers
) -> bytes:
    """The messages as one record batch of the stream."""
    import pyarrow as pa  # noqa: PLC0415

    messages = [message for _, message in found]
    same = {"tenant": queue.tenant, "queue_id": queue.id, "queue": queue.name}
    arrays = []
    for field in _schema(columns):
        if field.name == "position":
            values: list[object] = [position for position, _ in found]
        elif field.name == "seq":
            values = [*numbers.seqs([message.seq for message in messages])]
        elif field.name in same:
            values = [same[field.name]] * len(found)
        else:
            values = [_value(message, field.name) for message in messages]
        arrays.append(pa.array(values, field.type))
    return bytes(pa.RecordBatch.from_arrays(arrays, schema=_schema(columns)).serialize())


def _schema(columns: tuple[str, ...]) -> "pa.Schema":
    types = dict(CLAIMED_COLUMNS)
    return arrow_schema(tuple((name, types[name]) for name in columns))


def _value(message: model.Message, column: str) -> object:
    match column:
        case "message_id":
            return message.id
        case "attributes":
            return _encode(message.attributes).decode() if message.attributes else None
    return getattr(message, column)
