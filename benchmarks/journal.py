"""What the journal costs: the engine alone, with and without it, every commit on disk."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.client import BODY
from benchmarks.measure import Row, alternate
from couriermq.core.model import Ack, Draft, Queue
from couriermq.storage.base import Parcel, Store, StoredRecord
from couriermq.storage.sqlite import SqliteStore

BATCH = 100
BATCHES = 200
QUEUE = Queue(key=1, id="ordersordersordersord", tenant="default", name="orders")


class OneQueue:
    """All that the store asks of its surroundings, for a store with one queue."""

    def queue_of_key(self, key: int) -> Queue | None:
        return QUEUE if key == QUEUE.key else None

    def queue_of_id(self, queue_id: str) -> Queue | None:
        return QUEUE if queue_id == QUEUE.id else None

    def learn(self, *, put: Sequence[StoredRecord], delete: Sequence[StoredRecord]) -> None: ...

    def ready(self, queue_key: int, count: int) -> None: ...

    def journaled(self) -> None: ...

    def due(self, at: int) -> None: ...

    def duties_changed(self) -> None: ...


def journal_cost(bench: Bench) -> list[Row]:
    """Send, receive and ack in batches of a hundred: the time with the journal by the time without."""
    plain, with_journal = _Cycles(bench, journal=False), _Cycles(bench, journal=True)
    turns = alternate(plain, [with_journal], rounds=bench.rounds)
    return [
        Row(
            name="journal",
            what="storage alone, send + receive + ack",
            value=turns.figure() * 1e6 / (BATCH * BATCHES),
            unit="µs/message",
            reference="no journal",
            ratios=turns.ratios(),
            cpu_ratio=with_journal.cpu_us / plain.cpu_us,
            cpu_us=with_journal.cpu_us,
            reference_cpu_us=plain.cpu_us,
            notes={"without_us": median(turns.reference) * 1e6 / (BATCH * BATCHES)},
        )
    ]


class _Cycles:
    """Each call takes seconds for all batches on an empty store; `cpu_us` is the median of the calls."""

    def __init__(self, bench: Bench, *, journal: bool) -> None:
        self._bench = bench
        self._journal = journal
        self._cpu_s: list[float] = []

    def __call__(self) -> float:
        before = time.process_time()
        elapsed = asyncio.run(_cycles(self._bench.new_data(), journal=self._journal))
        self._cpu_s.append(time.process_time() - before)
        return elapsed

    @property
    def cpu_us(self) -> float:
        return median(self._cpu_s) * 1e6 / (BATCH * BATCHES)


async def _cycles(directory: Path, *, journal: bool) -> float:
    """Seconds for all batches."""
    directory.mkdir()
    store, surroundings = SqliteStore(directory, journal=journal), OneQueue()
    await store.open(directory=surroundings, signals=surroundings)
    started = time.perf_counter()
    for _ in range(BATCHES):
        await _cycle(store)
    elapsed = time.perf_counter() - started
    await store.close()
    return elapsed


async def _cycle(store: Store) -> None:
    now = time.time_ns() // 1_000_000
    parcels = [Parcel(QUEUE, Draft(body=BODY.encode())) for _ in range(BATCH)]
    await store.send(parcels, now=now, principal="root")
    leases = await store.receive(QUEUE, limit=BATCH, lease_ms=60_000, now=now, principal="root")
    await store.settle(QUEUE, [Ack(lease.receipt) for lease in leases], now=now, principal="root")
