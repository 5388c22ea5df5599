"""Named cursors: how far readers of the journal have come, so that nothing is forgotten before they have read it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from couriermq.clock import Clock
from couriermq.core.errors import CursorNotFound
from couriermq.core.shards import shard_of
from couriermq.storage.base import Store, StoredRecord

KIND = "cursor"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of the offset's shard below it has been read and is not needed again."""

    name: str
    offset: int
    changed_at: int


class Cursors:
    """Kept in the store, known by heart. A cursor only moves forward, in each shard on its own."""

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
        key = record.id, int(record.tenant or 0)
        if present:
            self._cursors[key] = msgspec.msgpack.decode(record.document, type=Cursor)
        else:
            self._cursors.pop(key, None)

    def all(self) -> list[Cursor]:
        return [self._cursors[key] for key in sorted(self._cursors)]

    def lowest(self, shard: int = 0) -> int | None:
        """The offset of a shard from which on somebody still wants to read."""
        return min((cursor.offset for (_, its), cursor in self._cursors.items() if its == shard), default=None)

    async def advance(self, name: str, offset: int) -> Cursor:
        """Move a cursor to `offset`, or make it there; one that is further on stays where it is."""
        async with self._turn():
            known = self._cursors.get((name, shard_of(offset)))
            if known is not None and known.offset >= offset:
                return known
            cursor = Cursor(name=name, offset=offset, changed_at=self._clock.now())
            await self._store.change_records(put=[_stored(cursor)])
            self._cursors[_key(cursor)] = cursor
            return cursor

    async def delete(self, name: str) -> None:
        """Forget a cursor in every shard."""
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
    return cursor.name, shard_of(cursor.offset)


def _stored(cursor: Cursor) -> StoredRecord:
    """A record belongs to a tenant, a cursor to none: its shard stands in that place, and nothing for the first."""
    shard = shard_of(cursor.offset)
    document = msgspec.msgpack.encode(cursor)
    return StoredRecord(kind=KIND, tenant=str(shard) if shard else "", id=cursor.name, document=document)
