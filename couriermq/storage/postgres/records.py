"""The control plane in the database: one document a thing, one version for all of them.

Every commit checks the version while it holds the catalog's lock together with others; a change holds the lock alone,
from its first statement to its commit, which are sent together. So no node ever acts on a queue that another has
deleted or changed, however late it hears of it, and no lock is held while a packet is on its way.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import LiteralString

import msgspec

from couriermq.core.errors import AlreadyExists, Unavailable
from couriermq.core.events import Event
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Queue
from couriermq.storage.base import StoredRecord
from couriermq.storage.group_commit import CATALOG, Collector, Joint
from couriermq.storage.postgres.connection import Connection, Pool
from couriermq.storage.postgres.engine import CHANGE_CATALOG, SlotTaken
from couriermq.storage.postgres.facts import Q
from couriermq.storage.postgres.notifications import Node

TURN_LOCK = -2
KEPT_VERSIONS = 100_000
"""How many changes ago something was deleted before the record of it goes, too."""

_queue = msgspec.msgpack.Decoder(Queue)


class TurnLost(Exception):
    """Another node has changed the control plane meanwhile. Not Unavailable, which is an answer to a whole batch."""


class _Turn:
    """What the node knows of the control plane while nobody else changes it."""

    version = 0


class Records:
    """Reads and changes records, and keeps the node's directory up to date with what other nodes do."""

    def __init__(self, node: Node, pool: Pool, commit: Collector, look_again: Callable[[int], None]) -> None:
        self._node = node
        self._pool = pool
        self._commit = commit
        self._look_again = look_again
        self._refreshing = asyncio.Lock()
        self._turn: ContextVar[_Turn | None] = ContextVar("turn", default=None)  # a shard may be changed in it
        node.refresh = self.refresh

    async def load(self) -> list[StoredRecord]:
        """Everything there is, and from now on only what is news."""
        version, found = await self._pool.ask((Q.catalog_version, ()), (Q.read_records, (-1,)))
        self._node.catalog_version = version[0][0]
        return [_stored(row[:5]) for row in found if not row[5] and row[0] != "doomed"]

    async def doomed(self) -> list[Queue]:
        """Queues that were deleted and may still have messages."""
        return [_queue.decode(document) for (document,) in await self._pool.ask_one(Q.doomed)]

    async def refresh(self) -> None:
        """Tell the directory what has changed since it was last told."""
        async with self._refreshing:
            seen = self._node.catalog_version
            version, found = await self._pool.ask((Q.catalog_version, ()), (Q.read_records, (seen,)))
            if version[0][0] <= seen:
                return
            told = [row for row in found if row[0] != "doomed"]
            put, delete = ([_stored(row[:5]) for row in told if row[5] is gone] for gone in (False, True))
            self._node.directory.learn(put=put, delete=delete)
            self._node.catalog_version = version[0][0]
            for queue in queues_of(put):
                self._look_again(queue.key)

    @contextlib.asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        """While inside, no other node changes the control plane, and the directory knows all that they have done."""
        async with self._pool.taken() as connection:
            await self._ask_turn(connection, "SELECT pg_advisory_lock(%s::int, %s::int)")
            turn = _Turn()
            token = self._turn.set(turn)
            try:
                await self.refresh()
                turn.version = self._node.catalog_version
                yield
            finally:
                self._turn.reset(token)
                if not connection.closed:
                    await self._ask_turn(connection, "SELECT pg_advisory_unlock(%s::int, %s::int)")

    async def _ask_turn(self, connection: Connection, sql: LiteralString) -> None:
        """A session of which nobody knows whether it has the lock must not go back into the pool."""
        try:
            await connection.execute(sql, (self._node.space, TURN_LOCK))
        except BaseException:
            await connection.close()
            raise

    async def change(
        self, put: Sequence[StoredRecord], delete: Sequence[StoredRecord], events: Sequence[Event]
    ) -> None:
        if self._turn.get() is None:
            async with self.changing():
                await self.change(put, delete, events)
            return
        try:
            await self.submit(lambda unit, version: _write(unit, put, delete, version), events)
        except SlotTaken:
            taken = await self._taken(put)
            raise AlreadyExists(taken.kind, (taken.slot or taken.id).rpartition("/")[2]) from None
        except TurnLost:
            raise Unavailable("another node has changed the settings meanwhile; try again") from None

    async def submit(self, write: Callable[[Unit, int], None], events: Sequence[Event] = ()) -> None:
        """Commit a change of records that `write` notes, under the version that it is given."""

        turn = self._turn.get()
        assert turn is not None

        def decide(unit: Unit, orders: list[None]) -> list[None]:
            known = self._node.catalog_version
            if known != turn.version:  # the session that had the turn was lost: what is written here is out of date
                raise TurnLost
            unit.order(CHANGE_CATALOG, self._node.space, known)
            write(unit, known + 1)
            unit.events.extend(events)
            return orders

        before = self._node.catalog_version
        try:
            await self._commit.submit(Joint((CATALOG, id(decide)), decide, None, 1))
        except BaseException:
            # It may have been committed, and the node may have heard so already: it is to hear of it again, after the
            # caller has taken it back.
            self._node.catalog_version = min(before, self._node.catalog_version)
            raise
        # Only now: a caller that was cancelled takes back what it knows, and the node has to hear of it.
        turn.version += 1
        self._node.catalog_version = max(turn.version, self._node.catalog_version)

    async def _taken(self, put: Sequence[StoredRecord]) -> StoredRecord:
        """Which of the records wants a slot that another has."""
        for record in put:
            owner = await self._pool.ask_one(Q.slot_owner, record.slot)
            if owner and owner[0] != (record.kind, record.tenant, record.id):
                return record
        return put[0]


def queues_of(records: Iterable[StoredRecord]) -> list[Queue]:
    return [_queue.decode(record.document) for record in records if record.kind == "queue"]


def _write(unit: Unit, put: Sequence[StoredRecord], delete: Sequence[StoredRecord], version: int) -> None:
    for record in delete:
        if record.kind == "queue":
            unit.order("doom_record", record.tenant, record.id, record.document, version)
        unit.order("delete_record", version, record.kind, record.tenant, record.id)
    for record in put:
        unit.order("put_record", record.kind, record.tenant, record.id, record.slot, record.document, version)
    unit.order("forget_records", version - KEPT_VERSIONS)


def _stored(row: Sequence[object]) -> StoredRecord:
    kind, tenant, id_, slot, document = row
    return StoredRecord(kind=kind, tenant=tenant, id=id_, slot=slot, document=document)  # type: ignore[arg-type]
