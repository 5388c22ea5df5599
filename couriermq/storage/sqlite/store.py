"""The embedded engine as a Store."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from couriermq.clock import SystemClock
from couriermq.core.errors import AlreadyExists, CourierError, QueueNotFound, Unavailable
from couriermq.core.events import Event
from couriermq.core.incarnations import Stamp
from couriermq.core.lifecycle.browse import browse, read_message
from couriermq.core.lifecycle.expire import STEP, expire
from couriermq.core.lifecycle.hasten import hasten
from couriermq.core.lifecycle.move import move
from couriermq.core.lifecycle.needs import Deciding
from couriermq.core.lifecycle.purge import purge, remove_chosen, sweep
from couriermq.core.lifecycle.quarantine import quarantine
from couriermq.core.lifecycle.receive import Order as ReceiveOrder
from couriermq.core.lifecycle.receive import receive
from couriermq.core.lifecycle.send import Order as SendOrder
from couriermq.core.lifecycle.send import Outcomes, send
from couriermq.core.lifecycle.settle import Order as SettleOrder
from couriermq.core.lifecycle.settle import Outcome, settle
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import MINUTE, Counters, Kind, Lease, Message, Page, Queue, Sent, Settled, Settlement, State
from couriermq.storage.base import (
    SWEEP_COUNT,
    SWEEP_MS,
    CannotOpen,
    Directory,
    Filter,
    Moved,
    Parcel,
    Signals,
    StoredRecord,
)
from couriermq.storage.group_commit import LATER, GroupCommit
from couriermq.storage.metrics import Metrics
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.checksums import Damaged, sound
from couriermq.storage.sqlite.claims import Claims
from couriermq.storage.sqlite.connection import prepare
from couriermq.storage.sqlite.disk import Disk
from couriermq.storage.sqlite.engine import SEND, Engine, Joint, Work
from couriermq.storage.sqlite.files import Files
from couriermq.storage.sqlite.journal import Journal
from couriermq.storage.sqlite.ledger import Ledger
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.repair import set_aside_row
from couriermq.storage.sqlite.stages import Stages

MIN_FREE_BYTES = 64 * 1024 * 1024
"""Room kept on the disk for acks, releases and checkpoints once sends are refused."""

COUNTED_TOGETHER = 100
"""After the counters of this many queues other tasks get a turn."""

log = logging.getLogger(__name__)

_queue = msgspec.msgpack.Decoder(Queue)


class SqliteStore(Files, Claims, Stages, Journal, Disk):
    """One directory, one process, one file. `sync` is there for tests and measurements.

    `accept_loss` opens it even if commits that were synced are missing.
    """

    def __init__(
        self,
        directory: Path,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        accept_loss: bool = False,
        sync: Callable[[int], None] = os.fdatasync,
        now: Callable[[], int] | None = None,
    ) -> None:
        self.path = directory
        self._accept_loss = accept_loss
        self._min_free_bytes = min_free_bytes
        self._sync = sync
        self.now = now or SystemClock().now
        self._ledger = Ledger()
        self._reading = threading.Lock()
        self._doomed: dict[int, Queue] = {}
        self._holes: set[int] = set()
        self._dedup_due = 0

    async def open(self, *, directory: Directory, signals: Signals) -> None:
        """Take the directory, bring the schema up to date and load the figures; raises CannotOpen."""
        self._directory = directory
        self._advancing = asyncio.Lock()
        self._lock = prepare(self.path)
        try:
            self._open_files()
        except CannotOpen:
            self._lock.release()
            raise
        except Exception as error:  # a damaged row may come as a value of any type
            self._lock.release()
            raise CannotOpen(f"the store in {self.path} cannot be opened: {error}; run `courier doctor`") from error
        self._engine = Engine(
            self._db, self._log, self._ledger, signals=signals, sync=self._sync, set_aside=self._set_aside
        )
        self._commit = GroupCommit(self._engine)
        self._engine.metrics = self._commit.metrics
        self._log.fail = self._commit.fail
        self._signals = signals

    @property
    def stamp(self) -> Stamp:
        return self.identity.stamp

    @property
    def metrics(self) -> Metrics:
        return self._commit.metrics

    def holds(self, duty: str) -> bool:
        """Nobody else is there to do anything."""
        return True

    def resign(self) -> None:
        """There is nobody to leave anything to."""

    @property
    def unavailable_reason(self) -> str | None:
        """Why the store takes no messages now, if so."""
        return self._commit.failure or self._look_at_disk()

    # -- control plane ----------------------------------------------------------------------------------------

    def changing(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()  # one process: the catalog's own order is enough

    async def catch_up(self) -> bool:
        return False

    async def load_records(self) -> list[StoredRecord]:
        records = []
        try:
            rows = self._db.execute(Q.read_records).fetchall()
        except sqlite3.DatabaseError as error:
            raise CannotOpen(f"the store in {self.path} cannot be read: {error}; run `courier doctor`") from error
        for *columns, is_sound in rows:
            kind, tenant, id_, slot, document = columns
            if not is_sound:
                self._drop_damaged(kind, tenant, id_)
            elif kind == "doomed":
                queue = _queue.decode(document)
                self._doom(queue)
            else:
                records.append(StoredRecord(kind=kind, tenant=tenant, id=id_, slot=slot, document=document))
        return records

    def _drop_damaged(self, kind: str, tenant: str, id_: str) -> None:
        """A damaged thing of the control plane is dropped where losses are accepted; else nothing starts."""
        name = f"the {kind} {id_} of tenant {tenant}"
        if not self._accept_loss:
            raise CannotOpen(
                f"{name} is damaged. Copy the data directory, then restore a backup with `courier restore`, or start"
                f" once with --accept-loss to go on without it"
            )
        log.error("%s is damaged and dropped", name)
        self._db.execute(Q.delete_record, (kind, tenant, id_))

    async def next_key(self) -> int:
        def order(unit: Unit) -> int:
            row = self._db.execute(Q.read_meta, ("next_key",)).fetchone()
            key = int(sound("the number of the next queue", row)[0]) if row else 1
            self._db.execute(Q.put_meta, ("next_key", key + 1))
            return key

        key: int = await self._commit.submit(order)
        return key

    async def change_records(
        self, *, put: Sequence[StoredRecord] = (), delete: Sequence[StoredRecord] = (), events: Sequence[Event] = ()
    ) -> None:
        def order(unit: Unit) -> None:
            for record in delete:
                query = Q.doom_record if record.kind == "queue" else Q.delete_record
                where = (record.tenant, record.id)
                self._db.execute(query, where if record.kind == "queue" else (record.kind, *where))
            for record in put:
                try:
                    values = (record.kind, record.tenant, record.id, record.slot, record.document)
                    self._db.execute(Q.put_record, values)
                except sqlite3.IntegrityError:
                    raise AlreadyExists(record.kind, (record.slot or record.id).rpartition("/")[2]) from None
            unit.events.extend(events)

        await self._commit.submit(order)
        for record in delete:
            if record.kind == "queue":
                self._doom(_queue.decode(record.document))
        for record in put:
            if record.kind == "queue":
                self._look_again(_queue.decode(record.document).key)

    def _doom(self, queue: Queue) -> None:
        self._doomed[queue.key] = queue
        self._look_again(queue.key)

    def _set_aside(self, unit: Unit, damaged: Damaged) -> Deciding[int | None]:
        """How many messages were set aside; None where nothing can be done."""
        (at,) = self._db.execute("SELECT max(at) FROM (SELECT at FROM journal ORDER BY start DESC LIMIT 1)").fetchone()
        if damaged.table is not None:
            keys = list(self._ledger.tallies)
            queues = (self._directory.queue_of_key(key) for key in keys)
            fifo = [queue.key for queue in queues if queue is not None and queue.kind is Kind.FIFO]
            return set_aside_row(self._db, unit, damaged, queues=keys, fifo=fifo, at=at or 0)
        if damaged.start is None and damaged.seq is None:
            return None
        count = yield from quarantine(
            unit, start=damaged.start, seq=damaged.seq, queues=self._directory, sealer=self.sealer, at=at or 0
        )
        return count or None

    def _look_again(self, key: int) -> None:
        """Settings such as retention may have changed what is due when."""
        self._ledger.tally(key).next_due = 0
        self._ledger.note(0, key)
        self._signals.due(0)

    # -- data plane -------------------------------------------------------------------------------------------

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        if reason := self._refusal():
            raise Unavailable(reason)
        size = sum([len(parcel.draft.body) for parcel in parcels])
        order = SendOrder(parcels, now, principal, events)
        outcomes: list[Sent | CourierError] = await self._commit.submit(
            Joint((SEND, 0), self._send, order, len(parcels), size)
        )
        return outcomes

    def _send(self, unit: Unit, orders: list[SendOrder]) -> Deciding[list[Outcomes]]:
        return send(unit, orders, queues=self._directory, sealer=self.sealer)

    async def receive(
        self, queue: Queue, *, limit: int, lease_ms: int, now: int, principal: str, group_limit: int | None = None
    ) -> list[Lease]:
        order = ReceiveOrder(limit, lease_ms, now, principal, group_limit)

        count = min(limit, self._ledger.tally(queue.key).counts[State.READY])
        joint = Joint(("receive", queue.key), partial(self._receive, queue), order, count)
        leases: list[Lease] = await self._jointly(joint)
        return leases

    def _receive(
        self, queue: Queue, unit: Unit, orders: list[ReceiveOrder]
    ) -> Deciding[Sequence[list[Lease] | object | None]]:
        latest = max([order.now for order in orders])
        live = yield from self._live(unit, queue, latest)
        if self._is_behind(live.key, latest):
            return [None] * len(orders)
        found = yield from receive(unit, live, orders, sealer=self.sealer, now=latest)
        return [LATER if leases is None else leases for leases in found]

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, now: int, principal: str
    ) -> list[Settled | CourierError]:
        order = SettleOrder(settlements, now, principal)

        key = ("ack", queue.key) if order.is_ack else ("settle", id(order))
        joint = Joint(key, partial(self._settle, queue), order, len(settlements))
        outcomes: list[Settled | CourierError] = await self._jointly(joint)
        return outcomes

    def _settle(self, queue: Queue, unit: Unit, orders: list[SettleOrder]) -> Deciding[Sequence[list[Outcome] | None]]:
        latest = max([order.now for order in orders])
        live = yield from self._live(unit, queue, latest)
        if self._is_behind(live.key, latest):
            return [None] * len(orders)
        return (yield from settle(unit, live, orders, queues=self._directory, sealer=self.sealer))

    async def _jointly(self, joint: Joint) -> Any:
        """Carry out an order with others about the same queue, in as many commits as it takes to apply time."""
        while (done := await self._commit.submit(joint)) is None:
            self._look_at_landings()
        return done

    async def browse(self, queue: Queue, *, now: int, where: Filter, limit: int, after: str | None = None) -> Page:
        live = await self._catch_up(queue, now)
        decide = partial(browse, queue=live, where=where, sealer=self.sealer, limit=limit, after=after)
        page: Page = await self._look(decide)
        return page

    async def read_message(self, queue: Queue, *, message_id: str, now: int) -> Message:
        live = await self._catch_up(queue, now)
        decide = partial(read_message, queue=live, message_id=message_id, sealer=self.sealer)
        message: Message = await self._look(decide)
        return message

    async def remove(self, queue: Queue, *, seqs: Sequence[int], kind: str, now: int, principal: str) -> list[int]:
        decide = partial(remove_chosen, seqs=seqs, kind=kind, now=now, principal=principal)
        gone: list[int] = await self._on(queue, now, decide)
        return gone

    async def purge(
        self, queue: Queue, *, upto_seq: int, after: str | None, limit: int, now: int, principal: str
    ) -> Moved:
        decide = partial(purge, upto_seq=upto_seq, after=after, limit=limit, now=now, principal=principal)
        moved: Moved = await self._on(queue, now, decide)
        return moved

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
        def decide(unit: Unit, live: Queue) -> Deciding[Moved]:
            goal = None
            if target is not None:
                goal = yield from self._live(unit, target, now)
            return (
                yield from move(
                    unit, live, goal, queues=self._directory, seqs=seqs, upto_seq=upto_seq, after=after, limit=limit,
                    kind=kind, now=now, principal=principal,
                )
            )  # fmt: skip

        moved: Moved = await self._on(source, now, decide)
        return moved

    async def hasten(self, queue: Queue, *, after: str | None, limit: int, now: int) -> Moved:
        moved: Moved = await self._on(queue, now, partial(hasten, after=after, limit=limit, now=now))
        return moved

    async def counters_of(self, queues: Sequence[Queue], *, now: int) -> dict[int, Counters]:
        found: dict[int, Counters] = {}
        for first in range(0, len(queues), COUNTED_TOGETHER):
            there = []
            for queue in queues[first : first + COUNTED_TOGETHER]:
                with suppress(QueueNotFound):
                    there.append(await self._catch_up(queue, now))
            found |= await self._look(partial(self._counters, queues=there))
        return found

    async def counters(self, queue: Queue, *, now: int) -> Counters:
        live = await self._catch_up(queue, now)
        found: dict[int, Counters] = await self._look(partial(self._counters, queues=[live]))
        return found[live.key]

    def _counters(self, unit: Unit, queues: Sequence[Queue]) -> dict[int, Counters]:
        return {queue.key: self._counters_of(queue) for queue in queues}

    def _counters_of(self, queue: Queue) -> Counters:
        tally = self._ledger.tally(queue.key)
        if tally.oldest_at is None and tally.total:
            queries = (Q.oldest_single, Q.oldest_own, Q.oldest_pack)
            entered = [self._db.execute(query, (queue.key,)).fetchone()[0] for query in queries]
            tally.oldest_at = min((at for at in entered if at is not None), default=None)
        return tally.counters

    async def last_seq(self, queue: Queue) -> int:
        last = self._ledger.next_seq - 1
        await self._wait_until_durable()
        return last

    async def _on(self, queue: Queue, now: int, decide: Callable[[Unit, Queue], Deciding[Any]]) -> Any:
        """Carry out a decision about a queue that time has been applied to, in as many commits as that takes."""

        def order(unit: Unit) -> Deciding[tuple[Any] | None]:
            live = yield from self._live(unit, queue, now)
            return None if self._is_behind(live.key, now) else ((yield from decide(unit, live)),)

        while (done := await self._commit.submit(order)) is None:
            self._look_at_landings()
        return done[0]

    async def _look(self, order: Work) -> Any:
        """Carry out an order that changes nothing, on what is durable."""
        return await self._commit.submit(order)

    async def _wait_until_durable(self) -> None:
        """Return once all that can be seen now is synced; raises Unavailable where that fails."""
        await self._commit.submit(_nothing)

    def _is_behind(self, key: int, now: int) -> bool:
        """Whether time or a publication has yet to be applied to a queue."""
        return self._ledger.tally(key).next_due <= now or key in self._landing

    def _live(self, unit: Unit, queue: Queue, now: int) -> Deciding[Queue]:
        """The queue as its settings are now, with a step of time applied; raises QueueNotFound if it was deleted."""
        live = self._known(queue)
        if live.key in self._landing:
            yield from self._land(unit)
        if self._ledger.tally(live.key).next_due <= now:
            yield from expire(unit, live, queues=self._directory, now=now)
        return live

    def _known(self, queue: Queue) -> Queue:
        live = self._directory.queue_of_key(queue.key)
        if live is None:
            raise QueueNotFound(queue.name)
        return live

    async def _catch_up(self, queue: Queue, now: int) -> Queue:
        """Apply time before a look, step by step, so that the figures are exact."""
        while self._is_behind(self._known(queue).key, now):
            try:
                await self._commit.submit(lambda unit: self._live(unit, queue, now))
            except Unavailable:
                break  # a store that cannot write can still be looked at, as it was when it last could
            self._look_at_landings()
        return self._known(queue)

    # -- time -------------------------------------------------------------------------------------------------

    async def advance(self, *, now: int) -> int | None:
        async with self._advancing:  # what another caller has begun is done, too, when this one returns
            return await self._advance(now)

    async def _advance(self, now: int) -> int | None:
        while (key := self._ledger.due(now)) is not None:
            try:
                swept = await self._commit.submit(partial(self._pass_time, key=key, now=now))
            except BaseException:
                self._ledger.note(now, key)  # it is still to be done
                raise
            if swept:
                self._doomed.pop(key, None)
                self._ledger.tallies.pop(key, None)
            elif key in self._doomed:
                self._ledger.tally(key).next_due = now + SWEEP_MS  # what is due elsewhere does not wait for all of it
                self._ledger.note(now + SWEEP_MS, key)
        await self._land_all()
        await self._finish_claims(now)
        await self._forget_stages(now)
        while self._dedup_due <= now:
            gone = await self._commit.submit(
                lambda unit: self._db.execute(Q.forget_dedup, {"now": now, "limit": STEP}).rowcount
            )
            self._dedup_due = now if gone == STEP else now + MINUTE
        return self._ledger.next_due()

    def _pass_time(self, unit: Unit, *, key: int, now: int) -> Deciding[bool]:
        """Whether the queue was deleted and nothing of it is left now."""
        queue = self._directory.queue_of_key(key)
        if queue is not None:
            yield from expire(unit, queue, queues=self._directory, now=now)
        elif key in self._doomed:
            doomed = self._doomed[key]
            if (yield from sweep(unit, doomed, now=now, limit=SWEEP_COUNT)):
                self._engine.flush(unit)
                self._forget(doomed)
                unit.touched.pop(key, None)
                return True
        return False

    def _forget(self, queue: Queue) -> None:
        """A queue that was deleted has no message any more."""
        for query in (Q.delete_groups, Q.delete_tally, Q.forget_claim_parts, Q.forget_claims, Q.forget_jobs):
            self._db.execute(query, (queue.key,))
        self._db.execute(Q.delete_record, ("doomed", queue.tenant, queue.id))

    # -- care -------------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        return await asyncio.to_thread(care.check, self.path)


def _nothing(unit: Unit) -> None:
    """An order that waits for those before it."""
