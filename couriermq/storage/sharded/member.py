"""One shard from the point of view of a node: an engine that is opened when it can be reached."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from couriermq.core.errors import Unavailable
from couriermq.core.flows import Flows
from couriermq.core.model import Lease, Queue
from couriermq.core.receipts import Sealer
from couriermq.core.sharding import Shard
from couriermq.core.shards import OUTBOX
from couriermq.storage.base import CannotOpen, Signals, Store, StoredRecord
from couriermq.storage.metrics import Metrics
from couriermq.storage.sharded.residents import Residents

RETRY_SECONDS = 1.0

log = logging.getLogger(__name__)

Traveller = tuple[Any, ...]
"""A message between shards; its seq comes first, the rest is the engines' affair."""
Position = tuple[int, int]
Places = dict[int, int]
"""An offset of each lane of a journal."""
Versions = dict[str, dict[int, str]]
"""How the rows of a queue with several messages each were when they were copied."""
Mark = tuple[str, str]
"""The id of a queue that moves, and who moves it: every change for a move is refused under an older mark."""
START: Position = (-1, -1)


class Porting(Protocol):
    """What a shard can do with messages beyond what a store on its own does."""

    async def travellers(self, key: int, *, limit: int) -> list[Traveller]: ...
    async def arrive(self, queue: Queue, travellers: Sequence[Traveller], *, source: int, now: int) -> None: ...
    async def come_home(self, key: int, queue: Queue, *, limit: int, now: int) -> int: ...
    async def depart(self, key: int, seqs: Sequence[int]) -> None: ...
    async def count(self, keys: Sequence[int]) -> int: ...
    async def take_mark(self, mark: Mark) -> None: ...
    async def copy_page(self, target: Any, key: int, after: Position, mark: Mark) -> tuple[int, Position | None]: ...
    async def copy_named(self, target: Any, keys: Sequence[int], seqs: Sequence[int], mark: Mark) -> None: ...
    async def copy_packs(self, target: Any, key: int, known: Versions, mark: Mark) -> Versions: ...
    async def copy_rest(self, target: Any, queues: Sequence[Queue], mark: Mark) -> None: ...
    async def touched(self, starts: Places, queue_ids: set[str]) -> tuple[list[int], Places]: ...
    async def arrived_since(self, keys: Sequence[int], since: int) -> list[int]: ...
    async def delayed(self, keys: Sequence[int], horizon: int) -> list[int]: ...
    async def start_seqs(self, first: int) -> None: ...
    async def erase(self, queues: Sequence[Queue], mark: Mark) -> None: ...
    async def remove_records(self, records: Iterable[StoredRecord], mark: Mark) -> None: ...


class Engine(Store, Protocol):
    """An engine whose stores can be shards."""

    sealer: Sealer
    seal_key: bytes

    @property
    def changed_reason(self) -> str | None: ...

    @property
    def porting(self) -> Porting: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def unavailable_reason(self) -> str | None: ...

    @property
    def leads(self) -> bool: ...

    async def refresh(self) -> None:
        """Hear now of what other nodes have changed in the control plane."""

    def give_back(self, queue: Queue, leases: Sequence[Lease] | None, *, now: int, principal: str) -> None:
        """Have leases given back that nobody was told of, as if there had been none."""


class Member:
    """A shard; `ready` gives its engine, or says that it cannot be reached."""

    def __init__(self, shard: Shard, engine: Engine, residents: Residents, signals: Signals) -> None:
        self.number = shard.number
        self.url = shard.url
        self.engine = engine
        self.residents = residents
        self.is_open = False
        self._name = shard.name
        self.signals = signals
        self._opening = asyncio.Lock()
        self._retry_at = 0.0
        self._trouble: str | None = None

    @property
    def trouble(self) -> str | None:
        return self.engine.unavailable_reason if self.is_open else self._trouble or "it has not been opened yet"

    async def ready(self) -> Engine:
        if not self.is_open:
            async with self._opening:
                await self._try_to_open()
        return self.engine

    async def _try_to_open(self) -> None:
        loop = asyncio.get_running_loop()
        if self.is_open:
            return
        if loop.time() < self._retry_at:
            raise Unavailable(f"shard {self._name!r} cannot be reached: {self._trouble}")
        try:
            await self._open()
        except (CannotOpen, Unavailable) as error:
            self._retry_at, self._trouble = loop.time() + RETRY_SECONDS, str(error)
            log.warning("shard %s waits: %s", self._name, error)
            raise Unavailable(f"shard {self._name!r} cannot be reached: {error}") from error
        self.is_open = True

    async def _open(self) -> None:
        await self.engine.open(directory=self.residents, signals=self.signals)
        try:
            self.residents.learn(put=await self.engine.load_records(), delete=())
        except BaseException:
            await self.engine.close()
            raise

    async def close(self) -> None:
        async with self._opening:  # an engine that is just being opened is closed too
            if self.is_open:
                await self.engine.close()


class ShardSignals:
    """What a shard's engine tells, sorted: news for those who wait, and work for the carrier."""

    def __init__(self, number: int, signals: Signals, on_work: Callable[[int, int], None]) -> None:
        self._number = number
        self._signals = signals
        self._on_work = on_work

    def ready(self, queue_key: int, count: int) -> None:
        if queue_key < 0 or queue_key >= OUTBOX:
            self._on_work(self._number, queue_key)
        else:
            self._signals.ready(queue_key, count)

    def is_awaited(self, queue_key: int, count: int) -> bool:
        return self._signals.is_awaited(queue_key, count)

    def journaled(self) -> None:
        self._signals.journaled()

    def due(self, at: int) -> None:
        self._signals.due(at)

    def duties_changed(self) -> None:
        if self._number == 0:
            self._signals.duties_changed()

    def failed(self, reason: str) -> None:
        self._signals.failed(reason)

    def happened(self, flows: Flows) -> None:
        self._signals.happened(flows)


async def quietly(work: Any, failing: str) -> None:
    """Do something that can be done again later; a failure is a line in the log."""
    try:
        await work
    except Exception as error:
        log.warning("%s: %s", failing, error)


__all__ = ["START", "Engine", "Member", "Porting", "Position", "ShardSignals", "Traveller", "quietly"]
