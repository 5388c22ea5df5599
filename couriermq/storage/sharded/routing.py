"""Finding the shard of a queue, also while the queue moves from one to another."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar, cast

from couriermq.clock import Clock
from couriermq.core.errors import QueueNotFound, Unavailable
from couriermq.core.model import Listener, Queue
from couriermq.core.sharding import HOME, Shard
from couriermq.storage.base import Directory, Signals
from couriermq.storage.sharded.carrier import Carrier, Send
from couriermq.storage.sharded.member import Engine, Member, ShardSignals, quietly
from couriermq.storage.sharded.places import Places
from couriermq.storage.sharded.residents import HomeResidents, Residents

T = TypeVar("T")

PATIENCE_SECONDS = 5.0
"""For so long a call waits for a queue that is between two shards."""
LOOK_SECONDS = 0.05
MANY = 100

Connect = Callable[[Shard, bytes], Engine]
"""Makes the engine of a shard from its address, its number and the home's key."""


class CatalogView(Directory, Protocol):
    """What a store of several shards must know of the catalog beyond single queues."""

    def all_queues(self) -> list[Queue]: ...

    def listeners_of(self, queue: Queue) -> Sequence[Listener]: ...


class Routing:
    """Every shard as this node reaches it, and the map."""

    def __init__(self, home: Engine, connect: Connect) -> None:
        self.home = home
        self.places = Places()
        self.members: dict[int, Member] = {}
        self._connect = connect
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, catalog: Directory, signals: Signals, clock: Clock, send: Send) -> None:
        self.catalog = cast(CatalogView, catalog)
        self._signals = signals
        self.carrier = Carrier(self.places, catalog, clock, engine=self.engine, send=send)
        residents = HomeResidents(self.places, catalog, self.heard)
        self.members[0] = Member(HOME, self.home, residents, self.signals_of(0))

    def signals_of(self, number: int) -> ShardSignals:
        return ShardSignals(number, self._signals, self.carrier.note)

    def heard(self, moved: set[int]) -> None:
        """The map has changed: new shards are opened when first needed, and who waits for a moved queue looks again."""
        for number, shard in self.places.shards.items():
            known = self.members.get(number)
            if shard.is_removed or (known is not None and known.url != shard.url):
                self._retire(number)
            if number not in self.members and not shard.is_removed:
                self.members[number] = self.new_member(shard)
                if known is not None:  # its messages are there, and their time passes
                    self._in_passing(self.members[number].ready(), "a shard waits to be opened")
        for key in moved:
            self._signals.ready(key, MANY)

    def _retire(self, number: int) -> None:
        """Forget a database; what is under way in it ends, or fails."""
        if (member := self.members.pop(number, None)) is not None:
            self._in_passing(member.close(), "a shard that is not used any more was not closed well")

    def _in_passing(self, work: Awaitable[object], failing: str) -> None:
        task = asyncio.create_task(quietly(work, failing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def new_member(self, shard: Shard) -> Member:
        residents = Residents(shard.number, self.places, self.catalog, self.heard)
        engine = self._connect(shard, self.home.seal_key)
        return Member(shard, engine, residents, self.signals_of(shard.number))

    async def engine(self, number: int) -> Engine:
        """A shard's engine; raises Unavailable while it cannot be reached."""
        if number not in self.members:
            await self.home.refresh()
        if number not in self.members:
            raise Unavailable(f"this node does not know of shard {number} yet")
        return await self.members[number].ready()

    def opened(self, number: int) -> Engine:
        """The engine of a shard that was reached before; raises Unavailable."""
        member = self.members.get(number)
        if member is None or not member.is_open:
            raise Unavailable(f"shard {number} cannot be reached")
        return member.engine

    def open_members(self) -> list[Member]:
        return [member for member in self.members.values() if member.is_open]

    async def on(
        self,
        queue: Queue | None,
        call: Callable[[Engine], Awaitable[T]],
        *,
        undo: Callable[[Engine, T], None] | None = None,
    ) -> T:
        """Ask the shard where a queue lives, or the home; while the queue moves, wait, but not for long.

        `undo` is given the answer that a caller who is cancelled does not get.
        """
        if self.places.is_plain:
            return await call(self.home)
        deadline = 0.0
        while True:
            try:
                engine = await self.engine(self.places.of(queue.key) if queue else 0)
                answer = await call(engine)
            except QueueNotFound:
                if queue is None:
                    raise
                deadline = await self.wait_for(queue, deadline)
                continue
            if self.carrier.is_busy:
                try:
                    await self.carrier.settled()
                except asyncio.CancelledError:
                    if undo is not None:
                        undo(engine, answer)
                    raise
            return answer

    def is_moving(self, queue: Queue) -> bool:
        """Whether the queue, or the one that it belongs to as a queue of a listener, is on its way to another shard."""
        for one in self.places.relocations.values():
            moving = None if one.state.is_over else self.catalog.queue_of_id(one.queue_id)
            if moving is not None and (
                moving.key == queue.key
                or any(
                    queue.id in (listener.outbox_id, listener.dead_letters_id)
                    for listener in self.catalog.listeners_of(moving)
                )
            ):
                return True
        return False

    async def wait_for(self, queue: Queue, deadline: float = 0.0) -> float:
        """A shard does not have the queue: raises what it raised unless it is on the move; else some time later."""
        if self.places.is_plain or self.catalog.queue_of_key(queue.key) is None:
            raise QueueNotFound(queue.name)
        loop = asyncio.get_running_loop()
        deadline = deadline or loop.time() + PATIENCE_SECONDS
        if loop.time() >= deadline:
            raise Unavailable(f"queue {queue.name!r} is being moved to another shard; try again")
        await self.home.refresh()
        await (await self.engine(self.places.of(queue.key))).refresh()
        await asyncio.sleep(LOOK_SECONDS)
        return deadline
