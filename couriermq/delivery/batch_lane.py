"""A worker consumer in action: how batches fill, and how much the Worker may have at a time."""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from couriermq.core.hex_ids import hex_of
from couriermq.core.model import SECOND, Lease, Listener, Queue
from couriermq.delivery.breaker import CLOSED, Breaker
from couriermq.delivery.concurrency import ConcurrencyMeter
from couriermq.delivery.consumers import WorkerConsumer
from couriermq.delivery.lane import LEASE_MS, Lane

BATCH_BYTES = 256_000
"""A batch has at most so many bytes of bodies; a larger message is a batch of its own."""
HELD_BYTES = 16 * 1024 * 1024
"""Nothing more is leased while bodies of so many bytes wait or are under way."""
FIRST_HOLD_MS, LONGEST_HOLD_MS = SECOND, 30 * SECOND
"""How long a bridge that cannot be reached is left alone."""


class BatchLane(Lane):
    """Messages wait until a batch is full or the oldest of them has waited long enough."""

    __slots__ = ("arrivals", "held_bytes", "meter")

    listener: WorkerConsumer

    def __init__(self, listener: WorkerConsumer, outbox: Queue, meter: ConcurrencyMeter) -> None:
        super().__init__(listener, outbox)
        self.arrivals: deque[int] = deque()
        """For each message that waits, since when it could have been delivered."""
        self.held_bytes = 0
        self.meter = meter

    @property
    def lease_ms(self) -> int:
        return LEASE_MS

    def renew(self, listener: Listener, outbox: Queue) -> None:
        """A Worker that was attached anew is tried at once."""
        if listener.changed_at != self.listener.changed_at:
            self.breaker, self.held_until = CLOSED, 0
        super().renew(listener, outbox)

    def take(self, leases: Sequence[Lease], *, now: int) -> None:
        super().take(leases, now=now)
        self.arrivals.extend(_ready_since(lease, now) for lease in leases)
        self.held_bytes += _size(leases)

    def next_parcel(self, *, now: int) -> list[Lease]:
        """A batch that is full, or whose oldest message has waited for `max_wait_ms`."""
        batch = self._batch()
        if not batch or (not self._is_full(batch) and now < self._oldest_due()):
            return []
        for _ in batch:
            self.waiting.popleft()
            self.arrivals.popleft()
        return batch

    def next_parcel_at(self) -> int | None:
        return self._oldest_due() if self.waiting else None

    def drain(self) -> list[Lease]:
        leases = super().drain()
        self.arrivals.clear()
        self.held_bytes -= _size(leases)
        return leases

    def begin(self, parcel: Sequence[Lease], *, now: int) -> None:
        super().begin(parcel, now=now)
        self.meter.change(self.outbox.id, 1, now=now)

    def end(self, parcel: Sequence[Lease], *, now: int) -> None:
        super().end(parcel, now=now)
        self.meter.change(self.outbox.id, -1, now=now)
        self.held_bytes -= _size(parcel)

    def hold(self, *, now: int) -> None:
        """The bridge cannot be reached: leave it alone, longer each time."""
        run = self.breaker.failure_run
        self.held_until = now + min(FIRST_HOLD_MS * 2 ** min(run, 10), LONGEST_HOLD_MS)
        self.breaker = Breaker(failure_run=run + 1)

    def lose(self, receipt: str) -> None:
        """A batch goes on while any of its messages is held: the Worker cannot be told to leave one out."""
        self.leases.pop(receipt, None)
        request = self.requests.pop(receipt, None)
        if request is None:
            self._leave_out(receipt)
        elif request not in self.requests.values():
            request.reschedule(0)

    def _leave_out(self, receipt: str) -> None:
        """A message that waits is another's now; the others make up the batch."""
        kept = [pair for pair in zip(self.waiting, self.arrivals, strict=True) if pair[0].receipt != receipt]
        self.held_bytes -= _size(self.waiting) - _size([lease for lease, _ in kept])
        self.waiting = deque(lease for lease, _ in kept)
        self.arrivals = deque(at for _, at in kept)

    def width(self, *, now: int) -> int:
        return 0 if now < self.held_until else self.listener.settings.concurrency

    def _free(self, width: int) -> int:
        if self.held_bytes >= HELD_BYTES:
            return 0
        return width * self.listener.batch_size - len(self.leases)

    def _batch(self) -> list[Lease]:
        """The longest run of what waits that fits into one batch; the Worker settles by id, so no id comes twice."""
        batch: list[Lease] = []
        ids: set[str] = set()
        size = 0
        for lease in islice(self.waiting, self.listener.batch_size):
            size += lease.message.size
            message_id = hex_of(lease.message.id)  # as the Worker knows it
            if batch and (size > BATCH_BYTES or message_id in ids):
                break
            batch.append(lease)
            ids.add(message_id)
        return batch

    def _is_full(self, batch: list[Lease]) -> bool:
        return len(batch) == self.listener.batch_size or len(batch) < len(self.waiting)

    def _oldest_due(self) -> int:
        return self.arrivals[0] + self.listener.max_wait_ms


def _ready_since(lease: Lease, now: int) -> int:
    """A message may have been ready long before there was room for it; one that is tried again was not."""
    message = lease.message
    return now if message.attempts > 1 else min(now, message.entered_at + message.delay_ms)


def _size(leases: Iterable[Lease]) -> int:
    return sum(lease.message.size for lease in leases)
