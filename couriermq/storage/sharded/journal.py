"""The journals of single shards, those that were removed included."""

from couriermq.core.chronicle import Commit
from couriermq.core.errors import OffsetGone
from couriermq.core.events import Entry
from couriermq.storage.base import ShardLog, Span
from couriermq.storage.sharded.routing import Routing


class ShardJournal:
    """The journal of one shard; raises Unavailable while that is away."""

    def __init__(self, routing: Routing, number: int) -> None:
        self._routing = routing
        self._number = number

    async def span(self) -> Span:
        return await (await self._log()).span()

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        return await (await self._log()).read_events(start=start, limit=limit)

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        return await (await self._log()).read_commits(start=start, limit=limit)

    async def offset_at(self, at: int) -> int:
        return await (await self._log()).offset_at(at)

    async def offset_keeping(self, size: int) -> int:
        return await (await self._log()).offset_keeping(size)

    async def trim_events(self, *, before: int) -> int:
        return await (await self._log()).trim_events(before=before)

    def holds(self, duty: str) -> bool:
        return self._routing.home.holds(duty)

    async def _log(self) -> ShardLog:
        shard = self._routing.places.shards[self._number]
        return _Ended(shard.end) if shard.is_removed else await self._routing.engine(self._number)


class _Ended:
    """The journal of a shard that was removed: where it ended is known, the rest is for the archive to tell."""

    def __init__(self, end: int) -> None:
        self._end = end

    async def span(self) -> Span:
        return Span(oldest=self._end, next=self._end)

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        if start < self._end:
            raise OffsetGone(start, self._end)
        return []

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        await self.read_events(start=start, limit=limit)
        return []

    async def offset_at(self, at: int) -> int:
        return self._end

    async def offset_keeping(self, size: int) -> int:
        return self._end

    async def trim_events(self, *, before: int) -> int:
        return self._end

    def holds(self, duty: str) -> bool:
        return False
