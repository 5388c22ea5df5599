"""Named cursors: how far readers of the journal have come, so that nothing is forgotten before they have read it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from couriermq.clock import Clock
from couriermq.core.errors import CursorNotFound
from couriermq.core.lanes import first_of_lane, lane_name, lane_named, lane_of, shard_of_lane
from couriermq.storage.base import Store, StoredRecord

KIND = "cursor"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of the offset's lane below it has been read and is not needed again."""

    name: str
    offset: int
    changed_at: int


class Cursors:
    """Kept in the store, known by heart. A cursor only moves forward, in each lane on its own."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cursors: dict[tuple[str, int], Cursor] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        for record in await self._store.load_records():
            if record.kind == KIND:
                cursor = msgspec.msgpack.decode(record.document, type=Cursor)
                self._cursors[_key(cursor)] = cursor

    def learn(self, record: StoredRecord, present: bool) -> None:
        """Another node has moved or deleted a cursor."""
        key = record.id, lane_named(record.tenant or "0")
        if present:
            self._cursors[key] = msgspec.msgpack.decode(record.document, type=Cursor)
        else:
            self._cursors.pop(key, None)

    def all(self) -> list[Cursor]:
        return [self._cursors[key] for key in sorted(self._cursors)]

    def lowest(self, lane: int = 0) -> int | None:
        """The offset of a lane from which on somebody still wants to read.

        A reader of a shard that has no cursor in this lane has not seen the lane yet.
        """
        names = {name for name, its in self._cursors if shard_of_lane(its) == shard_of_lane(lane)}
        known = (self._cursors.get((name, lane)) for name in names)
        return min((first_of_lane(lane) if one is None else one.offset for one in known), default=None)

    async def advance(self, name: str, offset: int) -> Cursor:
        """Move a cursor to `offset`, or make it there; one that is further on stays where it is."""
        async with self._turn():
            known = self._cursors.get((name, lane_of(offset)))
            if known is not None and known.offset >= offset:
                return known
            cursor = Cursor(name=name, offset=offset, changed_at=self._clock.now())
            await self._store.change_records(put=[_stored(cursor)])
            self._cursors[_key(cursor)] = cursor
            return cursor

    async def delete(self, name: str) -> None:
        """Forget a cursor in every lane."""
        async with self._turn():
            found = [cursor for cursor in self._cursors.values() if cursor.name == name]
            if not found:
                raise CursorNotFound(name)
            await self._store.change_records(delete=[_stored(cursor) for cursor in found])
            for cursor in found:
                del self._cursors[_key(cursor)]

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One change at a time, here and on all nodes, by whoever knows what the others have done."""
        async with self._writing, self._store.changing():
            yield


def _key(cursor: Cursor) -> tuple[str, int]:
    return cursor.name, lane_of(cursor.offset)


def _stored(cursor: Cursor) -> StoredRecord:
    """A record belongs to a tenant, a cursor to none: its lane stands in that place, and nothing for the first."""
    lane = lane_of(cursor.offset)
    document = msgspec.msgpack.encode(cursor)
    return StoredRecord(kind=KIND, tenant=lane_name(lane) if lane else "", id=cursor.name, document=document)
