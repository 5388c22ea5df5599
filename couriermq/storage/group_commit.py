"""Group commit: everybody who waits shares one transaction and one sync.

Orders run on the event loop, one after the other, inside one transaction; then the engine syncs in a thread while the
loop reads the next requests, and only then do the callers get their answers. An order that raises is undone alone: the
transaction is rolled back and every order of the batch runs again, each in a transaction of its own. After a sync that
fails nothing is committed any more: the process has to end, and the next one reads what is on the disk.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import Any, Protocol

from couriermq.core.errors import Unavailable
from couriermq.core.limits import COMMIT_BYTES
from couriermq.storage.metrics import Metrics

QUIET_TURNS = 2
"""A request that has arrived takes two turns of the loop until it asks for something."""
TURN_EVENTS = 2_000
TURN_SECONDS = 0.025
"""How long one transaction may hold the event loop, unless a single order takes longer."""

Order = Any
"""What an engine understands; the group commit does not look into it."""
Waiting = tuple[Order, "asyncio.Future[Any]"]
Result = tuple["asyncio.Future[Any]", object]


LATER = object()
"""The result of an order that has found no room in a transaction and comes with the next."""


class Turn:
    """The bounds of one transaction; orders that find no room wait for the next."""

    def __init__(self) -> None:
        self._ends = perf_counter() + TURN_SECONDS

    def is_over(self, *, events: int, size: int) -> bool:
        return events >= TURN_EVENTS or size >= COMMIT_BYTES or perf_counter() >= self._ends


class Committing(Protocol):
    """What the group commit asks of an engine."""

    def commit(self, orders: Sequence[Order], turn: Turn) -> tuple[list[object], bool]:
        """The results of as many orders as fit, and whether anything was written; raises, all undone.

        At least one order has a result that is not LATER; orders that are left out at the end count as LATER, too.
        """

    def commit_alone(self, order: Order) -> tuple[object, bool]:
        """The result of one order, or the error that it raised."""

    def rank(self, order: Order) -> int:
        """Which orders of a batch are carried out first: the lowest."""

    def sync(self) -> None:
        """Make what was committed durable; called in a thread."""

    def synced(self) -> None:
        """Everything that was committed is durable: tell those who wait for it."""

    def failed(self, reason: str) -> None:
        """A sync has failed: nothing can be committed by this process any more."""

    def rest(self) -> None:
        """Between two commits."""


class GroupCommit:
    """The only writer. `submit` queues an order; its result arrives when it is on disk."""

    def __init__(self, engine: Committing) -> None:
        self.metrics = Metrics()
        self.failure: str | None = None
        self._engine = engine
        self._pending: list[Waiting] = []
        self._busy = False
        self._sync_thread = SyncThread(engine.sync)
        self._idle = asyncio.Event()
        self._idle.set()
        self._enough = 1

    async def submit(self, order: Order) -> Any:
        """Run an order in the next commit; returns, or raises what it raised, once that is durable."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._pending.append((order, future))
        if not self._busy:
            self._busy = True
            self._idle.clear()
            loop.call_soon(self._gather)
        return await future

    def fail(self, reason: str) -> None:
        """Commit nothing more. The kernel may have dropped pages that it could not write, so that neither a second sync
        nor what can be read back proves anything."""
        if self.failure is None:
            self.failure = reason
            self._engine.failed(reason)

    async def close(self) -> None:
        """Finish what has been submitted."""
        await self._idle.wait()
        self._sync_thread.close()

    def _gather(self, seen: int = 0, quiet: int = 0) -> None:
        """Commit once half of the callers of the last commit have come, or nobody has for two turns of the loop.

        A commit of a few costs as much as one of many. With two halves, one is synced while the other's requests are
        read.
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
        if self.failure is not None:
            self._finish([(future, Unavailable(self.failure)) for _, future in batch])
            return
        results, has_written = self._run(batch)
        if not has_written:
            self._finish(results)
            return
        self.metrics.commits += 1
        self.metrics.operations += len(results)
        self.metrics.batch_sizes.observe(len(results))
        started = perf_counter()
        self._sync_thread.start(lambda error: self._synced(error, results, started))

    def _run(self, batch: list[Waiting]) -> tuple[list[Result], bool]:
        if not batch:
            return [], False
        try:
            results, has_written = self._engine.commit([order for order, _ in batch], Turn())
        except Exception:
            batch = sorted(batch, key=lambda waiting: self._engine.rank(waiting[0]))
            alone = [(future, self._engine.commit_alone(order)) for order, future in batch]
            return [(future, result) for future, (result, _) in alone], any(written for _, (_, written) in alone)
        done: list[Result] = []
        later: list[Waiting] = []
        for waiting, result in zip(batch, results, strict=False):
            if result is LATER:
                later.append(waiting)
            else:
                done.append((waiting[1], result))
        self._pending = later + batch[len(results) :] + self._pending
        return done, has_written

    def _synced(self, error: Exception | None, results: list[Result], started: float) -> None:
        self.metrics.sync_seconds.observe(perf_counter() - started)
        if error is not None:
            self.fail(f"the disk did not take the last write: {error}")
        if self.failure is not None:
            results = [(future, Unavailable(self.failure)) for future, _ in results]
        self._finish(results)

    def _finish(self, results: list[Result]) -> None:
        if self.failure is None:
            self._engine.synced()
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
        self._engine.rest()


Done = Callable[[Exception | None], None]
Job = tuple[asyncio.AbstractEventLoop, Done]


class SyncThread:
    """One sync at a time; an executor does the same for three times the price, and every commit pays it."""

    def __init__(self, sync: Callable[[], None]) -> None:
        self._sync = sync
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="courier-sync", daemon=True)
        self._thread.start()

    def start(self, done: Done) -> None:
        """Sync; `done` is called in the event loop with the error, if there was one."""
        self._jobs.put((asyncio.get_running_loop(), done))

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            loop, done = job
            error = self._attempt()
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody is left to be told
                loop.call_soon_threadsafe(done, error)

    def _attempt(self) -> Exception | None:
        try:
            self._sync()
        except Exception as error:
            return error
        return None
