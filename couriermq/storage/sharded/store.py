"""Several databases as a Store."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from couriermq.clock import Clock
from couriermq.core.chronicle import Commit
from couriermq.core.errors import CourierError, OffsetGone, QueueNotFound, Unavailable
from couriermq.core.events import Entry, Event
from couriermq.core.incarnations import Identity, Stamp, combined
from couriermq.core.jumps import Jump
from couriermq.core.model import Counters, Lease, Message, Page, Queue, Sent, Settled, Settlement
from couriermq.core.receipts import Sealer
from couriermq.core.removal import Removable, Removal
from couriermq.core.shards import Newest, first_of, shard_of
from couriermq.storage.base import Directory, Filter, Moved, Parcel, ShardLog, Signals, Span, Staged, StoredRecord
from couriermq.storage.metrics import Metrics
from couriermq.storage.sharded.claims import Claims, Stages
from couriermq.storage.sharded.journal import ShardJournal
from couriermq.storage.sharded.member import Engine
from couriermq.storage.sharded.places import FENCE, KINDS
from couriermq.storage.sharded.placing import Placing
from couriermq.storage.sharded.residents import stand_in
from couriermq.storage.sharded.routing import Connect, Routing
from couriermq.storage.sharded.sending import Sending
from couriermq.storage.sharded.shards import Shards

T = TypeVar("T")


class ShardedStore(Claims, Stages):
    """A home and any number of further shards, each queue in one of them. With the home alone it is that store."""

    def __init__(self, home: Engine, connect: Connect, clock: Clock) -> None:
        self._home = home
        self.clock = clock
        self.routing = Routing(home, connect)
        self._placing = Placing(self.routing)
        self._sending = Sending(self.routing)
        self.shards = Shards(self.routing, self._placing, lambda: self.clock)

    async def open(self, *, directory: Directory, signals: Signals) -> None:
        async def send_on(parcels: Sequence[Parcel], now: int, principal: str) -> list[Sent | CourierError]:
            return await self._sending.send(parcels, now=now, principal=principal)

        self.routing.start(directory, signals, self.clock, send_on)
        member = self.routing.members[0]
        await self._home.open(directory=member.residents, signals=self.routing.signals_of(0))
        member.is_open = True
        self._signals = signals

    async def close(self) -> None:
        await self.shards.stop()
        await self.routing.carrier.close()
        await asyncio.gather(*(member.close() for member in self.routing.members.values()))

    @property
    def identity(self) -> Identity:
        """The home's."""
        return self._home.identity

    @property
    def changed_reason(self) -> str | None:
        """Why this node must be started anew, if so."""
        return next(filter(None, (member.engine.changed_reason for member in self.routing.members.values())), None)

    @property
    def stamp(self) -> Stamp:
        return combined(
            [member.engine.identity for _, member in sorted(self.routing.members.items()) if member.is_open]
        )

    @property
    def jumps(self) -> Sequence[Jump]:
        """The home's."""
        return self._home.jumps

    @property
    def sealer(self) -> Sealer:
        return self._home.sealer

    @property
    def metrics(self) -> Metrics:
        return Metrics.sum_of(member.engine.metrics for member in self.routing.open_members())

    @property
    def unavailable_reason(self) -> str | None:
        """Why the store takes no messages now, if so: of a shard that is away, callers hear when they need it."""
        return self._home.unavailable_reason

    @property
    def leads(self) -> bool:
        return self._home.leads

    def holds(self, duty: str) -> bool:
        return self._home.holds(duty)

    def resign(self) -> None:
        for member in self.routing.open_members():
            member.engine.resign()

    # -- control plane ----------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def changing(self) -> AsyncIterator[None]:
        async with self._home.changing():
            yield

    async def catch_up(self) -> bool:
        return await self._home.catch_up()

    async def load_records(self) -> list[StoredRecord]:
        """The home's records without the map, which is taken in; then every shard is opened that can be."""
        records = await self._home.load_records()
        residents = self.routing.members[0].residents
        residents.fence_by(records)
        self.routing.places.learn(records, ())
        self.routing.heard(set())
        await self._open_members()
        return [record for record in records if record.kind not in KINDS | {FENCE}]

    async def _open_members(self) -> None:
        opening = [member.ready() for member in self.routing.members.values() if not member.is_open]
        await asyncio.gather(*opening, return_exceptions=True)  # one that is away is opened later

    async def next_key(self) -> int:
        return await self._home.next_key()

    async def change_records(
        self, *, put: Sequence[StoredRecord] = (), delete: Sequence[StoredRecord] = (), events: Sequence[Event] = ()
    ) -> None:
        await self._placing.change(put, delete, events)

    # -- data plane -------------------------------------------------------------------------------------------

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        if self.routing.places.is_plain:
            return await self._home.send(parcels, now=now, principal=principal, events=events)
        return await self._sending.send(parcels, now=now, principal=principal, events=events)

    async def receive(
        self, queue: Queue, *, limit: int, lease_ms: int, now: int, principal: str, group_limit: int | None = None
    ) -> list[Lease]:
        return await self.routing.on(
            queue,
            lambda engine: engine.receive(
                queue, limit=limit, lease_ms=lease_ms, now=now, principal=principal, group_limit=group_limit
            ),
            undo=lambda engine, leases: engine.give_back(queue, leases, now=now, principal=principal),
        )

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, now: int, principal: str
    ) -> list[Settled | CourierError]:
        return await self.routing.on(
            queue, lambda engine: engine.settle(queue, settlements, now=now, principal=principal)
        )

    async def browse(self, queue: Queue, *, now: int, where: Filter, limit: int, after: str | None = None) -> Page:
        return await self.routing.on(
            queue, lambda engine: engine.browse(queue, now=now, where=where, limit=limit, after=after)
        )

    async def read_message(self, queue: Queue, *, message_id: str, now: int) -> Message:
        return await self.routing.on(queue, lambda engine: engine.read_message(queue, message_id=message_id, now=now))

    async def remove(
        self, queue: Queue, *, seqs: Sequence[int], which: Removable, kind: str, now: int, principal: str
    ) -> Removal:
        return await self.routing.on(
            queue, lambda engine: engine.remove(queue, seqs=seqs, which=which, kind=kind, now=now, principal=principal)
        )

    async def purge(
        self, queue: Queue, *, upto: Newest, after: str | None, limit: int, now: int, principal: str
    ) -> Moved:
        return await self.routing.on(
            queue,
            lambda engine: engine.purge(queue, upto=upto, after=after, limit=limit, now=now, principal=principal),
        )

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
        """A target elsewhere has a stand-in on the source's shard, from where its messages are carried to it."""
        places = self.routing.places

        def step(engine: Engine) -> Awaitable[Moved]:
            away = target is not None and places.of(target.key) != places.of(source.key)
            goal = stand_in(target) if away and target is not None else target
            return engine.move(
                source, goal, seqs=seqs, upto=upto, after=after, limit=limit, kind=kind, now=now,
                principal=principal,
            )  # fmt: skip

        return await self.routing.on(source, step)

    async def hasten(
        self, queue: Queue, *, seqs: Sequence[int] | None = None, after: str | None, limit: int, now: int
    ) -> Moved:
        """Not while the queue moves: the move would not notice, because nothing of this is in the journal."""
        if self.routing.is_moving(queue):
            raise Unavailable(f"queue {queue.name!r} is being moved to another shard; try again")

        def step(engine: Engine) -> Awaitable[Moved]:
            return engine.hasten(queue, seqs=seqs, after=after, limit=limit, now=now)

        return await self.routing.on(queue, step)

    async def counters(self, queue: Queue, *, now: int) -> Counters:
        return await self.routing.on(queue, lambda engine: engine.counters(queue, now=now))

    async def counters_of(self, queues: Sequence[Queue], *, now: int) -> dict[int, Counters]:
        """Each shard for its own; a queue that moves meanwhile is asked for by itself."""
        places, found = self.routing.places, dict[int, Counters]()
        homes: dict[int, list[Queue]] = {}
        for queue in queues:
            homes.setdefault(0 if places.is_plain else places.of(queue.key), []).append(queue)
        for number, some in homes.items():
            engine = self._home if places.is_plain else await self.routing.engine(number)
            found |= await engine.counters_of(some, now=now)
        for queue in queues:
            if queue.key not in found:
                with contextlib.suppress(QueueNotFound):
                    found[queue.key] = await self.counters(queue, now=now)
        return found

    async def staged(self, targets: Sequence[str]) -> Staged:
        if self.routing.places.is_plain:
            return await self._home.staged(targets)
        found = await self._everywhere(lambda engine: engine.staged(targets))
        return Staged(
            [stage for one in found for stage in one.stages],
            sum(one.message_count for one in found),
            sum(one.byte_count for one in found),
        )

    async def last_seq(self, queue: Queue) -> int:
        return await self.routing.on(queue, lambda engine: engine.last_seq(queue))

    async def advance(self, *, now: int) -> int | None:
        """Each shard on its own: one that is away keeps the others from nothing."""
        if self.routing.places.is_plain:
            return await self._home.advance(now=now)
        dues = await self._everywhere(lambda engine: engine.advance(now=now))
        if self.routing.carrier.is_busy:
            await self.routing.carrier.settled()
        return min((due for due in dues if due is not None), default=None)

    async def _everywhere(self, call: Callable[[Engine], Awaitable[T]]) -> list[T]:
        """Ask every open shard; all have been asked before the first failure is raised."""
        answers = await asyncio.gather(
            *(call(member.engine) for member in self.routing.open_members()), return_exceptions=True
        )
        found: list[T] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            found.append(answer)
        return found

    # -- journal ----------------------------------------------------------------------------------------------

    def journals(self) -> Sequence[ShardLog]:
        if self.routing.places.is_plain:
            return [self._home]
        return [
            ShardJournal(self.routing, number) for number in sorted(self.routing.places.shards)
        ]  # removed ones, too

    async def spans(self) -> dict[int, Span]:
        return await self._home.spans()

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        return await self._journal_of(start).read_events(start=start, limit=limit)

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        return await self._journal_of(start).read_commits(start=start, limit=limit)

    def _journal_of(self, offset: int) -> ShardJournal:
        number = shard_of(offset)
        if number not in self.routing.places.shards:
            raise OffsetGone(offset, first_of(0))
        return ShardJournal(self.routing, number)

    async def offsets_at(self, at: int) -> dict[int, int]:
        return await self._home.offsets_at(at)

    async def offset_keeping(self, size: int, lane: int) -> int:
        return await self._home.offset_keeping(size, lane)

    async def trim_events(self, *, before: int) -> int:
        return await self._journal_of(before).trim_events(before=before)

    async def tidy(self) -> None:
        await self._home.tidy()

    # -- care -------------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        findings = []
        for shard in self.routing.places.present:
            try:
                found = await (await self.routing.engine(shard.number)).check()
            except Unavailable as error:
                found = [str(error)]
            findings += found if self.routing.places.is_plain else [f"shard {shard.name}: {one}" for one in found]
        return findings
