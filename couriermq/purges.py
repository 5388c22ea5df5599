"""Purges of whole queues: they run in the background and go on after a restart.

A purge is a record from its start to its end. It says up to which seq messages go, so what is sent later stays, and
how far the purge has come. A node that finds an unfinished purge that nobody carries out begins it again: what is
gone is gone, and the rest is still below the same seq.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable

import msgspec

from couriermq.broker import Broker
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core.duties import UPKEEP
from couriermq.core.errors import CourierError, RecordNotFound
from couriermq.core.model import SECOND, Json, Queue, Record
from couriermq.core.shards import Newest

RECORD = "purge"
"""The kind of the record; its id is the queue's."""
SAVE_MS = 5 * SECOND
"""How often a purge that runs writes down how far it has come."""
STALE_MS = 30 * SECOND
"""A purge of which another node has written nothing for this long has lost its node."""
LOOK_MS = 5 * SECOND

log = logging.getLogger(__name__)


class Purge(msgspec.Struct, kw_only=True):
    """One purge, as its record keeps it."""

    upto_seq: int
    principal: str
    started_at: int
    ended_at: int | None = None
    count: int = 0
    """Messages that are removed so far; after a restart at least so many."""

    def is_same(self, other: "Purge") -> bool:
        """Whether both tell of one purge, whatever each knows of its progress."""
        return (self.upto_seq, self.started_at) == (other.upto_seq, other.started_at)


class Purges:
    """Starts purges, carries them out, and takes up those that were interrupted."""

    def __init__(
        self, broker: Broker, catalog: Catalog, clock: Clock, *, holds: Callable[[str], bool], shared: bool
    ) -> None:
        self._broker = broker
        self._catalog = catalog
        self._clock = clock
        self._holds = holds
        self._shared = shared
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._newest: dict[str, Purge] = {}
        self._writing = asyncio.Lock()
        self._is_open = True

    async def start(self, queue: Queue, *, principal: str) -> Purge:
        """Begin to remove every message that is in the queue now."""
        started_at = self._clock.now()
        purge = Purge(upto_seq=await self._broker.last_seq(queue), principal=principal, started_at=started_at)
        async with self._writing:
            self._newest[queue.id] = purge
            document = msgspec.to_builtins(purge)
            await self._catalog.put_record(RECORD, queue.tenant, document, record_id=queue.id, principal=principal)
        self._begin(queue)
        return purge

    async def purge(self, queue: Queue, *, principal: str, patience_seconds: float) -> Purge:
        """The same; returns at the end of the purge, or how far it has come after so many seconds."""
        purge = await self.start(queue, principal=principal)
        task = self._tasks.get(queue.id)
        if task is not None:
            await asyncio.wait({task}, timeout=patience_seconds)
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error
        return purge

    def last(self, queue: Queue) -> Purge | None:
        """The purge that runs, or else the last that ran; None for a queue that was never purged."""
        if (purge := self._newest.get(queue.id)) is not None and queue.id in self._tasks:
            return purge
        try:
            return _read(self._catalog.record(RECORD, queue.tenant, queue.id))
        except RecordNotFound:
            return None

    async def run(self) -> None:
        """Take up what was interrupted, until cancelled."""
        try:
            while True:
                await self._look()
                await self._clock.sleep_until(self._clock.now() + LOOK_MS)
        finally:
            self.stop()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def stop(self) -> None:
        """Leave what is unfinished to the next start, or to another node."""
        self._is_open = False
        for task in self._tasks.values():
            task.cancel()

    # -- inside -----------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        try:
            for record in self._records():
                queue = self._catalog.queue_of_id(record.id)
                if queue is None:
                    await self._forget(record)
                elif self._is_abandoned(record):
                    self._newest[queue.id] = _read(record)
                    self._begin(queue)
        except CourierError as error:
            log.warning("interrupted purges wait: %s", error)

    def _records(self) -> list[Record]:
        tenants = self._catalog.tenants()
        return [record for tenant in tenants for record in self._catalog.records(RECORD, tenant.id)]

    async def _forget(self, record: Record) -> None:
        if self._holds(UPKEEP):
            await self._catalog.delete_record(RECORD, record.tenant, record.id, principal="courier")

    def _is_abandoned(self, record: Record) -> bool:
        if record.id in self._tasks or _read(record).ended_at is not None:
            return False
        stale = self._clock.now() >= record.changed_at + STALE_MS
        return not self._shared or (stale and self._holds(UPKEEP))

    def _begin(self, queue: Queue) -> None:
        if queue.id not in self._tasks and self._is_open:
            task = self._tasks[queue.id] = asyncio.create_task(self._carry_out(queue))
            task.add_done_callback(lambda done: self._ended(queue, done))

    def _ended(self, queue: Queue, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(queue.id, None)
        if self._newest[queue.id].ended_at is not None:
            del self._newest[queue.id]  # its record tells the rest
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("the purge of queue %s waits: %s", queue.id, error)

    async def _carry_out(self, queue: Queue) -> None:
        """The newest purge of a queue; a newer one that comes meanwhile follows it."""
        while (purge := self._newest[queue.id]).ended_at is None:
            if self._catalog.queue_of_id(queue.id) is None:
                return  # its messages go with it
            await self._carry_out_one(queue, purge)

    async def _carry_out_one(self, queue: Queue, purge: Purge) -> None:
        before, saved_at = purge.count, purge.started_at

        async def told(count: int) -> None:
            nonlocal saved_at
            purge.count = before + count
            if self._clock.now() >= saved_at + SAVE_MS:
                saved_at = self._clock.now()
                await self._save(queue, purge)

        upto = Newest(purge.upto_seq, purge.started_at)
        await self._broker.purge(queue, principal=purge.principal, upto=upto, told=told)
        purge.ended_at = self._clock.now()
        await self._save(queue, purge)

    async def _save(self, queue: Queue, purge: Purge) -> None:
        """Write down how far a purge has come, unless its record is gone or tells of another purge."""

        def renew(record: Record | None) -> Json:
            if record is None or not purge.is_same(_read(record)):
                raise _Replaced
            return msgspec.to_builtins(purge)

        async with self._writing:
            if self._newest.get(queue.id) is purge:
                with contextlib.suppress(_Replaced):
                    await self._catalog.put_record(
                        RECORD, queue.tenant, renew, record_id=queue.id, principal=purge.principal
                    )


class _Replaced(Exception):
    """Another node has begun a newer purge of the queue, or the queue was deleted."""


def _read(record: Record) -> Purge:
    return msgspec.convert(record.document, Purge)
