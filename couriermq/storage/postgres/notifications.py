"""What the parts of one node share, what it tells the other nodes, and what it hears from them."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
import psycopg

from couriermq.core.errors import CourierError
from couriermq.core.lifecycle.needs import Found
from couriermq.core.lifecycle.tally import NEVER
from couriermq.storage.agenda import Agenda
from couriermq.storage.base import Directory, Signals
from couriermq.storage.contents import Cache
from couriermq.storage.metrics import Metrics
from couriermq.storage.postgres.connection import Connection, Step, connect
from couriermq.storage.postgres.facts import Q
from couriermq.storage.postgres.failures import detail
from couriermq.storage.postgres.identity import Guard

NOTICE_SECONDS = 0.01
"""How far apart notices are at least: each takes a lock that all commits of the database need."""
NOTICE_BYTES = 7_000
EVERYTHING = -1
"""In a notice, in place of the queues: there are too many to name."""
TICK_SECONDS = 1.0
POLL_TICKS = 5
"""Ticks between two polls of all queues with ready messages, in case a notice was lost."""
MANY = 100
REST = 20
"""The pause after a long scan, as a multiple of its duration, up to MOST_REST_SECONDS."""
MOST_REST_SECONDS = 30.0
MARGIN_MS = 250
"""How long before its mark a scan begins: messages are committed a little later than they are sent."""
MOST_MARKS = 10_000

log = logging.getLogger(__name__)


class Notice(msgspec.Struct, array_like=True, frozen=True):
    """What one node tells the others."""

    node: str
    ready: list[tuple[int, int]]
    """Queues, and how many messages can be had now."""
    catalog: bool
    """Whether the control plane has changed."""


class Owed(NamedTuple):
    """What the other nodes had not heard of at some instant."""

    notice_count: int
    counts: dict[int, int]


class Node:
    """What the connections of a node share."""

    def __init__(
        self, url: str, name: str, directory: Directory, signals: Signals, *, shard: int, guard: Guard
    ) -> None:
        self.url = url
        self.guard = guard
        self.name = name
        self.shard = shard
        self.directory = directory
        self.signals = signals
        self.agenda = Agenda()
        self.seqs = Seqs(asyncio.get_running_loop().time)
        self.cache = Cache()
        self.marks = Marks(asyncio.get_running_loop().time)
        self.metrics = Metrics()
        self.space = 0
        self.catalog_version = 0
        self.failure: str | None = None
        self.retry_at = 0.0
        """Before this instant of the loop nobody tries to connect again."""
        self.refresh: Callable[[], Awaitable[None]]
        self.tell: Callable[[Step], Awaitable[object]]
        self._owed: dict[int, int] = {}
        """Queues, and how many of their messages the other nodes have not heard of."""
        self._notice_count = 0
        self._told_at = 0.0
        self._telling: asyncio.Task[None] | None = None
        self._is_closing = False

    @property
    def channel(self) -> str:
        return f"courier_{self.space & 0xFFFFFFFF}"

    def due(self, key: int, at: int) -> None:
        """Something will happen to the queue at `at`."""
        if at < NEVER and self.agenda.note(key, at):
            self.signals.due(at)

    # -- notices ----------------------------------------------------------------------------------------------

    def notice(self, ready: Mapping[int, int], *, catalog: bool = False) -> str | None:
        """What the other nodes should hear with a commit; nothing where they have heard something just now."""
        if not catalog and not (ready and self._may_tell()):
            return None
        self._owe(ready)
        return self._take_notice(catalog=catalog)

    def owed(self, ready: Mapping[int, int]) -> dict[int, int]:
        """All that the next notice tells."""
        return {key: self._owed.get(key, 0) + ready.get(key, 0) for key in self._owed.keys() | ready.keys()}

    def is_urgent(self, key: int, count: int) -> bool:
        """Whether the other nodes are to hear with the commit that so much has become ready. Where enough receivers
        wait at this node, these have it first; `taken` then spares the others a look in vain."""
        return not self.signals.is_awaited(key, count)

    def owed_now(self) -> Owed:
        return Owed(self._notice_count, self._owed.copy())

    def taken(self, key: int, owed: Owed) -> None:
        """All that was owed to the others of a queue then has been taken by this node: they need not hear of it."""
        if key in self._owed and owed.notice_count == self._notice_count:
            self._owed[key] -= owed.counts.get(key, 0)
            if not self._owed[key]:
                del self._owed[key]

    def _may_tell(self) -> bool:
        return asyncio.get_running_loop().time() >= self._told_at + NOTICE_SECONDS

    def _owe(self, ready: Mapping[int, int]) -> None:
        for key, count in ready.items():
            self._owed[key] = self._owed.get(key, 0) + count

    def _take_notice(self, *, catalog: bool = False) -> str:
        self._told_at = asyncio.get_running_loop().time()
        self._notice_count += 1
        owed, self._owed = self._owed, {}
        payload = msgspec.json.encode(Notice(self.name, list(owed.items()), catalog))
        if len(payload) > NOTICE_BYTES:
            payload = msgspec.json.encode(Notice(self.name, [(EVERYTHING, 1)], catalog))
        return payload.decode()

    def tell_later(self, ready: Mapping[int, int]) -> None:
        """The other nodes are to hear of it soon."""
        self._owe(ready)
        if self._owed and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._tell())

    async def _tell(self) -> None:
        """What no commit has told meanwhile; should this fail, every node looks for itself now and then."""
        while self._owed and not self._is_closing:
            await asyncio.sleep(NOTICE_SECONDS)
            if self._owed and self._may_tell():
                owed = dict(self._owed)
                try:
                    await self.tell((Q.notify, (self.channel, self._take_notice())))
                except CourierError:
                    self._owe(owed)

    async def close(self) -> None:
        self._is_closing = True
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.gather(self._telling, return_exceptions=True)


class Seqs:
    """Blocks of seqs that this node has in stock; what is taken is higher than all that this node has taken before.

    A block is not kept for long: a purge that begins now takes nothing that is sent later, or not much later.
    """

    KEPT_SECONDS = 0.2
    AHEAD = 4

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._blocks: list[tuple[int, int, float]] = []
        """(first, end, when it was fetched)."""
        self._highest = 0
        self._taken_at = 0.0
        self._is_busy = False

    def take(self, count: int) -> int | None:
        """The first of `count` consecutive seqs, if the stock has them."""
        now = self._clock()
        oldest = now - self.KEPT_SECONDS
        self._is_busy, self._taken_at = self._taken_at >= oldest, now
        while self._blocks:
            first, end, at = self._blocks[0]
            if at < oldest or end - first < count:
                self._blocks.pop(0)
                continue
            self._blocks[0] = (first + count, end, at)
            self._highest = first + count - 1
            return first
        return None

    def given(self, first: int, count: int) -> None:
        """A message gets a seq that did not come from the stock; lower ones are not given out any more."""
        self._highest = max(self._highest, first + count - 1)
        self._blocks = [block for block in self._blocks if block[0] > self._highest]

    def ahead(self, count: int) -> int:
        """How many to fetch after `count` were needed: none unless others were needed a moment before."""
        left = sum(end - first for first, end, _ in self._blocks)
        return self.AHEAD * count if self._is_busy and left < count else 0

    def add(self, first: int, count: int) -> None:
        if first > self._highest:
            self._blocks = sorted([*self._blocks, (first, first + count, self._clock())])

    def clear(self) -> None:
        """The store goes on with other numbers."""
        self._blocks.clear()
        self._highest = 0

    def newest(self, fetched: int) -> int:
        """The newest that a message has, `fetched` being the newest that any node has fetched."""
        if self._blocks and self._blocks[-1][1] - 1 == fetched:
            return self._blocks[-1][0] - 1
        return fetched


class Pause:
    """How often a long scan is made, by how long it takes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next = 0.0

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._next

    @contextlib.contextmanager
    def scanning(self) -> Iterator[None]:
        started = self._clock()
        try:
            yield
        finally:
            took = self._clock() - started
            self._next = self._clock() + min(REST * took, MOST_REST_SECONDS)


class Mark:
    """Where scans of a queue for ready messages begin.

    A message that is taken leaves a dead entry at the front of an index until vacuum removes it. A transaction that is
    held open keeps vacuum from that, and every scan from the front reads more and more of them. So a node remembers
    when the first message of the last scan had become ready, and begins the next a little before that.

    A message that has been ready for longer is rare: another node had it locked and rolled back, or has a slow clock.
    The next scan from the front finds it. One is made when a scan from the mark finds less than is wanted, and in any
    case now and then.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._pause = Pause(clock)
        self._ready_at = 0
        """0 where nothing was found."""

    async def scan(self, ready_since: Callable[[int], Awaitable[Found]], wanted: int) -> Found:
        """What is ready; less than is wanted only if that is all. `ready_since` gives what is so since an instant."""
        found = Found([], [])
        if self._ready_at and not self._pause.is_over:
            found = await ready_since(self._ready_at - MARGIN_MS)
        if found.count < wanted:
            with self._pause.scanning():
                found = await ready_since(0)
        firsts = [rows[0].due_at for rows in (found.packs, found.singles) if rows]
        self._ready_at = min(firsts, default=0)
        return found


class Marks:
    """Those of one node, by the keys of their queues."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: dict[int, Mark] = {}

    def of(self, key: int) -> Mark:
        mark = self._marks.get(key)
        if mark is None:
            if len(self._marks) >= MOST_MARKS:
                self._marks.clear()  # the next scan of each queue begins at the front
            mark = self._marks[key] = Mark(self._clock)
        return mark


class Watch:
    """Listens to the other nodes, and ticks once a second. Run as a task by the store."""

    def __init__(self, node: Node, *, on_tick: Callable[[int], Awaitable[None]], on_lost: Callable[[], None]) -> None:
        self._node = node
        self._on_tick = on_tick
        self._on_lost = on_lost
        self._pause = Pause(asyncio.get_running_loop().time)
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False

    async def start(self) -> None:
        await self._connect()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._disconnect()

    async def _connect(self) -> None:
        self._connection = await connect(self._node.url, self._node.guard)
        await self._connection.execute(f'LISTEN "{self._node.channel}"'.encode(), prepare=False)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _run(self) -> None:
        ticks = 0
        while not self._is_stopping:  # a lost connection may take the place of a cancellation
            try:
                await self._listen(ticks)
            except (psycopg.Error, CourierError, OSError) as error:
                await self._lose(error)
                await asyncio.sleep(TICK_SECONDS)
            except Exception:
                log.exception("this node could not follow the others")
                await self._disconnect()  # a new connection asks for all that this one has missed
                await asyncio.sleep(TICK_SECONDS)
            ticks += 1

    async def _lose(self, error: Exception) -> None:
        """The database is gone, or this connection to it; said once, however long it lasts."""
        if self._connection is not None:
            log.warning("the database is out of reach: %s", detail(error, self._node.url))
            self._on_lost()
        await self._disconnect()

    async def _listen(self, ticks: int) -> None:
        """One tick: hear what there is to hear, then look after the rest."""
        if self._connection is None:
            await self._connect()
            await self._node.refresh()
            ticks = 0
        assert self._connection is not None
        async for notice in self._connection.notifies(timeout=TICK_SECONDS):
            await self._hear(notice.payload)
        if ticks % POLL_TICKS == 0 and self._pause.is_over:
            with self._pause.scanning():
                await self._poll(self._connection)
        await self._on_tick(ticks)

    async def _hear(self, payload: str) -> None:
        try:
            notice = msgspec.json.decode(payload, type=Notice)
        except msgspec.DecodeError:  # from a node of another version, which means something by it
            notice = Notice("", [(EVERYTHING, 1)], catalog=True)
        if notice.node == self._node.name:
            return
        self._node.signals.journaled()
        if notice.catalog:
            with contextlib.suppress(CourierError):  # the next commit finds out
                await self._node.refresh()
        for key, count in notice.ready:
            if key == EVERYTHING:
                await self._poll_soon()
            else:
                self._node.signals.ready(key, count)

    async def _poll_soon(self) -> None:
        """More queues than a notice can name: ask a connection of its own, because this one is listening."""
        connection = await connect(self._node.url, self._node.guard)
        try:
            await self._poll(connection)
        finally:
            await connection.close()

    async def _poll(self, connection: Connection) -> None:
        for key, ready, _ in await (await connection.execute(Q.pending_queues)).fetchall():
            if ready:
                self._node.signals.ready(key, MANY)
