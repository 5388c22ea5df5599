"""The power is cut at any moment: the disk keeps what was synced, and any sectors of what was not.

A killed process leaves its writes with the system; a power cut does not. Whatever was answered before the cut is true
after it, across checkpoints and logs that start anew, and the mark never keeps the store from starting.
"""

import asyncio
import random
from pathlib import Path

import pytest

from couriermq.core.errors import CourierError
from couriermq.core.model import Draft, Lease, Sent
from couriermq.storage.sqlite import log
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig
from tests.support.simulated_disk import Operation, Recorder, after_power_cut
from tests.support.soak import sized

SEEDS = range(sized(40, 1_000))


class Told:
    """What callers were told before the cut."""

    def __init__(self, operations: list[Operation]) -> None:
        self.sent: dict[str, bytes] = {}
        self.acked: set[str] = set()
        self.held: dict[str, Lease] = {}
        for operation in operations:
            match operation.kind, operation.data:
                case "sent", (id_, body):
                    self.sent[id_] = body
                case "held", (lease,):
                    self.held[lease.message.id] = lease
                case "acked", (id_,):
                    self.acked.add(id_)


async def one_caller(rig: Rig, disk: Recorder, name: str, dice: random.Random) -> None:
    """Sends, receives and acks for a while."""
    for n in range(dice.randint(2, 12)):
        ids = [f"{name}-{n}-{i}" for i in range(dice.randint(1, 4))]
        bodies = {each: dice.randbytes(dice.choice((5, 500, 6_000))) for each in ids}
        for outcome in await rig.send_all("orders", [Draft(body=bodies[each], id=each) for each in ids]):
            assert isinstance(outcome, Sent)
            disk.tell("sent", outcome.id, bodies[outcome.id])
        for lease in await rig.receive("orders", limit=3, lease_ms=600_000):
            disk.tell("held", lease)
            if dice.random() < 0.7:
                await rig.ack("orders", lease)
                disk.tell("acked", lease.message.id)


async def history(directory: Path, dice: random.Random) -> list[Operation]:
    """All that happened to the files of a store while callers used it, and what they were told."""
    disk = Recorder()
    with disk.recording():
        rig = Rig(lambda: SqliteStore(directory, min_free_bytes=0, sync=disk.sync))
        await rig.open()
        store = rig.store
        assert isinstance(store, SqliteStore)
        store._log._disk_is_low = lambda: dice.random() < 0.1  # then the log is cut off
        try:
            await rig.create("orders")
            disk.tell("ready")
            await asyncio.gather(*(one_caller(rig, disk, name, dice) for name in "abc"))
        finally:
            recorded = list(disk.operations)
            await rig.close()
    return recorded


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy the log into the database, and start it anew, every few commits."""
    monkeypatch.setattr(log, "CHANGES", 30)
    monkeypatch.setattr(log, "FEW_BYTES", 5 * 2_048)
    monkeypatch.setattr(log, "MOST_BYTES", 40 * 2_048)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.usefixtures("short_log")
async def test_whatever_was_answered_before_a_power_cut_is_true_after_it(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    operations = await history(tmp_path / "before", dice)
    ready = next(index for index, operation in enumerate(operations) if operation.kind == "ready")
    operations = operations[: dice.randint(ready, len(operations))]
    after = tmp_path / "after"
    after.mkdir()
    for name, stored in after_power_cut(operations, dice).items():
        (after / name).write_bytes(stored)
    rig = Rig(lambda: SqliteStore(after, min_free_bytes=0))
    await rig.open()
    try:
        await compare(rig, Told(operations))
    finally:
        await rig.close()


async def compare(rig: Rig, told: Told) -> None:
    assert await rig.store.check() == []
    there = {message.id: message for message in await rig.browse("orders")}
    assert told.acked.isdisjoint(there)
    # What was sent is there, unless an ack of it was on its way.
    missing = told.sent.keys() - told.acked - there.keys()
    assert missing <= told.held.keys()
    assert {each: there[each].body for each in told.sent.keys() & there.keys()} == {
        each: told.sent[each] for each in told.sent.keys() & there.keys()
    }
    span = (await rig.store.spans())[0]
    entries = await rig.store.read_events(start=0, limit=span.next)
    assert [entry.offset for entry in entries] == list(range(span.next))
    for id_, lease in told.held.items():
        if id_ in there:
            await rig.ack("orders", lease)  # receipts hold
        else:
            with pytest.raises(CourierError):
                await rig.ack("orders", lease)


@pytest.mark.usefixtures("short_log")
async def test_histories_cross_checkpoints_and_logs_that_start_anew(tmp_path: Path) -> None:
    """What the test above relies on: that the operations which can go wrong are among those that are recorded."""
    operations: list[Operation] = []
    for seed in range(5):
        operations += await history(tmp_path / str(seed), random.Random(seed))
    kinds = {(operation.file, operation.kind) for operation in operations if operation.file}
    files = ("courier.db", "courier.db-wal", "courier.db-mark")
    assert {(file, kind) for file in files for kind in ("write", "sync")} <= kinds
    assert ("courier.db-wal", "truncate") in kinds
    headers = [operation for operation in operations if operation.file == "courier.db-wal" and operation.at == 0]
    assert len(headers) > 5
