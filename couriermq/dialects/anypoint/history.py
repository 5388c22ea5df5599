"""What the stats API asks of the past, whoever remembers it.

The lake's tables answer, and the journal for what is newer than they are (see `journal_history`).
"""

from typing import Protocol

import msgspec

from couriermq.core.model import Exchange, Queue
from couriermq.lake.border import Border


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """From `start` up to `end` in steps; a step of None means calendar months."""

    start: int
    end: int
    step_ms: int | None


class QueuePoint(msgspec.Struct, frozen=True, gc=False):
    """How many messages were there when the step ended, and what had happened to them during it."""

    at: int
    waiting_count: int
    leased_count: int
    sent_count: int
    received_count: int
    acked_count: int


class ExchangePoint(msgspec.Struct, frozen=True, gc=False):
    at: int
    published_count: int
    delivered_count: int


class UsagePoint(msgspec.Struct, frozen=True, gc=False):
    at: int
    operation_count: int
    received_count: int
    unit_count: int
    byte_count: int


class History(Protocol):
    """Points in order of time, at least one; the first is dated with the start of the window, if that is known."""

    @property
    def border(self) -> Border | None:
        """Where the tables end and the journal takes over; None without tables."""

    async def of_queue(self, queue: Queue, window: Window) -> list[QueuePoint]: ...

    async def of_exchange(self, exchange: Exchange, window: Window) -> list[ExchangePoint]: ...

    async def of_tenants(self, tenants: list[str], window: Window) -> list[UsagePoint]: ...
