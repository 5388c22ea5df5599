"""Changes to the documents that dialects keep."""

from collections.abc import Callable, Mapping

from couriermq.catalog.shelf import Shelf
from couriermq.clock import mint_id
from couriermq.core.events import EventKind
from couriermq.core.model import Json, Record


class Records(Shelf):
    """Documents by kind, tenant and id."""

    async def put_record(
        self,
        kind: str,
        tenant: str,
        document: Json | Callable[[Record | None], Json],
        *,
        record_id: str | None = None,
        principal: str,
    ) -> Record:
        """Keep a document for a dialect, new or in place of the one with this id.

        A function makes the document from the record, if there is one, when it is this change's turn, or raises.
        """
        async with self._writing:
            self.tenant(tenant)
            record_id = record_id or mint_id(self._clock)
            wanted = document(self._records.get((kind, tenant, record_id))) if callable(document) else document
            told = self._told(kind, tenant, record_id)
            return await self._put(self._renewed(kind, tenant, record_id, wanted), told, principal)

    async def change_record(
        self, kind: str, tenant: str, record_id: str, change: Callable[[Json], Json], *, principal: str
    ) -> Record:
        """Keep what a function makes of the document that stands when it is this change's turn; raises RecordNotFound
        where there is none, and writes nothing where it is the same."""
        async with self._writing:
            present = self.record(kind, tenant, record_id)
            document = change(present.document)
            if document == present.document:
                return present
            return await self._put(
                self._renewed(kind, tenant, record_id, document), EventKind.RECORD_CHANGED, principal
            )

    async def put_records(self, kind: str, documents: Mapping[tuple[str, str], Json], *, principal: str) -> None:
        """Keep documents by tenant and id, all in one change; those of tenants that are gone are left out."""
        async with self._writing:
            present = {where: document for where, document in documents.items() if where[0] in self._tenants}
            told = {where: self._told(kind, *where) for where in present}
            records = {where: self._renewed(kind, *where, document) for where, document in present.items()}
            await self._put_all([(records[where], told[where]) for where in present], principal)

    def _told(self, kind: str, tenant: str, record_id: str) -> EventKind:
        known = (kind, tenant, record_id) in self._records
        return EventKind.RECORD_CHANGED if known else EventKind.RECORD_ADDED

    def _renewed(self, kind: str, tenant: str, record_id: str, document: Json) -> Record:
        old, now = self._records.get((kind, tenant, record_id)), self._clock.now()
        created_at = old.created_at if old else now
        return Record(kind=kind, tenant=tenant, id=record_id, document=document, created_at=created_at, changed_at=now)

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
