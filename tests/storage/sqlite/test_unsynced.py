"""What is committed and not synced yet is not shown to anybody: a look waits, or shows what is durable."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.model import Ack, Draft
from couriermq.storage.base import Parcel
from couriermq.storage.sqlite.store import SqliteStore
from couriermq.storage.staging import pack
from tests.support.engines import WHO, Rig


class SlowDisk:
    """Syncs at once, until it is told to hold the next sync back."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._let_go = threading.Event()
        self._let_go.set()
        self._broken = False

    def sync(self, descriptor: int) -> None:
        if not self._let_go.is_set():
            self._loop.call_soon_threadsafe(self.reached.set)
            assert self._let_go.wait(20)
            if self._broken:
                raise OSError(5, "Input/output error")

    def hold(self) -> None:
        self._let_go.clear()

    def let_go(self, *, broken: bool = False) -> None:
        self._broken = broken
        self._let_go.set()


@asynccontextmanager
async def rigged(tmp_path: Path) -> AsyncIterator[tuple[Rig, SlowDisk]]:
    """A store with something of everything."""
    disk = SlowDisk()
    rig = Rig(lambda: SqliteStore(tmp_path, min_free_bytes=0, sync=disk.sync))
    await rig.open()
    try:
        queue = await rig.create("orders")
        await rig.send("orders", b"first", id="first")
        await rig.send("orders", b"second")
        job = await rig.claims.open(queue, "spark")
        await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=1, principal=WHO)
        yield rig, disk
    finally:
        disk.let_go()
        await rig.close()


async def change(rig: Rig) -> None:
    """One transaction that changes all that can be looked at."""
    store, queue, now = rig.store, rig.queue("orders"), rig.now
    chunk = pack([Parcel(queue, Draft(body=b"staged"))], count=1)
    await asyncio.gather(
        rig.send("orders", b"third", id="third"),
        store.open_job(queue, job="other", now=now),
        store.stage(queue.id, stage="s-2", part=0, chunks=[chunk], now=now),
        store.ack_claims(queue, job="spark", upto=1, epoch=1, now=now, principal=WHO),
        store.publish(queue.id, series="s", number=1, stages=[], parts={}, now=now, principal=WHO),
    )


async def _third(rig: Rig) -> object:
    return (await rig.store.read_message(rig.queue("orders"), message_id="third", now=rig.now)).body


LOOKS: dict[str, Callable[[Rig], Awaitable[Any]]] = {
    "browse": lambda rig: rig.browse("orders"),
    "read_message": _third,
    "counters": lambda rig: rig.counters("orders"),
    "counters_of": lambda rig: rig.store.counters_of([rig.queue("orders")], now=rig.now),
    "jobs": lambda rig: rig.store.jobs(rig.queue("orders")),
    "read_claim": lambda rig: rig.store.read_claim(
        rig.queue("orders"), job="spark", number=1, epoch=1, start=0, stop=9
    ),
    "publication": lambda rig: rig.store.publication(rig.queue("orders").id, series="s"),
    "staged": lambda rig: rig.store.staged([rig.queue("orders").id]),
    "last_seq": lambda rig: rig.store.last_seq(rig.queue("orders")),
    "receive": lambda rig: rig.receive("orders", limit=10),
}
"""What waits for the sync."""


async def _metrics(rig: Rig) -> object:
    assert isinstance(rig.store, SqliteStore)
    return dict(rig.store.metrics.events)


PASSING: dict[str, Callable[[Rig], Awaitable[Any]]] = {
    "spans": lambda rig: rig.store.spans(),
    "events": lambda rig: rig.events(),
    "offsets_at": lambda rig: rig.store.offsets_at(rig.now + 1),
    "offset_keeping": lambda rig: rig.store.offset_keeping(0, 0),
    "metrics": _metrics,
}
"""What shows the durable state meanwhile."""


@pytest.mark.parametrize("look", LOOKS)
async def test_a_look_waits_for_the_sync_of_what_it_sees(tmp_path: Path, look: str) -> None:
    async with rigged(tmp_path) as (rig, disk):
        disk.hold()
        changing = asyncio.create_task(change(rig))
        await asyncio.wait_for(disk.reached.wait(), 20)
        looking = asyncio.ensure_future(LOOKS[look](rig))
        for _ in range(50):
            await asyncio.sleep(0)
        await asyncio.to_thread(lambda: None)
        assert not looking.done()
        disk.let_go(broken=True)
        with pytest.raises(Unavailable):
            await looking
        with pytest.raises(Unavailable):
            await changing


@pytest.mark.parametrize("look", PASSING)
async def test_a_look_at_the_journal_shows_what_is_durable(tmp_path: Path, look: str) -> None:
    async with rigged(tmp_path) as (rig, disk):
        rig.clock.advance(ms=1)
        before = await PASSING[look](rig)
        disk.hold()
        changing = asyncio.create_task(change(rig))
        await asyncio.wait_for(disk.reached.wait(), 20)
        assert await PASSING[look](rig) == before
        disk.let_go()
        await changing
        assert await PASSING[look](rig) != before


async def test_a_claim_is_read_as_it_is_durable_also_when_the_sync_comes_later(tmp_path: Path) -> None:
    async with rigged(tmp_path) as (rig, disk):
        lease = await rig.receive_one("orders")
        disk.hold()
        acking = asyncio.create_task(rig.settle("orders", Ack(lease.receipt)))
        await asyncio.wait_for(disk.reached.wait(), 20)
        reading = asyncio.ensure_future(LOOKS["read_claim"](rig))
        disk.let_go()
        assert (await reading).count == 1
        await acking
