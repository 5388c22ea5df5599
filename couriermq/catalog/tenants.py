"""Changes to tenants."""

import msgspec

from couriermq.catalog.memory import DEFAULT_TENANT
from couriermq.catalog.shelf import Shelf
from couriermq.core import limits
from couriermq.core.errors import AlreadyExists, InUse, Invalid
from couriermq.core.events import EventKind
from couriermq.core.model import Tenant


class Tenants(Shelf):
    """Who owns everything else."""

    async def create_tenant(self, tenant_id: str, *, aliases: dict[str, str] | None = None, principal: str) -> Tenant:
        limits.check_tenant(tenant_id)
        async with self._writing:
            if tenant_id in self._tenants or any(alias == tenant_id for _, alias in self._aliases):
                raise AlreadyExists("tenant", tenant_id)
            tenant = Tenant(id=tenant_id, created_at=self._clock.now(), aliases=aliases or {})
            self._check_aliases(tenant)
            return await self._put(tenant, EventKind.TENANT_ADDED, principal)

    async def change_tenant(self, tenant_id: str, *, aliases: dict[str, str], principal: str) -> Tenant:
        async with self._writing:
            tenant = msgspec.structs.replace(self.tenant(tenant_id), aliases=aliases)
            self._check_aliases(tenant)
            return await self._put(tenant, EventKind.TENANT_CHANGED, principal)

    async def delete_tenant(self, tenant_id: str, *, principal: str) -> None:
        """Remove a tenant that owns nothing any more, with its credentials and records."""
        async with self._writing:
            tenant = self.tenant(tenant_id)
            if tenant_id == DEFAULT_TENANT:
                raise Invalid("the default tenant cannot be deleted", field="tenant")
            if owned := self.queues(tenant_id) or self.exchanges(tenant_id):
                raise InUse(tenant_id, f"{owned[0].name!r}")
            records = [record for record in self._records.values() if record.tenant == tenant_id]
            await self._drop([tenant, *self.credentials(tenant_id), *records], EventKind.TENANT_DELETED, principal)

    def _check_aliases(self, tenant: Tenant) -> None:
        for dialect, alias in tenant.aliases.items():
            owner = self._aliases.get((dialect, alias)) or self._tenants.get(alias)
            if owner is not None and owner.id != tenant.id:
                raise AlreadyExists(f"{dialect} tenant", alias)
