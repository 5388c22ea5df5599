"""What a receiver asks for and what it does with what it got."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from couriermq.core import limits, model
from couriermq.core.errors import CourierError, Invalid
from couriermq.core.numbers import Numbers
from couriermq.dialects.native import limits as ours
from couriermq.dialects.native.errors import problem_of
from couriermq.dialects.native.wire.messages import Batch, Duration, Failed, Results
from couriermq.dialects.native.wire.reading import Order

LeaseTime = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": limits.LEASE_MS})]
WaitTime = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": limits.WAIT_MS})]
ReceiveLimit = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": limits.RECEIVE_COUNT})]
Count = Annotated[int, Meta(ge=1, le=ours.NUMBER)]


class ReceiveOrder(Order):
    """How many messages, for how long, and how long to wait for the first; every part is optional."""

    limit: ReceiveLimit = 1
    lease_ms: LeaseTime | None = None
    wait_ms: WaitTime = 0
    group_limit: Count | None = None


class AckOrder(Order):
    """One `receipt`, or several under `receipts`."""

    one_of: ClassVar = ("receipt", "receipts")

    receipt: str | UnsetType = UNSET
    receipts: Annotated[list[str], Batch] | UnsetType = UNSET


class ReleaseOrder(AckOrder):
    """One `receipt`, or several under `receipts`, to give back; `delay_ms` holds for all of them."""

    delay_ms: Duration | None = None


class ExtendOrder(AckOrder, kw_only=True):
    """One `receipt`, or several under `receipts`, to hold for `lease_ms` more, from now."""

    lease_ms: LeaseTime


class AckItem(Order, tag_field="do", tag="ack"):
    receipt: str


class ReleaseItem(Order, tag_field="do", tag="release"):
    receipt: str
    delay_ms: Duration | None = None


class ExtendItem(Order, tag_field="do", tag="extend"):
    receipt: str
    lease_ms: LeaseTime


class SettleOrder(Order):
    """Acks, releases and extensions, mixed as the caller likes; each has its own outcome."""

    settlements: Annotated[list[AckItem | ReleaseItem | ExtendItem], Batch]


class Settled(msgspec.Struct, omit_defaults=True, gc=False):
    """What a settlement did: `expires_at` after an extension; `dead` when a release used up the last attempt."""

    seq: int
    id: str
    expires_at: int | UnsetType = UNSET
    dead: bool | UnsetType = UNSET


RECEIVE = msgspec.json.Decoder(ReceiveOrder)
ACK = msgspec.json.Decoder(AckOrder)
RELEASE = msgspec.json.Decoder(ReleaseOrder)
EXTEND = msgspec.json.Decoder(ExtendOrder)
SETTLE = msgspec.json.Decoder(SettleOrder)


def receipts_of(order: AckOrder) -> list[str]:
    """The receipts of an order, however many it names; raises Invalid unless it names them in one way."""
    one, many = order.receipt, order.receipts
    if many is UNSET and one is not UNSET:
        return [one]
    if one is UNSET and many is not UNSET:
        return many
    raise Invalid("give either receipt or receipts", field="receipt")


def settlement_of(item: AckItem | ReleaseItem | ExtendItem) -> model.Settlement:
    match item:
        case AckItem():
            return model.Ack(item.receipt)
        case ReleaseItem():
            return model.Release(item.receipt, item.delay_ms)
        case ExtendItem():
            return model.Extend(item.receipt, item.lease_ms)


def write_settled(settled: model.Settled, seq: int) -> Settled:
    """What was settled, under the `seq` that the caller sees."""
    return Settled(
        seq,
        settled.id,
        UNSET if settled.expires_at is None else settled.expires_at,
        True if settled.dead else UNSET,
    )


def write_settlements(outcomes: Sequence[model.Settled | CourierError], numbers: Numbers) -> Results:
    seqs = iter(numbers.seqs([o.seq for o in outcomes if isinstance(o, model.Settled)]))
    return Results(
        [Failed(problem_of(o)) if isinstance(o, CourierError) else write_settled(o, next(seqs)) for o in outcomes]
    )
