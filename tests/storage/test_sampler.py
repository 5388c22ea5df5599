"""Rates of a store that several nodes share, counted from its tables and its journal."""

import pytest

from couriermq.core.model import Ack, Draft
from couriermq.monitor import rates
from couriermq.monitor.rates import Rates
from couriermq.monitor.sampler import Sampler
from tests.support.engines import Rig


async def test_what_others_commit_is_counted(rig: Rig) -> None:
    queue = await rig.catalog.create_queue("default", "orders", principal="p")
    counted = Rates()
    sampler = Sampler(rig.store, rig.broker, rig.catalog, rig.clock, counted)
    await sampler.sample(with_journal=True)
    rig.clock.advance(ms=1_000)
    await rig.broker.send(queue, [Draft(body=b"x") for _ in range(5)], principal="sender")
    leases = await rig.broker.receive(queue, limit=2, principal="receiver")
    await rig.broker.settle(queue, [Ack(lease.receipt) for lease in leases], principal="receiver")
    await sampler.sample(with_journal=True)
    second = rig.now // 1_000
    found = counted.of(queue.id)
    assert found.seconds(rates.SENT, second, second + 1) == [5]
    assert found.seconds(rates.ACKED, second, second + 1) == [2]
    assert found.seconds(rates.RECEIVED, second, second + 1) == [2]
    assert found.principals["receiver"].per_second(rates.RECEIVED, second) == pytest.approx(2 / 60)
    assert rates.backlog(found, 3, second - 1, second + 1, by_minutes=False) == [0, 3]


async def test_while_nobody_watches_only_the_counters_are_read(rig: Rig) -> None:
    queue = await rig.catalog.create_queue("default", "orders", principal="p")
    counted = Rates()
    sampler = Sampler(rig.store, rig.broker, rig.catalog, rig.clock, counted)
    await sampler.sample(with_journal=False)
    rig.clock.advance(ms=60_000)
    await rig.broker.send(queue, [Draft(body=b"x")], principal="sender")
    await rig.broker.receive(queue, principal="receiver")
    await sampler.sample(with_journal=False)
    second = rig.now // 1_000
    assert counted.of(queue.id).seconds(rates.SENT, second, second + 1) == [1]
    assert counted.of(queue.id).seconds(rates.RECEIVED, second, second + 1) == [0]
