"""What callers want done in the next commit."""

from collections.abc import Sequence

import msgspec

from couriermq.core.events import Event
from couriermq.core.model import Queue, Settlement
from couriermq.storage.base import Parcel
from couriermq.storage.postgres.settling import Token


class Send(msgspec.Struct, frozen=True, gc=False):
    parcels: Sequence[Parcel]
    now: int
    principal: str
    events: Sequence[Event]
    catalog_version: int
    """The control plane by which the parcels were addressed."""
    plain: bool
    """Whether all parcels are for one standard queue and differ in nothing but what they say."""

    @property
    def weight(self) -> int:
        return len(self.parcels)


class Receive(msgspec.Struct, frozen=True, gc=False):
    queue: Queue
    limit: int
    lease_ms: int
    group_limit: int | None
    now: int
    principal: str

    @property
    def weight(self) -> int:
        return self.limit


class Settle(msgspec.Struct, frozen=True, gc=False):
    queue: Queue
    settlements: Sequence[Settlement]
    tokens: Sequence[Token | None]
    now: int
    principal: str

    @property
    def weight(self) -> int:
        return len(self.settlements)


class Pass(msgspec.Struct, frozen=True, gc=False):
    """Let time pass for these queues. The answer says by key when to look again: at once where more is to be done."""

    keys: Sequence[int]
    now: int

    @property
    def weight(self) -> int:
        return len(self.keys)


Order = Send | Receive | Settle | Pass
