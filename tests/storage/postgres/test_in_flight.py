"""The limit on messages that are leased at the same time is one for all nodes."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from couriermq.clock import FakeClock
from couriermq.core.model import Draft, Kind, Lease
from couriermq.storage.postgres.engine import Committer
from couriermq.storage.postgres.store import PostgresStore
from tests.storage.postgres.test_store import all_heard
from tests.support.engines import TENANT, WHO, Rig, forget
from tests.support.eventually import eventually
from tests.support.postgres import shared_cluster

MOST = 5
WAIT_MS = 20_000
PATIENCE_SECONDS = 25


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[tuple[Rig, Rig]]:
    """Two nodes on one store, with one clock that stands still."""
    url, clock = shared_cluster().store_url(tmp_path), FakeClock()
    clock._dice = itertools.count(1_000)
    one, other = (Rig(lambda: PostgresStore(url), clock) for _ in range(2))
    await one.open()
    await other.open()
    yield one, other
    await one.close()
    await other.close()
    forget(tmp_path)


async def filled(nodes: tuple[Rig, Rig], *names: str, count: int, kind: Kind = Kind.STANDARD) -> None:
    one, other = nodes
    for name in names:
        await one.create(name, kind=kind, max_leased=MOST)
        drafts = [Draft(body=b"%d" % n, group=str(n) if kind is Kind.FIFO else None) for n in range(count)]
        for first in range(0, count, 1_000):
            await one.send_all(name, drafts[first : first + 1_000])
    await eventually(lambda: len(other.catalog.queues(TENANT)) == len(names))


class Witness:
    """Knows, from what receivers hold, how much is leased at least."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.most = self.done = 0

    def took(self, leases: list[Lease]) -> None:
        seqs = {lease.message.seq for lease in leases}
        assert self.held.isdisjoint(seqs)
        self.held |= seqs
        self.most = max(self.most, len(self.held))

    def gives(self, lease: Lease) -> None:
        """Before it does so."""
        self.held.remove(lease.message.seq)
        self.done += 1


async def consume(rig: Rig, name: str, witness: Witness, *, count: int) -> None:
    """Receive, and ack what came before, until all messages are done."""
    before: list[Lease] = []
    while witness.done < count:
        leases = await rig.receive(name, limit=2)
        witness.took(leases)
        for lease in before:
            witness.gives(lease)
            await rig.ack(name, lease)
        before = leases


@pytest.mark.parametrize("kind", Kind)
async def test_receivers_at_two_nodes_reach_the_limit_and_never_exceed_it(nodes: tuple[Rig, Rig], kind: Kind) -> None:
    await filled(nodes, "orders", count=300, kind=kind)
    for _ in range(3):
        found = await asyncio.gather(*(rig.receive("orders", limit=2) for rig in nodes for _ in range(10)))
        leases = [lease for some in found for lease in some]
        while more := await nodes[1].receive("orders", limit=2):  # rows that another had locked were passed over
            leases += more
        assert len(leases) == (await nodes[0].counters("orders")).leased_count == MOST
        await asyncio.gather(*(nodes[n % 2].ack("orders", lease) for n, lease in enumerate(leases)))


@pytest.fixture
def collisions(monkeypatch: pytest.MonkeyPatch) -> list[Committer]:
    """Who has to begin a transaction anew, because another stood in its way."""
    noted: list[Committer] = []
    roll_back = Committer._roll_back

    async def note(self: Committer) -> None:
        noted.append(self)
        await roll_back(self)

    monkeypatch.setattr(Committer, "_roll_back", note)
    return noted


@pytest.mark.parametrize("kind", Kind)
async def test_the_limit_holds_while_messages_are_settled_and_received_at_two_nodes(
    nodes: tuple[Rig, Rig], kind: Kind
) -> None:
    await filled(nodes, "orders", "bills", count=100, kind=kind)
    witnesses = {"orders": Witness(), "bills": Witness()}
    await asyncio.gather(
        *(
            consume(rig, name, witness, count=100)
            for name, witness in witnesses.items()
            for rig in nodes
            for _ in range(4)
        )
    )
    assert {name: witness.done for name, witness in witnesses.items()} == {"orders": 100, "bills": 100}
    assert max(witness.most for witness in witnesses.values()) <= MOST


async def test_nodes_that_receive_from_two_queues_in_opposite_order_do_not_lock_each_other_out(
    nodes: tuple[Rig, Rig], collisions: list[Committer]
) -> None:
    names = ("orders", "bills")
    await filled(nodes, *names, count=10)
    collisions.clear()
    for _ in range(20):
        calls = [(rig, name) for rig, order in zip(nodes, (names, names[::-1]), strict=True) for name in order]
        found = await asyncio.gather(*(rig.receive(name) for rig, name in calls))
        leases = [(rig, name, lease) for (rig, name), some in zip(calls, found, strict=True) for lease in some]
        for rig, name, lease in leases:
            await rig.release(name, lease)
    assert collisions == []


async def test_jobs_and_receivers_at_two_nodes_share_the_limit(nodes: tuple[Rig, Rig]) -> None:
    one, other = nodes
    await filled(nodes, "orders", count=100)
    job = await one.claims.open(one.queue("orders"), "spark")
    claiming = one.claims.claim(one.queue("orders"), "spark", 1, epoch=job.epoch, limit=3, principal=WHO)
    receiving = asyncio.gather(*(other.receive("orders", limit=2) for _ in range(5)))
    claim, found = await asyncio.gather(claiming, receiving)
    assert claim.count + sum(map(len, found)) <= MOST
    while await other.receive("orders"):
        pass
    assert (await one.counters("orders")).leased_count == MOST


async def parked(one: Rig, other: Rig) -> "asyncio.Task[list[Lease]]":
    """A receiver at the other node that no notice of what was before wakes."""
    await all_heard(one, other)
    receiver = asyncio.create_task(other.receive("orders", wait_ms=WAIT_MS))
    await other.arrivals.waits.get()
    return receiver


@pytest.mark.usefixtures("no_polls")
async def test_a_receiver_at_one_node_is_woken_by_an_ack_at_another(nodes: tuple[Rig, Rig]) -> None:
    one, other = nodes
    await filled(nodes, "orders", count=20)
    leases = await one.receive("orders", limit=10)
    receiver = await parked(one, other)
    await one.ack("orders", leases[0])
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert len(await receiver) == 1


@pytest.mark.usefixtures("no_polls")
async def test_a_receiver_at_one_node_is_woken_by_leases_that_expire_at_another(nodes: tuple[Rig, Rig]) -> None:
    one, other = nodes
    await filled(nodes, "orders", count=20)
    await one.receive("orders", limit=10, lease_ms=5_000)
    receiver = await parked(one, other)
    await one.pass_time(ms=5_000)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert len(await receiver) == 1


@pytest.mark.usefixtures("no_polls")
@pytest.mark.parametrize("most", [MOST + 1, None])
async def test_a_receiver_at_one_node_is_woken_by_a_higher_limit_at_another(
    nodes: tuple[Rig, Rig], most: int | None
) -> None:
    one, other = nodes
    await filled(nodes, "orders", count=20)
    await one.receive("orders", limit=10)
    receiver = await parked(one, other)
    settings = msgspec.structs.replace(one.queue("orders").settings, max_leased=most)
    await one.catalog.change_queue(one.queue("orders"), settings=settings, principal=WHO)
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert len(await receiver) == 1


async def test_a_lower_limit_holds_at_the_other_node_at_once(nodes: tuple[Rig, Rig]) -> None:
    one, other = nodes
    await filled(nodes, "orders", count=20)
    await other.receive("orders", limit=2)
    settings = msgspec.structs.replace(one.queue("orders").settings, max_leased=2)
    await one.catalog.change_queue(one.queue("orders"), settings=settings, principal=WHO)
    assert await other.receive("orders", limit=10) == []
