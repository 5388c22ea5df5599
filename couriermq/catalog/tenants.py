"""Changes to tenants."""

import ipaddress
from collections.abc import Callable, Sequence

import msgspec

from couriermq.catalog.memory import DEFAULT_TENANT
from couriermq.catalog.shelf import Shelf, changed
from couriermq.core import limits
from couriermq.core.errors import AlreadyExists, InUse, Invalid
from couriermq.core.events import EventKind
from couriermq.core.model import Tenant
from couriermq.core.quotas import Quotas


class Tenants(Shelf):
    """Who owns everything else."""

    async def create_tenant(
        self,
        tenant_id: str,
        *,
        aliases: dict[str, str] | None = None,
        delivery_allow: Sequence[str] = (),
        quotas: Quotas | None = None,
        principal: str,
    ) -> Tenant:
        limits.check_tenant(tenant_id)
        _check_networks(delivery_allow)
        async with self._writing:
            if tenant_id in self._tenants or any(alias == tenant_id for _, alias in self._aliases):
                raise AlreadyExists("tenant", tenant_id)
            tenant = Tenant(
                id=tenant_id,
                created_at=self._clock.now(),
                aliases=aliases or {},
                delivery_allow=tuple(delivery_allow),
                quotas=quotas or Quotas(),
            )
            self._check_aliases(tenant)
            return await self._put(tenant, EventKind.TENANT_ADDED, principal)

    async def change_tenant(
        self,
        tenant_id: str,
        *,
        aliases: dict[str, str] | Callable[[dict[str, str]], dict[str, str]] | None = None,
        delivery_allow: Sequence[str] | None = None,
        quotas: Quotas | None = None,
        principal: str,
    ) -> Tenant:
        """Replace aliases, networks and quotas; None leaves them as they are.

        A function makes the aliases from those that stand when it is this change's turn.
        """
        _check_networks(delivery_allow or ())
        async with self._writing:
            tenant = self.tenant(tenant_id)
            tenant = msgspec.structs.replace(tenant, aliases=changed(tenant.aliases, aliases))
            if delivery_allow is not None:
                tenant = msgspec.structs.replace(tenant, delivery_allow=tuple(delivery_allow))
            if quotas is not None:
                tenant = msgspec.structs.replace(tenant, quotas=quotas)
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


def _check_networks(networks: Sequence[str]) -> None:
    """Networks that a tenant may deliver to."""
    if len(networks) > limits.NETWORK_COUNT:
        raise Invalid(f"a tenant has at most {limits.NETWORK_COUNT} networks of its own", field="delivery_allow")
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            raise Invalid(f"{network!r} is not a network such as 10.0.0.0/8", field="delivery_allow") from None
