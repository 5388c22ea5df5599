"""What the parts of one node share, and what it tells the other nodes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec

from courier.core.errors import CourierError
from courier.storage.base import Directory, Signals
from courier.storage.metrics import Metrics
from courier.storage.postgres.agenda import NEVER, Agenda
from courier.storage.postgres.held import lease_nos
from courier.storage.postgres.link import Step
from courier.storage.postgres.marks import Marks
from courier.storage.postgres.queries import Q
from courier.storage.postgres.seqs import Seqs
from courier.storage.postgres.transaction import Transaction

NOTICE_SECONDS = 0.01
"""How far apart notices are at least: each takes a lock that all commits of the database need."""
NOTICE_BYTES = 7_000
EVERYTHING = -1
"""In a notice, in place of the queues: there are too many to name."""


class Notice(msgspec.Struct, array_like=True, frozen=True):
    """What one node tells the others."""

    node: str
    ready: list[tuple[int, int, int]]
    """Queues, how many messages can be had now, and when the oldest of them came or became ready."""
    catalog: bool
    """Whether the control plane has changed."""


class Circle:
    """One for each node."""

    def __init__(self, url: str, node: str, directory: Directory, signals: Signals) -> None:
        self.url = url
        self.node = node
        self.directory = directory
        self.signals = signals
        self.agenda = Agenda()
        self.marks = Marks(asyncio.get_running_loop().time)
        self.seqs = Seqs(asyncio.get_running_loop().time)
        self.lease_nos = lease_nos(int(node[:8], 16))
        self.metrics = Metrics()
        self.space = 0
        self.catalog_version = 0
        self.refresh: Callable[[], Awaitable[None]]
        self.tell: Callable[[Step], Awaitable[object]]
        self._owed: dict[int, tuple[int, int]] = {}
        self._told_at = 0.0
        self._telling: asyncio.Task[None] | None = None

    @property
    def channel(self) -> str:
        return f"courier_{self.space & 0xFFFFFFFF}"

    # -- notices ----------------------------------------------------------------------------------------------

    def notice(self, tx: Transaction, *, catalog: bool = False) -> Step | None:
        """What the other nodes should hear with this commit; nothing where they have heard something just now."""
        now = asyncio.get_running_loop().time()
        if not (tx.ready or tx.left or catalog) or (now < self._told_at + NOTICE_SECONDS and not catalog):
            return None
        self._told_at = now
        tx.told = True
        self._owe(tx)
        return self._write(self._take_owed(), catalog=catalog)

    def _owe(self, tx: Transaction) -> None:
        """The others are to hear what can be had now: how many messages of which queue, the oldest from when."""
        for key, count in {**tx.left, **tx.ready}.items():
            known, oldest = self._owed.get(key, (0, NEVER))
            self._owed[key] = known + count, min(oldest, tx.oldest.get(key, NEVER))

    def _take_owed(self) -> dict[int, tuple[int, int]]:
        owed, self._owed = self._owed, {}
        return owed

    def _write(self, ready: dict[int, tuple[int, int]], *, catalog: bool = False) -> Step:
        payload = msgspec.json.encode(Notice(self.node, [(key, *what) for key, what in ready.items()], catalog))
        if len(payload) > NOTICE_BYTES:
            payload = msgspec.json.encode(Notice(self.node, [(EVERYTHING, 1, 0)], catalog))
        return Q.notify, {"channel": self.channel, "payload": payload.decode()}

    async def _tell_later(self) -> None:
        """What nobody else's commit has told meanwhile; should this fail, every node looks for itself now and then."""
        while self._owed:
            await asyncio.sleep(NOTICE_SECONDS)
            if self._owed:
                self._told_at = asyncio.get_running_loop().time()
                with contextlib.suppress(CourierError):
                    await self.tell(self._write(self._take_owed()))

    async def close(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)

    # -- commits ----------------------------------------------------------------------------------------------

    def committed(self, tx: Transaction, wrote: bool, operations: int, seconds: float) -> None:
        """Pass on what a commit has made possible."""
        if wrote:
            self.metrics.commits += 1
            self.metrics.operations += operations
            self.metrics.batch_sizes.observe(operations)
            self.metrics.sync_seconds.observe(seconds)
            self.metrics.events.update(tx.events.counts())
        news = [at for key, at in tx.dues.items() if self.agenda.note(key, at)]
        if news:
            self.signals.due(min(news))
        for key, at in tx.passed.items():
            self.marks.passed(key, at)
        for key, at in tx.oldest.items():
            self.marks.told(key, at)
        for key, count in tx.ready.items():
            self.signals.ready(key, count)
        if not tx.told and (tx.ready or tx.left):
            self._owe(tx)
            if self._telling is None or self._telling.done():
                self._telling = asyncio.create_task(self._tell_later())
