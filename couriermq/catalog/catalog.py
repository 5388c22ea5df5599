"""The whole catalog, put together from its parts."""

import contextlib

from couriermq.catalog.credentials import Credentials
from couriermq.catalog.exchanges import Exchanges
from couriermq.catalog.listeners import Listeners
from couriermq.catalog.memory import DEFAULT_TENANT
from couriermq.catalog.shelf import KINDS
from couriermq.catalog.tenants import Tenants
from couriermq.catalog.workers import Workers
from couriermq.core.errors import AlreadyExists


class Catalog(Tenants, Listeners, Exchanges, Credentials, Workers):
    """Finds and changes things by tenant. `principal` says who asks, for the journal."""

    async def load(self) -> None:
        """Read everything from the store; a new store gets its default tenant."""
        records = await self._store.load_records()
        for stored in records:
            if stored.kind in KINDS:  # others keep things of their own in the store
                self._remember(self._read(stored))
        await self._seal_again(records)
        await self._seal_workers_again()
        if DEFAULT_TENANT not in self._tenants:
            with contextlib.suppress(AlreadyExists):  # another node that starts was faster
                await self.create_tenant(DEFAULT_TENANT, principal="courier")
