"""The control plane of several shards: all of it is at home, and each shard has a copy of the queues that live there.

A new queue and a change reach the shard before the home, a deletion the other way round: so whatever the home shows
works, and what a crash leaves behind is only a copy that nobody asks for, which is found and removed.
"""

import logging
from collections.abc import Sequence

import msgspec

from couriermq.core.errors import Unavailable
from couriermq.core.events import Event
from couriermq.core.model import Listener, Queue
from couriermq.storage.base import StoredRecord
from couriermq.storage.sharded.member import Member, quietly
from couriermq.storage.sharded.places import place_record, queue_record, queues_in, turn_record
from couriermq.storage.sharded.routing import Routing

ROUTES = {"listener", "binding", "exchange"}

log = logging.getLogger(__name__)


class Placing:
    """Writes records where they belong."""

    def __init__(self, routing: Routing) -> None:
        self._routing = routing

    async def change(
        self, put: Sequence[StoredRecord], delete: Sequence[StoredRecord], events: Sequence[Event]
    ) -> None:
        places = self._routing.places
        if places.is_plain:
            await self._routing.home.change_records(put=put, delete=delete, events=events)
            return
        queues, gone = queues_in(put), queues_in(delete)
        self._check_still([*put, *delete], gone)
        placed = [place_record(queue, shard) for queue, shard in self._place(queues, put)]
        await self._put_copies(queues)
        released = [place_record(queue, places.of(queue.key)) for queue in gone if places.of(queue.key)]
        try:
            await self._routing.home.change_records(put=[*put, *placed], delete=[*delete, *released], events=events)
        except BaseException:
            await self._take_back(queues)
            raise
        await self._remove_copies(gone)
        if any(record.kind in ROUTES for record in (*put, *delete)):
            await self._turn()

    async def _turn(self) -> None:
        """Where messages go has changed: no shard takes one that a node has addressed without knowing that."""
        for member in self._routing.open_members():
            if member.number:
                await quietly(member.engine.change_records(put=[turn_record()]), "a shard hears later of new routes")

    def _check_still(self, records: Sequence[StoredRecord], gone: Sequence[Queue]) -> None:
        """A queue that is on the move takes its listeners along: none may come or go meanwhile, nor the queue."""
        listeners = [msgspec.msgpack.decode(r.document, type=Listener) for r in records if r.kind == "listener"]
        changed = {listener.queue_id for listener in listeners} | {queue.id for queue in gone}
        if any(self._routing.places.is_moving(queue_id) for queue_id in changed):
            raise Unavailable("the queue is being moved to another shard; try again when it is there")

    def _place(self, queues: Sequence[Queue], put: Sequence[StoredRecord]) -> list[tuple[Queue, int]]:
        """Give each new queue a place, known to this node from now on; those elsewhere than at home."""
        routing, places = self._routing, self._routing.places
        new = [queue for queue in queues if routing.catalog.queue_of_key(queue.key) is None]
        shard = self._shard_of_new(new, put) if new else 0
        for queue in new:
            places.put(queue.key, shard)
        return [(queue, shard) for queue in new if shard]

    def _shard_of_new(self, new: Sequence[Queue], put: Sequence[StoredRecord]) -> int:
        """The queues of a listener live with the queue that it listens to, any other where there is room."""
        routing, places = self._routing, self._routing.places
        for record in put:
            if record.kind == "listener":
                queue_id = msgspec.msgpack.decode(record.document, type=Listener).queue_id
                heard = routing.catalog.queue_of_id(queue_id)
                return places.of(heard.key) if heard else 0
        return places.choose(places.count(routing.catalog.all_queues()))

    async def _put_copies(self, queues: Sequence[Queue]) -> None:
        for queue in queues:
            number = self._routing.places.of(queue.key)
            if number:
                await self._put_copy(number, queue)

    async def _put_copy(self, number: int, queue: Queue) -> None:
        engine = await self._routing.engine(number)
        await engine.change_records(put=[queue_record(queue)])
        self._routing.members[number].residents.learn(put=[queue_record(queue)], delete=())

    async def _take_back(self, queues: Sequence[Queue]) -> None:
        """What was not to be: the shard gets again what the catalog still says."""
        for queue in queues:
            number, known = self._routing.places.of(queue.key), self._routing.catalog.queue_of_key(queue.key)
            if number and known is not None:
                await quietly(self._put_copy(number, known), "a change could not be taken back")
            elif known is None:
                self._routing.places.forget(queue.key)

    async def _remove_copies(self, gone: Sequence[Queue]) -> None:
        for queue in gone:
            number = self._routing.places.of(queue.key)
            self._routing.places.forget(queue.key)
            if number:
                await quietly(self._remove_copy(number, queue), "a deleted queue is swept later")

    async def _remove_copy(self, number: int, queue: Queue) -> None:
        engine = await self._routing.engine(number)
        self._routing.members[number].residents.learn(put=(), delete=[queue_record(queue)])
        await engine.change_records(delete=[queue_record(queue)])

    # -- after a crash ----------------------------------------------------------------------------------------

    async def reconcile(self, member: Member) -> None:
        """Make a shard's copies what the home says."""
        if member.number and any(self._differences(member)):
            async with self._routing.home.changing():  # nobody creates or deletes a queue meanwhile
                stale, missing = self._differences(member)
                for queue in missing:
                    await self._put_copy(member.number, queue)
                for queue in stale:
                    log.info("queue %s was deleted while its shard could not hear of it", queue.name)
                    await self._remove_copy(member.number, queue)

    def _differences(self, member: Member) -> tuple[list[Queue], list[Queue]]:
        """Copies of queues that are gone, and queues without a copy, or with an old one."""
        routing, held = self._routing, member.residents.residents()
        moving = {one.queue_id for one in routing.places.relocations.values()}
        stale = [
            queue for key, queue in held.items() if routing.catalog.queue_of_key(key) is None and queue.id not in moving
        ]
        missing = [
            queue
            for queue in routing.catalog.all_queues()
            if routing.places.of(queue.key) == member.number and held.get(queue.key) != queue
        ]
        return stale, missing
