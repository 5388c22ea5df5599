"""The engine for many nodes as a Store."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg

from couriermq.clock import SystemClock
from couriermq.core.chronicle import Commit
from couriermq.core.duties import UPKEEP
from couriermq.core.errors import CourierError, InvalidReceipt, Unavailable
from couriermq.core.events import Entry, Event
from couriermq.core.incarnations import Identity, Stamp
from couriermq.core.jumps import Jump
from couriermq.core.lifecycle.expire import STEP, expire
from couriermq.core.lifecycle.needs import Deciding
from couriermq.core.lifecycle.order import keep_order, ordered_keys
from couriermq.core.lifecycle.purge import sweep
from couriermq.core.lifecycle.quarantine import quarantine
from couriermq.core.lifecycle.send import Order as SendOrder
from couriermq.core.lifecycle.send import Outcomes
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import MINUTE, Counters, Queue, Sent, Settled, Settlement
from couriermq.core.receipts import Sealer
from couriermq.storage.base import (
    SWEEP_COUNT,
    SWEEP_MS,
    Directory,
    Parcel,
    RoutesChanged,
    ShardLog,
    Signals,
    Span,
    StoredRecord,
)
from couriermq.storage.claims import Claims
from couriermq.storage.contents import Damaged
from couriermq.storage.data_plane import DataPlane
from couriermq.storage.group_commit import SENDS, TIME, ConcurrentCommit, Joint, Work
from couriermq.storage.metrics import Metrics
from couriermq.storage.postgres import care
from couriermq.storage.postgres.connection import Connection, Pool, Rows, Step, ask, connect, migrate, numbers, space_of
from couriermq.storage.postgres.duties import Duties, fresh_name
from couriermq.storage.postgres.engine import MOST_DAMAGED, Committer, look
from couriermq.storage.postgres.facts import Q, to_counters
from couriermq.storage.postgres.failures import UNREACHABLE, open_patiently, refusal
from couriermq.storage.postgres.identity import Guard
from couriermq.storage.postgres.journal import Journal
from couriermq.storage.postgres.notifications import Node, Pause, Watch
from couriermq.storage.postgres.porting import Porting, join
from couriermq.storage.postgres.records import Records, queues_of
from couriermq.storage.skew import LOOK_TICKS, Skew
from couriermq.storage.stages import Stages

COMMITTERS = 2
"""Connections that commit, each in a lane of its own: while one waits for the disk, the next batch is made."""
COUNTED_TOGETHER = 500
"""Queues whose counters one query reads."""
PASS_COUNT = 500
"""Queues that are taken off the agenda at a time."""
PASS_WEIGHT = 100
"""As how many messages a queue that time is applied to counts, for the size of a batch."""
FULL_LOOK_TICKS = 60
LIKELY_COUNT = 32
"""How many messages a receiver is taken to get, for the size of a batch."""

log = logging.getLogger(__name__)


class PostgresStore(DataPlane, Claims, Stages):
    """One database (or one schema of it), up to eight nodes."""

    changed_reason: str | None = None
    """Why this node must be started anew, if so."""

    _commit: ConcurrentCommit

    def __init__(
        self,
        url: str,
        *,
        shard: int = 0,
        seal_key: bytes | None = None,
        skew: Skew | None = None,
        now: Callable[[], int] | None = None,
        on_change: Callable[[], None] = lambda: None,
        committers: int | None = None,
    ) -> None:
        """A shard other than the home gets the key of the home, so that a receipt holds in each of them.

        `on_change` is called when the database has changed over to a state that lacks what this node knows.
        """
        self.now = now or SystemClock().now
        self._on_change = on_change
        self._guard = Guard(shard=shard, now=lambda: self.now(), on_renewal=self._renewed)  # noqa: PLW0108 - tests set it
        self._skew = skew or Skew(None, limit_ms=0)
        self.url = url
        self.patience_seconds = 0.0
        """How long `open` tries while the database may still come up."""
        self._shard = shard
        self._seal_key = seal_key
        self._committer_count = committers or COMMITTERS
        self._pool = Pool(url, guard=self._guard)
        self._journal = Journal(self._pool, shard=shard)
        self._doomed: dict[int, Queue] = {}
        self._dedup_due = 0
        self._full_look_at = 0
        self._now = 0
        """The newest instant that this node has heard of."""

    async def open(self, *, directory: Directory, signals: Signals) -> None:
        """Bring the schema up to date, or wait for the node that does; raises CannotOpen."""
        self._directory = directory
        self._advancing = asyncio.Lock()
        self._guard.node = name = fresh_name()
        self._node = Node(self.url, name, directory, signals, shard=self._shard, guard=self._guard)
        self._node.tell = self._pool.ask
        await open_patiently(self._try_to_open, url=self.url, patience_seconds=self.patience_seconds)

    async def _try_to_open(self) -> None:
        async with contextlib.AsyncExitStack() as undo:  # an open that fails leaves no connection and no task behind
            await self._start(undo)
            undo.pop_all()

    async def _start(self, undo: contextlib.AsyncExitStack) -> None:
        self._pool.open()
        undo.push_async_callback(self._pool.close)
        await self._prepare()
        self._committers = [Committer(self._node, self._order_to_set_aside) for _ in range(self._committer_count)]
        self._commit = ConcurrentCommit(self._committers)
        self._node.metrics = self._journal.metrics = self._commit.metrics
        self._pause = Pause(asyncio.get_running_loop().time)
        self._records = Records(self._node, self._pool, self._commit, self._look_again)
        self.porting = Porting(self._node, self._pool, self._commit, self._records)
        self._watch = Watch(self._node, on_tick=self._tick, on_lost=self._lost)
        self._duties = Duties(self._node)
        undo.push_async_callback(self._watch.stop)
        await self._watch.start()
        undo.push_async_callback(self._duties.stop)
        await self._duties.start()
        await self._skew.look(self._database_now)

    async def _prepare(self) -> None:
        async with self._pool.taken() as connection:
            self._node.space = await space_of(connection)
            await migrate(connection, self._node.space)
            self.seal_key = await join(connection, self._shard, self._seal_key)
            await self._guard.open(connection, space=self._node.space)
        self.sealer = Sealer(self.seal_key, self.identity.tags)

    async def _renewed(self, connection: Connection, identity: Identity) -> None:
        """The database was restored, or a standby promoted, while this node was running; raises Unavailable where the
        control plane that was restored is older than what the node knows: other changes may have its versions since."""
        ((version,),) = (await ask(connection, [(Q.catalog_version, ())]))[0]
        if min([version, *identity.versions_since(self.identity)]) < self._node.catalog_version:
            self.changed_reason = "the database is in an earlier state than this node knows; start the node anew"
            log.critical(self.changed_reason)
            self._on_change()
            raise Unavailable(self.changed_reason)
        self.sealer.renew(identity.tags)
        self._node.seqs.clear()
        self._journal.forget_trims()

    @property
    def identity(self) -> Identity:
        return self._guard.identity

    @property
    def stamp(self) -> Stamp:
        return self.identity.stamp

    @property
    def jumps(self) -> Sequence[Jump]:
        return self._guard.jumps

    async def refresh(self) -> None:
        """Hear now of what other nodes have changed in the control plane."""
        await self._node.refresh()

    async def close(self) -> None:
        await self._watch.stop()  # first: its ticks give orders to the commit
        await self._commit.close()
        await self._duties.stop()
        await self._node.close()
        for committer in self._committers:
            await committer.disconnect()
        await self._pool.close()

    @property
    def metrics(self) -> Metrics:
        return self._commit.metrics

    @property
    def unavailable_reason(self) -> str | None:
        """Why the store takes no messages now, if so."""
        return self.changed_reason or self._node.failure or self._skew.reason

    @property
    def leads(self) -> bool:
        """Whether this is the node that looks after what belongs to nobody in particular."""
        return self.holds(UPKEEP)

    def holds(self, duty: str) -> bool:
        return self._duties.holds(duty)

    def resign(self) -> None:
        self._duties.resign()

    # -- control plane ----------------------------------------------------------------------------------------

    def changing(self) -> contextlib.AbstractAsyncContextManager[None]:
        return self._records.changing()

    async def catch_up(self) -> bool:
        if self.unavailable_reason is not None:
            return False
        seen = self._node.catalog_version
        with contextlib.suppress(CourierError):
            await self._records.refresh()
        return self._node.catalog_version != seen

    async def load_records(self) -> list[StoredRecord]:
        records = await self._records.load()
        for queue in await self._records.doomed():
            self._doom(queue)
        for queue in queues_of(records):
            self._node.agenda.note(queue.key, 0)
        self._node.signals.due(0)
        return records

    async def next_key(self) -> int:
        ((key,),) = await self._pool.ask_one(Q.next_key)
        return int(key)

    async def change_records(
        self, *, put: Sequence[StoredRecord] = (), delete: Sequence[StoredRecord] = (), events: Sequence[Event] = ()
    ) -> None:
        self._skew.check()
        await self._records.change(put, delete, events)
        for queue in queues_of(delete):
            self._doom(queue)
        for queue in queues_of(put):
            self._look_again(queue.key)

    def _doom(self, queue: Queue) -> None:
        self._doomed[queue.key] = queue
        self._look_again(queue.key)

    def _look_again(self, key: int) -> None:
        """Settings such as retention may have changed what is due when; or the queue has come from another shard."""
        self._node.due(key, 0)

    # -- data plane -------------------------------------------------------------------------------------------

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        self._skew.check()
        size = sum([len(parcel.draft.body) for parcel in parcels])
        order = SendOrder(parcels, now, principal, events)
        routed = (self._node.catalog_version, order)
        sent: list[Sent | CourierError] = await self._commit.submit(
            Joint(SENDS, self._send_routed, routed, len(parcels), size, ordered_keys(p.queue for p in parcels))
        )
        return sent

    def _send_routed(
        self, unit: Unit, orders: list[tuple[int, SendOrder]]
    ) -> Deciding[Sequence[Outcomes | RoutesChanged]]:
        """Parcels that were addressed before another node changed the control plane are to be addressed anew."""
        version = self._node.catalog_version
        sent = iter((yield from self._send(unit, [order for routed_by, order in orders if routed_by == version])))
        return [next(sent) if routed_by == version else RoutesChanged() for routed_by, _ in orders]

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, now: int, principal: str
    ) -> list[Settled | CourierError]:
        """A receipt that seems to be made up may be of an incarnation that another node has begun."""
        stamp = self.stamp
        outcomes = await super().settle(queue, settlements, now=now, principal=principal)
        unread = [index for index, outcome in enumerate(outcomes) if isinstance(outcome, InvalidReceipt)]
        if unread:
            async with self._pool.taken() as connection:
                await self._guard.check(connection)
        if unread and self.stamp != stamp:
            again = [settlements[index] for index in unread]
            read = await super().settle(queue, again, now=now, principal=principal)
            for index, outcome in zip(unread, read, strict=True):
                outcomes[index] = outcome
        return outcomes

    def _likely_count(self, queue: Queue, limit: int) -> int:
        self._skew.check()
        return min(limit, LIKELY_COUNT)

    async def _look(self, order: Work) -> Any:
        self._skew.check()
        for _ in range(MOST_DAMAGED):
            try:
                async with self._pool.taken() as connection:
                    return await look(connection, self._node, order)
            except Damaged as damaged:
                reason = f"{damaged}; run `courier doctor`"
                if not await self._commit.submit(self._order_to_set_aside(damaged)):
                    break
        raise Unavailable(reason)

    def _is_behind(self, key: int, now: int, unit: Unit | None = None) -> bool:
        if unit is not None and key in unit.touched:
            return unit.touched[key].next_due <= now
        return self._node.agenda.is_due(key, now)

    def _bring_on(self, unit: Unit, live: Queue, now: int) -> Deciding[None]:
        if self._node.agenda.is_due(live.key, now):
            yield from self._expire(unit, live, now)

    def _expire(self, unit: Unit, queue: Queue, now: int) -> Deciding[None]:
        """Should it fail, the queue comes on the agenda again; what it finds for later does so with the commit."""
        self._node.agenda.take_off(queue.key)
        unit.tally(queue.key).next_due = now
        yield from expire(unit, queue, queues=self._directory, now=now)

    async def _catch_up(self, queue: Queue, now: int) -> Queue:
        """What other nodes have leased, only the database knows: it is asked whether time has done anything."""
        self._skew.check()
        has_more = bool(await self._due_of([self._known(queue)], now))
        with contextlib.suppress(Unavailable):  # a store that cannot write can be looked at as it was
            while has_more:
                has_more = await self._pass_time(queue.key, now)
        return self._known(queue)

    async def _due_of(self, queues: Sequence[Queue], now: int) -> set[int]:
        keys = numbers(queue.key for queue in queues)
        untils = numbers(now - queue.settings.retention_ms for queue in queues)
        return {key for (key,) in await self._pool.ask_one(Q.is_due, keys, untils, now)}

    async def counters(self, queue: Queue, *, now: int) -> Counters:
        live = await self._catch_up(queue, now)
        ((_, *figures),) = await self._pool.ask_one(Q.counters_of, numbers([live.key]))
        return to_counters(*figures)

    async def counters_of(self, queues: Sequence[Queue], *, now: int) -> dict[int, Counters]:
        found: dict[int, Counters] = {}
        for first in range(0, len(queues), COUNTED_TOGETHER):
            keys = [queue.key for queue in queues[first : first + COUNTED_TOGETHER]]
            live = [queue for key in keys if (queue := self._directory.queue_of_key(key)) is not None]
            due = await self._due_of(live, now)
            for queue in live:
                if queue.key in due:
                    with contextlib.suppress(CourierError):
                        await self._catch_up(queue, now)
            rows = await self._pool.ask_one(Q.counters_of, numbers(queue.key for queue in live))
            found |= {key: to_counters(*figures) for key, *figures in rows}
        return found

    async def last_seq(self, queue: Queue) -> int:
        ((seq,),) = await self._pool.ask_one(Q.last_seq)
        return self._node.seqs.newest(int(seq))

    def _order_to_set_aside(self, damaged: Damaged) -> Work:
        return lambda unit: quarantine(
            unit, start=damaged.start, seq=damaged.seq, queues=self._directory, sealer=self.sealer, at=self._now
        )

    # -- time -------------------------------------------------------------------------------------------------

    async def advance(self, *, now: int) -> int | None:
        async with self._advancing:  # what another caller has begun is done, too, when this one returns
            return await self._advance(now)

    async def _advance(self, now: int) -> int | None:
        self._now = max(self._now, now)
        await self._forget_dedup(now)
        await self._finish_claims(now)
        await self._forget_stages(now)
        agenda = self._node.agenda
        while keys := agenda.take(now, PASS_COUNT):
            done = await asyncio.gather(*(self._pass_queue(key, now) for key in keys), return_exceptions=True)
            failures = [failure for failure in done if isinstance(failure, BaseException)]
            if failures:
                for key in keys:
                    agenda.note(key, now)  # it is still to be done
                raise failures[0]
        return agenda.next_at()

    async def _pass_queue(self, key: int, now: int) -> None:
        if self._directory.queue_of_key(key):
            await self._pass_time(key, now)
        elif key in self._doomed:
            doomed = self._doomed[key]
            if await self._commit.submit(lambda unit: self._sweep(unit, doomed, now)):
                await self._forget(doomed)
            else:
                self._node.agenda.note(key, now + SWEEP_MS)  # what is due elsewhere does not wait for all of it

    async def _pass_time(self, key: int, now: int) -> bool:
        """Whether there is more to do at once; what another node has locked does not count."""

        def decide(unit: Unit, nows: list[int]) -> Deciding[list[bool]]:
            queue, latest = self._directory.queue_of_key(key), max(nows)
            if queue is None:
                return [False for _ in nows]
            yield from keep_order(queue)
            yield from self._expire(unit, queue, latest)
            has_more = unit.tally(key).next_due <= latest
            return [has_more for _ in nows]

        has_more: bool = await self._commit.submit(Joint((TIME, key), decide, now, PASS_WEIGHT))
        return has_more

    def _sweep(self, unit: Unit, queue: Queue, now: int) -> Deciding[bool]:
        yield from keep_order(queue)
        return (yield from sweep(unit, queue, now=now, limit=SWEEP_COUNT))

    async def _forget(self, queue: Queue) -> None:
        """A queue that was deleted has no message any more."""
        queries = (Q.forget_claim_parts, Q.forget_claims, Q.forget_jobs, Q.delete_groups, Q.delete_tallies)
        steps: list[Step] = [(query, (queue.key,)) for query in queries]
        await self._pool.ask(*steps, (Q.sweep_record, (queue.tenant, queue.id)))
        self._doomed.pop(queue.key, None)

    async def _forget_dedup(self, now: int) -> None:
        while self.leads and self._dedup_due <= now:
            gone = await self._pool.ask_one(Q.forget_dedup, now, STEP)
            self._dedup_due = now if len(gone) == STEP else now + MINUTE

    def _lost(self) -> None:
        self._node.failure = self._node.failure or UNREACHABLE

    async def _database_now(self) -> int:
        ((now,),) = await self._pool.ask_one(Q.database_now)
        return int(now)

    async def _tick(self, ticks: int) -> None:
        if ticks % LOOK_TICKS == 0:
            await self._skew.look(self._database_now)
        if self._node.failure is not None:
            await self._pool.ask_one(Q.catalog_version)  # find out that it can be reached again
            self._node.failure = None
        if self.leads:
            await self._lead(ticks)

    async def _lead(self, ticks: int) -> None:
        """Hear of what will happen to queues that only other nodes, or dead ones, know of."""
        if not self._pause.is_over:
            return
        with self._pause.scanning():
            found = await self._pool.ask_one(Q.pending_queues)
            dues = await self._pool.ask_one(Q.first_ends, numbers(key for key, _, pending in found if pending))
            if ticks == 0 or ticks >= self._full_look_at:
                self._full_look_at = ticks + FULL_LOOK_TICKS
                for queue in await self._records.doomed():
                    self._doom(queue)
                dues += await self._age_ends(key for key, _, _ in found)
        for key, at in dues:
            if at is not None:
                self._node.due(key, at)

    async def _age_ends(self, keys: Iterable[int]) -> Rows:
        queues = [queue for key in keys if (queue := self._directory.queue_of_key(key))]
        retentions = numbers(queue.settings.retention_ms for queue in queues)
        return await self._pool.ask_one(Q.age_ends, numbers(queue.key for queue in queues), retentions)

    # -- journal ----------------------------------------------------------------------------------------------

    def journals(self) -> Sequence[ShardLog]:
        return [self]

    async def spans(self) -> dict[int, Span]:
        return await self._journal.spans()

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        return await self._journal.read(start=start, limit=limit)

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        return await self._journal.commits(start=start, limit=limit)

    async def trim_events(self, *, before: int) -> int:
        return await self._journal.trim(before=before)

    async def tidy(self) -> None:
        await self._journal.tidy()

    async def offsets_at(self, at: int) -> dict[int, int]:
        return await self._journal.offsets_at(at)

    async def offset_keeping(self, size: int, lane: int) -> int:
        return await self._journal.offset_keeping(size, lane)

    # -- care -------------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        try:
            async with await connect(self.url) as connection:  # its own: this takes long
                return await care.check(connection)
        except psycopg.Error as error:
            raise refusal(error) from error
