"""Changes to the documents that dialects keep."""

from courier.catalog.shelf import Shelf
from courier.clock import mint_id
from courier.core.events import EventKind
from courier.core.model import Json, Record


class Records(Shelf):
    """Documents by kind, tenant and id."""

    async def put_record(
        self, kind: str, tenant: str, document: Json, *, record_id: str | None = None, principal: str
    ) -> Record:
        """Keep a document for a dialect, new or in place of the one with this id."""
        async with self._writing:
            self.tenant(tenant)
            record_id, now = record_id or mint_id(self._clock), self._clock.now()
            old = self._records.get((kind, tenant, record_id))
            record = Record(
                kind=kind,
                tenant=tenant,
                id=record_id,
                document=document,
                created_at=old.created_at if old else now,
                changed_at=now,
            )
            return await self._put(record, EventKind.RECORD_CHANGED if old else EventKind.RECORD_ADDED, principal)

    async def keep_record(self, kind: str, tenant: str, document: Json, *, record_id: str, principal: str) -> Record:
        """Keep a document unless there is one under this id; the one that is kept."""
        async with self._writing:
            if old := self._records.get((kind, tenant, record_id)):
                return old
            now = self._clock.now()
            record = Record(kind=kind, tenant=tenant, id=record_id, document=document, created_at=now, changed_at=now)
            return await self._put(record, EventKind.RECORD_ADDED, principal)

    async def delete_record(self, kind: str, tenant: str, record_id: str, *, principal: str) -> None:
        async with self._writing:
            await self._drop([self.record(kind, tenant, record_id)], EventKind.RECORD_DELETED, principal)
