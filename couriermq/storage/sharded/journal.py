"""The journals of single shards, those that were removed included."""

from collections.abc import Sequence

from couriermq.core.chronicle import Commit
from couriermq.core.errors import OffsetGone, Unavailable
from couriermq.core.events import Entry
from couriermq.core.incarnations import Identity
from couriermq.core.jumps import Jump
from couriermq.core.lanes import lane_of
from couriermq.core.sharding import Shard
from couriermq.storage.base import ShardLog, Span
from couriermq.storage.sharded.routing import Routing


class ShardJournal:
    """The journal of one shard; raises Unavailable while that is away."""

    def __init__(self, routing: Routing, number: int) -> None:
        self._routing = routing
        self._number = number

    @property
    def identity(self) -> Identity:
        return self._routing.opened(self._number).identity

    @property
    def jumps(self) -> Sequence[Jump]:
        shard = self._routing.places.shards[self._number]
        return shard.jumps if shard.is_removed else self._routing.opened(self._number).jumps

    async def spans(self) -> dict[int, Span]:
        return await (await self._log()).spans()

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        return await (await self._log()).read_events(start=start, limit=limit)

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        return await (await self._log()).read_commits(start=start, limit=limit)

    async def offsets_at(self, at: int) -> dict[int, int]:
        return await (await self._log()).offsets_at(at)

    async def offset_keeping(self, size: int, lane: int) -> int:
        return await (await self._log()).offset_keeping(size, lane)

    async def trim_events(self, *, before: int) -> int:
        """Forgets nothing while a queue leaves the shard: the move finds in the journal what has changed meanwhile."""
        await self._routing.home.refresh()  # a move that begins from now on reads only what is behind `before`
        log = await self._log()
        if self._routing.places.is_being_left(self._number):
            return (await log.spans())[lane_of(before)].oldest
        return await log.trim_events(before=before)

    async def tidy(self) -> None:
        await (await self._log()).tidy()

    def holds(self, duty: str) -> bool:
        return self._routing.home.holds(duty)

    async def _log(self) -> ShardLog:
        shard = self._routing.places.shards[self._number]
        return _Ended(shard) if shard.is_removed else await self._routing.engine(self._number)


class _Ended:
    """The journal of a shard that was removed: where it ended is known, the rest is for the archive to tell."""

    def __init__(self, shard: Shard) -> None:
        self._ends = {lane_of(end): end for end in (shard.end, *shard.other_ends)}
        self.jumps = shard.jumps

    @property
    def identity(self) -> Identity:
        raise Unavailable("the shard was removed")

    async def spans(self) -> dict[int, Span]:
        return {lane: Span(oldest=end, next=end) for lane, end in self._ends.items()}

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        if start < (end := self._ends.get(lane_of(start), 0)):
            raise OffsetGone(start, end)
        return []

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        await self.read_events(start=start, limit=limit)
        return []

    async def offsets_at(self, at: int) -> dict[int, int]:
        return self._ends.copy()

    async def offset_keeping(self, size: int, lane: int) -> int:
        return self._ends[lane]

    async def trim_events(self, *, before: int) -> int:
        return self._ends[lane_of(before)]

    async def tidy(self) -> None:
        """Nothing is left here."""

    def holds(self, duty: str) -> bool:
        return False
