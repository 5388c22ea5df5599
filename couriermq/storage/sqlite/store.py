"""The embedded engine as a Store."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from couriermq.clock import fresh_key
from couriermq.core.chronicle import Commit, entries_of
from couriermq.core.errors import AlreadyExists, CourierError, OffsetGone, QueueNotFound, Unavailable
from couriermq.core.events import Entry, Event, EventKind
from couriermq.core.limits import COMMIT_BYTES
from couriermq.core.model import MINUTE, Counters, Lease, Message, Page, Queue, Sent, Settled, Settlement
from couriermq.core.receipts import Sealer
from couriermq.storage.base import (
    SWEEP_COUNT,
    SWEEP_MS,
    CannotOpen,
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
from couriermq.storage.sqlite import browsing, care, leasing, passing, sending
from couriermq.storage.sqlite.claims import Claims, forget_claims
from couriermq.storage.sqlite.commit import GroupCommit
from couriermq.storage.sqlite.connection import DATABASE, connect, migrate, prepare, sync_directory
from couriermq.storage.sqlite.ledger import Ledger, Tally, Tx
from couriermq.storage.sqlite.log import PAGE_BYTES, Log
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.stages import Stages

T = TypeVar("T")

MIN_FREE_BYTES = 64 * 1024 * 1024
"""Room kept on the disk for acks, releases and checkpoints once sends are refused."""

COUNTED_TOGETHER = 100
"""After the counters of this many queues other tasks get a turn."""

_queue = msgspec.msgpack.Decoder(Queue)


class SqliteStore(Claims, Stages):
    """One directory, one process, one file. `sync` and `journal` are there for tests and measurements."""

    def __init__(
        self,
        directory: Path,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
        sync: Callable[[int], None] = os.fdatasync,
        journal: bool = True,
    ) -> None:
        self.path = directory
        self._min_free_bytes = min_free_bytes
        self._sync = sync
        self._journal = journal
        self._ledger = Ledger()
        self._reading = threading.Lock()
        self._doomed: dict[int, Queue] = {}
        self._oldest_offset = 0
        self._dedup_due = 0
        self._commits_seen = -1
        self._full: str | None = None

    async def open(self, *, directory: Directory, signals: Signals) -> None:
        """Take the directory, bring the schema up to date and load the figures; raises CannotOpen."""
        self._directory = directory
        self._advancing = asyncio.Lock()
        self._lock = prepare(self.path)
        try:
            self._open_files()
        except sqlite3.Error as error:
            self._lock.release()
            raise CannotOpen(f"the store in {self.path} cannot be opened: {error}; run `courier doctor`") from error
        except BaseException:
            self._lock.release()
            raise
        self._commit = GroupCommit(
            self._db,
            self._log,
            self._ledger,
            signals,
            sync=self._sync,
            journal=self._journal,
        )

    def _open_files(self) -> None:
        path = self.path / DATABASE
        self._db = connect(path)
        migrate(self._db)
        self._copier = connect(path)
        self._reader = connect(path, read_only=True)
        self.sealer = Sealer(self._seal_key())
        self._load()
        # The log exists now, and stays for as long as a connection is open.
        self._log = Log(self._db, self._copier, path, spare_bytes=self._min_free_bytes, disk_is_low=self._is_disk_low)
        os.fsync(self._log.descriptor)
        sync_directory(self.path)

    def _seal_key(self) -> bytes:
        row = self._db.execute(Q.read_meta, ("seal_key",)).fetchone()
        key: bytes = row[0] if row else fresh_key()
        self._db.execute(Q.put_meta, ("seal_key", key))  # also makes sure that there is a log to sync
        return key

    def _load(self) -> None:
        ledger = self._ledger
        for key, *figures in self._db.execute(Q.read_tallies):
            tally = ledger.tallies[key] = Tally(key, next_due=0)
            tally.figures = tuple(figures)
            ledger.note(0, key)
        edges = self._db.execute(Q.journal_edges).fetchone()
        if edges:
            self._oldest_offset, ledger.next_offset, ledger.next_seq = edges
        self._look_at_landings()
        (newest,) = self._db.execute("SELECT max(seq) FROM message").fetchone()
        ledger.next_seq = max(ledger.next_seq, (newest or 0) + 1)

    async def close(self) -> None:
        await self._commit.close()
        with self._reading:  # a reader that was cancelled still runs in its thread: close nothing under it
            self._reader.close()
        self._copier.close()
        self._db.close()
        self._log.close()
        self._lock.release()

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

    def _refusal(self) -> str | None:
        """Why a message cannot be taken. The disk is looked at once a commit, and every time while it is full."""
        if self._full is not None or self._commits_seen != self._commit.metrics.commits:
            self._commits_seen = self._commit.metrics.commits
            self._full = self._look_at_disk()
        return self._full

    def _look_at_disk(self) -> str | None:
        free = self._free_bytes()
        if free >= self._min_free_bytes:
            return None
        # Room inside the database is as good, as long as the log itself has some on the disk.
        if free >= self._min_free_bytes // 4 and free + self._inner_free_bytes() >= self._min_free_bytes:
            return None
        return f"the disk is almost full ({free // 1024} KiB left); free some space, or receive and ack messages"

    def _is_disk_low(self) -> bool:
        return self._free_bytes() < self._min_free_bytes

    def _free_bytes(self) -> int:
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def _inner_free_bytes(self) -> int:
        """What messages that are gone have left free inside the database."""
        (pages,) = self._db.execute("PRAGMA freelist_count").fetchone()
        return int(pages) * PAGE_BYTES

    # -- control plane ----------------------------------------------------------------------------------------

    def changing(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()  # one process: the catalog's own order is enough

    async def catch_up(self) -> bool:
        return False

    async def load_records(self) -> list[StoredRecord]:
        records = []
        for kind, tenant, id_, slot, document in self._db.execute(Q.read_records):
            if kind == "doomed":
                queue = _queue.decode(document)
                self._doom(queue)
            else:
                records.append(StoredRecord(kind=kind, tenant=tenant, id=id_, slot=slot, document=document))
        return records

    async def next_key(self) -> int:
        def operation(tx: Tx) -> int:
            row = tx.execute(Q.read_meta, ("next_key",)).fetchone()
            key = int(row[0]) if row else 1
            tx.execute(Q.put_meta, ("next_key", key + 1))
            return key

        return await self._commit.submit(operation)

    async def change_records(
        self, *, put: Sequence[StoredRecord] = (), delete: Sequence[StoredRecord] = (), events: Sequence[Event] = ()
    ) -> None:
        def operation(tx: Tx) -> None:
            for record in delete:
                query = Q.doom_record if record.kind == "queue" else Q.delete_record
                where = (record.tenant, record.id)
                tx.execute(query, where if record.kind == "queue" else (record.kind, *where))
            for record in put:
                try:
                    tx.execute(Q.put_record, (record.kind, record.tenant, record.id, record.slot, record.document))
                except sqlite3.IntegrityError:
                    raise AlreadyExists(record.kind, (record.slot or record.id).rpartition("/")[2]) from None
            tx.events.extend(events)

        await self._commit.submit(operation)
        for record in delete:
            if record.kind == "queue":
                self._doom(_queue.decode(record.document))
        for record in put:
            if record.kind == "queue":
                self._look_again(_queue.decode(record.document).key)

    def _doom(self, queue: Queue) -> None:
        self._doomed[queue.key] = queue
        self._look_again(queue.key)

    def _look_again(self, key: int) -> None:
        """Settings such as retention may have changed what is due when."""
        self._ledger.tally(key).next_due = 0
        self._ledger.note(0, key)
        self._commit.wake(0)

    # -- data plane -------------------------------------------------------------------------------------------

    async def send(
        self, parcels: Sequence[Parcel], *, now: int, principal: str, events: Sequence[Event] = ()
    ) -> list[Sent | CourierError]:
        if reason := self._refusal():
            raise Unavailable(reason)

        def operation(tx: Tx) -> list[Sent | CourierError]:
            tx.events.extend(events)
            return sending.send(
                tx, parcels, directory=self._directory, sealer=self.sealer, now=now, principal=principal
            )

        return await self._commit.submit(operation)

    async def receive(
        self, queue: Queue, *, limit: int, lease_ms: int, now: int, principal: str, group_limit: int | None = None
    ) -> list[Lease]:
        def operation(tx: Tx, live: Queue) -> list[Lease]:
            return leasing.receive(
                tx,
                live,
                sealer=self.sealer,
                limit=limit,
                lease_ms=lease_ms,
                group_limit=group_limit,
                now=now,
                principal=principal,
            )

        return await self._on(queue, now, operation)

    async def settle(
        self, queue: Queue, settlements: Sequence[Settlement], *, now: int, principal: str
    ) -> list[Settled | CourierError]:
        def operation(tx: Tx, live: Queue) -> list[Settled | CourierError]:
            return leasing.settle(
                tx, live, settlements, directory=self._directory, sealer=self.sealer, now=now, principal=principal
            )

        return await self._on(queue, now, operation)

    async def browse(self, queue: Queue, *, now: int, where: Filter, limit: int, after: str | None = None) -> Page:
        live = await self._catch_up(queue, now)
        return browsing.browse(self._db, live, self.sealer, where, limit=limit, after=after)

    async def read_message(self, queue: Queue, *, message_id: str, now: int) -> Message:
        live = await self._catch_up(queue, now)
        return browsing.read_message(self._db, live, self.sealer, message_id)

    async def remove(self, queue: Queue, *, seqs: Sequence[int], kind: str, now: int, principal: str) -> list[int]:
        chosen = partial(browsing.remove_chosen, seqs=seqs, kind=EventKind(kind), now=now, principal=principal)
        return await self._on(queue, now, chosen)

    async def purge(
        self, queue: Queue, *, upto_seq: int, after: str | None, limit: int, now: int, principal: str
    ) -> Moved:
        def operation(tx: Tx, live: Queue) -> Moved:
            return browsing.purge(tx, live, upto_seq=upto_seq, after=after, limit=limit, now=now, principal=principal)

        return await self._on(queue, now, operation)

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
        def operation(tx: Tx, live: Queue) -> Moved:
            return browsing.move(
                tx,
                live,
                target and self._live(tx, target, now),
                directory=self._directory,
                seqs=seqs,
                upto_seq=upto_seq,
                after=after,
                limit=limit,
                kind=EventKind(kind),
                now=now,
                principal=principal,
            )

        return await self._on(source, now, operation)

    async def hasten(self, queue: Queue, *, after: str | None, limit: int, now: int) -> Moved:
        return await self._on(queue, now, partial(browsing.hasten, after=after, limit=limit, now=now))

    async def counters_of(self, queues: Sequence[Queue], *, now: int) -> dict[int, Counters]:
        found = {}
        for index, queue in enumerate(queues, 1):
            with suppress(QueueNotFound):
                found[queue.key] = await self.counters(queue, now=now)
            if index % COUNTED_TOGETHER == 0:
                await asyncio.sleep(0)
        return found

    async def counters(self, queue: Queue, *, now: int) -> Counters:
        await self._catch_up(queue, now)
        tally = self._ledger.tally(queue.key)
        if tally.oldest_at is None and tally.total:
            entered = [
                self._db.execute(query, (queue.key,)).fetchone()[0]
                for query in (Q.oldest_entered, Q.oldest_entered_own)
            ]
            tally.oldest_at = min((at for at in entered if at is not None), default=None)
        return tally.counters

    async def last_seq(self, queue: Queue) -> int:
        return self._ledger.next_seq - 1

    async def _on(self, queue: Queue, now: int, operation: Callable[[Tx, Queue], T]) -> T:
        """Run an operation on a queue that time has been applied to, in as many commits as that takes."""

        def attempt(tx: Tx) -> tuple[T] | None:
            live = self._live(tx, queue, now)
            return None if self._is_behind(live.key, now) else (operation(tx, live),)

        while (done := await self._commit.submit(attempt)) is None:
            self._look_at_landings()
        return done[0]

    def _is_behind(self, key: int, now: int) -> bool:
        """Whether time or a publication has yet to be applied to a queue."""
        return self._ledger.tally(key).next_due <= now or key in self._landing

    def _live(self, tx: Tx, queue: Queue, now: int) -> Queue:
        """The queue as its settings are now, with a step of time applied; raises QueueNotFound if it was deleted."""
        live = self._known(queue)
        if live.key in self._landing:
            self._land(tx)
        passing.apply_time(tx, live, directory=self._directory, now=now)
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
                await self._commit.submit(lambda tx: self._live(tx, queue, now))
            except Unavailable:
                break  # a store that cannot write can still be looked at, as it was when it last could
            self._look_at_landings()
        return self._known(queue)

    # -- time -------------------------------------------------------------------------------------------------

    async def advance(self, *, now: int) -> int | None:
        async with self._advancing:  # what another caller has begun is done, too, when this one returns
            return await self._advance(now)

    async def _advance(self, now: int) -> int | None:
        if self._commit.failure is not None:
            await self._commit.submit(lambda tx: None)  # tries to recover, or raises
        while (key := self._ledger.due(now)) is not None:
            try:
                swept = await self._commit.submit(partial(self._pass_time, key=key, now=now))
            except BaseException:
                self._ledger.note(now, key)  # it is still to be done
                raise
            if swept:
                self._doomed.pop(key, None)
            elif key in self._doomed:
                self._ledger.tally(key).next_due = now + SWEEP_MS  # what is due elsewhere does not wait for all of it
                self._ledger.note(now + SWEEP_MS, key)
        await self._land_all()
        await self._finish_claims(now)
        await self._forget_stages(now)
        while self._dedup_due <= now:
            more = await self._commit.submit(lambda tx: passing.forget_dedup(tx, now))
            self._dedup_due = now if more else now + MINUTE
        return self._ledger.next_due()

    def _pass_time(self, tx: Tx, *, key: int, now: int) -> bool:
        """Whether the queue was deleted and nothing of it is left now."""
        queue = self._directory.queue_of_key(key)
        if queue is not None:
            passing.apply_time(tx, queue, directory=self._directory, now=now)
        elif key in self._doomed and passing.sweep(tx, self._doomed[key], now=now, limit=SWEEP_COUNT):
            forget_claims(tx, key)
            return True
        return False

    # -- journal ----------------------------------------------------------------------------------------------

    def journals(self) -> Sequence[ShardLog]:
        return [self]

    async def span(self) -> Span:
        return Span(oldest=self._oldest_offset, next=self._commit.durable_offset)

    async def read_events(self, *, start: int, limit: int) -> list[Entry]:
        commits = await self.read_commits(start=start, limit=limit)
        return await asyncio.to_thread(entries_of, commits, start=start, limit=limit) if commits else []

    async def read_commits(self, *, start: int, limit: int) -> list[Commit]:
        if start < self._oldest_offset:
            raise OffsetGone(start, self._oldest_offset)
        durable = self._commit.durable_offset
        if start >= durable:
            return []
        commits = await asyncio.to_thread(self._read_journal, start, min(limit, durable - start), durable)
        if not commits:  # trimmed in this moment
            raise OffsetGone(start, self._oldest_offset)
        return commits

    def _read_journal(self, start: int, limit: int, durable: int) -> list[Commit]:
        commits: list[Commit] = []
        size = 0
        with self._reading:
            for row in self._reader.execute(Q.read_journal, {"offset": start, "durable": durable}):
                commit = Commit(*row)
                commits.append(commit)
                size += len(commit.events)
                if commit.start + commit.count >= start + limit or size >= COMMIT_BYTES:
                    break
        return commits

    async def trim_events(self, *, before: int) -> int:
        await self._commit.submit(lambda tx: tx.execute(Q.trim_journal, {"before": before}).rowcount)
        self._oldest_offset = self._db.execute(Q.journal_edges).fetchone()[0] or 0
        return self._oldest_offset

    async def offset_at(self, at: int) -> int:
        """The offset of the first event that was committed at `at` or later."""
        found = self._db.execute(Q.offset_at, (at,)).fetchone()[0]
        return self._ledger.next_offset if found is None else int(found)

    async def offset_keeping(self, size: int) -> int:
        found = await asyncio.to_thread(self._find_offset_keeping, size)
        return self._oldest_offset if found is None else found

    def _find_offset_keeping(self, size: int) -> int | None:
        with self._reading:
            found: int | None = self._reader.execute(Q.offset_keeping, (size,)).fetchone()[0]
        return found

    # -- care -------------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        return await asyncio.to_thread(care.check, self.path)
