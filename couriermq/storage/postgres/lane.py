"""One of a node's ways to the database: a connection, and one transaction at a time."""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Protocol

import msgspec
import psycopg

from couriermq.core.errors import CourierError, Unavailable
from couriermq.core.receipts import Sealer
from couriermq.storage.postgres.batch import Again, Batch, Overtaken
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.express import Express
from couriermq.storage.postgres.failures import RETRY_MS, UNREACHABLE, refusal, sentence
from couriermq.storage.postgres.link import Connection, connect, is_collision, is_usable
from couriermq.storage.postgres.orders import Order, Settle
from couriermq.storage.postgres.transaction import StaleCatalog, Transaction

TRIES = 8
RECONNECT_SECONDS = 0.5

log = logging.getLogger(__name__)

Waiting = tuple[Order, "asyncio.Future[Any]"]


class Group(Protocol):
    """Whom a lane works for."""

    circle: Circle
    sealer: Sealer
    failure: str | None
    retry_at: float

    def answer(self, batch: list[Waiting], outcomes: Sequence[Any]) -> None: ...

    def committed(self, seconds: float) -> None: ...


class Lane:
    """Carries out batches, one after the other."""

    def __init__(self, group: Group) -> None:
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
        if self._connection is not None and self._connection.is_swollen:
            await self.disconnect()

    async def _outcomes(self, orders: Sequence[Order]) -> Sequence[Any]:
        """By the shortest way as far as that goes; the rest of it by the longer one."""
        outcomes = await self._by_express(orders)
        while rests := {index: rest for index, order in enumerate(orders) if (rest := _rest(order, outcomes[index]))}:
            found = await self._by_batch(list(rests.values()))
            for index, outcome in zip(rests, found, strict=True):
                outcomes[index] = _joined(outcomes[index], outcome)
        return outcomes

    async def _by_express(self, orders: Sequence[Order]) -> list[Any]:
        nothing: list[Any] = [None] * len(orders)
        express = Express.of(orders, self._circle, self._group.sealer)
        if express is None:
            return nothing
        started = perf_counter()
        try:
            connection = await self._connected()
            with self._circle.attempt(express):
                outcomes = await express.run(connection)
        except Unavailable as error:
            return [error] * len(orders)
        except (StaleCatalog, psycopg.Error) as error:  # nothing was done, unless the connection is lost
            await self._roll_back()
            if self._connection is not None or isinstance(error, StaleCatalog):
                return nothing
            self._group.failure = str(refusal(error))
            return [refusal(error)] * len(orders)
        except BaseException:
            await self._roll_back()
            raise
        seconds = perf_counter() - started
        self._circle.committed(express, bool(express.counts()), len(orders), seconds)
        self._group.committed(seconds)
        return outcomes

    async def _by_batch(self, orders: Sequence[Order]) -> Sequence[Any]:
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
        begun = perf_counter()
        tx = Transaction(connection, circle.space, circle.marks)
        with circle.attempt(tx):
            outcomes = await Batch(tx, orders, circle, group.sealer, short_acks=short_acks).run()
            started = perf_counter()
            wrote = await tx.commit(circle.notice)
        circle.committed(tx, wrote, len(orders), perf_counter() - started)
        group.committed(perf_counter() - begun)
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
            raise Unavailable(group.failure or UNREACHABLE, retry_after_ms=RETRY_MS)
        try:
            self._connection = await connect(self._circle.url, self._circle.guard)
        except psycopg.Error as error:
            group.retry_at = loop.time() + RECONNECT_SECONDS
            group.failure = sentence(error)
            raise Unavailable(group.failure, retry_after_ms=RETRY_MS) from error
        return self._connection

    async def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _rest(order: Order, outcome: Any) -> Order | None:
    """What of an order is still to be done."""
    if outcome is None:
        return order
    if not isinstance(order, Settle) or not isinstance(outcome, list) or None not in outcome:
        return None
    left = [place for place, one in enumerate(outcome) if one is None]
    return msgspec.structs.replace(
        order, settlements=[order.settlements[n] for n in left], tokens=[order.tokens[n] for n in left]
    )


def _joined(before: Any, rest: Any) -> Any:
    """The outcome of an order whose rest was done later; one of which a part is done is not begun anew."""
    if before is not None and isinstance(rest, Again):
        return before
    if before is None or not isinstance(rest, list):
        return rest
    later = iter(rest)
    return [next(later) if one is None else one for one in before]
