"""What a node holds in memory while it deals with many bodies at once."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.lifecycle.receive import Order as ReceiveOrder
from couriermq.core.lifecycle.receive import receive
from couriermq.core.lifecycle.send import Order as SendOrder
from couriermq.core.lifecycle.send import send
from couriermq.core.limits import COMMIT_BYTES
from couriermq.core.model import Ack, Draft
from couriermq.storage.base import Parcel
from couriermq.storage.contents import CACHE_BYTES
from couriermq.storage.postgres import engine
from couriermq.storage.postgres.facts import Facts
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import WHO, Rig, forget
from tests.support.postgres import shared_cluster

SIZE = 3 * 1024 * 1024
COUNT = 12


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(lambda: PostgresStore(shared_cluster().store_url(tmp_path)))
    await rig.open()
    yield rig
    assert await rig.store.check() == []
    await rig.close()
    forget(tmp_path)


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of the journal rows of each question."""
    read: list[int] = []
    checked = Facts._checked

    def watched(self: Facts, starts: Any, found: list[Any]) -> Iterator[Any]:
        read.append(sum(len(events) for *_, events in found))
        return checked(self, starts, found)

    monkeypatch.setattr(Facts, "_checked", watched)
    return read


async def test_acks_of_large_messages_read_a_few_at_a_time(rig: Rig, read_bytes: list[int]) -> None:
    queue = await rig.create("orders")
    for n in range(2 * COUNT):
        await rig.send("orders", bytes([n]) * SIZE)
    receipts = [(await rig.receive_one("orders")).receipt for _ in range(COUNT)]
    job = await rig.claims.open(queue, "spark")
    await rig.claims.claim(queue, "spark", 1, epoch=job.epoch, limit=COUNT, principal=WHO)
    read_bytes.clear()
    await rig.settle("orders", *map(Ack, receipts))
    await rig.claims.ack(queue, "spark", upto=1, epoch=job.epoch, principal=WHO)
    assert (await rig.counters("orders")).total_count == 0
    assert sum(read_bytes) >= COUNT * SIZE, read_bytes
    assert max(read_bytes) <= COMMIT_BYTES, read_bytes


async def test_a_publication_keeps_few_of_its_bodies(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    take = engine.Committer._take_contents

    def watched(self: engine.Committer, unit: Any, facts: Facts) -> None:
        take(self, unit, facts)
        kept.append(sum(content.weight for _, content in facts.contents.items()))

    monkeypatch.setattr(engine.Committer, "_take_contents", watched)
    queue = await rig.create("orders")
    for part in range(COUNT):
        drafts = [Draft(body=b"%04d" % (part * 100 + n) * 2_500) for n in range(100)]
        await rig.stages.stage(queue, "s", part, drafts, principal=WHO)
    assert (await rig.stages.publish(queue, "series", 1, ["s"], principal=WHO)).count == COUNT * 100
    assert 0 < max(kept) <= CACHE_BYTES, kept
    found = [lease.message.body[:4] for _ in range(3) for lease in await rig.receive("orders", limit=400)]
    assert found == [b"%04d" % n for n in range(COUNT * 100)]


async def test_what_a_transaction_reads_of_its_own_rows_is_not_kept_when_it_fails(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its offsets go to others; what the cache had of them would be served in their place."""
    queue = await rig.create("orders")
    store = rig.store
    assert isinstance(store, PostgresStore)
    added: set[int] = set()

    def no_room(self: engine.Committer, unit: Any, facts: Facts) -> None:
        added.update(unit.new_contents)
        facts.added.update(unit.new_contents)
        unit.new_contents.clear()

    def order(unit: Any) -> Any:
        sending = [SendOrder([Parcel(queue, Draft(body=b"rolled back"))], rig.now, WHO, ())]
        yield from send(unit, sending, queues=store._directory, sealer=store.sealer)
        receiving = [ReceiveOrder(9, 1_000, rig.now, WHO, None)]
        (leases,) = yield from receive(unit, queue, receiving, sealer=store.sealer, now=rig.now)
        assert [lease.message.body for lease in leases or ()] == [b"rolled back"]
        raise ValueError("it fails")

    monkeypatch.setattr(engine.Committer, "_take_contents", no_room)
    with pytest.raises(ValueError, match="it fails"):
        await store._commit.submit(order)
    monkeypatch.undo()
    assert added
    assert added.isdisjoint(start for start, _ in store._node.cache.items())
    await rig.send("orders", b"sent")
    assert (await rig.receive_one("orders")).message.body == b"sent"
