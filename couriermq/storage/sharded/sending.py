"""Parcels for several shards: one transaction in one of them, which holds what the others are to get."""

from collections.abc import Sequence

import msgspec

from couriermq.core.errors import CourierError, QueueNotFound
from couriermq.core.events import Event
from couriermq.core.model import Kind, Sent
from couriermq.storage.base import Parcel, RoutesChanged
from couriermq.storage.sharded.carrier import pack
from couriermq.storage.sharded.routing import Routing

Outcome = Sent | CourierError


class Sending:
    """Sends what belongs together in one transaction, wherever it goes."""

    def __init__(self, routing: Routing) -> None:
        self._routing = routing

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Outcome]:
        """Each parcel's outcome; one whose queue is on the move is sent again to where that has gone."""
        outcomes = await self._try(parcels, now, principal, events)
        deadline = 0.0
        while left := self._left_over(parcels, outcomes):
            deadline = await self._routing.wait_for(parcels[left[0]].queue, deadline)
            try:
                again = await self._try(part_of(parcels, left), now, principal, ())
            except RoutesChanged:
                if len(left) == len(parcels):
                    raise
                continue  # some are sent: to route all of them anew would send those twice
            for index, outcome in zip(left, again, strict=True):
                outcomes[index] = outcome
        return outcomes

    def _left_over(self, parcels: Sequence[Parcel], outcomes: Sequence[Outcome]) -> list[int]:
        if self._routing.places.is_plain:
            return []
        return [
            index
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, QueueNotFound) and self._is_known(parcels, parcels[index])
        ]

    def _is_known(self, parcels: Sequence[Parcel], parcel: Parcel) -> bool:
        """A copy is not sent again for the sake of an original that has nowhere to go."""
        original = parcel if parcel.copy_of is None else parcels[parcel.copy_of]
        known = self._routing.catalog.queue_of_key
        return known(parcel.queue.key) is not None and known(original.queue.key) is not None

    async def _try(self, parcels: Sequence[Parcel], now: int, principal: str, events: Sequence[Event]) -> list[Outcome]:
        routing = self._routing
        places = {routing.places.of(key) for key in {parcel.queue.key for parcel in parcels}}
        if len(places) == 1:
            return await self._send(places.pop(), parcels, now, principal, events)
        shards: dict[int, list[int]] = {}
        for index, parcel in enumerate(parcels):
            shards.setdefault(routing.places.of(parcel.queue.key), []).append(index)
        first = _leader(parcels, shards) if shards else 0
        own = shards.pop(first, [])
        bundles = [pack(part_of(parcels, indexes), shard, principal=principal) for shard, indexes in shards.items()]
        sent = await self._send(first, [*part_of(parcels, own), *bundles], now, principal, events)
        outcomes: dict[int, Outcome] = dict(zip(own, sent, strict=False))
        for (shard, indexes), outcome in zip(shards.items(), sent[len(own) :], strict=True):
            outcomes.update((index, _accepted(parcels[index], outcome)) for index in indexes)
            if isinstance(outcome, Sent):
                await routing.carrier.delivered(first, shard, outcome.seq, now=now)
        return [outcomes[index] for index in range(len(parcels))]

    async def _send(
        self, shard: int, parcels: Sequence[Parcel], now: int, principal: str, events: Sequence[Event]
    ) -> list[Outcome]:
        engine = await self._routing.engine(shard)
        try:
            return await engine.send(parcels, now=now, principal=principal, events=events)
        except RoutesChanged:
            await self._routing.home.refresh()  # only there it is known how
            raise


def _leader(parcels: Sequence[Parcel], shards: dict[int, list[int]]) -> int:
    """Where the transaction is: with the FIFO queues, whose order is best kept by going straight there."""
    return min(
        shards,
        key=lambda shard: (-sum(parcels[n].queue.kind is Kind.FIFO for n in shards[shard]), -len(shards[shard]), shard),
    )


def part_of(parcels: Sequence[Parcel], indexes: Sequence[int]) -> list[Parcel]:
    """Some of the parcels; a copy and its original are always together, because their queues are."""
    if len(indexes) == len(parcels):
        return list(parcels)
    position = {index: at for at, index in enumerate(indexes)}
    chosen = []
    for index in indexes:
        parcel = parcels[index]
        if parcel.copy_of is not None:
            parcel = msgspec.structs.replace(parcel, copy_of=position.get(parcel.copy_of))
        chosen.append(parcel)
    return chosen


def _accepted(parcel: Parcel, outcome: Outcome) -> Outcome:
    """A parcel in the outbox is as good as sent; its own seq it gets where it is going."""
    if isinstance(outcome, CourierError):
        return outcome
    return Sent(outcome.seq, outcome.id if parcel.draft.id is None else parcel.draft.id)
