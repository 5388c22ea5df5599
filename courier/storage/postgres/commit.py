"""Group commit: everybody who waits at this node shares one transaction, and so one trip to the disk.

While one transaction is under way, whoever comes waits for the next. An order that raises is undone alone: the
transaction is rolled back and every order of the batch runs again, each in a transaction of its own. A connection that
is lost takes its batch with it: nobody can know whether the commit arrived, so nobody hears of success.
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
from courier.storage.postgres.batch import Again, Batch
from courier.storage.postgres.link import Connection, Step, connect, is_collision, is_usable, refusal
from courier.storage.postgres.orders import Order
from courier.storage.postgres.queries import Q
from courier.storage.postgres.transaction import StaleCatalog, Transaction

MOST_ORDERS = 1_000
MOST_MESSAGES = 2_000
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
        self._circle = circle
        self._sealer = sealer
        self._connection: Connection | None = None
        self._pending: list[Waiting] = []
        self._running: asyncio.Task[None] | None = None
        self._retry_at = 0.0

    async def submit(self, order: Order) -> Any:
        """Run an order in the next commit; returns, or raises what it raised, once that is durable."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append((order, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await future

    async def close(self) -> None:
        """Finish what is in hand."""
        while self._running is not None:
            await asyncio.wait([self._running])
        await self._disconnect()

    async def _run(self) -> None:
        try:
            while batch := self._take():
                await self._commit(batch)
        finally:
            self._running = None
            self._give_up()

    def _give_up(self) -> None:
        """Only when the task itself was cancelled or has a bug is anybody left."""
        for _, future in self._pending:
            if not future.done():
                future.set_exception(Unavailable("the store is closing"))
        self._pending = []

    def _take(self) -> list[Waiting]:
        """As many of those who wait as fit into one transaction; at least the first."""
        self._pending = [waiting for waiting in self._pending if not waiting[1].done()]
        weight = 0
        for count, (order, _) in enumerate(self._pending[:MOST_ORDERS]):
            weight += order.weight
            if count and weight > MOST_MESSAGES:
                break
        else:
            count = min(len(self._pending), MOST_ORDERS)
        batch, self._pending = self._pending[:count], self._pending[count:]
        return batch

    async def _commit(self, batch: list[Waiting]) -> None:
        orders = [order for order, _ in batch]
        try:
            outcomes = await self._transact(orders)
        except (Unavailable, psycopg.Error) as error:
            if len(batch) == 1 or isinstance(error, Unavailable):
                outcomes = [error if isinstance(error, Unavailable) else refusal(error)] * len(batch)
            else:
                outcomes = [await self._alone(order) for order in orders]
        except Exception:
            outcomes = [await self._alone(order) for order in orders]
        self._answer(batch, outcomes)

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

    def _answer(self, batch: list[Waiting], outcomes: Sequence[Any]) -> None:
        again = [waiting for waiting, outcome in zip(batch, outcomes, strict=True) if isinstance(outcome, Again)]
        self._pending = again + self._pending
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if future.done() or isinstance(outcome, Again):
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    # -- one transaction --------------------------------------------------------------------------------------

    async def _transact(self, orders: Sequence[Order]) -> list[Any]:
        """All of the orders, tried again where another node stood in the way; raises Unavailable without a database."""
        for _ in range(TRIES):
            connection = await self._connected()
            try:
                return await self._attempt(connection, orders)
            except StaleCatalog:
                await self._roll_back()
                await self._circle.refresh()
            except psycopg.Error as error:
                await self._roll_back()
                if self._connection is None:
                    self.failure = str(refusal(error))
                    raise refusal(error) from error
                if not is_collision(error):
                    raise
            except BaseException:
                await self._roll_back()
                raise
        raise Unavailable("the database is too busy to decide; try again")

    async def _attempt(self, connection: Connection, orders: Sequence[Order]) -> list[Any]:
        circle = self._circle
        tx = Transaction(connection, circle.space)
        outcomes = await Batch(tx, orders, circle.directory, self._sealer).run(circle.catalog_version)
        started = perf_counter()
        wrote = await tx.commit(notice=circle.notice(tx.ready))
        circle.committed(tx, wrote, len(orders), perf_counter() - started)
        self.failure = None
        return outcomes

    async def _roll_back(self) -> None:
        """Be ready for the next transaction, on a new connection if need be."""
        if self._connection is not None and not self._connection.closed:
            with contextlib.suppress(psycopg.Error):
                await self._connection.execute("ROLLBACK")
                return
        await self._disconnect()

    async def _connected(self) -> Connection:
        if is_usable(self._connection):
            return self._connection
        await self._disconnect()
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_at:
            raise Unavailable(self.failure or "the database cannot be reached")
        self._retry_at = loop.time() + RECONNECT_SECONDS
        try:
            self._connection = await connect(self._circle.url)
        except psycopg.Error as error:
            self.failure = f"the database cannot be reached: {error}"
            raise Unavailable(self.failure) from error
        self._retry_at = 0.0
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
