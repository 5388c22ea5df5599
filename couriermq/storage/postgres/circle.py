"""What the parts of one node share, and what it tells the other nodes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from couriermq.core.errors import CourierError
from couriermq.storage.base import Directory, Signals
from couriermq.storage.metrics import Metrics
from couriermq.storage.postgres.agenda import NEVER, Agenda
from couriermq.storage.postgres.held import lease_nos
from couriermq.storage.postgres.identity import Guard
from couriermq.storage.postgres.link import Step
from couriermq.storage.postgres.marks import Marks
from couriermq.storage.postgres.news import News, Owed
from couriermq.storage.postgres.queries import Q
from couriermq.storage.postgres.seqs import Seqs

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
        self.guard: Guard | None = None
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

    def notice(self, news: News, *, catalog: bool = False) -> Step | None:
        """What the other nodes should hear with this commit; nothing where they have heard something just now."""
        if not (news.ready or news.left or catalog) or not (self.may_tell() or catalog):
            return None
        self._told_at = asyncio.get_running_loop().time()
        self._owe({key: _news_of(news, key) for key in news.ready.keys() | news.left.keys()})
        news.told = self._take_owed()
        return self._write(news.told, catalog=catalog)

    def may_tell(self) -> bool:
        """Whether it is a while ago that the others have heard something."""
        return asyncio.get_running_loop().time() >= self._told_at + NOTICE_SECONDS

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
            if self._owed and self.may_tell():
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

    def committed(self, news: News, wrote: bool, operations: int, seconds: float) -> None:
        """Pass on what a commit has made possible."""
        if wrote:
            self.metrics.commits += 1
            self.metrics.operations += operations
            self.metrics.batch_sizes.observe(operations)
            self.metrics.sync_seconds.observe(seconds)
            self.metrics.events.update(news.counts())
            self.signals.journaled()
        earlier = [at for key, at in news.dues.items() if self.agenda.note(key, at)]
        if earlier:
            self.signals.due(min(earlier))
        for key, at in news.passed.items():
            self.marks.passed(key, at)
        for key, at in news.oldest.items():
            self.marks.told(key, at)  # again: whoever looked before the commit has not seen it
        for key, count in news.ready.items():
            self.signals.ready(key, count)
        if not news.told:
            self._tell_of({key: _news_of(news, key) for key in news.ready.keys() | news.left.keys()})

    def is_late(self, key: int, now: int) -> bool:
        """Whether time may have changed a queue. What only another node knows of is its to see to, or the leader's."""
        at = self.agenda.at(key)
        return at is None or at <= now or not self.marks.is_fresh(key, now)

    @contextlib.contextmanager
    def attempt(self, news: News) -> Iterator[None]:
        """What is tried in here may come to nothing."""
        try:
            yield
        except BaseException:
            self._undone(news)
            raise

    def _undone(self, news: News) -> None:
        """It came to nothing, or nobody knows: whoever looked meanwhile has passed over what it held."""
        for key in news.reached:
            self.marks.forget(key)
        self._tell_of(news.told)

    def _tell_of(self, news: Owed) -> None:
        self._owe(news)
        if self._owed and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell_later())


def _news_of(news: News, key: int) -> tuple[int, int, int]:
    return news.ready.get(key, 0), news.left.get(key, 0), news.oldest.get(key, NEVER)
