"""The real server, killed at random moments under load and started again, keeps every promise that it made."""

import asyncio
import random
from pathlib import Path

import pytest

from couriermq.core.events import EventKind
from couriermq.storage.sqlite import care
from tests.support.engines import ENGINES, Rig
from tests.support.load import GROUPS, Load, clients, create_queues
from tests.support.replay import replay
from tests.support.server import ServerProcess, start_server
from tests.support.soak import sized
from tests.support.witness import Witness

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

ROUNDS = sized(6, 40)
UP_SECONDS = (0.3, 1.8)


async def kill_and_restart(load: Load, server: ServerProcess) -> None:
    await asyncio.sleep(load.dice.uniform(*UP_SECONDS))
    load.up.clear()
    await asyncio.to_thread(server.kill)
    assert await asyncio.to_thread(care.check, server.data) == []
    await asyncio.to_thread(server.start)
    load.up.set()


async def storm(server: ServerProcess, dice: random.Random) -> Witness:
    load = Load([server], dice)
    load.up.set()
    async with clients(server.token) as sessions:
        await create_queues(load, next(sessions))
        senders = [asyncio.create_task(load.send_orders(next(sessions), f"s{n}")) for n in range(3)]
        senders += [asyncio.create_task(load.send_line(next(sessions), f"g{n}")) for n in range(GROUPS)]
        consumers = [asyncio.create_task(load.consume(next(sessions))) for _ in range(5)]
        for _ in range(ROUNDS):
            await kill_and_restart(load, server)
        load.sending = False
        await asyncio.gather(*senders)
        load.draining = True
        await asyncio.gather(*consumers)
    return load.witness


async def test_nothing_accepted_is_lost_and_nothing_acked_returns(tmp_path: Path) -> None:
    dice = random.Random()
    with start_server(tmp_path) as server:
        witness = await storm(server, dice)
        assert server.stop() == 0
    findings = witness.findings()
    assert findings == [], "\n".join(findings)
    assert len(witness.accepted) > 100
    assert witness.lost_answers > 0
    await compare_with_journal(tmp_path / "data", witness)


async def compare_with_journal(data: Path, witness: Witness) -> None:
    """The journal tells the same story, without a gap, and its end is an empty house."""
    rig = Rig(lambda: ENGINES["sqlite"](data))
    await rig.open()
    try:
        span = (await rig.store.spans())[0]
        entries = await rig.store.read_events(start=0, limit=span.next)
        while len(entries) < span.next:
            entries += await rig.store.read_events(start=len(entries), limit=span.next)
    finally:
        await rig.close()
    assert [entry.offset for entry in entries] == list(range(span.next))
    events = [entry.event for entry in entries]
    sent = {event.message_id for event in events if event.kind == EventKind.SENT}
    acked = {event.message_id for event in events if event.kind == EventKind.ACKED}
    assert witness.accepted <= sent <= witness.attempted
    assert set(witness.acked_at) <= acked
    assert replay(events) == {}
    assert care.check(data) == []
