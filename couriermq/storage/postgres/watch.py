"""What a node hears of the others: one connection, one task."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

import msgspec
import psycopg

from couriermq.core.errors import CourierError
from couriermq.storage.postgres.circle import EVERYTHING, Circle, Notice
from couriermq.storage.postgres.failures import detail
from couriermq.storage.postgres.link import Connection, connect
from couriermq.storage.postgres.pace import Pace
from couriermq.storage.postgres.queries import Q

TICK_SECONDS = 1.0
POLL_TICKS = 5
"""Every so many ticks receivers are sent to look wherever there is something, in case a notice was lost."""
MANY = 100

log = logging.getLogger(__name__)


class Watch:
    """Run as a task by the store."""

    def __init__(
        self, circle: Circle, *, on_tick: Callable[[int], Awaitable[None]], on_lost: Callable[[], None]
    ) -> None:
        self._circle = circle
        self._on_tick = on_tick
        self._on_lost = on_lost
        self._pace = Pace(asyncio.get_running_loop().time)
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._connect()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._disconnect()

    async def _connect(self) -> None:
        self._connection = await connect(self._circle.url, self._circle.guard)
        await self._connection.execute(f'LISTEN "{self._circle.channel}"')

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _run(self) -> None:
        ticks = 0
        while True:
            try:
                await self._listen(ticks)
            except (psycopg.Error, CourierError, OSError) as error:
                await self._lose(error)
                await asyncio.sleep(TICK_SECONDS)
            ticks += 1

    async def _lose(self, error: Exception) -> None:
        """The database is gone, or this connection to it; said once, however long it lasts."""
        if self._connection is not None:
            log.warning("the database is out of reach: %s", detail(error, self._circle.url))
            self._on_lost()
        await self._disconnect()

    async def _listen(self, ticks: int) -> None:
        """One tick: hear what there is to hear, then look after the rest."""
        if self._connection is None:
            await self._connect()
            await self._circle.refresh()
            self._circle.marks.forget_all()
            ticks = 0
        assert self._connection is not None
        async for notice in self._connection.notifies(timeout=TICK_SECONDS):
            await self._hear(notice.payload)
        if ticks % POLL_TICKS == 0 and self._pace.is_due:
            with self._pace.look():
                await self._poll()
        await self._on_tick(ticks)

    async def _hear(self, payload: str) -> None:
        try:
            notice = msgspec.json.decode(payload, type=Notice)
        except msgspec.DecodeError:  # from a node of another version, which means something by it
            notice = Notice("", [(EVERYTHING, 1, 0)], catalog=True)
        if notice.node == self._circle.node:
            return
        self._circle.signals.journaled()
        if notice.catalog:
            with contextlib.suppress(CourierError):  # the next transaction finds out
                await self._circle.refresh()
        for key, count, oldest in notice.ready:
            if key == EVERYTHING:
                self._circle.marks.forget_all()
                await self._poll_soon()
            else:
                self._circle.marks.told(key, oldest)
                self._circle.signals.ready(key, count)

    async def _poll_soon(self) -> None:
        """More queues than a notice can name: ask a connection of its own, because this one is listening."""
        connection = await connect(self._circle.url, self._circle.guard)
        try:
            await self._look(connection)
        finally:
            await connection.close()

    async def _poll(self) -> None:
        if self._connection is not None:
            await self._look(self._connection)

    async def _look(self, connection: Connection) -> None:
        for key, ready, _ in await (await connection.execute(Q.tallies)).fetchall():
            if ready:
                self._circle.marks.doubt(key)
                self._circle.signals.ready(key, MANY)
