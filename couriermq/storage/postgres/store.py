"""The engine for many nodes as a Store."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import psycopg

from couriermq.clock import SystemClock, fresh_key
from couriermq.core.chronicle import Commit
from couriermq.core.duties import UPKEEP
from couriermq.core.errors import CourierError, MessageNotFound, QueueNotFound, Unavailable
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.model import MINUTE, Counters, Lease, Message, Page, Queue, Sent, Settled, Settlement
from couriermq.core.receipts import Sealer
from couriermq.core.shards import first_of
from couriermq.storage.base import (
    SWEEP_COUNT,
    SWEEP_MS,
    Directory,
    Filter,
    Moved,
    Parcel,
    ShardLog,
    Signals,
    Span,
    StoredRecord,
)
from couriermq.storage.metrics import Metrics
from couriermq.storage.postgres import browsing, care, passing
from couriermq.storage.postgres.arrays import numbers
from couriermq.storage.postgres.circle import Circle
from couriermq.storage.postgres.claims import Claims
from couriermq.storage.postgres.commit import GroupCommit
from couriermq.storage.postgres.duties import Duties
from couriermq.storage.postgres.failures import UNREACHABLE, open_patiently, refusal
from couriermq.storage.postgres.identity import Guard
from couriermq.storage.postgres.journal import Journal
from couriermq.storage.postgres.link import Rows, Step, ask, connect
from couriermq.storage.postgres.orders import Pass, Receive, Send, Settle
from couriermq.storage.postgres.pace import Pace
from couriermq.storage.postgres.pool import Pool
from couriermq.storage.postgres.porting import Porting
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.records import Records, queues_of
from couriermq.storage.postgres.renewal import Renewal
from couriermq.storage.postgres.rows import to_counters, to_message
from couriermq.storage.postgres.schema import migrate, space_of
from couriermq.storage.postgres.sending import are_plain
from couriermq.storage.postgres.skew import LOOK_TICKS, Skew
from couriermq.storage.postgres.solo import alone
from couriermq.storage.postgres.stages import Stages
from couriermq.storage.postgres.transaction import Transaction
from couriermq.storage.postgres.watch import Watch

T = TypeVar("T")

COUNTED_TOGETHER = 500
"""Queues whose counters one query reads."""
PASS_COUNT = 500
"""For how many queues time is applied in one order."""
FULL_LOOK_TICKS = 60


class PostgresStore(Renewal, Claims, Stages):
    """One database (or one schema of it), any number of nodes."""

    patience_seconds = 0.0
    """For so long `open` tries to reach a database that is not there yet."""

    def __init__(
        self,
        url: str,
        *,
        shard: int = 0,
        seal_key: bytes | None = None,
        skew: Skew | None = None,
        now: Callable[[], int] | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """A shard other than the home gets the key of the home, so that a receipt holds in each of them.

        `on_change` is called when the database has changed over to a state that lacks what this node knows.
        """
        self.now = now or SystemClock().now
        self._on_change = on_change
        self._guard = Guard(self._renew)
        self._skew = skew or Skew(None, limit_ms=0)
        self.url = url
        self._shard = shard
        self._seal_key = seal_key
        self._pool = Pool(url, guard=self._guard)
        self._journal = Journal(self._pool, first=first_of(shard))
        self._doomed: dict[int, Queue] = {}
        self._dedup_due = 0

    async def open(self, *, directory: Directory, signals: Signals) -> None:
        """Bring the schema up to date, or wait for the node that does; raises CannotOpen."""
        self._directory = directory
        self._advancing = asyncio.Lock()
        self._circle = Circle(self.url, fresh_key().hex()[:16], directory, signals)
        self._circle.guard = self._guard
        self._circle.tell = self._pool.ask
        await open_patiently(self._open, url=self.url, patience_seconds=self.patience_seconds)

    async def _open(self) -> None:
        async with contextlib.AsyncExitStack() as undo:  # an open that fails leaves no connection and no task behind
            self._pool.open()
            undo.push_async_callback(self._pool.close)
            await self._prepare()
            self._commit = GroupCommit(self._circle, self.sealer)
            self._pace = Pace(asyncio.get_running_loop().time)
            self._records = Records(self._circle, self._pool, self._look_again)
            self.porting = Porting(self._circle, self._pool)
            self._watch = Watch(self._circle, on_tick=self._tick, on_lost=self._lost)
            self._duties = Duties(self._circle)
            undo.push_async_callback(self._watch.stop)
            await self._watch.start()
            undo.push_async_callback(self._duties.stop)
            await self._duties.start()
            await self._skew.look(self._database_now)
            undo.pop_all()

    async def _prepare(self) -> None:
        async with self._pool.taken() as connection:
            self._circle.space = await space_of(connection)
            await migrate(connection, self._circle.space)
            await self._join(connection)
            ((key,),) = (await ask(connection, [(Q.read_meta, {"name": "seal_key"})]))[0]
            self.identity, self._guard.origin = await self._identify(connection)
        self.seal_key = bytes(key)
        self.sealer = Sealer(self.seal_key, self.identity.tags)
        self._journal.jumps = self.identity.jumps

    async def refresh(self) -> None:
        """Hear now of what other nodes have changed in the control plane."""
        await self._circle.refresh()

    async def close(self) -> None:
        await self._watch.stop()  # first: its ticks give orders to the commit
        await self._commit.close()
        await self._duties.stop()
        await self._pool.close()

    @property
    def metrics(self) -> Metrics:
        return self._circle.metrics

    @property
    def unavailable_reason(self) -> str | None:
        """Why the store takes no messages now, if so."""
        return self.changed_reason or self._commit.failure or self._skew.reason

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
        seen = self._circle.catalog_version
        with contextlib.suppress(CourierError):
            await self._records.refresh()
        return self._circle.catalog_version != seen

    async def load_records(self) -> list[StoredRecord]:
        records = await self._records.load()
        for queue in await self._records.doomed():
            self._doom(queue)
        for queue in queues_of(records):
            self._circle.agenda.note(queue.key, 0)
        self._circle.signals.due(0)
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
        self._circle.marks.forget(key)
        if self._circle.agenda.note(key, 0):
            self._circle.signals.due(0)

    # -- data plane -------------------------------------------------------------------------------------------

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        self._skew.check()
        order = Send(parcels, now, principal, events, self._circle.catalog_version, are_plain(parcels))
        sent: list[Sent | CourierError] = await self._commit.submit(order)
        return sent

    async def receive(
        self, queue: Queue, *, limit: int, lease_ms: int, now: int, principal: str, group_limit: int | None = None
    ) -> list[Lease]:
        self._skew.check()
        leases: list[Lease] = await self._commit.submit(Receive(queue, limit, lease_ms, group_limit, now, principal))
        return leases

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, now: int, principal: str
    ) -> list[Settled | CourierError]:
        self._skew.check()
        tokens = await self._read_tokens(settlements)
        settled: list[Settled | CourierError] = await self._commit.submit(
            Settle(queue, settlements, tokens, now, principal)
        )
        return settled

    async def browse(self, queue: Queue, *, now: int, where: Filter, limit: int, after: str | None = None) -> Page:
        if where.id is not None:
            steps = browsing.ask_id(queue, self.sealer, where.id, after=after, limit=limit + 1)
            live, found = await self._look(queue, now, *steps)
            return browsing.page_of_id(live, browsing.of_id(found, where.id), where, limit=limit)
        live, found = await self._look(queue, now, *browsing.ask_page(queue, after))
        return await browsing.browse(self._pool, live, found, where, after=after, limit=limit)

    async def read_message(self, queue: Queue, *, message_id: str, now: int) -> Message:
        steps = browsing.ask_id(queue, self.sealer, message_id, after=None, limit=1)
        live, found = await self._look(queue, now, *steps)
        rows = browsing.of_id(found, message_id)
        if not rows:
            raise MessageNotFound(message_id)
        return to_message(live, rows[0])

    async def remove(self, queue: Queue, *, seqs: Sequence[int], kind: str, now: int, principal: str) -> list[int]:
        async def work(tx: Transaction, live: Queue) -> list[int]:
            return await browsing.remove_chosen(tx, live, seqs, kind=EventKind(kind), now=now, principal=principal)

        return await self._alone(queue, now, work)

    async def purge(
        self, queue: Queue, *, upto_seq: int, after: str | None, limit: int, now: int, principal: str
    ) -> Moved:
        async def work(tx: Transaction, live: Queue) -> Moved:
            return await browsing.purge(
                tx, live, upto_seq=upto_seq, after=after, limit=limit, now=now, principal=principal
            )

        return await self._alone(queue, now, work)

    async def move(
        self,
        source: Queue,
        target: Queue | None,
        *,
        seqs: Sequence[int] | None,
        upto_seq: int,
        after: str | None,
        limit: int,
        kind: str,
        now: int,
        principal: str,
    ) -> Moved:
        async def work(tx: Transaction, live: Queue) -> Moved:
            return await browsing.move(
                tx,
                live,
                target and self._known(target),
                directory=self._directory,
                seqs=seqs,
                upto_seq=upto_seq,
                after=after,
                limit=limit,
                kind=EventKind(kind),
                now=now,
                principal=principal,
            )

        if target is not None:
            await self._catch_up(target, now)
        return await self._alone(source, now, work, also=target)

    async def hasten(self, queue: Queue, *, after: str | None, limit: int, now: int) -> Moved:
        return await self._alone(queue, now, partial(browsing.hasten, after=after, limit=limit, now=now))

    async def counters(self, queue: Queue, *, now: int) -> Counters:
        _, (found,) = await self._look(queue, now, (Q.counters, {"queue": queue.key}))
        return to_counters(*found[0]) if found else Counters()

    async def counters_of(self, queues: Sequence[Queue], *, now: int) -> dict[int, Counters]:
        found: dict[int, Counters] = {}
        for first in range(0, len(queues), COUNTED_TOGETHER):
            asked = {queue.key: queue for queue in queues[first : first + COUNTED_TOGETHER]}
            live = [queue for key in asked if (queue := self._directory.queue_of_key(key)) is not None]
            untils = numbers(now - queue.settings.retention_ms for queue in live)
            rows = await self._pool.ask_one(
                Q.counters_of, keys=numbers(queue.key for queue in live), untils=untils, now=now
            )
            for key, due, *figures in rows:
                with contextlib.suppress(QueueNotFound):
                    found[key] = await self.counters(asked[key], now=now) if due else to_counters(*figures)
        return found

    async def last_seq(self, queue: Queue) -> int:
        ((seq,),) = await self._pool.ask_one(Q.last_seq)
        return self._circle.seqs.newest(int(seq))

    def _known(self, queue: Queue) -> Queue:
        live = self._directory.queue_of_key(queue.key)
        if live is None:
            raise QueueNotFound(queue.name)
        return live

    async def _alone(
        self,
        queue: Queue,
        now: int,
        work: Callable[[Transaction, Queue], Awaitable[T]],
        also: Queue | None = None,
    ) -> T:
        """A transaction for one order that is too rare or too large to share one with others."""
        await self._catch_up(queue, now)
        named = [queue] if also is None else [queue, also]

        async def on_live(tx: Transaction) -> T:
            return await work(tx, self._known(queue))

        return await alone(self._circle, self._pool, lambda: [self._known(one) for one in named], on_live)

    async def _look(self, queue: Queue, now: int, *steps: Step) -> tuple[Queue, list[Rows]]:
        """Ask something about a queue that time has been applied to, so that the answer is exact."""
        self._skew.check()
        while True:
            live = self._known(queue)
            until = now - live.settings.retention_ms
            is_due = Q.is_due, {"queue": live.key, "now": now, "until": until}
            ((due,),), *answers = await self._pool.ask(is_due, *steps)
            if not due:
                return live, answers
            try:
                await self._pass_time([live.key], now)
            except Unavailable:
                return live, answers  # a store that cannot write can still be looked at, as it was when it last could

    async def _catch_up(self, queue: Queue, now: int) -> None:
        """Apply time, step by step, before something that does not share the group commit."""
        await self._look(queue, now)

    # -- time -------------------------------------------------------------------------------------------------

    async def advance(self, *, now: int) -> int | None:
        async with self._advancing:  # what another caller has begun is done, too, when this one returns
            return await self._advance(now)

    async def _advance(self, now: int) -> int | None:
        await self._forget_dedup(now)
        await self._finish_claims(now)
        await self._forget_stages(now)
        agenda = self._circle.agenda
        while keys := agenda.take(now, PASS_COUNT):
            try:
                await self._pass_time([key for key in keys if self._directory.queue_of_key(key)], now)
                deleted = [key for key in keys if key in self._doomed and not self._directory.queue_of_key(key)]
                for key in deleted:
                    if not await self._sweep(self._doomed[key], now):
                        agenda.note(key, now + SWEEP_MS)  # what is due elsewhere does not wait for all of it
            except BaseException:
                for key in keys:
                    agenda.note(key, now)  # it is still to be done
                raise
        return agenda.next_at()  # at once: what the watch has heard meanwhile may have happened long ago

    async def _pass_time(self, keys: Sequence[int], now: int) -> None:
        if keys:
            dues = await self._commit.submit(Pass(keys, now))
            for key, at in dues.items():
                self._circle.agenda.note(key, at)

    async def _sweep(self, queue: Queue, now: int) -> bool:
        """Remove some of a deleted queue; whether nothing of it is left."""

        async def work(tx: Transaction) -> bool:
            return await browsing.sweep(tx, queue, now=now, limit=SWEEP_COUNT)

        if not await alone(self._circle, self._pool, lambda: [queue], work):
            return False
        where = {"queue": queue.key}
        named: Step = (Q.sweep_record, {"tenant": queue.tenant, "id": queue.id})
        claims: list[Step] = [(query, where) for query in (Q.forget_claim_parts, Q.forget_claims, Q.forget_jobs)]
        await self._pool.ask(*claims, (Q.delete_groups, where), (Q.delete_tallies, where), named)
        self._doomed.pop(queue.key, None)
        self._circle.marks.forget(queue.key)
        return True

    async def _forget_dedup(self, now: int) -> None:
        while self.leads and self._dedup_due <= now:
            async with self._pool.taken() as connection:
                cursor = await connection.execute(Q.forget_dedup, {"now": now, "limit": passing.STEP})
                self._dedup_due = now if cursor.rowcount == passing.STEP else now + MINUTE

    def _lost(self) -> None:
        self._commit.failure = self._commit.failure or UNREACHABLE

    async def _database_now(self) -> int:
        ((now,),) = await self._pool.ask_one(Q.database_now)
        return int(now)

    async def _tick(self, ticks: int) -> None:
        if ticks % LOOK_TICKS == 0:
            await self._skew.look(self._database_now)
        if self._commit.failure is not None:
            await self._commit.submit(Pass((), 0))  # nothing to do but to find out that it can be done again
        if self.leads:
            await self._lead(ticks)

    async def _lead(self, ticks: int) -> None:
        """Hear of what will happen to queues that only other nodes, or dead ones, know of."""
        if not self._pace.is_due:
            return
        with self._pace.look():
            tallies = await self._pool.ask_one(Q.tallies)
            dues = await self._pool.ask_one(Q.first_ends, keys=numbers(key for key, _, pending in tallies if pending))
            if ticks % FULL_LOOK_TICKS == 0:
                for queue in await self._records.doomed():
                    self._doom(queue)
                dues += await self._all_dues(key for key, _, _ in tallies)
        news = [at for key, at in dues if at is not None and self._circle.agenda.note(key, at)]
        if news:
            self._circle.signals.due(min(news))

    async def _all_dues(self, keys: Iterable[int]) -> Rows:
        queues = [queue for key in keys if (queue := self._directory.queue_of_key(key))]
        where = {
            "keys": numbers(queue.key for queue in queues),
            "retentions": numbers(queue.settings.retention_ms for queue in queues),
        }
        return await self._pool.ask_one(Q.next_due, **where)

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

    async def offsets_at(self, at: int) -> dict[int, int]:
        return await self._journal.offsets_at(at)

    async def offset_keeping(self, size: int, lane: int) -> int:
        return await self._journal.offset_keeping(size)

    # -- care -------------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        try:
            connection = await connect(self.url)  # its own: this takes long
            try:
                return await care.check(connection)
            finally:
                await connection.close()
        except psycopg.Error as error:
            raise refusal(error) from error
