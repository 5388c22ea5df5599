"""Several real nodes on one PostgreSQL, the load they carry together, and what must hold of it whatever happens."""

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from couriermq.core.events import Event, EventKind
from couriermq.core.jumps import stretches
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import Rig
from tests.support.eventually import eventually
from tests.support.load import Load, NoAnswer, clients, create_queues
from tests.support.postgres import Cluster, program
from tests.support.receiver import Receiver, Request, receiving
from tests.support.replay import replay
from tests.support.server import ServerProcess, start_server

NODES = 3
GROUPS = 3
NEWS_BACKLOG = 40
DRAIN_SECONDS = 90.0
ENOUGH = 30
WITHIN_SECONDS = 30.0
LISTENER: dict[str, Any] = {"timeout_ms": 500, "schedule_ms": [100] * 100, "jitter": 0.0}


@contextlib.contextmanager
def started_nodes(tmp_path: Path, store: str, count: int = NODES, **settings: Any) -> Iterator[list[ServerProcess]]:
    with contextlib.ExitStack() as stack:
        options = {"store": store, "delivery_allow": "127.0.0.0/8", **settings}
        yield [
            stack.enter_context(start_server(tmp_path, data=tmp_path / f"node{number}", **options))
            for number in range(count)
        ]


class Freeze(NamedTuple):
    """A node stood still from one instant to another, in seconds of the wall clock."""

    stopped_at: float
    continued_at: float

    def delayed(self, request: Request) -> bool:
        """Whether the node was stopped while it wrote this request: it was signed before, and came afterwards.

        Nobody can prevent that. A request that a node decides on when it goes on is signed then.
        """
        signed_at = int(request.headers["webhook-timestamp"])  # whole seconds
        is_signed_before = self.stopped_at - LISTENER["timeout_ms"] / 1_000 - 1 <= signed_at <= self.stopped_at
        return is_signed_before and request.came_at >= self.continued_at


class Storm(Load):
    """The load of a cluster: queues, FIFO groups, and news for two listeners, one of whom gets them in order."""

    def __init__(self, nodes: list[ServerProcess], dice: random.Random) -> None:
        super().__init__(nodes, dice)
        self.news: list[str] = []
        self.freezes: list[Freeze] = []
        self.receivers: dict[str, Receiver] = {}
        self.up.set()

    async def listen(self, session: aiohttp.ClientSession, name: str, receiver: Receiver, **settings: Any) -> None:
        self.receivers[name] = receiver
        order = {"name": name, "url": receiver.url, "settings": {**LISTENER, **settings}}
        await self.post(session, "/news/listeners", order)

    async def send_news(self, session: aiohttp.ClientSession) -> None:
        """One after the other, each sent once: `news` are those that were accepted, in their order."""
        number = 0
        while self.sending:
            if len(self.news) - min(len(self.arrived(name)) for name in self.receivers) > NEWS_BACKLOG:
                await asyncio.sleep(0.02)
                continue
            number += 1
            with contextlib.suppress(NoAnswer):
                message = {"id": f"news-{number}", "body": str(number)}
                self.news.append((await self.post(session, "/news/messages", message))["id"])

    def arrived(self, name: str) -> list[str]:
        """What came to a listener, in the order of its first coming."""
        return list(dict.fromkeys(request.headers["courier-message-id"] for request in self.receivers[name].requests))

    # -- what must hold ---------------------------------------------------------------------------------------

    def findings(self) -> list[str]:
        return [*self.witness.findings(), *self._undelivered(), *self._out_of_order()]

    def _undelivered(self) -> Iterator[str]:
        for name in self.receivers:
            yield from (f"{each} never came to {name}" for each in set(self.news) - set(self.arrived(name)))

    def _out_of_order(self) -> Iterator[str]:
        """Once a later one has come, an earlier one comes neither for the first time nor again.

        One request for each freeze is excepted: a repetition that the node was writing when it was stopped.
        """
        place = {each: number for number, each in enumerate(self.news)}
        latest, seen, freezes = -1, set[str](), list(self.freezes)
        for request in self.receivers["ordered"].requests:
            id_ = request.headers["courier-message-id"]
            number = place.get(id_, latest)
            delayed_by = next((freeze for freeze in freezes if id_ in seen and freeze.delayed(request)), None)
            if number < latest and delayed_by is not None:
                freezes.remove(delayed_by)
            elif number < latest:
                signed_at = request.headers["webhook-timestamp"]
                yield f"{id_} came after {self.news[latest]}, at {request.came_at:.3f}, signed at {signed_at}"
            latest = max(latest, number)
            seen.add(id_)


@contextlib.asynccontextmanager
async def storming(nodes: list[ServerProcess], dice: random.Random, *, host: str = "127.0.0.1") -> AsyncIterator[Storm]:
    """Load while inside; at the end everything that is there is received and delivered."""
    storm = Storm(nodes, dice)
    async with clients(nodes[0].token) as sessions, receiving(host=host) as plain, receiving(host=host) as ordered:
        first = next(sessions)
        await create_queues(storm, first)
        await storm.post(first, "", {"name": "news", "settings": {"keep_delivered": False}})
        await storm.listen(first, "plain", plain)
        await storm.listen(first, "ordered", ordered, ordered=True)
        senders = [asyncio.create_task(storm.send_orders(next(sessions), f"s{n}")) for n in range(2)]
        senders += [asyncio.create_task(storm.send_line(next(sessions), f"g{n}")) for n in range(GROUPS)]
        senders += [asyncio.create_task(storm.send_news(next(sessions)))]
        consumers = [asyncio.create_task(storm.consume(next(sessions))) for _ in range(4)]
        try:
            yield storm
            async with asyncio.timeout(DRAIN_SECONDS):
                storm.sending = False
                await asyncio.gather(*senders)
                storm.draining = True
                await asyncio.gather(*consumers)
        finally:
            for task in (*senders, *consumers):
                task.cancel()


async def weather(tmp_path: Path, store: str, chaos: Callable[[list[ServerProcess], Storm], Awaitable[None]]) -> Storm:
    """Three nodes under load while something terrible happens; checks all that must hold, and gives what was seen."""
    dice = random.Random()
    with started_nodes(tmp_path, store) as nodes:
        async with storming(nodes, dice) as storm:
            await chaos(nodes, storm)
        await check(storm, nodes, store)
    return storm


async def check(storm: Storm, nodes: list[ServerProcess], store: str) -> None:
    """Everything that must hold when it is over."""
    for node in nodes:
        assert await asyncio.to_thread(node.stop) == 0
    findings = storm.findings()
    assert findings == [], "\n".join(findings)
    assert len(storm.witness.accepted) > 100
    assert len(storm.news) > 10
    compare_with_journal(storm, await journal_of(store))


async def work_goes_on(storm: Storm) -> None:
    """Until clients have got their way again for a while."""
    goal = len(storm.witness.acked_at) + ENOUGH
    await eventually(lambda: len(storm.witness.acked_at) >= goal, seconds=WITHIN_SECONDS)


async def journal_of(store: str) -> list[Event]:
    """The events of all lanes, those of each message in the order of their turns."""
    rig = Rig(lambda: PostgresStore(store))
    await rig.open()
    try:
        events: list[Event] = []
        for span in (await rig.store.spans()).values():
            start = span.oldest
            while entries := await rig.store.read_events(start=start, limit=100_000):
                ranges = stretches(rig.store.jumps, start, entries[-1].offset + 1)
                assert [entry.offset for entry in entries] == [offset for one in ranges for offset in range(*one)]
                events += [entry.event for entry in entries]
                start = entries[-1].offset + 1
        events.sort(key=lambda event: event.turn or 0)
        findings = await rig.store.check()
        assert findings == [], findings
        return events
    finally:
        await rig.close()


def compare_with_journal(storm: Storm, events: list[Event]) -> None:
    """The journal tells the same story, and its end is an empty house; whatever ended twice would not replay."""
    sent = {event.message_id for event in events if event.kind == EventKind.SENT}
    acked = {event.message_id for event in events if event.kind == EventKind.ACKED}
    unsent = (storm.witness.accepted | set(storm.news)) - sent
    unacked = set(storm.witness.acked_at) - acked
    left = replay(events)
    assert (unsent, unacked, left) == (set(), set(), {}), (unsent, unacked, left)


# -- what happens to nodes and databases --------------------------------------------------------------------------


async def kill_nodes(nodes: list[ServerProcess], dice: random.Random, *, seconds: int) -> int:
    """Every second kill one of the nodes that run, and start it again; how many were killed."""
    restarts: list[asyncio.Task[None]] = []
    loop = asyncio.get_running_loop()
    starting: set[ServerProcess] = set()

    async def start_again(node: ServerProcess) -> None:
        await asyncio.to_thread(node.start)
        starting.discard(node)

    end = loop.time() + seconds
    while loop.time() < end:
        await asyncio.sleep(1.0)
        if running := [node for node in nodes if node not in starting]:
            node = dice.choice(running)
            await asyncio.to_thread(node.kill)
            starting.add(node)
            restarts.append(asyncio.create_task(start_again(node)))
    await asyncio.gather(*restarts)
    return len(restarts)


class Standby(Cluster):
    """A copy of another server that follows it until it is promoted."""

    def __init__(self, primary: Cluster) -> None:
        self._primary = primary
        super().__init__()

    def _create(self, settings: dict[str, str]) -> None:
        where = ["-h", str(self._primary.folder), "-U", "courier", "-D", str(self.data)]
        self._run([program("pg_basebackup"), *where, "-X", "stream", "-c", "fast", "-R", "--no-sync"])
        own = f"unix_socket_directories = '{self.folder}'\nsynchronous_standby_names = ''\n"
        with (self.data / "postgresql.auto.conf").open("a") as config:
            config.write(own)

    def promote(self) -> None:
        self._run([program("pg_ctl"), "-D", str(self.data), "-w", "promote"])


def kill_server(cluster: Cluster) -> None:
    """End a PostgreSQL as a power cut would."""
    os.kill(int((cluster.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)


def url_of_either(primary: Cluster, standby: Cluster) -> str:
    return primary.url().replace(str(primary.folder).replace("/", "%2F"), f"{primary.folder},{standby.folder}")
