"""Which Workers run where: records whose URL and secrets are encrypted at rest as those of listeners are."""

import msgspec

from couriermq.catalog.memory import WORKER_RECORD
from couriermq.catalog.records import Records
from couriermq.core.consumers import SCRIPT_CHARS, Worker
from couriermq.core.errors import Invalid, RecordNotFound, WorkerNotFound
from couriermq.core.model import Json, Record, Secret
from couriermq.core.redaction import redacted_url


class _Secrets(msgspec.Struct, frozen=True):
    """What of a worker is encrypted."""

    url: str
    secrets: tuple[Secret, ...]


class _Document(msgspec.Struct, frozen=True):
    """What the record holds: the origin of the URL and `sealed`, or everything in the clear."""

    url: str
    secrets: tuple[Secret, ...] = ()
    sealed: bytes = b""


class Workers(Records):
    """Attach scripts to the bridges that run them."""

    async def attach_worker(
        self, tenant: str, script: str, url: str, *, secrets: tuple[Secret, ...], principal: str
    ) -> Worker:
        """Serve the tenant's consumers of that script at the URL from now on."""
        if not 1 <= len(script) <= SCRIPT_CHARS or not script.isprintable():
            raise Invalid(f"the name of a script has 1 to {SCRIPT_CHARS} visible characters", field="script")
        document = self._worker_document(tenant, script, _Secrets(url, secrets))
        record = await self.put_record(WORKER_RECORD, tenant, document, record_id=script, principal=principal)
        return self._worker(record)

    async def detach_worker(self, tenant: str, script: str, *, principal: str) -> None:
        try:
            await self.delete_record(WORKER_RECORD, tenant, script, principal=principal)
        except RecordNotFound:
            raise WorkerNotFound(script) from None

    def worker(self, tenant: str, script: str) -> Worker:
        try:
            return self._worker(self.record(WORKER_RECORD, tenant, script))
        except RecordNotFound:
            raise WorkerNotFound(script) from None

    def workers(self, tenant: str) -> list[Worker]:
        """Every worker of a tenant, by the name of its script."""
        found = [self._worker(record) for record in self.records(WORKER_RECORD, tenant)]
        return sorted(found, key=lambda worker: worker.script)

    def _worker(self, record: Record) -> Worker:
        """Raises CannotUnseal where the key is missing."""
        document = msgspec.convert(record.document, _Document)
        opened = _Secrets(document.url, document.secrets)
        if document.sealed:
            text = self._vault.unseal(
                document.sealed, place=_place(record.tenant, record.id), whose=f"worker {record.id}"
            )
            opened = msgspec.msgpack.decode(text, type=_Secrets)
        return Worker(
            tenant=record.tenant,
            script=record.id,
            url=opened.url,
            secrets=opened.secrets,
            created_at=record.created_at,
            changed_at=record.changed_at,
        )

    def _worker_document(self, tenant: str, script: str, plain: _Secrets) -> Json:
        sealed = self._vault.seal(msgspec.msgpack.encode(plain), place=_place(tenant, script))
        document = _Document(redacted_url(plain.url), (), sealed) if sealed else _Document(plain.url, plain.secrets)
        return msgspec.to_builtins(document)

    async def _seal_workers_again(self) -> None:
        """Encrypt with the newest key what an older one has encrypted, or none; raises CannotUnseal."""
        documents: dict[tuple[str, str], Json] = {}
        for record in [one for (kind, _, _), one in self._records.items() if kind == WORKER_RECORD]:
            worker = self._worker(record)
            if not self._vault.is_current(msgspec.convert(record.document, _Document).sealed):
                plain = _Secrets(worker.url, worker.secrets)
                documents[worker.tenant, worker.script] = self._worker_document(worker.tenant, worker.script, plain)
        await self.put_records(WORKER_RECORD, documents, principal="courier")


def _place(tenant: str, script: str) -> bytes:
    """Binds what is encrypted to its worker, so that it cannot be moved to another."""
    return f"worker/{tenant}/{script}".encode()
