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
from couriermq.core.errors import AlreadyExists, QueueNotFound, Unavailable
from couriermq.core.events import Event
from couriermq.core.incarnations import Stamp
from couriermq.core.lifecycle.expire import STEP, expire
from couriermq.core.lifecycle.needs import Deciding
from couriermq.core.lifecycle.purge import sweep
from couriermq.core.lifecycle.quarantine import quarantine
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.model import MINUTE, Counters, Kind, Queue, State
from couriermq.storage.base import (
    SWEEP_COUNT,
    SWEEP_MS,
    CannotOpen,
    Directory,
    Signals,
    StoredRecord,
)
from couriermq.storage.claims import Claims
from couriermq.storage.contents import Damaged, Holes
from couriermq.storage.data_plane import DataPlane
from couriermq.storage.group_commit import GroupCommit, Work
from couriermq.storage.metrics import Metrics
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.checksums import sound
from couriermq.storage.sqlite.connection import prepare
from couriermq.storage.sqlite.disk import Disk
from couriermq.storage.sqlite.engine import MOST_DAMAGED, Engine
from couriermq.storage.sqlite.facts import Facts
from couriermq.storage.sqlite.files import Files
from couriermq.storage.sqlite.journal import Journal
from couriermq.storage.sqlite.landing import LandingStages
from couriermq.storage.sqlite.ledger import Ledger
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.repair import set_aside_row

MIN_FREE_BYTES = 64 * 1024 * 1024
"""Room kept on the disk for acks, releases and checkpoints once sends are refused."""

COUNTED_TOGETHER = 100
"""After the counters of this many queues other tasks get a turn."""

log = logging.getLogger(__name__)

_queue = msgspec.msgpack.Decoder(Queue)


class SqliteStore(Files, DataPlane, Claims, LandingStages, Journal, Disk):
    """One directory, one process, one file. `sync` is there for tests and measurements.

    `accept_loss` opens it even if commits that were synced are missing.
    """

    _commit: GroupCommit

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
        self._holes = Holes()
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
            self._engine.flush(unit)
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
            self._engine.flush(unit)
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
        self._engine.flush(unit)
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

    def _check_send(self) -> None:
        if reason := self._refusal():
            raise Unavailable(reason)

    def _likely_count(self, queue: Queue, limit: int) -> int:
        return min(limit, self._ledger.tally(queue.key).counts[State.READY])

    async def _look(self, order: Work) -> Any:
        return await self._commit.submit(order)

    async def _read(self, decide: Callable[[], Deciding[Any]]) -> Any:
        for _ in range(MOST_DAMAGED):
            try:
                found = await asyncio.to_thread(self._read_apart, decide())
            except Damaged as damaged:
                reason = f"{damaged}; run `courier doctor`"
                count = await self._commit.submit(partial(self._set_aside, damaged=damaged))
                if count is None:
                    break
                self.metrics.quarantined += count
            else:
                await self._wait_until_durable()
                return found
        raise Unavailable(reason)

    def _read_apart(self, decision: Deciding[Any]) -> Any:
        """Off the event loop, on a connection of its own; raises Damaged."""
        load = Facts(self._reader).load
        with self._reading:
            self._reader.execute("BEGIN")  # one moment for the rows and what they point to
            try:
                need = next(decision)
                while True:
                    need = decision.send(load(need))
            except StopIteration as end:
                return end.value
            finally:
                self._reader.execute("COMMIT")

    def _is_behind(self, key: int, now: int, unit: Unit | None = None) -> bool:
        return self._ledger.tally(key).next_due <= now or key in self._landing

    def _bring_on(self, unit: Unit, live: Queue, now: int) -> Deciding[None]:
        if live.key in self._landing:
            yield from self._land(unit)
        if self._ledger.tally(live.key).next_due <= now:
            yield from expire(unit, live, queues=self._directory, now=now)

    def _step_done(self) -> None:
        self._look_at_landings()

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
        self._engine.flush(unit)
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

    async def _wait_until_durable(self) -> None:
        """Return once all that can be seen now is synced; raises Unavailable where that fails."""
        await self._commit.submit(_nothing)

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
            gone = await self._commit.submit(partial(self._forget_dedup, now=now))
            self._dedup_due = now if gone == STEP else now + MINUTE
        return self._ledger.next_due()

    def _forget_dedup(self, unit: Unit, *, now: int) -> int:
        self._engine.flush(unit)
        return self._db.execute(Q.forget_dedup, {"now": now, "limit": STEP}).rowcount

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
