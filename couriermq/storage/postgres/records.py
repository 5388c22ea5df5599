"""The control plane in the database: one document a thing, one version for all of them.

Every transaction of the data plane holds the catalog's lock together with the others and sees which version stands; a
change holds it alone. So no node ever acts on a queue that another has deleted or changed, however late it hears of it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import partial
from time import perf_counter

import msgspec
import psycopg

from couriermq.core.errors import AlreadyExists
from couriermq.core.events import Event
from couriermq.core.model import Queue
from couriermq.storage.base import StoredRecord
from couriermq.storage.postgres.arrays import numbers
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.failures import refusal
from couriermq.storage.postgres.link import Connection, Step, ask
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.transaction import CATALOG_LOCK, Transaction

TURN_LOCK = -2
KEPT_VERSIONS = 100_000
"""How many changes ago something was deleted before the record of it goes, too."""

_queue = msgspec.msgpack.Decoder(Queue)


class Records:
    """Reads and changes records, and keeps the node's directory up to date with what other nodes do."""

    def __init__(self, circle: Circle, pool: Pool, look_again: Callable[[int], None]) -> None:
        self._circle = circle
        self._pool = pool
        self._look_again = look_again
        self._refreshing = asyncio.Lock()
        self._turn: ContextVar[Connection | None] = ContextVar("turn", default=None)  # a shard may be changed in it
        circle.refresh = self.refresh

    async def load(self) -> list[StoredRecord]:
        """Everything there is, and from now on only what is news."""
        version, found = await self._pool.ask((Q.catalog_version, {}), (Q.read_records, {"version": -1}))
        self._circle.catalog_version = version[0][0]
        return [_stored(row[:5]) for row in found if not row[5] and row[0] != "doomed"]

    async def doomed(self) -> list[Queue]:
        """Queues that were deleted and may still have messages."""
        return [_queue.decode(document) for (document,) in await self._pool.ask_one(Q.doomed)]

    async def refresh(self) -> None:
        """Tell the directory what has changed since it was last told."""
        async with self._refreshing:
            seen = self._circle.catalog_version
            version, found = await self._pool.ask((Q.catalog_version, {}), (Q.read_records, {"version": seen}))
            if version[0][0] <= seen:
                return
            told = [row for row in found if row[0] != "doomed"]
            put, delete = ([_stored(row[:5]) for row in told if row[5] is gone] for gone in (False, True))
            self._circle.directory.learn(put=put, delete=delete)
            self._circle.catalog_version = version[0][0]
            for queue in queues_of(put):
                self._look_again(queue.key)

    @contextlib.asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """While inside, no other node changes the control plane, and the directory knows all that they have done."""
        async with self._pool.taken() as connection:
            where = (self._circle.space, TURN_LOCK)
            await connection.execute("SELECT pg_advisory_lock(%s, %s)", where)
            token = self._turn.set(connection)
            try:
                await self.refresh()
                yield
            finally:
                self._turn.reset(token)
                if not connection.closed:
                    await connection.execute("SELECT pg_advisory_unlock(%s, %s)", where)

    async def change(
        self, put: Sequence[StoredRecord], delete: Sequence[StoredRecord], events: Sequence[Event]
    ) -> None:
        connection = self._turn.get()
        if connection is None:
            async with self.changing():
                await self.change(put, delete, events)
            return
        try:
            await self._write(connection, put, delete, events)
        except psycopg.errors.UniqueViolation:
            await connection.execute("ROLLBACK")
            taken = await self._taken(put)
            raise AlreadyExists(taken.kind, (taken.slot or taken.id).rpartition("/")[2]) from None
        except psycopg.Error as error:
            raise refusal(error) from error

    async def _taken(self, put: Sequence[StoredRecord]) -> StoredRecord:
        """Which of the records wants a slot that another has."""
        for record in put:
            owner = await self._pool.ask_one(Q.slot_owner, slot=record.slot)
            if owner and owner[0] != (record.kind, record.tenant, record.id):
                return record
        return put[0]

    async def _write(
        self,
        connection: Connection,
        put: Sequence[StoredRecord],
        delete: Sequence[StoredRecord],
        events: Sequence[Event],
    ) -> None:
        circle = self._circle
        lock = Q.lock, {"space": circle.space, "keys": numbers([CATALOG_LOCK])}
        _, _, ((present,),) = await ask(connection, [("BEGIN", {}), lock, (Q.catalog_version, {})])
        tx = Transaction(connection, circle.space)
        tx.events.extend(events)
        steps = _writes(put, delete, present + 1)
        started = perf_counter()
        with circle.attempt(tx):
            wrote = await tx.commit(partial(circle.notice, catalog=True), steps)
        if circle.catalog_version == present:  # nobody else had a turn since the directory was told
            circle.catalog_version = present + 1
        circle.committed(tx, wrote, 1, perf_counter() - started)


def queues_of(records: Iterable[StoredRecord]) -> list[Queue]:
    return [_queue.decode(record.document) for record in records if record.kind == "queue"]


def _writes(put: Sequence[StoredRecord], delete: Sequence[StoredRecord], version: int) -> list[Step]:
    steps: list[Step] = []
    for record in delete:
        where = {"kind": record.kind, "tenant": record.tenant, "id": record.id, "version": version}
        if record.kind == "queue":
            steps.append((Q.doom_record, {**where, "document": record.document}))
        steps.append((Q.delete_record, where))
    steps += [(Q.put_record, {**msgspec.structs.asdict(record), "version": version}) for record in put]
    steps.append((Q.put_catalog_version, {"version": version}))
    return [*steps, (Q.forget_records, {"version": version - KEPT_VERSIONS})]


def _stored(row: Sequence[object]) -> StoredRecord:
    kind, tenant, id_, slot, document = row
    return StoredRecord(kind=kind, tenant=tenant, id=id_, slot=slot, document=document)  # type: ignore[arg-type]
