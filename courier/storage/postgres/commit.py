"""Group commit: everybody who waits at this node shares one transaction, and so one trip to the disk.

Two transactions may be under way, on two connections: while one is at the disk, the next is made. Whoever comes then
waits for the one after that. Receivers are all in one of them, so that there is one claim for all. An order that raises
is undone alone: the transaction is rolled back and every order of the batch runs again, each in a transaction of its
own. A connection that is lost takes its batch with it: nobody can know whether the commit arrived, so nobody hears of
success.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from operator import attrgetter
from time import perf_counter
from typing import Any

import msgspec
import psycopg

from courier.core.errors import CourierError, Unavailable
from courier.core.receipts import Sealer
from courier.storage.base import Directory, Signals
from courier.storage.metrics import Metrics
from courier.storage.postgres.agenda import Agenda
from courier.storage.postgres.batch import Again, Batch, Overtaken
from courier.storage.postgres.link import Connection, Step, connect, is_collision, is_usable, refusal
from courier.storage.postgres.orders import Order, Receive
from courier.storage.postgres.queries import Q
from courier.storage.postgres.seqs import Seqs
from courier.storage.postgres.transaction import StaleCatalog, Transaction

MOST_ORDERS = 1_000
MOST_MESSAGES = 2_000
LANES = 2
TRIES = 8
RECONNECT_SECONDS = 0.5
NOTICE_BYTES = 7_000
EVERYTHING = -1
"""In a notice, in place of the queues: there are too many to name."""

_KIND = attrgetter("kind")
log = logging.getLogger(__name__)

Waiting = tuple[Order, "asyncio.Future[Any]"]


class Circle:
    """What the parts of one node share."""

    def __init__(self, url: str, node: str, directory: Directory, signals: Signals) -> None:
        self.url = url
        self.node = node
        self.directory = directory
        self.signals = signals
        self.agenda = Agenda()
        self.metrics = Metrics()
        self.space = 0
        self.catalog_version = 0
        self.refresh: Callable[[], Awaitable[None]]

    @property
    def channel(self) -> str:
        return f"courier_{self.space & 0xFFFFFFFF}"

    def notice(self, ready: dict[int, int], *, catalog: bool = False) -> Step | None:
        """What the other nodes should hear of a commit, in one notification."""
        if not ready and not catalog:
            return None
        payload = msgspec.json.encode([self.node, list(ready.items()), catalog])
        if len(payload) > NOTICE_BYTES:
            payload = msgspec.json.encode([self.node, [[EVERYTHING, 1]], catalog])
        return Q.notify, {"channel": self.channel, "payload": payload.decode()}

    def committed(self, tx: Transaction, wrote: bool, operations: int, seconds: float) -> None:
        """Pass on what a commit has made possible."""
        if wrote:
            self.metrics.commits += 1
            self.metrics.operations += operations
            self.metrics.batch_sizes.observe(operations)
            self.metrics.sync_seconds.observe(seconds)
            self.metrics.events.update(map(_KIND, tx.events))
        news = [at for key, at in tx.dues.items() if self.agenda.note(key, at)]
        if news:
            self.signals.due(min(news))
        for key, count in tx.ready.items():
            self.signals.ready(key, count)


class GroupCommit:
    """The node's writer. `submit` queues an order; its outcome arrives when it is durable."""

    def __init__(self, circle: Circle, sealer: Sealer) -> None:
        self.failure: str | None = None
        self.circle = circle
        self.sealer = sealer
        self.seqs = Seqs(asyncio.get_running_loop().time)
        self.retry_at = 0.0
        self._pending: list[Waiting] = []
        self._idle = [Lane(self) for _ in range(LANES)]
        self._running: dict[asyncio.Task[None], list[Waiting]] = {}
        self._starting = False
        self._claiming = False

    async def submit(self, order: Order) -> Any:
        """Run an order in the next commit; returns, or raises what it raised, once that is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._pending.append((order, future))
        if not self._starting:
            self._starting = True
            loop.call_soon(self._start)  # whoever comes in the same instant comes along
        return await future

    async def close(self) -> None:
        """Finish what is in hand."""
        while self._running or self._starting:
            await asyncio.wait(self._running) if self._running else await asyncio.sleep(0)
        self._give_up()
        for lane in self._idle:
            await lane.disconnect()

    def _give_up(self) -> None:
        for _, future in self._pending:
            if not future.done():
                future.set_exception(Unavailable("the store is closing"))
        self._pending = []

    # -- who goes when ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Send off a batch, if there is a lane for it and enough to make it worth a commit."""
        self._starting = False
        if not self._idle or not self._is_worth_it():
            return
        batch = self._take()
        if batch:
            lane = self._idle.pop()
            claims = any(type(order) is Receive for order, _ in batch)
            self._claiming = self._claiming or claims
            task = asyncio.create_task(lane.commit(batch))
            self._running[task] = batch
            task.add_done_callback(lambda done: self._ended(done, lane, claims=claims))

    def _is_worth_it(self) -> bool:
        """A second commit at a time must be as large as the first: many small ones cost more than they gain."""
        return all(len(self._pending) >= len(batch) for batch in self._running.values())

    def _ended(self, task: asyncio.Task[None], lane: "Lane", *, claims: bool) -> None:
        del self._running[task]
        self._idle.append(lane)
        if claims:
            self._claiming = False
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a batch could not be carried out", exc_info=error)
        self._start()

    def _take(self) -> list[Waiting]:
        """As many of those who wait as fit into one transaction; at least the first."""
        batch: list[Waiting] = []
        left: list[Waiting] = []
        weight = 0
        for waiting in self._pending:
            order, future = waiting
            if future.done():
                continue
            weight += order.weight
            is_full = len(batch) >= MOST_ORDERS or (batch and weight > MOST_MESSAGES)
            if is_full or (self._claiming and type(order) is Receive):
                left.append(waiting)
            else:
                batch.append(waiting)
        self._pending = left
        return batch

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


class Lane:
    """One of the node's ways to the database: a connection, and one transaction at a time."""

    def __init__(self, group: GroupCommit) -> None:
        self._group = group
        self._circle = group.circle
        self._connection: Connection | None = None

    async def commit(self, batch: list[Waiting]) -> None:
        """Carry out a batch and answer everybody in it."""
        orders = [order for order, _ in batch]
        outcomes: Sequence[Any] = [Unavailable("the store is closing")] * len(batch)
        try:
            outcomes = await self._outcomes(orders)
        finally:
            self._group.answer(batch, outcomes)

    async def _outcomes(self, orders: Sequence[Order]) -> Sequence[Any]:
        try:
            return await self._transact(orders)
        except (Unavailable, psycopg.Error) as error:
            if len(orders) == 1 or isinstance(error, Unavailable):
                return [error if isinstance(error, Unavailable) else refusal(error)] * len(orders)
        except Exception:
            log.debug("a batch is carried out one by one", exc_info=True)
        return [await self._alone(order) for order in orders]

    async def _alone(self, order: Order) -> Any:
        try:
            return (await self._transact([order]))[0]
        except psycopg.Error as error:
            return refusal(error)
        except CourierError as error:
            return error
        except Exception as error:
            log.exception("an order could not be carried out")
            return error

    async def _transact(self, orders: Sequence[Order]) -> list[Any]:
        """All of the orders, tried again where another node stood in the way; raises Unavailable without a database."""
        short_acks = True
        for _ in range(TRIES):
            connection = await self._connected()
            try:
                return await self._attempt(connection, orders, short_acks=short_acks)
            except StaleCatalog:
                await self._roll_back()
                await self._circle.refresh()
            except Overtaken:
                await self._roll_back()
                short_acks = False
            except psycopg.Error as error:
                await self._roll_back()
                if self._connection is None:
                    self._group.failure = str(refusal(error))
                    raise refusal(error) from error
                if not is_collision(error):
                    raise
            except BaseException:
                await self._roll_back()
                raise
        raise Unavailable("the database is too busy to decide; try again")

    async def _attempt(self, connection: Connection, orders: Sequence[Order], *, short_acks: bool) -> list[Any]:
        group, circle = self._group, self._circle
        tx = Transaction(connection, circle.space)
        batch = Batch(tx, orders, circle.directory, group.sealer, group.seqs, short_acks=short_acks)
        outcomes = await batch.run(circle.catalog_version)
        started = perf_counter()
        wrote = await tx.commit(notice=circle.notice(tx.ready))
        circle.committed(tx, wrote, len(orders), perf_counter() - started)
        group.failure = None
        return outcomes

    async def _roll_back(self) -> None:
        """Be ready for the next transaction, on a new connection if need be."""
        if self._connection is not None and not self._connection.closed:
            with contextlib.suppress(psycopg.Error):
                await self._connection.execute("ROLLBACK")
                return
        await self.disconnect()

    async def _connected(self) -> Connection:
        if is_usable(self._connection):
            return self._connection
        await self.disconnect()
        group, loop = self._group, asyncio.get_running_loop()
        if loop.time() < group.retry_at:
            raise Unavailable(group.failure or "the database cannot be reached")
        try:
            self._connection = await connect(self._circle.url)
        except psycopg.Error as error:
            group.retry_at = loop.time() + RECONNECT_SECONDS
            group.failure = f"the database cannot be reached: {error}"
            raise Unavailable(group.failure) from error
        return self._connection

    async def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
