"""The data plane of a store, written once for all engines: orders for the group commit, decided by the core."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from couriermq.core.errors import CourierError, QueueNotFound, Unavailable
from couriermq.core.events import Event
from couriermq.core.lifecycle.browse import browse, read_message
from couriermq.core.lifecycle.hasten import hasten
from couriermq.core.lifecycle.move import move
from couriermq.core.lifecycle.needs import Deciding
from couriermq.core.lifecycle.order import keep_order, leasing_keys, ordered_keys
from couriermq.core.lifecycle.purge import purge, remove_chosen
from couriermq.core.lifecycle.receive import Order as ReceiveOrder
from couriermq.core.lifecycle.receive import receive
from couriermq.core.lifecycle.send import Order as SendOrder
from couriermq.core.lifecycle.send import Outcomes, send
from couriermq.core.lifecycle.settle import Order as SettleOrder
from couriermq.core.lifecycle.settle import Outcome, settle
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import Lease, Message, Page, Queue, Release, Sent, Settled, Settlement
from couriermq.core.receipts import Sealer
from couriermq.core.removal import Removable, Removal
from couriermq.core.shards import Newest
from couriermq.storage.base import Directory, Filter, Moved, Parcel
from couriermq.storage.group_commit import ACK, LATER, RECEIVE, SENDS, Collector, Joint, Work

log = logging.getLogger(__name__)


class DataPlane:
    """What an engine adds: how a queue is brought up to the present, and what a look is."""

    if TYPE_CHECKING:
        sealer: Sealer
        _directory: Directory
        _commit: Collector

    def _check_send(self) -> None:
        """Raise Unavailable where the store takes no messages now."""

    def _likely_count(self, queue: Queue, limit: int) -> int:
        """About how many messages a receiver will get; it decides how many receivers share a commit."""
        raise NotImplementedError

    async def _look(self, order: Work) -> Any:
        """Carry out an order that changes nothing, on what is durable."""
        raise NotImplementedError

    def _is_behind(self, key: int, now: int, unit: Unit | None = None) -> bool:
        """Whether time or a publication has yet to be applied to a queue, or will be when the unit is committed."""
        raise NotImplementedError

    def _bring_on(self, unit: Unit, live: Queue, now: int) -> Deciding[None]:
        """Apply a step of what is to be applied."""
        raise NotImplementedError

    def _step_done(self) -> None:
        """A commit has brought a queue a step on."""

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        self._check_send()
        size = sum([len(parcel.draft.body) for parcel in parcels])
        order = SendOrder(parcels, now, principal, events)
        outcomes: list[Sent | CourierError] = await self._commit.submit(
            Joint(SENDS, self._send, order, len(parcels), size)
        )
        return outcomes

    def _send(self, unit: Unit, orders: list[SendOrder]) -> Deciding[list[Outcomes]]:
        return send(unit, orders, queues=self._directory, sealer=self.sealer)

    async def receive(
        self, queue: Queue, *, limit: int, lease_ms: int, now: int, principal: str, group_limit: int | None = None
    ) -> list[Lease]:
        order = ReceiveOrder(limit, lease_ms, now, principal, group_limit)

        count = self._likely_count(queue, limit)
        joint = Joint(
            (RECEIVE, queue.key), partial(self._receive, queue), order, count, in_order=leasing_keys(queue),
            undo=partial(self.give_back, queue, now=now, principal=principal),
        )  # fmt: skip
        leases: list[Lease] = await self._jointly(joint)
        return leases

    def _receive(
        self, queue: Queue, unit: Unit, orders: list[ReceiveOrder]
    ) -> Deciding[Sequence[list[Lease] | object | None]]:
        latest = max([order.now for order in orders])
        live = yield from self._live(unit, queue, latest)
        if self._is_behind(live.key, latest, unit):
            return [None] * len(orders)
        found = yield from receive(unit, live, orders, sealer=self.sealer, now=latest)
        return [LATER if leases is None else leases for leases in found]

    def give_back(self, queue: Queue, leases: Sequence[Lease] | None, *, now: int, principal: str) -> None:
        """Have leases given back that nobody was told of, as if there had been none."""
        if not leases:
            return
        order = SettleOrder([Release(lease.receipt, 0, untried=True) for lease in leases], now, principal)
        key, decide = ("settle", id(order)), partial(self._give_back, queue)
        joint = Joint(key, decide, order, len(leases), in_order=ordered_keys([queue]))
        self._commit.enqueue(joint).add_done_callback(partial(_note_failure, queue))

    def _give_back(self, queue: Queue, unit: Unit, orders: list[SettleOrder]) -> Deciding[list[list[Outcome]]]:
        """Time has been applied up to the instant of the leases already."""
        live = yield from self._live(unit, queue, orders[0].now)
        return (yield from settle(unit, live, orders, queues=self._directory, sealer=self.sealer))

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, now: int, principal: str
    ) -> list[Settled | CourierError]:
        order = SettleOrder(settlements, now, principal)

        key = (ACK, queue.key) if order.is_ack else ("settle", id(order))
        joint = Joint(key, partial(self._settle, queue), order, len(settlements), in_order=ordered_keys([queue]))
        outcomes: list[Settled | CourierError] = await self._jointly(joint)
        return outcomes

    def _settle(self, queue: Queue, unit: Unit, orders: list[SettleOrder]) -> Deciding[Sequence[list[Outcome] | None]]:
        latest = max([order.now for order in orders])
        live = yield from self._live(unit, queue, latest)
        if self._is_behind(live.key, latest, unit):
            return [None] * len(orders)
        return (yield from settle(unit, live, orders, queues=self._directory, sealer=self.sealer))

    async def _jointly(self, joint: Joint) -> Any:
        """Carry out an order with others about the same queue, in as many commits as it takes to apply time."""
        while (done := await self._commit.submit(joint)) is None:
            self._step_done()
        return done

    async def browse(self, queue: Queue, *, now: int, where: Filter, limit: int, after: str | None = None) -> Page:
        live = await self._catch_up(queue, now)
        decide = partial(browse, queue=live, where=where, sealer=self.sealer, limit=limit, after=after)
        page: Page = await self._look(decide)
        return page

    async def read_message(self, queue: Queue, *, message_id: str, now: int) -> Message:
        live = await self._catch_up(queue, now)
        decide = partial(read_message, queue=live, message_id=message_id, sealer=self.sealer)
        message: Message = await self._look(decide)
        return message

    async def remove(
        self, queue: Queue, *, seqs: Sequence[int], which: Removable, kind: str, now: int, principal: str
    ) -> Removal:
        decide = partial(remove_chosen, seqs=seqs, which=which, kind=kind, now=now, principal=principal)
        removal: Removal = await self._on(queue, now, decide)
        return removal

    async def purge(
        self, queue: Queue, *, upto: Newest, after: str | None, limit: int, now: int, principal: str
    ) -> Moved:
        decide = partial(purge, upto=upto, after=after, limit=limit, now=now, principal=principal)
        moved: Moved = await self._on(queue, now, decide)
        return moved

    async def move(
        self,
        source: Queue,
        target: Queue | None,
        *,
        seqs: Sequence[int] | None,
        upto: Newest,
        after: str | None,
        limit: int,
        kind: str,
        now: int,
        principal: str,
    ) -> Moved:
        def decide(unit: Unit, live: Queue) -> Deciding[Moved]:
            goal = None
            if target is not None:
                goal = yield from self._live(unit, target, now)
            return (
                yield from move(
                    unit, live, goal, queues=self._directory, seqs=seqs, upto=upto, after=after, limit=limit,
                    kind=kind, now=now, principal=principal,
                )
            )  # fmt: skip

        moved: Moved = await self._on(source, now, decide)
        return moved

    async def hasten(
        self, queue: Queue, *, seqs: Sequence[int] | None = None, after: str | None, limit: int, now: int
    ) -> Moved:
        decide = partial(hasten, seqs=seqs, after=after, limit=limit, now=now)
        moved: Moved = await self._on(queue, now, decide)
        return moved

    async def _on(self, queue: Queue, now: int, decide: Callable[[Unit, Queue], Deciding[Any]]) -> Any:
        """Carry out a decision about a queue that time has been applied to, in as many commits as that takes."""

        def order(unit: Unit) -> Deciding[tuple[Any] | None]:
            live = yield from self._live(unit, queue, now)
            return None if self._is_behind(live.key, now, unit) else ((yield from decide(unit, live)),)

        while (done := await self._commit.submit(order)) is None:
            self._step_done()
        return done[0]

    def _live(self, unit: Unit, queue: Queue, now: int) -> Deciding[Queue]:
        """The queue as its settings are now, with a step of time applied; raises QueueNotFound if it was deleted."""
        live = self._known(queue)
        yield from keep_order(live)
        yield from self._bring_on(unit, live, now)
        return live

    def _known(self, queue: Queue) -> Queue:
        live = self._directory.queue_of_key(queue.key)
        if live is None:
            raise QueueNotFound(queue.name)
        return live

    async def _catch_up(self, queue: Queue, now: int) -> Queue:
        """Apply time before a look, step by step, so that the figures are exact."""
        while self._is_behind(self._known(queue).key, now):
            try:
                await self._commit.submit(lambda unit: self._live(unit, queue, now))
            except Unavailable:
                break  # a store that cannot write can still be looked at, as it was when it last could
            self._step_done()
        return self._known(queue)


def _note_failure(queue: Queue, done: "asyncio.Future[Any]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None and not isinstance(error, QueueNotFound):
        log.warning("messages of queue %s are not given back before their leases end: %s", queue.name, error)
