"""Named cursors: how far readers of the journal have come, so that nothing is forgotten before they have read it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import msgspec

from courier.clock import Clock
from courier.core.errors import CursorNotFound
from courier.storage.base import Store, StoredRecord

KIND = "cursor"


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Everything below `offset` has been read and is not needed again."""

    name: str
    offset: int
    changed_at: int


class Cursors:
    """Kept in the store, known by heart. A cursor only moves forward."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._cursors: dict[str, Cursor] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        for record in await self._store.load_records():
            if record.kind == KIND:
                self._cursors[record.id] = msgspec.msgpack.decode(record.document, type=Cursor)

    def learn(self, record: StoredRecord, present: bool) -> None:
        """Another node has moved or deleted a cursor."""
        if present:
            self._cursors[record.id] = msgspec.msgpack.decode(record.document, type=Cursor)
        else:
            self._cursors.pop(record.id, None)

    def all(self) -> list[Cursor]:
        return sorted(self._cursors.values(), key=lambda cursor: cursor.name)

    def lowest(self) -> int | None:
        """The offset from which on somebody still wants to read."""
        return min((cursor.offset for cursor in self._cursors.values()), default=None)

    async def advance(self, name: str, offset: int) -> Cursor:
        """Move a cursor to `offset`, or make it there; one that is further on stays where it is."""
        async with self._turn():
            known = self._cursors.get(name)
            if known is not None and known.offset >= offset:
                return known
            cursor = Cursor(name=name, offset=offset, changed_at=self._clock.now())
            await self._store.change_records(put=[_stored(cursor)])
            self._cursors[name] = cursor
            return cursor

    async def delete(self, name: str) -> None:
        async with self._turn():
            if name not in self._cursors:
                raise CursorNotFound(name)
            await self._store.change_records(delete=[_stored(self._cursors[name])])
            del self._cursors[name]

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One change at a time, here and on all nodes, by whoever knows what the others have done."""
        async with self._writing, self._store.changing():
            yield


def _stored(cursor: Cursor) -> StoredRecord:
    return StoredRecord(kind=KIND, tenant="", id=cursor.name, document=msgspec.msgpack.encode(cursor))
