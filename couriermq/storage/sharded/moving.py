"""Moving a queue to another shard while it is in use.

The queue and the queues of its listeners are copied while they work; what has changed meanwhile is in the journal and
copied again, until little is left. Then a fence in the old database stops everybody there, the rest is copied, and one
commit at home changes the map. Until that commit the old copy is the queue, from it on the new one: a crash at any
point leaves it whole in one place.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter

import msgspec

from couriermq.clock import Clock, fresh_key
from couriermq.core.errors import InUse, Invalid, QueueNotFound
from couriermq.core.lanes import first_of_lane
from couriermq.core.model import MINUTE, Kind, Queue
from couriermq.core.sharding import Relocation, RelocationState
from couriermq.core.shards import era_start
from couriermq.storage.sharded.member import START, Engine, Mark, Places, Position, Versions, quietly
from couriermq.storage.sharded.places import (
    era_record,
    fence_record,
    named_record,
    place_record,
    queue_record,
    relocation_record,
)
from couriermq.storage.sharded.routing import Routing

LITTLE = 1_000
"""Changes that may be left for the time in which callers wait."""
MOST_ROUNDS = 20
BEAT_SECONDS = 1.0

log = logging.getLogger(__name__)


class Overtaken(Exception):
    """Somebody else has taken the move over; this run must not go on."""


class Move:
    """One run of one relocation."""

    def __init__(
        self,
        routing: Routing,
        clock: Clock,
        relocation: Relocation,
        family: Sequence[Queue],
        *,
        reached: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`reached` is told of each point at which a run might die."""
        self._routing = routing
        self._clock = clock
        self._relocation = relocation
        self._family = family
        self._keys = [queue.key for queue in family]
        self._ids = {queue.id for queue in family}
        self._versions: dict[int, Versions] = {queue.key: {} for queue in family}
        self._told_at = 0.0
        self._may_have_flipped = False
        self._mark: Mark = relocation.queue_id, relocation.runner
        self._reached = reached

    async def run(self) -> None:
        """Move the queue, or leave it where it is and raise why."""
        source = await self._routing.engine(self._relocation.source)
        target = await self._routing.engine(self._relocation.target)
        started_at = self._clock.now()
        for engine in (source, target):
            await engine.porting.take_mark(self._mark)
        await target.porting.erase(self._family, self._mark)  # what an earlier run has left
        places = {lane: span.next for lane, span in (await source.spans()).items()}
        await self._copy_all(source, target)
        await self._reach("copied")
        places = await self._catch_up(source, target, places)
        await self._take_over(source, target, places, started_at)
        await self._reach("flipped")
        await clean(self._routing, self._relocation, self._family)
        await self._tell(RelocationState.DONE)

    async def _reach(self, point: str) -> None:
        if self._reached is not None:
            await self._reached(point)

    async def _copy_all(self, source: Engine, target: Engine) -> None:
        self._change(total_count=await source.porting.count(self._keys))
        await self._copy_packs(source, target)
        for key in self._keys:
            after: Position | None = START
            while after is not None:
                count, after = await source.porting.copy_page(target.porting, key, after, self._mark)
                self._change(copied_count=self._relocation.copied_count + count)
                await self._beat()

    async def _copy_packs(self, source: Engine, target: Engine) -> None:
        for key, known in self._versions.items():
            self._versions[key] = await source.porting.copy_packs(target.porting, key, known, self._mark)

    async def _catch_up(self, source: Engine, target: Engine, places: Places) -> Places:
        """Copy again what has changed, until that is little; the offset of each lane up to which it is done."""
        for _ in range(MOST_ROUNDS):
            seqs, places = await self._touched(source, places)
            await source.porting.copy_named(target.porting, self._keys, seqs, self._mark)
            await self._copy_packs(source, target)
            await self._beat()
            if len(seqs) <= LITTLE:
                break
        return places

    async def _touched(self, source: Engine, places: Places) -> tuple[list[int], Places]:
        """Messages that have changed since these places, and where the journal ends now."""
        starts = {lane: places.get(lane, first_of_lane(lane)) for lane in await source.spans()}
        return await source.porting.touched(starts, self._ids)

    async def _take_over(self, source: Engine, target: Engine, places: Places, started_at: int) -> None:
        await self._tell(RelocationState.FROZEN)
        began = perf_counter()
        try:
            await self._fence(source)
            await self._reach("fenced")
            await self._copy_rest(source, target, places, started_at)
            await self._reach("whole")
            await self._flip(target, began)
        except BaseException:
            if not self._may_have_flipped:  # else the fence stays until somebody has read what the map says
                await quietly(thaw(self._routing, self._relocation, self._family), "the queue waits")
            raise
        log.info("queue %s moved", self._relocation.queue, extra={"frozen_ms": self._relocation.frozen_ms})

    async def _fence(self, source: Engine) -> None:
        """Nobody writes to the queue in the old place from the commit of this on."""
        residents = self._routing.members[self._relocation.source].residents
        async with self._routing.home.changing():
            self._check_mine()
            residents.fence(self._keys)
            await source.change_records(put=[fence_record(queue) for queue in self._family])

    async def _copy_rest(self, source: Engine, target: Engine, places: Places, started_at: int) -> None:
        ported = source.porting
        seqs, _ = await self._touched(source, places)
        seqs += await ported.arrived_since(self._keys, started_at - MINUTE)
        seqs += await target.porting.delayed(self._keys, self._clock.now() + MINUTE)
        await ported.copy_named(target.porting, self._keys, sorted(set(seqs)), self._mark)
        await self._copy_packs(source, target)
        await ported.copy_rest(target.porting, self._family, self._mark)
        if any(queue.kind is Kind.FIFO for queue in self._family):
            await self._keep_order(source, target)

    async def _keep_order(self, source: Engine, target: Engine) -> None:
        """New messages of a FIFO queue must come after those that it brings: they need higher seqs."""
        queue = self._family[0]
        if await source.last_seq(queue) <= await target.last_seq(queue):
            return
        home = self._routing.home
        async with home.changing():
            era = self._routing.places.next_era
            await home.change_records(put=[era_record(era + 1)])
            self._routing.places.next_era = era + 1
        await target.porting.start_seqs(era_start(era))

    async def _flip(self, target: Engine, began: float) -> None:
        """The one commit that decides; the new place first gets the queues as their settings are now."""
        routing, to, home = self._routing, self._relocation.target, self._routing.home
        async with home.changing():
            self._check_mine()
            known = [_present(routing, queue) for queue in self._family]
            if to:
                copies = [queue_record(queue) for queue in known]
                await target.change_records(put=copies)
                routing.members[to].residents.learn(put=copies, delete=())
            frozen_ms = round((perf_counter() - began) * 1_000)
            done = self._changed(state=RelocationState.CLEANING, frozen_ms=frozen_ms)
            news = [*map(named_record, known), *(place_record(queue, to) for queue in known), relocation_record(done)]
            self._may_have_flipped = True  # from here on also where an error comes back
            await home.change_records(put=news)
            self._relocation = done
            routing.places.learn(news, ())
        routing.heard(set(self._keys))

    # -- telling ----------------------------------------------------------------------------------------------

    def _changed(self, **changes: object) -> Relocation:
        return msgspec.structs.replace(
            self._relocation, **changes, beat=self._relocation.beat + 1, changed_at=self._clock.now()
        )

    def _change(self, **changes: object) -> None:
        self._relocation = self._changed(**changes)

    async def _beat(self) -> None:
        """Say now and then that this run lives, and how far it is."""
        if perf_counter() - self._told_at >= BEAT_SECONDS:
            await self._tell(self._relocation.state)

    async def _tell(self, state: RelocationState) -> None:
        async with self._routing.home.changing():
            self._check_mine()
            self._change(state=state)
            await tell(self._routing, self._relocation)
        self._told_at = perf_counter()

    def _check_mine(self) -> None:
        known = self._routing.places.relocations.get(self._relocation.queue_id)
        if known is None or known.runner != self._relocation.runner:
            raise Overtaken("another node has taken the move over and ended it")


def family_of(routing: Routing, queue: Queue) -> list[Queue]:
    """A queue, and the queues of its listeners, which live where it does."""
    found = [queue]
    for listener in routing.catalog.listeners_of(queue):
        owned = [routing.catalog.queue_of_id(id_) for id_ in (listener.outbox_id, listener.dead_letters_id)]
        found += [one for one in owned if one is not None]
    return found


async def begin(routing: Routing, clock: Clock, queue: Queue, to: int) -> Relocation:
    """Note that a queue is to move; raises what stands against it."""
    async with routing.home.changing():
        queue = _present(routing, queue)
        source = routing.places.of(queue.key)
        if queue.owner is not None:
            raise Invalid("a listener's queues live with the queue that it listens to; move that", field="queue")
        if source == to:
            raise Invalid(f"queue {queue.name!r} is there already", field="to")
        if routing.places.is_moving(queue.id):
            raise InUse(queue.name, "a move that is under way")
        relocation = Relocation(
            tenant=queue.tenant,
            queue_id=queue.id,
            queue=queue.name,
            source=source,
            target=to,
            runner=fresh_key().hex()[:16],
            started_at=clock.now(),
            changed_at=clock.now(),
        )
        await tell(routing, relocation)
        return relocation


def _present(routing: Routing, queue: Queue) -> Queue:
    """The queue as its settings are now; raises QueueNotFound for one that was deleted."""
    known = routing.catalog.queue_of_key(queue.key)
    if known is None:
        raise QueueNotFound(queue.name)
    return known


async def tell(routing: Routing, relocation: Relocation) -> None:
    record = relocation_record(relocation)
    await routing.home.change_records(put=[record])
    routing.places.learn([record], ())


async def thaw(routing: Routing, relocation: Relocation, family: Sequence[Queue]) -> None:
    """Let the queue go on where it was."""
    source, mark = await routing.engine(relocation.source), (relocation.queue_id, relocation.runner)
    await source.porting.remove_records([fence_record(queue) for queue in family], mark)
    routing.members[relocation.source].residents.unfence([queue.key for queue in family])


async def clean(routing: Routing, relocation: Relocation, family: Sequence[Queue]) -> None:
    """The queue lives elsewhere now: remove what it has left behind."""
    await _remove_copy(routing, relocation, relocation.source, family)
    await thaw(routing, relocation, family)


async def undo(routing: Routing, relocation: Relocation, family: Sequence[Queue]) -> None:
    """The queue stays where it was: remove the copy that was not finished."""
    await thaw(routing, relocation, family)
    await _remove_copy(routing, relocation, relocation.target, family)


async def _remove_copy(routing: Routing, relocation: Relocation, number: int, family: Sequence[Queue]) -> None:
    engine, mark = await routing.engine(number), (relocation.queue_id, relocation.runner)
    await engine.porting.erase(family, mark)
    if number:  # the home knows every queue, wherever it lives
        copies = [queue_record(queue) for queue in family]
        routing.members[number].residents.learn(put=(), delete=copies)
        await engine.porting.remove_records(copies, mark)
