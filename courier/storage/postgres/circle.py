"""What the parts of one node share, and what it tells the other nodes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

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
from courier.storage.postgres.transaction import Owed, Transaction

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
        self._owed: Owed = {}
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
        self._owe({key: _news_of(tx, key) for key in tx.ready.keys() | tx.left.keys()})
        tx.told = self._take_owed()
        return self._write(tx.told, catalog=catalog)

    def _owe(self, news: Owed) -> None:
        """The others are to hear of it."""
        for key, (ready, left, oldest) in news.items():
            known, before, since = self._owed.get(key, (0, 0, NEVER))
            self._owed[key] = known + ready, left or before, min(oldest, since)

    def _take_owed(self) -> Owed:
        owed, self._owed = self._owed, {}
        return owed

    def _write(self, owed: Owed, *, catalog: bool = False) -> Step:
        news = [(key, ready + left, oldest) for key, (ready, left, oldest) in owed.items()]
        payload = msgspec.json.encode(Notice(self.node, news, catalog))
        if len(payload) > NOTICE_BYTES:
            payload = msgspec.json.encode(Notice(self.node, [(EVERYTHING, 1, 0)], catalog))
        return Q.notify, {"channel": self.channel, "payload": payload.decode()}

    async def _tell_later(self) -> None:
        """What nobody else's commit has told meanwhile; should this fail, every node looks for itself now and then."""
        while self._owed:
            await asyncio.sleep(NOTICE_SECONDS)
            if self._owed:
                self._told_at = asyncio.get_running_loop().time()
                owed = self._take_owed()
                try:
                    await self.tell(self._write(owed))
                except CourierError:
                    self._owe(owed)

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
            self.marks.told(key, at)  # again: whoever looked before the commit has not seen it
        for key, count in tx.ready.items():
            self.signals.ready(key, count)
        if not tx.told:
            self._tell_of({key: _news_of(tx, key) for key in tx.ready.keys() | tx.left.keys()})

    @contextlib.contextmanager
    def attempt(self, tx: Transaction) -> Iterator[None]:
        """What is tried in here may come to nothing."""
        try:
            yield
        except BaseException:
            self._undone(tx)
            raise

    def _undone(self, tx: Transaction) -> None:
        """It came to nothing, or nobody knows: whoever looked meanwhile has passed over what it held."""
        for key in tx.reached:
            self.marks.forget(key)
        self._tell_of(tx.told)

    def _tell_of(self, news: Owed) -> None:
        self._owe(news)
        if self._owed and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell_later())


def _news_of(tx: Transaction, key: int) -> tuple[int, int, int]:
    return tx.ready.get(key, 0), tx.left.get(key, 0), tx.oldest.get(key, NEVER)
