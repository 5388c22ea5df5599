"""Group commit: everybody who waits at this node shares one transaction, and so one trip to the disk.

Two transactions may be under way, on two connections: while one is at the disk, the next is made. Whoever comes then
waits for the one after that. Where much waits, four are: each is smaller, and node and database have always something
to do. Receivers are all in one of them, so that there is one claim for all; so is what time does
to queues, or a receiver would pass over a message that is just becoming ready. Where nobody sends, acks go along with
them: one transaction for all costs less than two. One that takes long, because it waits for a lock that another node
holds, is not waited for. An order that raises is undone alone: the transaction is rolled back
and every order of the batch runs again, each in a transaction of its own. A connection that is lost takes its batch
with it: nobody can know whether the commit arrived, so nobody hears of success.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

from couriermq.core.errors import Unavailable
from couriermq.core.receipts import Sealer
from couriermq.storage.postgres.batch import Again
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.lane import Lane, Waiting
from couriermq.storage.postgres.orders import Order, Pass, Receive, Send

MOST_ORDERS = 1_000
MOST_MESSAGES = 1_000
WORTH_MESSAGES = 300
"""With so many messages a commit costs little beside them: what waits is divided among the lanes that are free."""
LANES = 4
FEW_LANES = 2
"""For less than that."""
CLAIMING = (Receive, Pass)
"""Orders that take what they find and pass over what another transaction holds."""
FADING = 0.1
FADED = 0.1
PATIENCE = 0.25
MOST_PATIENCE_SECONDS = 0.002
LONG = 4
LEAST_LONG_SECONDS, MOST_LONG_SECONDS = 0.05, 0.25

CLOSING = "the store is closing"

log = logging.getLogger(__name__)


class Flight(NamedTuple):
    """A batch that is under way."""

    batch: list[Waiting]
    claims: bool
    begun: float


class GroupCommit:
    """The node's writer. `submit` queues an order; its outcome arrives when it is durable."""

    def __init__(self, circle: Circle, sealer: Sealer) -> None:
        self.failure: str | None = None
        self.circle = circle
        self.sealer = sealer
        self.retry_at = 0.0
        self._pending: list[Waiting] = []
        self._idle = [Lane(self) for _ in range(LANES)]
        self._running: dict[asyncio.Task[None], Flight] = {}
        self._starting = False
        self._is_open = True
        self._crowd = Crowd()
        self._alarm: asyncio.TimerHandle | None = None
        self._reminder: asyncio.TimerHandle | None = None

    async def submit(self, order: Order) -> Any:
        """Run an order in the next commit; returns, or raises what it raised, once that is durable."""
        if not self._is_open:
            raise Unavailable(CLOSING)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._pending.append((order, future))
        if type(order) is Send:
            self._crowd.sends()
        if not self._starting:
            self._starting = True
            loop.call_soon(self._start)  # whoever comes in the same instant comes along
        return await future

    async def close(self) -> None:
        """Finish what is in hand."""
        while self._running or self._starting or self._alarm:
            await asyncio.wait(self._running) if self._running else await asyncio.sleep(MOST_PATIENCE_SECONDS)
        if self._reminder is not None:
            self._reminder.cancel()
        self._is_open = False
        self._give_up()
        for lane in self._idle:
            await lane.disconnect()

    def _give_up(self) -> None:
        for _, future in self._pending:
            if not future.done():
                future.set_exception(Unavailable(CLOSING))
        self._pending = []

    # -- who goes when ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Send off a batch, if there is a lane for it and enough to make it worth a commit; else wait a moment."""
        self._starting = False
        if not self._idle or not self._pending:
            return
        self._crowd.count(len(self._pending) + sum(len(flight.batch) for flight in self._running.values()))
        if len(self._pending) >= self._crowd.share or self._is_much():
            self._send_off()
        elif self._alarm is None:
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(self._crowd.patience_seconds, self._send_off)

    def _send_off(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        loop = asyncio.get_running_loop()
        brisk = self._brisk(loop.time())
        claiming = any(flight.claims for flight in brisk)
        batch = self._take(claiming=claiming) if self._idle and self._is_worth_it(brisk) else []
        if batch:
            lane = self._idle.pop()
            claims = any(type(order) in CLAIMING for order, _ in batch)
            task = asyncio.create_task(lane.commit(batch))
            self._running[task] = Flight(batch, claims, loop.time())
            task.add_done_callback(lambda done: self._ended(done, lane))
            if self._pending and self._idle and not self._starting:
                self._starting = True
                loop.call_soon(self._start)
        elif self._pending and self._idle and self._reminder is None:
            self._reminder = loop.call_later(self._crowd.long_seconds, self._remind)

    def _remind(self) -> None:
        """Those who wait for a batch that was to end soon: by now it may be known that it does not."""
        self._reminder = None
        if self._pending and self._idle:
            self._send_off()

    def _brisk(self, now: float) -> list[Flight]:
        """The batches that will end soon."""
        return [flight for flight in self._running.values() if now - flight.begun < self._crowd.long_seconds]

    def _is_worth_it(self, brisk: list[Flight]) -> bool:
        """A further commit at a time must be as large as the others: many small ones cost more than they gain."""
        if len(brisk) >= self._crowd.lanes and not self._is_much():
            return False
        return all(len(self._pending) >= len(flight.batch) for flight in brisk)

    def _is_much(self) -> bool:
        """Whether so much waits that all lanes are for it."""
        return sum(order.weight for order, _ in self._pending) >= WORTH_MESSAGES

    def _ended(self, task: asyncio.Task[None], lane: Lane) -> None:
        del self._running[task]
        self._idle.append(lane)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a batch could not be carried out", exc_info=error)
        self._start()

    def _take(self, *, claiming: bool) -> list[Waiting]:
        """As many of those who wait as fit into one transaction; at least the first."""
        batch: list[Waiting] = []
        left: list[Waiting] = []
        weight, most = 0, self._most_messages()
        for waiting in self._pending:
            order, future = waiting
            if future.done():
                continue
            weight += order.weight
            is_full = len(batch) >= MOST_ORDERS or (batch and weight > most)
            if is_full or (claiming and type(order) in CLAIMING):
                left.append(waiting)
            else:
                batch.append(waiting)
        self._pending = left
        return batch

    def _most_messages(self) -> int:
        """An even part of what waits: while one transaction is at the disk, the next can be made."""
        total = sum(order.weight for order, _ in self._pending)
        parts = max(-(-total // MOST_MESSAGES), min(len(self._idle), total // WORTH_MESSAGES), 1)
        return -(-total // parts)

    def committed(self, seconds: float) -> None:
        """The database works."""
        self.failure = None
        self._crowd.committed(seconds)

    def answer(self, batch: list[Waiting], outcomes: Sequence[Any]) -> None:
        again = [waiting for waiting, outcome in zip(batch, outcomes, strict=True) if isinstance(outcome, Again)]
        self._pending = again + self._pending
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if future.done() or isinstance(outcome, Again):
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


class Crowd:
    """How many are likely to come, from how many there were lately: whoever is answered soon asks again."""

    def __init__(self) -> None:
        self._size = 0.0
        self._sending = 0.0
        self._commit_seconds = 0.0

    def count(self, present: int) -> None:
        self._size = max(present, self._size - FADING * (self._size - present))

    def sends(self) -> None:
        """Somebody does."""
        self._sending = 1.0

    def committed(self, seconds: float) -> None:
        self._commit_seconds += FADING * (seconds - self._commit_seconds)
        self._sending *= 1 - FADING

    @property
    def lanes(self) -> int:
        """How many commits are made at a time, where no more than a few wait."""
        return FEW_LANES if self._sending > FADED else 1

    @property
    def share(self) -> float:
        """With so many a commit need not wait for more."""
        return self._size / self.lanes

    @property
    def long_seconds(self) -> float:
        """A commit that takes so long is waiting for something."""
        return min(max(LONG * self._commit_seconds, LEAST_LONG_SECONDS), MOST_LONG_SECONDS)

    @property
    def patience_seconds(self) -> float:
        """How long to wait for more: little, measured by how long a commit takes."""
        return min(PATIENCE * self._commit_seconds, MOST_PATIENCE_SECONDS)
