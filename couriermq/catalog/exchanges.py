"""Changes to exchanges and their bindings."""

from collections.abc import Callable, Sequence

import msgspec

from couriermq.catalog.shelf import Shelf, changed
from couriermq.core import limits
from couriermq.core.events import EventKind
from couriermq.core.model import Binding, Exchange, Json, Queue, Rule
from couriermq.core.routing import check_rule


class Exchanges(Shelf):
    """Exchanges share their names with queues."""

    async def create_exchange(
        self, tenant: str, name: str, *, annotations: dict[str, Json] | None = None, principal: str
    ) -> Exchange:
        limits.check_name(name)
        async with self._writing:
            self.tenant(tenant)
            self._check_free(tenant, name)
            self._check_quota(tenant, "max_queues", self.queue_count(tenant))
            now = self._clock.now()
            exchange = Exchange(
                id=self._mint_id(tenant),
                tenant=tenant,
                name=name,
                annotations=annotations or {},
                created_at=now,
                changed_at=now,
            )
            return await self._put(exchange, EventKind.EXCHANGE_ADDED, principal)

    async def change_exchange(
        self,
        exchange: Exchange,
        *,
        annotations: dict[str, Json] | Callable[[dict[str, Json]], dict[str, Json]],
        principal: str,
    ) -> Exchange:
        """Replace the annotations; a function makes them from what stands when it is this change's turn."""
        async with self._writing:
            exchange = self.exchange(exchange.tenant, exchange.id)
            wanted = msgspec.structs.replace(
                exchange, annotations=changed(exchange.annotations, annotations), changed_at=self._clock.now()
            )
            return await self._put(wanted, EventKind.EXCHANGE_CHANGED, principal)

    async def delete_exchange(self, exchange: Exchange, *, principal: str) -> None:
        """Remove an exchange and its bindings."""
        async with self._writing:
            exchange = self.exchange(exchange.tenant, exchange.id)
            await self._drop([exchange, *self.bindings_of(exchange)], EventKind.EXCHANGE_DELETED, principal)

    async def bind(
        self,
        exchange: Exchange,
        queue: Queue,
        *,
        rules: Sequence[Rule] | Callable[[Binding | None], Sequence[Rule]] = (),
        principal: str,
    ) -> Binding:
        """Bind a queue to an exchange, or replace the rules of a binding that is there.

        A function makes the rules from the binding, if there is one, when it is this change's turn, or raises.
        """
        async with self._writing:
            exchange, queue = self.exchange(exchange.tenant, exchange.id), self.queue_by_id(exchange.tenant, queue.id)
            old, now = self._bindings.get(exchange.id, {}).get(queue.id), self._clock.now()
            wanted = tuple(rules(old) if callable(rules) else rules)
            for rule in wanted:
                check_rule(rule)
            if old is not None and old.rules == wanted:
                return old
            binding = Binding(
                tenant=exchange.tenant,
                exchange_id=exchange.id,
                queue_id=queue.id,
                rules=wanted,
                created_at=old.created_at if old else now,
                changed_at=now,
            )
            return await self._put(binding, EventKind.BINDING_CHANGED if old else EventKind.BINDING_ADDED, principal)

    async def unbind(self, exchange: Exchange, queue: Queue, *, principal: str) -> None:
        async with self._writing:
            await self._drop([self.binding(exchange, queue)], EventKind.BINDING_DELETED, principal)
