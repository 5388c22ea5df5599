"""The data plane: what every dialect asks for, in our words.

The broker checks what callers say, decides by the rules of `core`, leaves durability to the store, and lets
receivers wait until there is something to receive. Batches answer with one outcome an item: the thing itself or
the error that the item alone would have raised.
"""

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from couriermq.admission import Admission
from couriermq.catalog import Catalog
from couriermq.clock import Clock
from couriermq.core import limits
from couriermq.core.errors import CourierError, Invalid, MessageNotFound, QueuePaused
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.jumps import Jump
from couriermq.core.model import (
    Ack,
    Binding,
    Counters,
    Draft,
    Exchange,
    Extend,
    Lease,
    Message,
    Page,
    Published,
    Queue,
    Release,
    Sent,
    Settled,
    Settlement,
)
from couriermq.core.publications import Route, published_event, published_outcome
from couriermq.core.removal import Removable, Removal
from couriermq.core.routing import Document, matches
from couriermq.core.shards import Newest
from couriermq.naming import WebhookIds
from couriermq.pacing import in_steps
from couriermq.storage.base import EventLog, Filter, Journals, Moved, Parcel, RoutesChanged, Span, Store
from couriermq.usage import Usage
from couriermq.waiting import Arrivals

T = TypeVar("T")

COUNTED_MS = 500
"""How long the counters of many queues are cached. Live streams read them once a second, so a stream tells of a message
within 1.5 s."""


class Broker:
    """Send, receive, settle, look, move. Queues are found, and callers' rights checked, before it is asked."""

    def __init__(
        self, store: Store, catalog: Catalog, clock: Clock, arrivals: Arrivals, *, history: EventLog | None = None
    ) -> None:
        self._store = store
        self._history = history or Journals(store)
        self._catalog = catalog
        self._clock = clock
        self._arrivals = arrivals
        catalog.watch_raised_limits(arrivals.ready)
        self._counted = _Counted(0, {})
        self._webhook_ids = WebhookIds(clock)
        self.admission = Admission()
        self.usage = Usage(store, catalog, clock)

    # -- in ---------------------------------------------------------------------------------------------------

    async def send(self, queue: Queue, drafts: Sequence[Draft], *, principal: str) -> list[Sent | CourierError]:
        """Store drafts in one transaction; an item that is refused leaves the others stored."""
        limits.check_count(len(drafts), limits.BATCH_COUNT)
        refusals = [limits.check_draft(draft, queue) for draft in drafts]
        if not any(refusals):
            return await self._store_parcels([Parcel(queue, draft) for draft in drafts], self._clock.now(), principal)
        parcels = [Parcel(queue, draft) for draft, refusal in zip(drafts, refusals, strict=True) if refusal is None]
        outcomes = iter(await self._store_parcels(parcels, self._clock.now(), principal) if parcels else [])
        return [next(outcomes) if refusal is None else refusal for refusal in refusals]

    async def _store_parcels(
        self, parcels: list[Parcel], now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        """Store parcels and their copies for listeners in one transaction; the outcomes are those of the parcels."""
        while True:
            listened = self._are_listened_to(parcels)
            if listened and not events and self._has_many_copies(parcels):
                return await self._store_halves(parcels, now, principal)
            copies = self._all_copies(parcels, now) if listened else []
            every = [*parcels, *copies] if copies else parcels
            size = limits.weight_of_drafts([parcel.draft for parcel in every])
            if copies or events:
                limits.check_copies(size)
            line = self.admission.line_for(size)
            if not line.enter(size):
                await line.wait(size)
            try:
                outcomes = await self._send_within_quota(every, now, principal, events)
            except RoutesChanged:
                if events:  # an exchange's: where its copies go may have changed, too
                    raise
                continue
            finally:
                line.leave(size)
            return outcomes[: len(parcels)] if copies else outcomes

    async def _send_within_quota(
        self, parcels: list[Parcel], now: int, principal: str, events: Sequence[Event]
    ) -> list[Sent | CourierError]:
        """Hand parcels of one tenant to the store; raises StorageExceeded where they do not fit into its quota."""
        tenant = parcels[0].queue.tenant if parcels else None
        if tenant is None or not self._catalog.quotas(tenant).limits_storage:
            return await self._store.send(parcels, now=now, principal=principal, events=events)
        async with self.usage.storing(tenant, len(parcels), sum(len(parcel.draft.body) for parcel in parcels)):
            return await self._store.send(parcels, now=now, principal=principal, events=events)

    def _has_many_copies(self, parcels: Sequence[Parcel]) -> bool:
        """Whether several messages have too many copies for one commit, should every listener get every message."""
        if len(parcels) == 1:
            return False
        copies = max(map(self.copies_of, {one.queue.id: one.queue for one in parcels}.values()))
        return limits.has_many_copies([parcel.draft for parcel in parcels], copies)

    async def _store_halves(self, parcels: list[Parcel], now: int, principal: str) -> list[Sent | CourierError]:
        """Store parcels in two commits; where the second fails, its outcomes say so."""
        half = len(parcels) // 2
        outcomes = await self._store_parcels(parcels[:half], now, principal)
        try:
            return outcomes + await self._store_parcels(parcels[half:], now, principal)
        except CourierError as error:
            return [*outcomes, *[error] * (len(parcels) - half)]

    def _are_listened_to(self, parcels: Sequence[Parcel]) -> bool:
        has_listeners = self._catalog.has_listeners
        if len(parcels) == 1:
            return has_listeners(parcels[0].queue)
        return any(map(has_listeners, {parcel.queue.id: parcel.queue for parcel in parcels}.values()))

    def _all_copies(self, parcels: Sequence[Parcel], now: int) -> list[Parcel]:
        copies: list[Parcel] = []
        body, document = b"", Document(b"")
        for index, parcel in enumerate(parcels):
            if parcel.draft.body is not body:  # parcels of one draft follow each other and share the document
                body = parcel.draft.body
                document = Document(body)
            copies += self._copies(index, parcel, document, now)
        return copies

    def _copies(self, index: int, parcel: Parcel, document: Document, now: int) -> list[Parcel]:
        """What the listeners of a parcel's queue get: the same message in each one's outbox."""
        listeners = self._catalog.listeners_of(parcel.queue)
        if not listeners:
            return []
        draft = parcel.draft
        self._name(draft)  # a message and its copies share one id
        copy = msgspec.structs.replace(
            draft,
            attributes=self._webhook_ids.noted(draft, now),
            delay_ms=parcel.queue.settings.delay_ms if draft.delay_ms is None else draft.delay_ms,
            group=None,
            dedup_id=None,
        )
        return [
            Parcel(self._catalog.outbox(listener), copy, copy_of=index)
            for listener in listeners
            if matches(listener.settings.rules, draft.attributes, document)
        ]

    def _name(self, draft: Draft) -> None:
        if draft.id is None:
            draft.id, draft.minted = self._clock.random_bytes(16).hex(), True

    async def send_one(self, queue: Queue, draft: Draft, *, principal: str) -> Sent:
        """Store one draft by the shortest way: this is what most calls are."""
        if refusal := limits.check_draft(draft, queue):
            raise refusal
        return only(await self._store_parcels([Parcel(queue, draft)], self._clock.now(), principal))

    async def publish(
        self, exchange: Exchange, drafts: Sequence[Draft], *, principal: str
    ) -> list[Published | CourierError]:
        """Copy each draft to every queue whose binding lets it through, all its copies in one transaction.

        A queue whose body limit is too small gets no copy, which the event of the publication says; a draft that is
        too large for all of its queues is refused.
        """
        limits.check_count(len(drafts), limits.BATCH_COUNT)
        if len(drafts) > 1 and limits.has_many_copies(drafts, self.copies_of(exchange)):
            half = len(drafts) // 2
            outcomes = await self.publish(exchange, drafts[:half], principal=principal)
            try:
                return outcomes + await self.publish(exchange, drafts[half:], principal=principal)
            except CourierError as error:
                return [*outcomes, *[error] * (len(drafts) - half)]
        while True:
            with contextlib.suppress(RoutesChanged):
                return await self._publish(exchange, drafts, principal)

    def copies_of(self, target: Queue | Exchange) -> int:
        """How many copies a message for the target has at most, those for listeners included."""
        if isinstance(target, Queue):
            return len(self._catalog.listeners_of(target))
        queues = (self._catalog.queue_of_id(binding.queue_id) for binding in self._catalog.bindings_of(target))
        return sum(1 + len(self._catalog.listeners_of(queue)) for queue in queues if queue is not None)

    async def _publish(
        self, exchange: Exchange, drafts: Sequence[Draft], principal: str
    ) -> list[Published | CourierError]:
        now = self._clock.now()
        bindings = self._catalog.bindings_of(exchange)
        routed = [self._route(bindings, draft) for draft in drafts]
        parcels, events = self._send_out(exchange, drafts, routed, now, principal)
        outcomes = iter(await self._store_parcels(parcels, now, principal, events) if events else ())
        return [
            route
            if isinstance(route, CourierError)
            else published_outcome(draft, [next(outcomes) for _ in route.queues])
            for draft, route in zip(drafts, routed, strict=True)
        ]

    def _send_out(
        self,
        exchange: Exchange,
        drafts: Sequence[Draft],
        routed: Sequence[Route | CourierError],
        now: int,
        principal: str,
    ) -> tuple[list[Parcel], list[Event]]:
        """The parcels of drafts that were routed, and the events that say how far."""
        parcels: list[Parcel] = []
        events: list[Event] = []
        for draft, route in zip(drafts, routed, strict=True):
            if isinstance(route, CourierError):
                continue
            self._name(draft)  # the copies in all queues share one id
            parcels.extend(Parcel(queue, draft) for queue in route.queues)
            events.append(published_event(exchange, draft, route, now, principal))
        return parcels, events

    def address(
        self, target: Queue | Exchange, drafts: Sequence[Draft], *, principal: str
    ) -> tuple[list[Parcel], list[Event], dict[int, CourierError]]:
        """What a later transaction has to store for drafts, copies and events included; and the refusals by index.

        Raises Invalid where all of it is too large to be stored at once.
        """
        events: list[Event] = []
        if isinstance(target, Queue):
            checked = ((index, limits.check_draft(draft, target)) for index, draft in enumerate(drafts))
            refusals = {index: refusal for index, refusal in checked if refusal is not None}
            parcels = [Parcel(target, draft) for draft in drafts]
        else:
            bindings = self._catalog.bindings_of(target)
            routed = [self._route(bindings, draft) for draft in drafts]
            refusals = {index: route for index, route in enumerate(routed) if isinstance(route, CourierError)}
            parcels, events = self._send_out(target, drafts, routed, self._clock.now(), principal)
        copies = self._all_copies(parcels, self._clock.now()) if self._are_listened_to(parcels) else []
        every = [*parcels, *copies]
        if copies or events:
            limits.check_copies(limits.weight_of_drafts([parcel.draft for parcel in every]))
        return every, events, refusals

    def _route(self, bindings: Sequence[Binding], draft: Draft) -> Route | CourierError:
        """Where a draft goes; a refusal when no queue that it is meant for can take it."""
        document = Document(draft.body)
        queues = [
            queue
            for binding in bindings
            if (queue := self._catalog.queue_of_id(binding.queue_id)) is not None
            and matches(binding.rules, draft.attributes, document)
        ]
        taken = limits.takers(draft, queues)
        return taken if isinstance(taken, CourierError) else Route(taken, len(queues) - len(taken))

    # -- out --------------------------------------------------------------------------------------------------

    async def receive(
        self,
        queue: Queue,
        *,
        principal: str,
        limit: int = 1,
        lease_ms: int | None = None,
        wait_ms: int = 0,
        group_limit: int | None = None,
    ) -> list[Lease]:
        """Lease up to `limit` messages; with none to be had, wait up to `wait_ms` for the first to come."""
        limits.check_range("limit", limit, 1, limits.RECEIVE_COUNT)
        limits.check_range("wait_ms", wait_ms, 0, limits.WAIT_MS)
        lease_ms = queue.settings.lease_ms if lease_ms is None else lease_ms
        limits.check_range("lease_ms", lease_ms, 0, limits.LEASE_MS)
        deadline = self._clock.now() + wait_ms
        woken = False
        while True:
            seen = self._arrivals.seen(queue.key)
            now = self._clock.now()
            with self._arrivals.looking(queue.key, woken=woken):
                if queue.settings.paused:
                    raise QueuePaused(queue.name)
                leases = await self._store.receive(
                    queue, limit=limit, lease_ms=lease_ms, now=now, principal=principal, group_limit=group_limit
                )
            if leases or now >= deadline:
                return leases
            self._catalog.queue_by_id(queue.tenant, queue.id)  # it may have been deleted while this call looked
            with self.usage.waiting(queue):
                woken = await self._arrivals.wait(queue.key, seen=seen, until=deadline)
            if not woken:
                deadline = now  # the wait is over: look once more, then answer
            queue = self._catalog.queue_by_id(queue.tenant, queue.id)

    def waiting_count(self, queue: Queue) -> int:
        """Receivers that wait at this node for a message of the queue."""
        return self._arrivals.waiting_count(queue.key)

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, principal: str
    ) -> list[Settled | CourierError]:
        """Ack, release and extend, mixed as the caller likes; a settlement out of range fails alone."""
        limits.check_count(len(settlements), limits.BATCH_COUNT)
        refusals = [limits.check_settlement(settlement) for settlement in settlements]
        good = [s for s, refusal in zip(settlements, refusals, strict=True) if refusal is None]
        settled = iter(
            await self._store.settle(queue, good, now=self._clock.now(), principal=principal) if good else ()
        )
        return [next(settled) if refusal is None else refusal for refusal in refusals]

    async def ack(self, queue: Queue, receipt: str, *, principal: str) -> Settled:
        """The message is done; raises LeaseLost when the lease has ended (see the queue's `late_ack`)."""
        return only(await self.settle(queue, [Ack(receipt)], principal=principal))

    async def release(self, queue: Queue, receipt: str, *, delay_ms: int | None = None, principal: str) -> Settled:
        """Give the message back as a failed attempt, to be ready again after `delay_ms`."""
        return only(await self.settle(queue, [Release(receipt, delay_ms)], principal=principal))

    async def extend(self, queue: Queue, receipt: str, *, lease_ms: int, principal: str) -> Settled:
        """Hold the message for `lease_ms` more, from now; raises LeaseLost if the lease has ended."""
        return only(await self.settle(queue, [Extend(receipt, lease_ms)], principal=principal))

    # -- look and move ----------------------------------------------------------------------------------------

    async def browse(
        self, queue: Queue, *, where: Filter | None = None, limit: int = 100, after: str | None = None
    ) -> Page:
        """Look at messages without leasing them, oldest first."""
        limits.check_range("limit", limit, 1, limits.BROWSE_COUNT)
        return await self._store.browse(queue, now=self._clock.now(), where=where or Filter(), limit=limit, after=after)

    async def read_message(self, queue: Queue, message_id: str) -> Message:
        """One live message by id, whatever its state; raises MessageNotFound."""
        return await self._store.read_message(queue, message_id=message_id, now=self._clock.now())

    async def counters(self, queue: Queue) -> Counters:
        return await self._store.counters(queue, now=self._clock.now())

    async def counters_of(self, queues: Sequence[Queue]) -> dict[int, Counters]:
        """The counters of many queues by their keys, at most COUNTED_MS old; a queue that is gone is left out."""
        now, counted = self._clock.now(), self._counted
        if counted.at <= now - COUNTED_MS or counted.at > now:
            counted = self._counted = _Counted(now, {})
        if missing := [queue for queue in queues if queue.key not in counted.counters]:
            counted.counters.update(await self._store.counters_of(missing, now=now))
        return {queue.key: counted.counters[queue.key] for queue in queues if queue.key in counted.counters}

    async def last_seq(self, queue: Queue) -> int:
        """The seq of the newest message: what is sent from now on has a higher one."""
        return await self._store.last_seq(queue)

    async def purge(
        self,
        queue: Queue,
        *,
        principal: str,
        upto: Newest | None = None,
        told: Callable[[int], Awaitable[None]] | None = None,
    ) -> int:
        """Remove every message that `upto` covers, or that is in the queue now, whatever its state; returns how many.

        It takes as long as the queue is; `told` hears after each step how many messages are gone.
        """
        bound = upto or Newest(at=self._clock.now(), seq=await self.last_seq(queue))

        def step(after: str | None, limit: int) -> Awaitable[Moved]:
            return self._store.purge(
                queue, upto=bound, after=after, limit=limit, now=self._clock.now(), principal=principal
            )

        return await in_steps(step, told=told)

    async def remove(
        self, queue: Queue, seqs: Sequence[int], *, which: Removable = Removable.ANY, principal: str
    ) -> Removal:
        """Remove chosen messages, all that are there or only those that nobody holds."""
        return await self._store.remove(
            queue, seqs=seqs, which=which, kind=EventKind.PURGED, now=self._clock.now(), principal=principal
        )

    async def cancel(self, queue: Queue, message_id: str, *, principal: str) -> Message:
        """Take a message back before anybody has received it; raises MessageNotFound, or Invalid once it was."""
        message, which = await self.read_message(queue, message_id), Removable.UNTOUCHED
        removal = await self._store.remove(
            queue, seqs=[message.seq], which=which, kind=EventKind.CANCELLED, now=self._clock.now(), principal=principal
        )
        if removal.kept:
            raise Invalid("the message has been received; only one that waits untouched can be cancelled", field="id")
        if not removal.gone:
            raise MessageNotFound(message_id)
        return message

    async def move(self, source: Queue, target: Queue, *, seqs: Sequence[int] | None = None, principal: str) -> int:
        """Move messages that are not leased, all or chosen ones, to another queue of the tenant; returns how many."""
        return await self._move(source, target, seqs, kind=EventKind.MOVED, principal=principal)

    async def redrive(
        self, queue: Queue, *, seqs: Sequence[int] | None = None, target: Queue | None = None, principal: str
    ) -> int:
        """Send dead letters back to where they died, or to `target`, with fresh attempts; returns how many."""
        return await self._move(queue, target, seqs, kind=EventKind.REDRIVEN, principal=principal)

    async def _move(
        self, source: Queue, target: Queue | None, seqs: Sequence[int] | None, *, kind: EventKind, principal: str
    ) -> int:
        if seqs is not None:
            limits.check_count(len(seqs), limits.BATCH_COUNT)
        if target is not None and source.key == target.key:
            raise Invalid("a queue's messages cannot be moved to itself", field="target")
        upto = Newest(at=self._clock.now(), seq=await self._store.last_seq(source))

        def step(after: str | None, limit: int) -> Awaitable[Moved]:
            return self._store.move(
                source,
                target,
                seqs=seqs,
                upto=upto,
                after=after,
                limit=limit,
                kind=kind,
                now=self._clock.now(),
                principal=principal,
            )

        return await in_steps(step)

    async def hasten(self, queue: Queue, *, seqs: Sequence[int] | None = None) -> int:
        """Make ready at once what waits for another attempt, all or exactly these; returns how many messages.

        What fails again meanwhile and then waits for less long than the rest may be taken twice.
        """

        def step(after: str | None, limit: int) -> Awaitable[Moved]:
            return self._store.hasten(queue, seqs=seqs, after=after, limit=limit, now=self._clock.now())

        return await in_steps(step)

    # -- journal ----------------------------------------------------------------------------------------------

    @property
    def jumps(self) -> Sequence[Jump]:
        return self._history.jumps

    async def spans(self) -> dict[int, Span]:
        """Which offsets of the journal can be read, of each lane."""
        return await self._history.spans()

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        """Events in order from offset `start`; raises OffsetGone for what was trimmed."""
        return await self._history.read_events(start=start, limit=limit)

    async def offsets_at(self, at: int) -> dict[int, int]:
        """The offset of each lane's first event of that instant or later; its next offset when there is none."""
        return await self._history.offsets_at(at)

    def stop_waiting(self) -> None:
        """Answer every waiting receiver now, with what there is: the server is going down."""
        self._arrivals.close()


class _Counted(NamedTuple):
    """Counters that were read since an instant."""

    at: int
    counters: dict[int, Counters]


def only(outcomes: Sequence[T | CourierError]) -> T:
    """The outcome of a batch of one: returned, or raised when it is an error."""
    outcome = outcomes[0]
    if isinstance(outcome, CourierError):
        raise outcome
    return outcome


__all__ = ["Broker", "Filter", "only"]
