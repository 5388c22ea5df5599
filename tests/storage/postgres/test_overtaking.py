"""What a node passes over because somebody else has it in hand just then is had again as soon as that one lets go."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import psycopg
import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.model import Draft, Kind, Lease
from couriermq.storage.base import Parcel
from couriermq.storage.postgres import marks
from couriermq.storage.postgres.marks import MARGIN_MS
from couriermq.storage.postgres.store import PostgresStore
from couriermq.storage.postgres.transaction import Transaction
from tests.support.engines import WHO, Rig
from tests.support.eventually import eventually
from tests.support.postgres import shared_cluster

SOON = 25.0
"""Sooner than a look from the very front would come by itself, however busy the machine is."""


@pytest.fixture(autouse=True)
def _rare_looks_from_the_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "FULL_SECONDS", 20 * SOON)


def store(node: Rig) -> PostgresStore:
    assert isinstance(node.store, PostgresStore)
    return node.store


class Held:
    """A listener's ack that stands still while it has the original locked, which another listener still waits for."""

    def __init__(self, node: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self._node = node
        self._patch = monkeypatch
        self._gate = asyncio.Event()
        self._reached = asyncio.Event()
        self._ack: asyncio.Task[object] | None = None

    async def begin(self) -> None:
        node = self._node
        await node.create("orders", keep_delivered=False)
        for name in ("first", "second"):
            await node.create(name)
        await self._send("warm")
        await node.receive_one("orders")  # the look from the very front has been made
        await node.receive_one("first")
        await self._send("older")
        node.clock.advance(ms=3 * MARGIN_MS)
        await self._send("newer")
        lease = await node.receive_one("first")
        asked = Transaction.having_copies

        async def slowly(tx: Transaction, origins: list[int]) -> set[int]:
            self._reached.set()
            await self._gate.wait()
            return await asked(tx, origins)

        self._patch.setattr(Transaction, "having_copies", slowly)
        self._ack = asyncio.create_task(node.ack("first", lease))
        await self._reached.wait()

    async def _send(self, message_id: str) -> None:
        queues = [self._node.queue(name) for name in ("orders", "first", "second")]
        draft = Draft(body=b"x", id=message_id)
        parcels = [Parcel(queue, draft, copy_of=None if place == 0 else 0) for place, queue in enumerate(queues)]
        await self._node.store.send(parcels, now=self._node.now, principal=WHO)

    async def end(self) -> None:
        assert self._ack is not None
        self._gate.set()
        await self._ack


def ids(leases: list[Lease]) -> list[str]:
    return [lease.message.id for lease in leases]


@pytest.fixture
async def held(node: Rig, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Held]:
    """One message is locked, and a receiver has passed over it."""
    held = Held(node, monkeypatch)
    await held.begin()
    assert ids(await node.receive("orders")) == ["newer"]
    yield held
    await held.end()


async def test_a_message_that_was_locked_and_left_is_the_next_to_be_had(node: Rig, held: Held) -> None:
    await held.end()
    assert ids(await node.receive("orders")) == ["older"]


async def test_whoever_looked_in_vain_while_a_message_was_locked_is_called_again(node: Rig, held: Held) -> None:
    receiver = asyncio.create_task(node.receive("orders", wait_ms=60_000))
    await node.arrivals.waits.get()
    await held.end()
    async with asyncio.timeout(SOON):
        assert ids(await receiver) == ["older"]


async def test_an_order_that_waits_for_a_lock_does_not_make_others_wait(node: Rig, tmp_path: Path) -> None:
    """Also where nobody sends, so that one transaction at a time would do."""
    await node.create("line", kind=Kind.FIFO)
    await node.create("orders")
    await node.send_all("orders", [Draft(body=b"x")] * 4)
    lease = await node.receive_one("orders")
    for _ in range(30):
        await node.receive("line")
    space, key = store(node)._circle.space, node.queue("line").key
    other = await psycopg.AsyncConnection.connect(shared_cluster().url())
    try:
        await other.execute("SELECT pg_advisory_xact_lock(%s, %s)", (space, key))
        blocked = asyncio.create_task(node.receive("line"))
        await asyncio.sleep(0)
        async with asyncio.timeout(SOON):
            await asyncio.gather(node.ack("orders", lease), node.receive_one("orders"))
            await node.ack("orders", await node.receive_one("orders"))
        assert not blocked.done()
    finally:
        await other.close()
    assert await blocked == []


async def test_what_comes_to_its_end_late_is_looked_for_where_it_is(node: Rig) -> None:
    """An order that waited for its turn leases until an instant that time was let pass already."""
    queue = await node.create("orders")
    await node.store.advance(now=node.now)
    await node.send("orders", b"first")
    asked_at = node.now
    node.clock.advance(ms=3 * MARGIN_MS)
    await node.store.settle(queue, [], now=node.now, principal=WHO)
    assert len(await node.store.receive(queue, limit=1, lease_ms=MARGIN_MS, now=asked_at, principal=WHO)) == 1
    node.clock.advance(ms=50)
    assert [lease.message.attempts for lease in await node.receive("orders")] == [2]


async def test_what_others_are_to_hear_is_told_although_the_commit_that_was_to_tell_it_failed(node: Rig) -> None:
    await node.create("orders")
    circle = store(node)._circle
    told: list[list[list[int]] | None] = []
    key = node.queue("orders").key

    async def tell(step: tuple[str, dict[str, str]]) -> None:
        if not told:
            told.append(None)
            raise Unavailable("not now")
        told.append(msgspec.json.decode(step[1]["payload"])[1])

    circle.tell = tell  # type: ignore[assignment]
    tx = Transaction(None, 0)  # type: ignore[arg-type]
    tx.made_ready(key, 3)
    tx.show(key, 5)
    circle._told_at = 0.0
    assert circle.notice(tx) is not None
    with pytest.raises(Unavailable), circle.attempt(tx):
        raise Unavailable("the commit failed")
    await eventually(lambda: len(told) > 1)
    assert told == [None, [[key, 3, 5]]]


async def test_a_notice_that_nobody_understands_sends_everybody_to_look(node: Rig) -> None:
    """As while nodes of two versions are at work."""
    await node.create("orders")
    await node.send("orders")
    watch, channel = store(node)._watch, store(node)._circle.channel
    looked = asyncio.Event()
    node.store._circle.signals.ready = lambda key, count: looked.set()  # type: ignore[attr-defined]
    async with await psycopg.AsyncConnection.connect(shared_cluster().url(), autocommit=True) as other:
        await other.execute("SELECT pg_notify(%s, %s)", (channel, '["other", "what?"]'))
    async with asyncio.timeout(SOON):
        await looked.wait()
    assert watch._task is not None
    assert not watch._task.done()
