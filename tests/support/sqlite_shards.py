"""A store of two shards that are embedded engines: the router, the carrier and the lifecycle without PostgreSQL.

Queues cannot be relocated here.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from couriermq.clock import SystemClock
from couriermq.core.errors import QueueNotFound
from couriermq.core.lifecycle import travel
from couriermq.core.lifecycle.travel import Traveller
from couriermq.core.model import Queue
from couriermq.core.sharding import Shard
from couriermq.core.shards import first_of
from couriermq.storage.base import Directory, Signals
from couriermq.storage.sharded.places import shard_record
from couriermq.storage.sharded.store import ShardedStore
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.store import SqliteStore


class SqliteMember(SqliteStore):
    """An embedded engine that is one shard of a store."""

    leads = True

    def __init__(
        self, directory: Path, *, shard: int = 0, seal_key: bytes | None = None, sync: Callable[[int], None]
    ) -> None:
        super().__init__(directory, min_free_bytes=0, sync=sync)
        self._shard = shard
        self._given_key = seal_key
        self.porting = Porting(self)

    def _seal_key(self) -> bytes:
        key = super()._seal_key() if self._given_key is None else self._given_key
        self._db.execute(Q.put_meta, ("seal_key", key))
        self.seal_key = key
        return key

    def _load(self) -> None:
        """The numbers of a shard begin with its own; a message from another shard does not move them."""
        super()._load()
        first, ledger = first_of(self._shard), self._ledger
        known = self._db.execute("SELECT next_seq FROM journal ORDER BY start DESC LIMIT 1").fetchone()
        ledger.next_seq = known[0] if known else first + 1
        ledger.next_offset = max(ledger.next_offset, first)
        self._oldest_offset = max(self._oldest_offset, first)

    def _find_loss(self) -> None:
        """Not looked for: an empty journal does not show that the offsets of its shard do not begin with 0."""

    async def refresh(self) -> None:
        """There is no other node."""


class Porting:
    """What a shard can do with messages for other shards."""

    def __init__(self, store: SqliteMember) -> None:
        self._store = store

    async def travellers(self, key: int, *, limit: int) -> list[Traveller]:
        found: list[Traveller] = await self._store._commit.submit(partial(travel.travellers, key=key, limit=limit))
        return found

    async def arrive(self, queue: Queue, travellers: Sequence[Traveller], *, source: int, now: int) -> None:
        if self._store._directory.queue_of_key(queue.key) is None:
            raise QueueNotFound(queue.name)
        await self._store._commit.submit(lambda unit: travel.arrive(unit, queue, travellers, now=now))

    async def come_home(self, key: int, queue: Queue, *, limit: int, now: int) -> int:
        step = partial(travel.come_home, key=key, queue=queue, limit=limit, now=now)
        count: int = await self._store._commit.submit(step)
        return count

    async def depart(self, key: int, seqs: Sequence[int]) -> None:
        await self._store._commit.submit(partial(travel.depart, key=key, seqs=seqs))


class SqliteShards(ShardedStore):
    """Queues go to the two shards in turn."""

    def __init__(self, directory: Path, *, hasty: bool = False) -> None:
        self._sync: Callable[[int], None] = (lambda _: None) if hasty else os.fdatasync
        home = SqliteMember(directory / "home", sync=self._sync)
        super().__init__(home, self._connect, SystemClock())  # type: ignore[arg-type]
        self._second = Shard(number=1, name="second", url=str(directory / "second"), weight=1)

    def _connect(self, shard: Shard, seal_key: bytes) -> SqliteMember:
        return SqliteMember(Path(shard.url), shard=shard.number, seal_key=seal_key, sync=self._sync)

    async def open(self, *, directory: Directory, signals: Signals) -> None:
        await super().open(directory=directory, signals=signals)
        home = Shard(number=0, name="home", url="", weight=1)
        await self.routing.home.change_records(put=[shard_record(shard) for shard in (home, self._second)])
