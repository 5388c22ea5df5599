"""A few connections for whatever is not part of the group commit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from couriermq.storage.postgres.failures import refusal
from couriermq.storage.postgres.identity import Guard
from couriermq.storage.postgres.link import Connection, Rows, Step, ask, connect, is_usable

SIZE = 4


class Pool:
    """Connections are made when first needed, and again after they were lost."""

    def __init__(self, url: str, size: int = SIZE, guard: Guard | None = None) -> None:
        self._url = url
        self._guard = guard
        self._idle: list[Connection] = []
        self._places = asyncio.Semaphore(size)
        self._is_open = True

    @contextlib.asynccontextmanager
    async def taken(self) -> AsyncIterator[Connection]:
        """A connection of one's own; raises Unavailable where the database fails."""
        async with self._places:
            try:
                connection = await self._find()
                try:
                    yield connection
                finally:
                    await self._put_back(connection)
            except psycopg.Error as error:
                raise refusal(error) from error

    async def _find(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if is_usable(connection):
                return connection
            await connection.close()
        return await connect(self._url, self._guard)

    async def ask(self, *steps: Step) -> list[Rows]:
        async with self.taken() as connection:
            return await ask(connection, steps)

    async def ask_one(self, sql: str, **params: Any) -> Rows:
        return (await self.ask((sql, params)))[0]

    async def _put_back(self, connection: Connection) -> None:
        try:
            if not _is_idle(connection) and not connection.closed:
                with contextlib.suppress(psycopg.Error):
                    await connection.execute("ROLLBACK")
        finally:
            # A caller that is cancelled during the rollback leaves a transaction open; a closed pool keeps nothing.
            if self._is_open and _is_idle(connection) and not connection.is_swollen:
                self._idle.append(connection)
            else:
                await connection.close()

    def open(self) -> None:
        """Keep connections from now on; a pool is open until it is closed."""
        self._is_open = True

    async def close(self) -> None:
        """Close the idle connections now, and those in use when they are given back."""
        self._is_open = False
        while self._idle:
            await self._idle.pop().close()


def _is_idle(connection: Connection) -> bool:
    return not connection.closed and connection.info.transaction_status is TransactionStatus.IDLE
