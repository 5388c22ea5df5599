"""The engines that must pass the conformance suite, and a rig that puts a broker on one of them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from couriermq.broker import Broker
from couriermq.catalog import DEFAULT_TENANT, Catalog
from couriermq.claims import Claims
from couriermq.cli import database
from couriermq.clock import FakeClock, SystemClock
from couriermq.core.errors import CourierError
from couriermq.core.events import Event, EventKind
from couriermq.core.flows import Flows
from couriermq.core.model import Counters, Draft, Kind, Lease, Message, Queue, QueueSettings, Sent, Settled, Settlement
from couriermq.core.sharding import Shard
from couriermq.journal.followers import Followers
from couriermq.stages import Stages
from couriermq.storage.base import Directory, Filter, Signals, Store
from couriermq.storage.postgres.care import restore
from couriermq.storage.postgres.store import PostgresStore
from couriermq.storage.sharded.places import shard_record
from couriermq.storage.sharded.store import ShardedStore
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.store import SqliteStore
from couriermq.upkeep.timekeeper import Timekeeper
from couriermq.waiting import Arrivals
from tests.support.postgres import shared_cluster


class Engine(Protocol):
    """Opens the same data when given the same directory; a hasty store does not wait for the disk."""

    def __call__(self, directory: Path, *, hasty: bool = False) -> Store: ...


def _sqlite(directory: Path, *, hasty: bool = False) -> Store:
    return SqliteStore(directory, min_free_bytes=0, sync=_no_sync if hasty else os.fdatasync)


def _postgres(directory: Path, *, hasty: bool = False) -> Store:
    return PostgresStore(shared_cluster().store_url(directory))


class TwoShards(ShardedStore):
    """Two databases; the weights decide which of them get queues."""

    def __init__(self, directory: Path, *, home_weight: int, second_weight: int) -> None:
        home = PostgresStore(shared_cluster().store_url(directory))
        super().__init__(home, self._shard_engine, SystemClock())
        self._shards = [
            Shard(number=0, name="home", url="", weight=home_weight),
            Shard(number=1, name="second", url=shared_cluster().store_url(directory / "second"), weight=second_weight),
        ]

    def _shard_engine(self, shard: Shard, seal_key: bytes) -> PostgresStore:
        return PostgresStore(shard.url, shard=shard.number, seal_key=seal_key, now=self.clock.now)

    async def open(self, *, directory: Directory, signals: Signals) -> None:
        await super().open(directory=directory, signals=signals)
        await self.routing.home.change_records(put=[shard_record(shard) for shard in self._shards])


def _sharded(directory: Path, *, hasty: bool = False) -> Store:
    return TwoShards(directory, home_weight=1, second_weight=0)


def forget(directory: Path) -> None:
    """The test that used the directory is over."""
    if shared_cluster.cache_info().currsize:
        shared_cluster().empty(directory)
        shared_cluster().empty(directory / "second")


def _no_sync(descriptor: int) -> None:
    """For histories that do not end in a crash."""


ENGINES: dict[str, Engine] = {"sqlite": _sqlite, "postgres": _postgres, "sharded": _sharded}
"""By the name of the package under couriermq/storage."""

TENANT = DEFAULT_TENANT
WHO = "tester"


class WatchedArrivals(Arrivals):
    """Lets a test wait until a receiver waits."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock)
        self.waits = asyncio.Queue[int]()

    async def wait(self, queue_key: int, *, seen: tuple[int, int], until: int) -> bool:
        self.waits.put_nowait(queue_key)  # nobody runs between this and the wait itself
        return await super().wait(queue_key, seen=seen, until=until)


class Rig:
    """A broker on one engine, with a clock moved by hand; it can be closed and opened again on the same data.

    Nothing happens by itself: time is applied when a queue is looked at, or by `pass_time`, unless `keeping_time`.
    """

    def __init__(self, make_store: Callable[[], Store], clock: FakeClock | None = None) -> None:
        self._make_store = make_store
        self.clock = clock or FakeClock()
        self.failure: str | None = None
        """Why the store can commit nothing any more."""

    async def open(self) -> None:
        self.store = self._make_store()
        if isinstance(self.store, ShardedStore):
            self.store.clock = self.clock
        if isinstance(self.engine, SqliteStore | PostgresStore):
            self.engine.now = self.clock.now
        self.arrivals = WatchedArrivals(self.clock)
        self.followers = Followers(self.clock)
        self.catalog = Catalog(self.store, self.clock)
        self.broker = Broker(self.store, self.catalog, self.clock, self.arrivals)
        self.claims = Claims(self.store, self.clock)
        self.stages = Stages(self.store, self.broker, self.clock)
        self.timekeeper = Timekeeper(self.store, self.clock)
        await self.store.open(directory=self.catalog, signals=self)
        await self.catalog.load()

    @property
    def engine(self) -> Store:
        """What does the work where the store only composes."""
        return self.store.routing.home if isinstance(self.store, ShardedStore) else self.store

    async def close(self) -> None:
        await self.store.close()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    def ready(self, queue_key: int, count: int) -> None:
        self.arrivals.ready(queue_key, count)

    def is_awaited(self, queue_key: int, count: int) -> bool:
        return self.arrivals.is_awaited(queue_key, count)

    def journaled(self) -> None:
        self.followers.journaled()

    def due(self, at: int) -> None:
        self.timekeeper.due(at)

    def duties_changed(self) -> None:
        """Nothing is delivered here."""

    def failed(self, reason: str) -> None:
        self.failure = reason

    def happened(self, flows: Flows) -> None:
        """Nobody watches here."""

    # -- time -------------------------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.clock.now()

    async def pass_time(self, *, ms: int) -> None:
        """Move the clock and have the store notice."""
        self.clock.advance(ms=ms)
        await self.store.advance(now=self.now)

    @contextlib.asynccontextmanager
    async def keeping_time(self) -> AsyncIterator[None]:
        """Have time applied by itself, as in a server."""
        keeper = asyncio.create_task(self.timekeeper.run())
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    # -- the control plane ------------------------------------------------------------------------------------

    async def create(self, name: str, *, kind: Kind = Kind.STANDARD, **settings: Any) -> Queue:
        if "dead_letter_queue" in settings:
            settings["dead_letter_queue"] = self.queue(settings["dead_letter_queue"]).id
        return await self.catalog.create_queue(
            TENANT, name, kind=kind, settings=QueueSettings(**settings), principal=WHO
        )

    def queue(self, name: str) -> Queue:
        return self.catalog.queue(TENANT, name)

    # -- the data plane, by the names of queues ---------------------------------------------------------------

    async def send(self, name: str, body: bytes = b"hello", **parts: Any) -> Sent:
        return await self.send_one(name, Draft(body=body, **parts))

    async def send_one(self, name: str, draft: Draft) -> Sent:
        return await self.broker.send_one(self.queue(name), draft, principal=WHO)

    async def send_all(self, name: str, drafts: Sequence[Draft]) -> list[Sent | CourierError]:
        return await self.broker.send(self.queue(name), drafts, principal=WHO)

    async def receive(self, name: str, **order: Any) -> list[Lease]:
        return await self.broker.receive(self.queue(name), principal=WHO, **order)

    async def receive_one(self, name: str, **order: Any) -> Lease:
        (lease,) = await self.receive(name, limit=1, **order)
        return lease

    async def settle(self, name: str, *settlements: Settlement) -> list[Settled | CourierError]:
        return await self.broker.settle(self.queue(name), settlements, principal=WHO)

    async def ack(self, name: str, lease: Lease) -> Settled:
        return await self.broker.ack(self.queue(name), lease.receipt, principal=WHO)

    async def release(self, name: str, lease: Lease, *, delay_ms: int | None = None) -> Settled:
        return await self.broker.release(self.queue(name), lease.receipt, delay_ms=delay_ms, principal=WHO)

    async def extend(self, name: str, lease: Lease, *, lease_ms: int) -> Settled:
        return await self.broker.extend(self.queue(name), lease.receipt, lease_ms=lease_ms, principal=WHO)

    async def counters(self, name: str) -> Counters:
        return await self.broker.counters(self.queue(name))

    async def browse(self, name: str, *, limit: int = 1_000, **where: Any) -> list[Message]:
        """Every page of a browse, put together."""
        found: list[Message] = []
        after: str | None = None
        while True:
            page = await self.broker.browse(self.queue(name), where=Filter(**where), limit=limit, after=after)
            found += page.messages
            after = page.next
            if after is None:
                return found

    async def purge(self, name: str) -> int:
        return await self.broker.purge(self.queue(name), principal=WHO)

    async def remove(self, name: str, seqs: Sequence[int]) -> list[int]:
        return (await self.broker.remove(self.queue(name), seqs, principal=WHO)).gone

    async def cancel(self, name: str, message_id: str) -> Message:
        return await self.broker.cancel(self.queue(name), message_id, principal=WHO)

    async def move(self, source: str, target: str, seqs: Sequence[int] | None = None) -> int:
        return await self.broker.move(self.queue(source), self.queue(target), seqs=seqs, principal=WHO)

    async def redrive(self, name: str, seqs: Sequence[int] | None = None) -> int:
        return await self.broker.redrive(self.queue(name), seqs=seqs, principal=WHO)

    async def events(self, *kinds: EventKind) -> list[Event]:
        """The journal from its oldest event on, or only the events of some kinds; of several lanes by their time."""
        parts: list[list[Event]] = []
        for journal in self.store.journals():
            for span in (await journal.spans()).values():
                entries = await journal.read_events(start=span.oldest, limit=span.next - span.oldest)
                parts.append([entry.event for entry in entries if not kinds or entry.event.kind in kinds])
        first, *others = parts
        return sorted((event for part in parts for event in part), key=lambda e: e.at) if any(others) else first


async def back_up(rig: Rig, target: Path) -> None:
    """Copy a rig's store as `courier backup` does, beside whatever it is doing."""
    if isinstance(rig.engine, PostgresStore):
        await asyncio.to_thread(database.backup, rig.engine.url, target)
    else:
        assert isinstance(rig.store, SqliteStore)
        await asyncio.to_thread(care.backup, rig.store.path, target)


async def opened_backup(rig: Rig, directory: Path) -> Rig:
    """What a rig's store has backed up into a directory, on an engine of the same kind."""
    engine = "sqlite"
    if isinstance(rig.store, PostgresStore):
        engine = "postgres"
        await restore(shared_cluster().store_url(directory), directory)
    elif isinstance(rig.store, TwoShards):
        engine = "sharded"
        await restore(shared_cluster().store_url(directory), directory / "home")
        await restore(shared_cluster().store_url(directory / "second"), directory / "second")
    copy = Rig(lambda: ENGINES[engine](directory), rig.clock)
    await copy.open()
    return copy
