"""Group commit: everybody who waits shares one transaction.

Orders that wait become one batch, bounded in events, bytes and time on the event loop. `GroupCommit` serves an engine
on the event loop: orders run one after the other inside one transaction; then the engine syncs in a thread while the
loop reads the next requests, and only then do the callers get their answers. `ConcurrentCommit` serves engines that
are waited for: each of its committers carries out one batch at a time. An order that raises is undone alone: the
transaction is rolled back and every order of the batch runs again, each in a transaction of its own. After a sync that
fails nothing is committed any more: the process has to end, and the next one reads what is on the disk.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from types import GeneratorType
from typing import Any, Protocol

import msgspec

from couriermq.core.errors import Unavailable
from couriermq.core.lifecycle.needs import Deciding, Exclusive
from couriermq.core.lifecycle.unit import Unit
from couriermq.core.limits import COMMIT_BYTES
from couriermq.storage.metrics import Metrics

QUIET_TURNS = 2
"""A request that has arrived takes two turns of the loop until it asks for something."""
TURN_EVENTS = 2_000
TURN_SECONDS = 0.025
"""How long one transaction may hold the event loop, unless a single order takes longer."""

Work = Callable[[Unit], Any]
"""An order: returns a decision, or does what no decision is needed for and returns its result."""

SEND = "send"
"""The first part of the key of orders that send."""
RECEIVE, ACK, TIME = "receive", "ack", "time"
"""The same of orders that receive, that only ack, and that apply time."""
CATALOG = "catalog"
"""The same of changes of the control plane, which come last: they lock what everybody needs."""
APART, SENDS = ("apart", 0), (SEND, 0)
RANKS = {SEND: 0, TIME: 1, RECEIVE: 3, CATALOG: 4}
CLOSING = "the store is closing"

log = logging.getLogger(__name__)


class Joint(msgspec.Struct, gc=False):
    """An order that is decided together with the others of its `key` in the same commit."""

    key: tuple[str, int]
    decide: Callable[[Unit, list[Any]], Any]
    """Takes the orders of all; a result for each."""
    order: Any
    count: int
    size: int = 0
    in_order: tuple[int, ...] = ()
    """Keys of queues that nobody else may change meanwhile."""
    undo: Callable[[Any], None] | None = None
    """Is given the result of an order that was carried out for a caller that has been cancelled."""


class Apart(msgspec.Struct, gc=False):
    """An order that may take long: where there are several committers, it has a batch of its own, one at a time."""

    work: Work


Order = Work | Joint | Apart
Waiting = tuple[Order, "asyncio.Future[Any]"]
Result = tuple[Waiting, object]


LATER = object()
"""The result of an order that has found no room in a transaction and comes with the next."""


class Turn:
    """The bounds of one transaction; orders that find no room wait for the next."""

    def __init__(self) -> None:
        self._ends = perf_counter() + TURN_SECONDS

    def is_over(self, *, events: int, size: int) -> bool:
        return events >= TURN_EVENTS or size >= COMMIT_BYTES or perf_counter() >= self._ends


def decide_all(unit: Unit, orders: Sequence[Order], turn: Turn) -> Deciding[list[object]]:
    """The results of as many orders as fit into one turn; joint ones are decided last, in the order of their ranks."""
    results: list[object] = []
    groups: dict[tuple[str, int], list[tuple[int, Joint]]] = {}
    count = size = 0
    # All at once and before any row, so that two batches do not wait for each other.
    if in_order := {key for order in orders if isinstance(order, Joint) for key in order.in_order}:
        yield Exclusive(sorted(in_order))
    for order in orders:
        if isinstance(order, Joint):
            groups.setdefault(order.key, []).append((len(results), order))
            results.append(LATER)
            count += order.count
            size += order.size
        else:
            work = order.work if isinstance(order, Apart) else order
            results.append((yield from decided(work(unit))))
        if turn.is_over(events=count + len(unit.events), size=size + unit.taken_bytes):
            break
    for _, members in sorted(groups.items(), key=lambda group: _rank(group[0])):
        decision = members[0][1].decide(unit, [joint.order for _, joint in members])
        outcomes = yield from decided(decision)
        for (index, _), result in zip(members, outcomes, strict=True):
            results[index] = result
    return results


def decided(decision: Any) -> Deciding[Any]:
    """The outcome of a decision; anything else is an outcome already."""
    return (yield from decision) if isinstance(decision, GeneratorType) else decision


def rank(order: Order) -> int:
    """In which order orders of one commit happen: receivers find what sends bring and what settlements let go."""
    return _rank(order.key) if isinstance(order, Joint) else 2


def _rank(key: tuple[str, int]) -> int:
    return RANKS.get(key[0], 2)


def _most_of(count: int) -> int:
    """How many callers a commit waits for, of those that are known: the requests of the others are read meanwhile."""
    return count * 3 // 4


class Committing(Protocol):
    """What the group commit asks of an engine."""

    def commit(self, orders: Sequence[Order], turn: Turn) -> tuple[list[object], bool]:
        """The results of as many orders as fit, and whether anything was written; raises, all undone.

        At least one order has a result that is not LATER; orders that are left out at the end count as LATER, too.
        """

    def commit_alone(self, order: Order) -> tuple[object, bool]:
        """The result of one order, or the error that it raised."""

    def sync(self) -> None:
        """Make what was committed durable; called in a thread."""

    def synced(self) -> None:
        """Everything that was committed is durable: tell those who wait for it."""

    def failed(self, reason: str) -> None:
        """A sync has failed: nothing can be committed by this process any more."""

    def rest(self) -> None:
        """Between two commits."""


class AsyncCommitting(Protocol):
    """A committer of an engine that is waited for."""

    async def commit(self, orders: Sequence[Order], turn: Turn) -> list[object]:
        """The results of as many orders as fit, once they are durable; raises, all undone."""

    async def commit_alone(self, order: Order) -> object:
        """The result of one order, or the error that it raised."""


class Collector:
    """Orders that wait. `submit` queues one; its result arrives when it is durable."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.failure: str | None = None
        self._loop = asyncio.get_running_loop()
        self._pending: list[Waiting] = []
        self._busy = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._enough = 1

    async def submit(self, order: Order) -> Any:
        """Run an order in the next commit; returns, or raises what it raised, once that is durable."""
        future = self.enqueue(order)
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                _undo(order, future.result())  # it was on the way to the caller
            raise

    def enqueue(self, order: Order) -> "asyncio.Future[Any]":
        """Have an order run in the next commit, also while the store closes."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._pending.append((order, future))
        if not self._busy:
            self._busy = True
            self._idle.clear()
            self._loop.call_soon(self._gather)
        return future

    def _gather(self, seen: int = 0, quiet: int = 0) -> None:
        """Commit once enough callers have come, or nobody has for two turns of the loop.

        A commit of a few costs as much as one of many.
        """
        count = len(self._pending)
        quiet = quiet + 1 if count == seen else 0
        if count >= self._enough or quiet == QUIET_TURNS:
            self._commit()
        else:
            self._loop.call_soon(self._gather, count, quiet)

    def _commit(self) -> None:
        raise NotImplementedError

    def _done(self, batch: list[Waiting], results: Sequence[object]) -> list[Result]:
        """Those orders that have been carried out; the others come with the next commit."""
        done = [pair for pair in zip(batch, results, strict=False) if pair[1] is not LATER]
        if len(done) < len(batch):
            later = [waiting for waiting, result in zip(batch, results, strict=False) if result is LATER]
            self._pending = later + batch[len(results) :] + self._pending
        return done

    def _observe(self, count: int) -> None:
        self.metrics.commits += 1
        self.metrics.operations += count
        self.metrics.batch_sizes.observe(count)

    def _answer(self, results: Sequence[Result]) -> None:
        for (order, future), result in results:
            if future.done():
                _undo(order, result)  # its caller was cancelled when it could not be left out any more
            elif isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)


def _undo(order: Order, result: object) -> None:
    if isinstance(order, Joint) and order.undo is not None and not isinstance(result, BaseException):
        order.undo(result)


class GroupCommit(Collector):
    """The only writer of an engine on the event loop."""

    def __init__(self, engine: Committing) -> None:
        super().__init__()
        self._engine = engine
        self._sync_thread = SyncThread(engine.sync)

    def fail(self, reason: str) -> None:
        """Commit nothing more. The kernel may have dropped pages that it could not write, so that neither a second sync
        nor what can be read back proves anything."""
        if self.failure is None:
            self.failure = reason
            self._engine.failed(reason)

    async def close(self) -> None:
        """Finish what has been submitted."""
        while not self._idle.is_set():  # what gives back may come just as all else is done
            await self._idle.wait()
        self._sync_thread.close()

    def _commit(self) -> None:
        batch = [waiting for waiting in self._pending if not waiting[1].done()]
        self._pending = []
        if self.failure is not None:
            self._finish([(waiting, Unavailable(self.failure)) for waiting in batch])
            return
        results, has_written = self._run(batch)
        if not has_written:
            self._finish(results)
            return
        self._observe(len(results))
        started = perf_counter()
        self._sync_thread.start(lambda error: self._synced(error, results, started))

    def _run(self, batch: list[Waiting]) -> tuple[list[Result], bool]:
        if not batch:
            return [], False
        try:
            results, has_written = self._engine.commit([order for order, _ in batch], Turn())
        except Exception:
            batch = sorted(batch, key=lambda waiting: rank(waiting[0]))
            alone = [(waiting, self._engine.commit_alone(waiting[0])) for waiting in batch]
            return [(waiting, result) for waiting, (result, _) in alone], any(written for _, (_, written) in alone)
        return self._done(batch, results), has_written

    def _synced(self, error: Exception | None, results: list[Result], started: float) -> None:
        self.metrics.sync_seconds.observe(perf_counter() - started)
        if error is not None:
            self.fail(f"the disk did not take the last write: {error}")
        if self.failure is not None:
            results = [(waiting, Unavailable(self.failure)) for waiting, _ in results]
        self._finish(results)

    def _finish(self, results: list[Result]) -> None:
        if self.failure is None:
            self._engine.synced()
        self._answer(results)
        self._enough = _most_of(len(results) + len(self._pending))
        if self._pending:
            self._loop.call_soon(self._gather)
        else:
            self._busy = False
            self._idle.set()
        self._engine.rest()


def _excluding(order: Order) -> tuple[str, int] | None:
    """What is in one batch at a time."""
    if isinstance(order, Apart):
        return APART
    if not isinstance(order, Joint):
        return None
    return (RECEIVE, order.key[1]) if order.key[0] in (ACK, TIME) else order.key


def _is_plain_send(order: Order) -> bool:
    """One that does not wait for anybody's lock."""
    return isinstance(order, Joint) and order.key == SENDS and not order.in_order


class ConcurrentCommit(Collector):
    """Several committers, each of which carries out a batch at a time.

    Sends are in one batch at a time, and so is what receives from a queue, acks there or lets time pass: those that
    come meanwhile share the next one, where two batches side by side stay small for as long as the same callers come
    back to each. A second batch about a queue would also wait for rows, or pass over messages, that the first has
    locked. Sends go on beside a batch of a single one, and beside one that may have to wait for a lock.
    """

    def __init__(self, committers: Sequence[AsyncCommitting]) -> None:
        super().__init__()
        self._free = list(committers)
        self._running: dict[asyncio.Task[None], set[tuple[str, int]]] = {}
        self._is_open = True

    async def submit(self, order: Order) -> Any:
        if not self._is_open:
            raise Unavailable(CLOSING)
        return await super().submit(order)

    async def close(self) -> None:
        """Finish what has been submitted."""
        self._is_open = False
        while self._running or not self._idle.is_set():  # what gives back may come just as all else is done
            await (asyncio.wait(self._running) if self._running else self._idle.wait())

    def _commit(self) -> None:
        batch, keys = self._take() if self._free else ([], set())
        self._busy = False
        if batch:
            committer = self._free.pop()
            task = asyncio.create_task(self._run(committer, batch))
            self._running[task] = keys
            task.add_done_callback(lambda done: self._ended(done, committer))
            if self._free and self._pending:
                self._look_again()
        elif not self._running and not self._pending:
            self._idle.set()

    def _take(self) -> tuple[list[Waiting], set[tuple[str, int]]]:
        """Those who wait and can be served now."""
        taken = set().union(*self._running.values()) if self._running else set()
        batch: list[Waiting] = []
        left: list[Waiting] = []
        keys: set[tuple[str, int]] = set()
        for index, waiting in enumerate(self._pending):
            order, future = waiting
            if future.done():
                continue
            key = _excluding(order)
            if key is not None and (key in taken or (key == APART and batch)):
                left.append(waiting)
                continue
            if key is not None:
                keys.add(key)
            batch.append(waiting)
            if key == APART:
                left += self._pending[index + 1 :]
                break
        self._pending = left
        if len(batch) == 1 or not all(_is_plain_send(order) for order, _ in batch):
            keys.discard(SENDS)
        return batch, keys

    async def _run(self, committer: AsyncCommitting, batch: list[Waiting]) -> None:
        started = perf_counter()
        results: list[Result] = [(waiting, Unavailable(CLOSING)) for waiting in batch]
        try:
            results = self._done(batch, await committer.commit([order for order, _ in batch], Turn()))
        except Exception as error:
            if not isinstance(error, Unavailable):
                log.debug("orders are carried out one by one", exc_info=True)
                batch = sorted(batch, key=lambda waiting: rank(waiting[0]))
                results = [(waiting, await committer.commit_alone(waiting[0])) for waiting in batch]
            else:
                results = [(waiting, error) for waiting in batch]
        finally:
            self.metrics.sync_seconds.observe(perf_counter() - started)
            self._observe(len(results))
            self._enough = _most_of(len(results) + len(self._pending))
            self._answer(results)

    def _ended(self, task: asyncio.Task[None], committer: AsyncCommitting) -> None:
        del self._running[task]
        self._free.append(committer)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a batch could not be carried out", exc_info=error)
        if self._pending:
            self._look_again()
        elif not self._running and not self._busy:
            self._idle.set()

    def _look_again(self) -> None:
        if not self._busy:
            self._busy = True
            self._idle.clear()
            self._loop.call_soon(self._gather)


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
