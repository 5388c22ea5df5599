"""Work that is shared between nodes: who lives, and who does what.

Every node keeps a session that serves nothing else. In it the node holds one lock to say that it lives and one lock for
each of its duties; when the node dies, PostgreSQL lets go of them all. Once a second each node looks who lives. A duty
belongs to the node whose number, hashed together with the duty, comes first: everybody comes to the same result, and
when a node comes or goes only its own duties move.

A session can outlive its node, on a machine that froze or behind a network that is cut. A node that notices that this
session of another has been silent for too long ends it, and with it the sessions of that node that have been silent in
the middle of something: one that was stopped halfway through its statements holds locks, and counts as active, so that
no timeout of the server ends it. The silent node has ceased to rely on its duties before that, by its own watch.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from itertools import count

import psycopg

from couriermq.clock import fresh_key
from couriermq.core.duties import ARCHIVE, DELIVERY, DUTIES, UPKEEP, owner
from couriermq.core.errors import Unavailable
from couriermq.storage.postgres.connection import Connection, Rows, ask, connect, numbers
from couriermq.storage.postgres.facts import Q
from couriermq.storage.postgres.failures import detail
from couriermq.storage.postgres.notifications import Node

TICK_SECONDS = 1.0
TRUST_SECONDS = 5.0
"""For so long after it last heard from the database a node relies on what it holds."""
SILENT_SECONDS = 8.0
"""A session that has been silent for so long is ended by the others."""

FIXED = {UPKEEP: -3, ARCHIVE: -5}
LOCKS = FIXED | dict(zip(DELIVERY, count(-100, -1), strict=False))
LOWEST, NODES = -(2**31), 2**30
"""Nodes have the lowest numbers that a lock can have; everything else is above them."""

log = logging.getLogger(__name__)


def fresh_name() -> str:
    """A name for a node, of the digits of its number."""
    return f"{int.from_bytes(fresh_key()[:4], 'big') % NODES:08x}"


class Duties:
    """Run as a task by the store; `holds` may be asked at any time."""

    def __init__(self, node: Node) -> None:
        self.living: tuple[int, ...] = ()
        self._node = node
        self._number = LOWEST + int(node.name, 16)
        self._held: frozenset[str] = frozenset()
        self._heard_at = 0.0
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    def holds(self, duty: str) -> bool:
        return duty in self._held and self._trusts()

    def _trusts(self) -> bool:
        return asyncio.get_running_loop().time() - self._heard_at < TRUST_SECONDS

    async def start(self) -> None:
        await self._tick()
        self._task = asyncio.create_task(self._run())

    def resign(self) -> None:
        """Give everything up at once; what is under way goes on."""
        self._take(frozenset())
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._leave())

    async def stop(self) -> None:
        self.resign()
        assert self._leaving is not None
        await self._leaving

    async def _leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._let_go()

    async def _run(self) -> None:
        while self._leaving is None:  # a lost connection may take the place of a cancellation
            await asyncio.sleep(TICK_SECONDS)
            try:
                await self._tick()
            except (psycopg.Error, Unavailable, OSError) as error:
                if self._connection is not None:
                    log.warning("this node has lost its duties: %s", detail(error, self._node.url))
                await self._let_go()

    async def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        self._take(frozenset())
        if connection is not None:
            await connection.close()

    # -- one look ---------------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        """See who lives, give up what is another's, take what is ours."""
        asked_at = asyncio.get_running_loop().time()
        connection = await self._connected()
        (found,) = await ask(connection, [(Q.roster, (SILENT_SECONDS, self._node.space))])
        self.living = tuple(sorted(number for number, _, silent in found if not silent))
        await self._end_silent(connection, found)
        ours = {duty for duty in DUTIES if owner(duty, self.living) == self._number}
        await self._give_up(connection, {duty for duty in self._held if duty not in ours and duty not in FIXED})
        gained = await self._try(connection, sorted(ours - self._held))
        forgot, self._heard_at = not self._trusts(), asked_at
        self._take(self._held | gained, again=forgot)

    async def _connected(self) -> Connection:
        if self._connection is None:
            connection = await connect(self._node.url, self._node.guard)
            try:
                await ask(connection, [(Q.hold, self._where([self._number]))])
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    async def _end_silent(self, connection: Connection, found: Rows) -> None:
        for number, pid, silent in found:
            if silent and number != self._number:
                log.warning("a node has been silent for more than %d seconds; its duties go to others", SILENT_SECONDS)
                with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                    await ask(connection, [(Q.end_sessions, (pid, f"{number - LOWEST:08x}", SILENT_SECONDS / 2))])

    async def _give_up(self, connection: Connection, duties: set[str]) -> None:
        """First stop, then let others begin."""
        if duties:
            self._take(self._held - duties)
            await ask(connection, [(Q.let_go, self._where(LOCKS[duty] for duty in duties))])

    async def _try(self, connection: Connection, duties: Sequence[str]) -> set[str]:
        if not duties:
            return set()
        (found,) = await ask(connection, [(Q.try_to_hold, self._where(LOCKS[duty] for duty in duties))])
        got = {number for number, held in found if held}
        return {duty for duty in duties if LOCKS[duty] in got}

    def _where(self, keys: Iterable[int]) -> tuple[int, str]:
        return self._node.space, numbers(keys)

    def _take(self, held: frozenset[str], *, again: bool = False) -> None:
        """`again` after a time in which nothing could be relied on: whatever was left undone then is to be found."""
        if again and self._held:
            self._held = frozenset()
            self._node.signals.duties_changed()
        if held != self._held:
            self._held = held
            self._node.signals.duties_changed()
