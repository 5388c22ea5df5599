"""Changes to listeners, each with the two queues that it needs."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from couriermq.catalog.queues import Queues
from couriermq.core import limits
from couriermq.core.consumers import dead_letters_of
from couriermq.core.errors import Invalid
from couriermq.core.events import EventKind
from couriermq.core.model import Kind, LateAck, Listener, ListenerSettings, Queue, QueueSettings
from couriermq.core.routing import check_rule

LEASE_MARGIN_MS = 5_000


class Listeners(Queues):
    """A listener is a queue with a request at its end."""

    async def create_listener(
        self,
        queue: Queue,
        name: str,
        url: str,
        *,
        settings: ListenerSettings | None = None,
        principal: str,
        **facts: Any,
    ) -> Listener:
        """A listener with the two queues that it needs; `facts` are further fields of Listener."""
        settings = settings or ListenerSettings()
        self._check_listener(settings)
        async with self._writing:
            queue = self.queue_by_id(queue.tenant, queue.id)
            self._check_listener_name(queue, name)
            if len(self.listeners_of(queue)) >= limits.LISTENER_COUNT:
                raise Invalid(f"a queue has at most {limits.LISTENER_COUNT} listeners; use another queue")
            self._check_quota(queue.tenant, "max_listeners", self.listener_count(queue.tenant))
            listener_id, now = self._mint_id(queue.tenant), self._clock.now()
            dead = await self._new_queue(queue.tenant, f"~{listener_id}/dead", owner=listener_id)
            target = dead_letters_of(queue, facts.get("annotations", {}), dead.id)
            outbox = await self._new_queue(
                queue.tenant,
                f"~{listener_id}",
                owner=listener_id,
                kind=Kind.FIFO if settings.ordered else Kind.STANDARD,
                settings=_outbox_settings(QueueSettings(dead_letter_queue=target), settings),
            )
            listener = Listener(
                id=listener_id,
                tenant=queue.tenant,
                queue_id=queue.id,
                name=name,
                url=url,
                outbox_id=outbox.id,
                dead_letters_id=dead.id,
                settings=settings,
                created_at=now,
                changed_at=now,
                **facts,
            )
            return await self._put(listener, EventKind.LISTENER_ADDED, principal, dead, outbox)

    async def change_listener(
        self,
        listener: Listener,
        change: Callable[[Listener], Mapping[str, Any]] | None = None,
        *,
        principal: str,
        **changes: Any,
    ) -> Listener:
        """Change name, url, liveness_url, state, reason, secrets, settings or annotations.

        `change` makes the changes from the listener as it stands when it is this change's turn, or raises.
        """
        async with self._writing:
            queue = self.queue_by_id(listener.tenant, listener.queue_id)
            listener = self.listener(queue, listener.id)
            wanted = {**changes, **(change(listener) if change is not None else {})}
            changed = msgspec.structs.replace(listener, **wanted, changed_at=self._clock.now())
            if changed.name != listener.name:
                self._check_listener_name(queue, changed.name, of=listener.id)
            self._check_listener(changed.settings)
            if changed.settings.ordered != listener.settings.ordered:
                raise Invalid("whether deliveries are ordered is decided when a listener is made", field="ordered")
            outbox = self.outbox(listener)
            outbox = msgspec.structs.replace(outbox, settings=_outbox_settings(outbox.settings, changed.settings))
            return await self._put(changed, EventKind.LISTENER_CHANGED, principal, outbox)

    async def delete_listener(self, listener: Listener, *, principal: str) -> None:
        """Remove a listener with all that waits for it."""
        async with self._writing:
            listener = self.listener(self.queue_by_id(listener.tenant, listener.queue_id), listener.id)
            await self._drop(self._with_queues(listener), EventKind.LISTENER_DELETED, principal)

    def _check_listener(self, settings: ListenerSettings) -> None:
        for rule in settings.rules:
            check_rule(rule)


def _outbox_settings(present: QueueSettings, listener: ListenerSettings) -> QueueSettings:
    """A delivery's lease outlasts its request, and it has one attempt more than the schedule has waits."""
    return msgspec.structs.replace(
        present,
        lease_ms=listener.timeout_ms + LEASE_MARGIN_MS,
        max_attempts=len(listener.schedule_ms) + 1,
        retention_ms=limits.RETENTION_MS,
        max_body_bytes=limits.BODY_BYTES,
        late_ack=LateAck.ACCEPT,  # what has arrived is not delivered again for want of an ack in time
        archive_bodies=False,
    )
