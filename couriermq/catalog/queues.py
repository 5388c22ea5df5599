"""Changes to queues."""

from collections.abc import Callable
from typing import Any

import msgspec

from couriermq.catalog.shelf import Shelf, changed
from couriermq.core import limits
from couriermq.core.consumers import dead_letters_of
from couriermq.core.errors import AlreadyExists, DeadLetterCycle, InUse, QueueNotFound
from couriermq.core.events import EventKind
from couriermq.core.model import Json, Kind, Queue, QueueSettings


class Queues(Shelf):
    """Queues and what must hold between them."""

    async def create_queue(
        self,
        tenant: str,
        name: str,
        *,
        kind: Kind = Kind.STANDARD,
        settings: QueueSettings | None = None,
        annotations: dict[str, Json] | None = None,
        aliases: dict[str, str] | None = None,
        principal: str,
    ) -> Queue:
        """Raises AlreadyExists when the tenant has a queue or an exchange of that name, or another with an alias."""
        limits.check_name(name)
        async with self._writing:
            self.tenant(tenant)
            self._check_free(tenant, name)
            self._check_quota(tenant, "max_queues", self.queue_count(tenant))
            queue = await self._new_queue(
                tenant,
                name,
                kind=kind,
                settings=settings or QueueSettings(),
                annotations=annotations or {},
                aliases=aliases or {},
            )
            self._check_queue(queue)
            return await self._put(queue, EventKind.QUEUE_ADDED, principal)

    async def _new_queue(self, tenant: str, name: str, **facts: Any) -> Queue:
        key, now = await self._store.next_key(), self._clock.now()
        return Queue(
            key=key, id=self._mint_id(tenant), tenant=tenant, name=name, **facts, created_at=now, changed_at=now
        )

    async def change_queue(
        self,
        queue: Queue,
        *,
        name: str | None = None,
        settings: QueueSettings | Callable[[QueueSettings], QueueSettings] | None = None,
        annotations: dict[str, Json] | Callable[[dict[str, Json]], dict[str, Json]] | None = None,
        aliases: dict[str, str] | None = None,
        check: Callable[[Queue], None] | None = None,
        principal: str,
    ) -> Queue:
        """Replace what is given and keep the rest; a queue's kind is for life.

        What is given as a function is made from what stands when it is this change's turn. `check` is given the queue
        as it stands then, and raises where that forbids the change.
        """
        async with self._writing:
            queue = self.queue_by_id(queue.tenant, queue.id)
            if check is not None:
                check(queue)
            if name is not None and name != queue.name:
                limits.check_name(name)
                self._check_free(queue.tenant, name)
            wanted = msgspec.structs.replace(
                queue,
                name=name or queue.name,
                settings=changed(queue.settings, settings),
                annotations=changed(queue.annotations, annotations),
                aliases=queue.aliases if aliases is None else aliases,
                changed_at=self._clock.now(),
            )
            self._check_queue(wanted)
            return await self._put(wanted, EventKind.QUEUE_CHANGED, principal, *self._redirected_outboxes(wanted))

    def _redirected_outboxes(self, queue: Queue) -> list[Queue]:
        """The outboxes of the queue's consumer whose dead letters go elsewhere with the queue's from now on."""
        found = []
        for listener in self.listeners_of(queue):
            outbox = self.outbox(listener)
            target = dead_letters_of(queue, listener.annotations, listener.dead_letters_id)
            if outbox.settings.dead_letter_queue != target:
                settings = msgspec.structs.replace(outbox.settings, dead_letter_queue=target)
                found.append(msgspec.structs.replace(outbox, settings=settings))
        return found

    async def delete_queue(self, queue: Queue, *, principal: str) -> None:
        """Remove a queue, its bindings and, with time, its messages; raises InUse while it takes dead letters."""
        async with self._writing:
            queue = self.queue_by_id(queue.tenant, queue.id)
            if sources := self.dead_letter_sources(queue):
                raise InUse(queue.name, f"the dead letters of queue {sources[0].name!r}")
            listening = [thing for listener in self.listeners_of(queue) for thing in self._with_queues(listener)]
            await self._drop([queue, *self.bindings_to(queue), *listening], EventKind.QUEUE_DELETED, principal)

    def _check_queue(self, queue: Queue) -> None:
        limits.check_settings(queue.settings)
        self._check_queue_aliases(queue)
        target_id, seen = queue.settings.dead_letter_queue, {queue.id}
        while target_id is not None:
            if target_id in seen:
                raise DeadLetterCycle(queue.name)
            seen.add(target_id)
            target = self._queues.get(target_id)
            if target is None or target.tenant != queue.tenant:
                raise QueueNotFound(target_id)
            target_id = target.settings.dead_letter_queue

    def _check_queue_aliases(self, queue: Queue) -> None:
        """An alias must not lead to two queues, nor take the address of another queue or exchange."""
        for dialect, alias in queue.aliases.items():
            limits.check_alias(alias)
            others = (self._queue_aliases.get((queue.tenant, dialect, alias)), self._find(queue.tenant, alias))
            if any(other is not None and other.id != queue.id for other in others):
                raise AlreadyExists("queue", alias)
