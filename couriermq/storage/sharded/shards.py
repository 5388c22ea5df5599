"""What an operator does with shards: look at them, add one, weigh and drain them, move a queue.

One node, the one that does the upkeep, finishes what a dead one has begun and empties the shards that are drained.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import msgspec

from couriermq.clock import Clock
from couriermq.core.duties import UPKEEP
from couriermq.core.errors import AlreadyExists, InUse, Invalid
from couriermq.core.model import HOUR, Queue
from couriermq.core.sharding import Relocation, RelocationState, Shard, ShardFigures, ShardState
from couriermq.core.shards import MOST_SHARDS, OUTBOX
from couriermq.storage.base import CannotOpen
from couriermq.storage.sharded.member import Engine, quietly
from couriermq.storage.sharded.moving import Move, begin, clean, family_of, tell, undo
from couriermq.storage.sharded.places import queues_in, relocation_record, shard_record
from couriermq.storage.sharded.placing import Placing
from couriermq.storage.sharded.routing import Routing

TICK_SECONDS = 1.0
SILENT_TICKS = 10
"""A move that has not been heard of for so long has no node any more."""
KEPT_MS = HOUR

log = logging.getLogger(__name__)


class Shards:
    """The shards of a store, as `courier shards` shows and changes them."""

    def __init__(self, routing: Routing, placing: Placing, clock: Callable[[], Clock]) -> None:
        self._routing = routing
        self._placing = placing
        self._clock = clock
        self._moves: dict[str, asyncio.Task[None]] = {}
        self._heard: dict[str, tuple[int, int]] = {}

    # -- looking ----------------------------------------------------------------------------------------------

    def figures(self) -> list[ShardFigures]:
        routing = self._routing
        counts = routing.places.count(routing.catalog.all_queues())
        return [
            ShardFigures(shard=shard, queue_count=counts[shard.number], trouble=routing.members[shard.number].trouble)
            for shard in routing.places.present
        ]

    def relocations(self) -> list[Relocation]:
        return sorted(self._routing.places.relocations.values(), key=lambda one: one.started_at)

    def relocation(self, queue: Queue) -> Relocation | None:
        return self._routing.places.relocations.get(queue.id)

    def shard_of(self, queue: Queue) -> Shard:
        return self._routing.places.shards[self._routing.places.of(queue.key)]

    # -- changing ---------------------------------------------------------------------------------------------

    async def add(self, name: str, url: str, *, weight: int) -> Shard:
        """Make an empty database a shard; raises Invalid when it cannot be one."""
        places = self._routing.places
        async with self._routing.home.changing():
            if any(shard.name == name for shard in places.present):
                raise AlreadyExists("shard", name)
            if len(places.shards) == MOST_SHARDS:
                raise Invalid(f"a store has at most {MOST_SHARDS} shards")
            shard = Shard(number=len(places.shards), name=name, url=url, weight=weight)
            async with self._opened(shard):
                pass  # it can be one
            await self._put(shard)
        self._routing.heard(set())
        return shard

    @contextlib.asynccontextmanager
    async def _opened(self, shard: Shard) -> AsyncIterator[Engine]:
        """A database as it would be with this shard; raises Invalid when it cannot be that."""
        member = self._routing.new_member(shard)
        try:
            await member.engine.open(directory=member.residents, signals=member.signals)
        except CannotOpen as error:
            raise Invalid(str(error), field="url") from error
        try:
            yield member.engine
        finally:
            await member.engine.close()

    async def change(self, name: str, **changes: object) -> Shard:
        """Change weight, state or address."""
        async with self._routing.home.changing():
            known = self._routing.places.shard_named(name)
            shard = msgspec.structs.replace(known, **changes)
            if shard.url != known.url:
                await self._find_again(shard)
            await self._put(shard)
        self._routing.heard(set())
        return shard

    async def _find_again(self, shard: Shard) -> None:
        """At another address there must be the same shard: an empty database would make its queues empty, too."""
        if shard.number == 0:
            raise Invalid("the home is where --store says; restart the nodes with another one", field="url")
        async with self._opened(shard) as engine:
            there = {queue.id for queue in queues_in(await engine.load_records())}
        lacking = [queue.name for queue in self._queues_on(shard) if queue.id not in there]
        if lacking:
            raise Invalid(f"the database is not shard {shard.name!r}: it lacks queue {min(lacking)!r}", field="url")

    def _queues_on(self, shard: Shard) -> list[Queue]:
        places, catalog = self._routing.places, self._routing.catalog
        return [queue for queue in catalog.all_queues() if places.of(queue.key) == shard.number]

    async def remove(self, name: str) -> None:
        """Let go of a shard that is drained and empty; its number stays taken."""
        async with self._routing.home.changing():
            shard = self._routing.places.shard_named(name)
            if shard.number == 0:
                raise Invalid("the home holds everything that is not a message; it cannot be removed")
            await self._check_empty(shard)
            engine = await self._routing.engine(shard.number)
            end, *others = (span.next for span in (await engine.spans()).values())
            removed = {"state": ShardState.REMOVED, "url": "", "weight": 0, "end": end, "other_ends": tuple(others)}
            await self._put(msgspec.structs.replace(shard, **removed, jumps=tuple(engine.jumps)))
        self._routing.heard(set())

    async def _check_empty(self, shard: Shard) -> None:
        places, catalog = self._routing.places, self._routing.catalog
        if shard.state is not ShardState.DRAINING:
            raise Invalid(f"shard {shard.name!r} is in use; drain it first")
        if queues := self._queues_on(shard):
            raise InUse(shard.name, f"queue {queues[0].name!r}")
        moves = [one for one in places.relocations.values() if shard.number in {one.source, one.target}]
        if any(not one.state.is_over for one in moves):
            raise InUse(shard.name, "a queue that is on the move")
        engine = await self._routing.engine(shard.number)
        on_their_way = [*range(OUTBOX, OUTBOX + MOST_SHARDS), *(-queue.key for queue in catalog.all_queues())]
        if await engine.porting.count(on_their_way):
            raise InUse(shard.name, "messages that are on their way to other shards")

    async def _put(self, shard: Shard) -> None:
        record = shard_record(shard)
        await self._routing.home.change_records(put=[record])
        self._routing.places.learn([record], ())

    # -- moving -----------------------------------------------------------------------------------------------

    async def move(self, queue: Queue, to: str) -> Relocation:
        """Begin to move a queue; how far that is, `relocation` tells."""
        target = self._routing.places.shard_named(to)
        await self._routing.engine(target.number)
        relocation = await begin(self._routing, self._clock(), queue, target.number)
        self._moves[queue.id] = asyncio.create_task(self._run(relocation, queue))
        return relocation

    async def _run(self, relocation: Relocation, queue: Queue) -> None:
        family = family_of(self._routing, queue)
        try:
            await Move(self._routing, self._clock(), relocation, family).run()
        except Exception as error:
            log.warning("queue %s could not be moved: %s", relocation.queue, error)
            await quietly(self._give_up(relocation, str(error)), "the move is undone later")
        finally:
            self._moves.pop(queue.id, None)

    async def _give_up(self, relocation: Relocation, reason: str) -> None:
        """End a run that failed or died: forward where the map has changed, else back."""
        routing = self._routing
        async with routing.home.changing():
            known = routing.places.relocations.get(relocation.queue_id)
            if known is None or known.runner != relocation.runner or known.state.is_over:
                return
            moved = known.state is RelocationState.CLEANING
            taken = msgspec.structs.replace(
                known,
                runner=f"{known.runner}+",
                state=known.state if moved else RelocationState.UNDOING,
                beat=known.beat + 1,
            )
            await tell(routing, taken)
        for number in (known.source, known.target):
            await (await routing.engine(number)).porting.take_mark((taken.queue_id, taken.runner))
        queue = routing.catalog.queue_of_id(known.queue_id)
        family = family_of(routing, queue) if queue else []
        await (clean if moved else undo)(routing, taken, family)
        over = RelocationState.DONE if moved else RelocationState.FAILED
        now = self._clock().now()
        await tell(
            routing, msgspec.structs.replace(taken, state=over, reason=None if moved else reason, changed_at=now)
        )

    # -- upkeep -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                await asyncio.sleep(TICK_SECONDS)
                if not self._routing.places.is_plain and self._routing.home.holds(UPKEEP):
                    await quietly(self.tick(), "the upkeep of shards waits")
        finally:
            await self.stop()

    async def stop(self) -> None:
        for task in (tasks := list(self._moves.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def tick(self) -> None:
        for member in self._routing.open_members():
            await self._placing.reconcile(member)
        for relocation in self.relocations():
            await self._look_after(relocation)
        for shard in self._routing.places.present:
            if shard.state is ShardState.DRAINING:
                await self._drain(shard)

    async def _look_after(self, relocation: Relocation) -> None:
        if relocation.state.is_over:
            if relocation.changed_at + KEPT_MS < self._clock().now():
                await self._forget(relocation)
            return
        beat, ticks = self._heard.get(relocation.queue_id, (-1, 0))
        ticks = ticks + 1 if beat == relocation.beat else 0
        self._heard[relocation.queue_id] = relocation.beat, ticks
        if ticks >= SILENT_TICKS and relocation.queue_id not in self._moves:
            await self._give_up(relocation, "the node that moved it is gone")

    async def _forget(self, relocation: Relocation) -> None:
        record = relocation_record(relocation)
        self._heard.pop(relocation.queue_id, None)
        await self._routing.home.change_records(delete=[record])
        self._routing.places.learn((), [record])

    async def _drain(self, shard: Shard) -> None:
        """Move the next queue away, one at a time."""
        routing, places = self._routing, self._routing.places
        if any(not one.state.is_over and one.source == shard.number for one in places.relocations.values()):
            return
        queues = routing.catalog.all_queues()
        here = [queue for queue in queues if queue.owner is None and places.of(queue.key) == shard.number]
        target = places.choose(places.count(queues))
        if here and target != shard.number:
            await self.move(min(here, key=lambda queue: queue.key), places.shards[target].name)
