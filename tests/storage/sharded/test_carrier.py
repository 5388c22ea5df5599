"""Parcels on their way to another shard."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from couriermq.clock import FakeClock
from couriermq.core.errors import CourierError
from couriermq.core.model import Draft, Lease, Message, Queue, Sent, State
from couriermq.core.shards import OUTBOX
from couriermq.storage.base import Parcel, RoutesChanged
from couriermq.storage.sharded.carrier import Carrier, pack

ORDERS = Queue(key=7, id="q7", tenant="t", name="orders")


class Catalog:
    def queue_of_key(self, key: int) -> Queue | None:
        return ORDERS if key == ORDERS.key else None


class Source:
    """A shard whose outbox holds one parcel."""

    def __init__(self, body: bytes) -> None:
        message = Message(
            seq=1, id="m", state=State.LEASED, body=body, content_type="", attributes={}, attempts=1, sent_at=1,
            entered_at=1, due_at=1, discard_at=2**62, delay_ms=0,
        )  # fmt: skip
        self.leases = [Lease(message, "receipt", 2)]
        self.settled: list[Any] = []

    async def receive(self, *queue: Any, **how: Any) -> list[Lease]:
        leases, self.leases = self.leases, []
        return leases

    async def settle(self, queue: Queue, settlements: Sequence[Any], **how: Any) -> None:
        self.settled += settlements


async def test_a_change_of_the_control_plane_meanwhile_does_not_hold_parcels_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sent: list[bytes] = []
    refusals = [RoutesChanged()]
    source = Source(pack([Parcel(ORDERS, Draft(body=b"hello"))], 2, principal="root").draft.body)

    async def engine(shard: int) -> Any:
        return source

    async def send(parcels: Sequence[Parcel], now: int, principal: str) -> list[Sent | CourierError]:
        if refusals:
            raise refusals.pop()
        sent.extend(parcel.draft.body for parcel in parcels)
        return [Sent(9, "m9") for _ in parcels]

    places: Any = None
    catalog: Any = Catalog()
    carrier = Carrier(places, catalog, FakeClock(), engine=engine, send=send)
    with caplog.at_level(logging.WARNING):
        await carrier._carry_parcels(0, OUTBOX + 2)
    assert sent == [b"hello"]
    assert [type(settlement).__name__ for settlement in source.settled] == ["Ack"]
    assert caplog.messages == []
