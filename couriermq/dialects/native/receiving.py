"""Messages on their way out: receive, then ack, release or extend."""

from collections.abc import Sequence

from msgspec import UNSET

from couriermq.broker import only
from couriermq.core.errors import BatchTooLarge, InvalidReceipt, LeaseLost, QueueNotFound, QueuePaused
from couriermq.core.model import Ack, Action, Extend, Queue, Release, Settlement
from couriermq.dialects.native.access import names_of_queues, queue_for
from couriermq.dialects.native.operations import QUEUE, Batch, OneOf, Operation, ok
from couriermq.dialects.native.wire import messages
from couriermq.dialects.native.wire import settlements as wire
from couriermq.dialects.native.wire.reading import read, read_optional
from couriermq.web.call import Call, Handler, Reply
from couriermq.web.handing_out import handing_out


async def receive_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    order = read_optional(wire.RECEIVE, call.body)
    leases = await call.services.broker.receive(
        queue,
        principal=call.principal.id,
        limit=order.limit,
        lease_ms=order.lease_ms,
        wait_ms=order.wait_ms,
        group_limit=order.group_limit,
    )
    return handing_out(call, queue, leases, ok(messages.write_leases(leases, names_of_queues(call), call.numbers)))


async def ack_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    order = read(wire.ACK, call.body)
    return await _settle(call, queue, order, [Ack(receipt) for receipt in wire.receipts_of(order)])


async def release_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    order = read(wire.RELEASE, call.body)
    return await _settle(call, queue, order, [Release(r, order.delay_ms) for r in wire.receipts_of(order)])


async def extend_leases(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    order = read(wire.EXTEND, call.body)
    return await _settle(call, queue, order, [Extend(r, order.lease_ms) for r in wire.receipts_of(order)])


async def settle_messages(call: Call) -> Reply:
    queue = queue_for(call, Action.RECEIVE)
    order = read(wire.SETTLE, call.body)
    chosen = [wire.settlement_of(item) for item in order.settlements]
    outcomes = await call.services.broker.settle(queue, chosen, principal=call.principal.id)
    return ok(wire.write_settlements(outcomes, call.numbers))


async def _settle(call: Call, queue: Queue, order: wire.AckOrder, chosen: Sequence[Settlement]) -> Reply:
    """One receipt answers for itself, also when it fails; several answer one by one."""
    outcomes = await call.services.broker.settle(queue, chosen, principal=call.principal.id)
    if order.receipts is UNSET:
        settled = only(outcomes)
        return ok(wire.write_settled(settled, call.numbers.seq(settled.seq)))
    return ok(wire.write_settlements(outcomes, call.numbers))


RESULTS = Batch("SettleResults", (wire.Settled, messages.Failed))
SETTLING = (QueueNotFound, BatchTooLarge, InvalidReceipt, LeaseLost)
RECEIPT = "uRaM3i0Hq0p5wJ7cPz4v8sYk2LxNb1Td"


def _settling(verb: str, handler: Handler, summary: str, takes: type[wire.AckOrder], **more: int) -> Operation:
    return Operation(
        method="POST",
        path=f"{QUEUE}/{verb}",
        handler=handler,
        tag="Messages",
        summary=summary,
        description="One `receipt` answers with its result or its error; `receipts` answer with one outcome each.",
        needs="receive",
        takes=takes,
        example={"receipt": RECEIPT, **more},
        gives={200: OneOf((wire.Settled, RESULTS))},
        fails=SETTLING,
    )


OPERATIONS = (
    Operation(
        method="POST",
        path=QUEUE + "/receive",
        handler=receive_messages,
        tag="Messages",
        summary="Receive messages",
        description="Each message is leased to the caller: nobody else gets it before the lease ends. With nothing"
        " ready the answer waits up to `wait_ms` and leaves as soon as there is a message.",
        needs="receive",
        takes=wire.ReceiveOrder,
        body_optional=True,
        example={"limit": 10, "lease_ms": 30_000, "wait_ms": 0},
        gives={200: messages.Leases},
        fails=(QueueNotFound, QueuePaused),
        waits=True,
    ),
    _settling("ack", ack_messages, "Ack: the messages are done", wire.AckOrder),
    _settling("release", release_messages, "Release: give messages back", wire.ReleaseOrder, delay_ms=5_000),
    _settling("extend", extend_leases, "Extend: hold messages longer", wire.ExtendOrder, lease_ms=60_000),
    Operation(
        method="POST",
        path=QUEUE + "/settle",
        handler=settle_messages,
        tag="Messages",
        summary="Ack, release and extend in one go",
        needs="receive",
        takes=wire.SettleOrder,
        example={"settlements": [{"do": "ack", "receipt": RECEIPT}]},
        gives={200: RESULTS},
        fails=(QueueNotFound, BatchTooLarge),
    ),
)
