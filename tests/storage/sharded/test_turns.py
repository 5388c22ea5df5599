"""The events of a message that goes from shard to shard have turns without gaps, whichever journal they are in."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from couriermq.core.events import Event
from couriermq.core.model import Ack, Draft, Extend, Kind, LateAck, Lease, Release
from couriermq.core.shards import shard_of
from couriermq.storage.base import Store
from tests.support.engines import ENGINES, Rig
from tests.support.histories import check_turns
from tests.support.sqlite_shards import SqliteShards


async def test_a_message_that_dies_into_another_shard_and_comes_back_counts_on(tmp_path: Path) -> None:
    rig = Rig(lambda: SqliteShards(tmp_path, hasty=True))
    await rig.open()
    await rig.create("dead")
    await rig.create("orders", max_attempts=1, dead_letter_queue="dead")
    sent = await rig.send("orders")
    await rig.release("orders", await rig.receive_one("orders"))
    await rig.restart()
    assert await rig.redrive("dead") == 1
    await rig.ack("orders", await rig.receive_one("orders"))
    journals = [span for journal in rig.store.journals() for span in (await journal.spans()).values()]
    told = []
    for shard, span in enumerate(journals):
        entries = await rig.store.read_events(start=span.oldest, limit=100)
        assert {shard_of(entry.offset) for entry in entries} == {shard}
        told += [(e.event.turn, e.event.kind, shard) for e in entries if e.event.seq == sent.seq]
    kinds = [
        ("sent", 1), ("received", 1), ("released", 1), ("dead_lettered", 1), ("redriven", 0), ("received", 1),
        ("acked", 1),
    ]  # fmt: skip
    assert sorted(told) == [(turn, *kind) for turn, kind in enumerate(kinds, 1)]
    check_turns(sorted(await rig.events(), key=lambda event: event.turn or 0))
    await rig.close()


async def test_queues_are_on_two_shards(tmp_path: Path) -> None:
    rig = Rig(lambda: SqliteShards(tmp_path, hasty=True))
    await rig.open()
    for name in ("one", "two"):
        await rig.create(name)
    shards = [shard_of((await rig.send_one(name, Draft(body=b"x"))).seq) for name in ("one", "two")]
    assert shards == [0, 1]
    await rig.close()


NAMES = ("orders", "graves", "line", "fallen")
"""Made in reverse: each dead letter queue is on another shard than its source, where there are two."""
actions = st.tuples(
    st.sampled_from([*["send", "receive", "settle", "redrive"] * 3, "move", "purge", "wait"]),
    st.sampled_from(NAMES),
    st.integers(0, 2**16),
)


async def act(rig: Rig, leases: list[tuple[str, Lease]], do: str, name: str, pick: int) -> None:
    """One step of a history; `pick` chooses what the step leaves open."""
    match do:
        case "send":
            parts = {"group": "g"} if pick % 3 == 0 else {"delay_ms": 500} if pick % 3 == 1 else {}
            await rig.send_all(name, [Draft(body=b"x", **parts) for _ in range(1 + pick % 7)])
        case "receive":
            leases += [(name, lease) for lease in await rig.receive(name, limit=1 + pick % 5, lease_ms=1_000)]
        case "settle":
            chosen = [lease for source, lease in leases if source == name][-3:]
            how = (Ack, lambda receipt: Release(receipt, 0), lambda receipt: Extend(receipt, 2_000))[pick % 3]
            if chosen:
                await rig.settle(name, *(how(lease.receipt) for lease in chosen))
        case "move":
            await rig.move(name, next(other for other in NAMES if other != name))
        case "redrive":
            await rig.redrive(name)
        case "purge" if pick % 4 == 0:
            await rig.purge(name)
        case "wait":
            await rig.pass_time(ms=pick % 1_200)
            if pick % 5 == 0:
                await rig.restart()


async def lived(folder: Path, make: Callable[..., Store], history: list[tuple[str, str, int]]) -> list[Event]:
    """All events of a history, in the order of turns."""
    rig = Rig(lambda: make(folder, hasty=True))
    await rig.open()
    try:
        await rig.create("fallen", kind=Kind.FIFO)
        await rig.create("line", kind=Kind.FIFO, max_attempts=1, dead_letter_queue="fallen")
        await rig.create("graves", retention_ms=5_000)
        await rig.create("orders", max_attempts=1, dead_letter_queue="graves", late_ack=LateAck.ACCEPT)
        for name in NAMES:  # no journal is empty: the check of a shard would miss what is before its first offset
            await rig.send(name)
        leases: list[tuple[str, Lease]] = []
        for step in history:
            await act(rig, leases, *step)
        await rig.pass_time(ms=60_000)
        assert await rig.store.check() == []
        return sorted(await rig.events(), key=lambda event: event.turn or 0)
    finally:
        await rig.close()


@pytest.mark.slow
@pytest.mark.parametrize("make", [ENGINES["sqlite"], SqliteShards])
@settings(max_examples=30)
@given(history=st.lists(actions, min_size=10, max_size=60))
def test_no_history_leaves_a_gap_between_turns(make: Callable[..., Store], history: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_turns(asyncio.run(lived(Path(folder), make, history)))
