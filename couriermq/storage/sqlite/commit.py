"""Group commit: everybody who waits shares one transaction and one fsync.

Operations run on the event loop, one after the other, inside one transaction; then the log is synced in a thread
while the loop reads the next requests, and only then do the callers hear of it. An operation that raises is undone
alone: the transaction is rolled back and every operation of the batch runs again, each in a transaction of its own.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from time import perf_counter
from typing import TypeVar, cast

from couriermq.core.errors import CourierError, Unavailable
from couriermq.core.limits import COMMIT_BYTES
from couriermq.storage.base import Signals
from couriermq.storage.metrics import Metrics
from couriermq.storage.sqlite.ledger import Ledger, Operation, Tx
from couriermq.storage.sqlite.log import Log
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.syncing import SyncThread

T = TypeVar("T")
Waiting = tuple[Operation, "asyncio.Future[object]"]

RECOVERY_MS = 1_000
QUIET_TURNS = 2
"""A request that has arrived takes two turns of the loop until it asks for something."""
TURN_EVENTS = 2_000
"""How much may happen in one transaction, about 20 ms of the event loop; who has not had a turn comes with the next."""


class GroupCommit:
    """The only writer. `submit` queues an operation; its result arrives when it is on disk."""

    def __init__(
        self,
        db: sqlite3.Connection,
        log: Log,
        ledger: Ledger,
        signals: Signals,
        *,
        sync: Callable[[int], None] = os.fdatasync,
        journal: bool = True,
    ) -> None:
        self.metrics = Metrics()
        self.failure: str | None = None
        self.durable_offset = ledger.next_offset
        self._db = db
        self._log = log
        self._ledger = ledger
        self._signals = signals
        self._sync = sync
        self._journal = journal
        self._pending: list[Waiting] = []
        self._busy = False
        self._sync_thread = SyncThread(self._sync_log)
        self._idle: asyncio.Event = asyncio.Event()
        self._idle.set()
        self._announced: dict[int, int] = {}
        self._retry_at = 0.0
        self._enough = 1

    async def submit(self, operation: Callable[[Tx], T]) -> T:
        """Run an operation in the next commit; returns, or raises what it raised, once that is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        self._pending.append((operation, future))
        if not self._busy:
            self._busy = True
            self._idle.clear()
            loop.call_soon(self._gather)
        return cast(T, await future)

    def wake(self, at: int) -> None:
        self._signals.due(at)

    async def close(self) -> None:
        """Finish what is in hand."""
        await self._idle.wait()
        self._sync_thread.close()
        self._log.finish()

    # -- one commit -------------------------------------------------------------------------------------------

    def _gather(self, seen: int = 0, quiet: int = 0) -> None:
        """Commit once half of those who are busy have come, or nobody has for two turns of the loop.

        A commit of a few costs as much as one of many, and leaves the many to wait together: half and half, one half
        is synced while the other's requests are read.
        """
        count = len(self._pending)
        quiet = quiet + 1 if count == seen else 0
        if count >= self._enough or quiet == QUIET_TURNS:
            self._commit()
        else:
            asyncio.get_running_loop().call_soon(self._gather, count, quiet)

    def _commit(self) -> None:
        batch = [waiting for waiting in self._pending if not waiting[1].done()]
        self._pending = []
        if self.failure is not None and not self._recover():
            self._finish([(future, Unavailable(self.failure)) for _, future in batch])
            return
        changes = self._db.total_changes
        results = self._run_together(batch)
        if self._db.total_changes == changes:
            self._finish(results)
            return
        self.metrics.commits += 1
        self.metrics.operations += len(results)
        self.metrics.batch_sizes.observe(len(results))
        started = perf_counter()
        self._sync_thread.start(lambda error: self._synced(error, results, started))

    def _run_together(self, batch: list[Waiting]) -> list[tuple["asyncio.Future[object]", object]]:
        try:
            results = self._transact([operation for operation, _ in batch])
        except Exception:
            return [(future, self._run_alone(operation)) for operation, future in batch]
        self._pending = batch[len(results) :] + self._pending
        return [(future, result) for (_, future), result in zip(batch, results, strict=False)]

    def _run_alone(self, operation: Operation) -> object:
        try:
            return self._transact([operation])[0]
        except CourierError as error:
            return error
        except sqlite3.Error as error:
            return Unavailable(_reason(error))
        except Exception as error:
            return error

    def _transact(self, operations: list[Operation]) -> list[object]:
        """One transaction of as many of the operations, in order, as fit into one turn; at least the first."""
        tx = Tx(self._db, self._ledger)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            results = _take_turns(tx, operations)
            self._write(tx)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            tx.undo()
            raise
        tx.keep()
        self.metrics.events.update(tx.events.counts())
        for key, count in tx.ready.items():
            self._announced[key] = self._announced.get(key, 0) + count
        if tx.dues:
            self._signals.due(min(tx.dues)[0])
        return results

    def _write(self, tx: Tx) -> None:
        """What every commit adds: the tallies that changed, and its events as one row of the journal."""
        if rows := tx.changed_tallies():
            tx.executemany(Q.put_tally, rows)
        if not self._journal:
            tx.events.clear()
        if tx.events:
            start, at = self._ledger.next_offset, tx.events.last_at
            tx.execute(Q.insert_journal, (start, len(tx.events), at, tx.next_seq, tx.events.pack()))

    def _sync_log(self) -> None:
        self._sync(self._log.descriptor)

    def _synced(
        self, error: Exception | None, results: list[tuple["asyncio.Future[object]", object]], started: float
    ) -> None:
        self.metrics.sync_seconds.observe(perf_counter() - started)
        if error is not None:
            # The kernel may have dropped the pages, so a second fsync proves nothing: nobody hears of success until
            # a checkpoint has written everything anew.
            self.failure = f"the disk did not take the last write: {error}"
            results = [(future, Unavailable(self.failure)) for future, _ in results]
        self._finish(results)

    def _finish(self, results: list[tuple["asyncio.Future[object]", object]]) -> None:
        if self.failure is None:
            if self.durable_offset != self._ledger.next_offset:
                self.durable_offset = self._ledger.next_offset
                self._signals.journaled()
            announced, self._announced = self._announced, {}
            for key, count in announced.items():
                self._signals.ready(key, count)
        for future, result in results:
            if not future.done():
                if isinstance(result, BaseException):
                    future.set_exception(result)
                else:
                    future.set_result(result)
        self._enough = (len(results) + len(self._pending)) // 2
        if self._pending:
            asyncio.get_running_loop().call_soon(self._gather)
        else:
            self._busy = False
            self._idle.set()
        self._log.tend()

    def _recover(self) -> bool:
        """After a failed sync: write all pages anew through a checkpoint, at most once a second."""
        if perf_counter() < self._retry_at:
            return False
        self._retry_at = perf_counter() + RECOVERY_MS / 1_000
        try:
            if not self._log.cut():
                return False
            self._sync_log()
        except (sqlite3.Error, OSError) as error:
            self.failure = f"the disk did not take the last write: {error}"
            return False
        self.failure = None
        return True


def _take_turns(tx: Tx, operations: list[Operation]) -> list[object]:
    results = []
    for operation in operations:
        results.append(operation(tx))
        if len(tx.events) >= TURN_EVENTS or tx.taken_bytes >= COMMIT_BYTES:
            break
    return results


def _reason(error: sqlite3.Error) -> str:
    """What to tell a caller whose write SQLite refused."""
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_FULL":
            return "the disk is full; free some space, then try again"
        case name if name.startswith("SQLITE_READONLY"):
            return "the data directory is read-only; make it writable, then try again"
        case name if name.startswith("SQLITE_CORRUPT") or name == "SQLITE_NOTADB":
            return "the data is damaged; stop Courier and run `courier doctor`"
        case _:
            return f"the store cannot write: {error}"
