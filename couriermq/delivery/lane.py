"""A listener in action: what is under way to it, and how much it may take next."""

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from couriermq.core.model import SECOND, Lease, Listener, ListenerState, Queue, Settlement
from couriermq.delivery.breaker import CLOSED, Breaker
from couriermq.delivery.envelope import Envelope
from couriermq.delivery.model import Answer, DeliveryAttempt
from couriermq.delivery.pace import Pace

FAST_MS = 100.0
"""To a receiver that answers within this messages are leased ahead, so that no delivery waits for the store."""
MOST_AHEAD = 500
LEASE_SPARE_MS = SECOND
"""A request begins only while its lease lasts for at least this, and ends when no more than this is left."""
LEASE_MS = 10 * SECOND
"""Leases are short and extended while they are needed, so that those of a node that dies end soon."""
SHARE = 0.2
"""How much the newest measurement counts."""


class Room(msgspec.Struct, frozen=True, gc=False):
    """How many messages to lease now; where it is none, when to ask again, if time will change it."""

    count: int
    again_at: int | None = None


NO_ROOM = Room(0)


def is_fresh_start(before: Listener, after: Listener) -> bool:
    """Whether a change may make deliveries succeed that have failed: the listener was resumed, or is called at another
    URL, or otherwise than before."""
    if after.state is not ListenerState.ACTIVE:
        return False
    calls = [(one.url, one.settings.headers, one.settings.authorization) for one in (before, after)]
    return before.state is not ListenerState.ACTIVE or calls[0] != calls[1]


class Lane:
    """Everything of a listener that lives in memory only while there is something to deliver."""

    __slots__ = (
        "active", "alarm_at", "breaker", "cover", "fetch_ms", "fetching", "held_until", "hungry", "latency_ms",
        "leases", "listener", "lose_at", "outbox", "pace", "renewing", "requests", "retired", "settling",
        "unsettled", "used", "waiting",
    )  # fmt: skip

    def __init__(self, listener: Listener, outbox: Queue) -> None:
        self.listener = listener
        self.outbox = outbox
        self.cover: Envelope | str | None = None
        """Made for this version of the listener; a string says why there can be none."""
        self.breaker: Breaker = CLOSED
        self.pace = Pace()
        self.held_until = 0
        self.latency_ms = FAST_MS
        self.fetch_ms = 0.0
        self.active = 0
        self.waiting: deque[Lease] = deque()
        self.leases: dict[str, int] = {}
        """By receipt, until when each message is held that is not yet settled."""
        self.requests: dict[str, asyncio.Timeout] = {}
        """By receipt, what ends the request that is under way."""
        self.renewing = False
        self.lose_at: int | None = None
        """When it is looked for requests whose leases are about to end; never later than the first of them is."""
        self.unsettled: list[tuple[Settlement, DeliveryAttempt]] = []
        self.settling = False
        self.hungry = False
        """Whether the outbox may hold something that is ready."""
        self.fetching = False
        self.used = False
        self.retired = False
        self.alarm_at: int | None = None

    @property
    def lease_ms(self) -> int:
        return min(self.outbox.settings.lease_ms, LEASE_MS)

    def take(self, leases: Sequence[Lease], *, now: int) -> None:
        """Messages that were leased for the receiver."""
        self.waiting.extend(leases)

    def next_parcel(self, *, now: int) -> list[Lease]:
        """What the next request brings; empty while there is nothing to send yet."""
        return [self.waiting.popleft()] if self.waiting else []

    def next_parcel_at(self) -> int | None:
        """When time alone makes a parcel of what waits."""
        return None

    def drain(self) -> list[Lease]:
        """Everything that waits, to be given back."""
        leases = list(self.waiting)
        self.waiting.clear()
        return leases

    def begin(self, parcel: Sequence[Lease], *, now: int) -> None:
        self.active += 1

    def end(self, parcel: Sequence[Lease], *, now: int) -> None:
        self.active -= 1

    def renew(self, listener: Listener, outbox: Queue) -> None:
        """The listener was changed; one that is set going again or goes elsewhere now gets a fresh start."""
        if is_fresh_start(self.listener, listener):
            self.start_afresh()
        self.listener, self.outbox, self.cover = listener, outbox, None

    def retire(self) -> None:
        """The listener is gone: requests under way end, and nothing more goes out."""
        self.retired = True
        self.listener = replace(self.listener, state=ListenerState.PAUSED)

    def start_afresh(self) -> None:
        """Forget how earlier requests went."""
        self.breaker, self.held_until = CLOSED, 0

    def holds(self, receipt: str, *, now: int) -> bool:
        """Whether the lease has time left to send a request in."""
        return self.leases.get(receipt, 0) - now >= LEASE_SPARE_MS

    def lose(self, receipt: str) -> None:
        """The lease has ended, or is about to: another node may deliver the message, so no request may go on."""
        self.leases.pop(receipt, None)
        if (request := self.requests.pop(receipt, None)) is not None:
            request.reschedule(0)

    def learn(self, answer: Answer) -> None:
        """Remember how quick the receiver is."""
        self.latency_ms += (answer.latency_ms - self.latency_ms) * SHARE

    def learn_fetch(self, fetch_ms: float) -> None:
        """Remember how quick the store is."""
        self.fetch_ms += (fetch_ms - self.fetch_ms) * SHARE

    def width(self, *, now: int) -> int:
        """How many deliveries may be under way at once."""
        if now < self.held_until:
            return 0
        settings = self.listener.settings
        return self.breaker.room(1 if settings.ordered else settings.concurrency, now=now)

    def room(self, *, now: int) -> Room:
        if now < self.held_until:
            return Room(0, self.held_until)
        width = self.width(now=now)
        if not width:
            return Room(0, self.breaker.half_opens_at)
        count = self._free(width)
        rate = self.listener.settings.requests_per_second
        if count <= 0 or rate is None:
            return Room(count) if count > 0 else NO_ROOM
        count = min(count, self.pace.allowance(rate, now=now))
        return Room(count) if count else Room(0, self.pace.ready_at(rate))

    def _free(self, width: int) -> int:
        busy = self.active + len(self.waiting)
        if self.listener.settings.ordered:
            return width - busy - len(self.unsettled) - self.settling
        if self.breaker.failure_run or self.latency_ms >= FAST_MS:
            return width - busy
        depth = width + self._ahead(width)
        free = depth - busy
        return free if free >= depth // 4 or not busy else 0  # some at a time are cheaper than one by one

    def _ahead(self, width: int) -> int:
        """As many as will be delivered while the store is asked for more, twice over."""
        return min(MOST_AHEAD, round(width * (1 + 2 * self.fetch_ms / max(self.latency_ms, 0.1))))
