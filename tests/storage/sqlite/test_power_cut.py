"""The power is cut in the middle of a commit: the disk keeps what was synced, and any part of what was not.

A killed process leaves its writes with the system; a power cut does not. So the files are put together here as a disk
would hold them: all bytes that were synced, then the log cut off anywhere after them, then perhaps garbage.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest

from couriermq.core.errors import CourierError, Unavailable
from couriermq.core.model import Draft, Lease, Sent
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig


class Mains:
    """Syncs until the power is cut; remembers what is on the disk for certain, and what may be."""

    def __init__(self, data: Path, *, syncs_left: int) -> None:
        self._files = (data / "courier.db", data / "courier.db-wal")
        self._syncs_left = syncs_left
        self.certain = (b"", b"")
        self.possible = b""

    def sync(self, descriptor: int) -> None:
        if self._syncs_left == 0:
            self.possible = self._files[1].read_bytes()
            raise OSError(5, "the lights went out")
        self._syncs_left -= 1
        os.fdatasync(descriptor)
        self.certain = (self._files[0].read_bytes(), self._files[1].read_bytes())

    def leave(self, data: Path, dice: random.Random) -> None:
        """Write what a disk might hold after the cut."""
        database, log = self.certain
        torn = self.possible[len(log) : dice.randint(len(log), max(len(log), len(self.possible)))]
        data.mkdir()
        (data / "courier.db").write_bytes(database)
        (data / "courier.db-wal").write_bytes(log + torn + dice.randbytes(dice.choice((0, 0, 7, 5_000))))


class Told:
    """What callers were told before the lights went out."""

    def __init__(self) -> None:
        self.sent: dict[str, bytes] = {}
        self.acked: set[str] = set()
        self.held: dict[str, Lease] = {}


async def one_caller(rig: Rig, told: Told, name: str, dice: random.Random) -> None:
    """Sends, receives and acks until there is no answer any more."""
    for n in range(1_000):
        ids = [f"{name}-{n}-{i}" for i in range(dice.randint(1, 4))]
        bodies = {each: dice.randbytes(dice.choice((5, 500, 6_000))) for each in ids}
        outcomes = await rig.send_all("orders", [Draft(body=bodies[each], id=each) for each in ids])
        told.sent.update({o.id: bodies[o.id] for o in outcomes if isinstance(o, Sent)})
        for lease in await rig.receive("orders", limit=3, lease_ms=600_000):
            told.held[lease.message.id] = lease
            if dice.random() < 0.7:
                await rig.ack("orders", lease)
                told.acked.add(lease.message.id)


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_was_answered_before_a_power_cut_is_true_after_it(tmp_path: Path, seed: int) -> None:
    dice, told = random.Random(seed), Told()
    mains = Mains(tmp_path / "before", syncs_left=dice.randint(6, 60))
    rig = Rig(lambda: SqliteStore(tmp_path / "before", min_free_bytes=0, sync=mains.sync))
    await rig.open()
    try:
        await rig.create("orders")
        callers = [one_caller(rig, told, name, dice) for name in "abc"]
        outcomes = await asyncio.gather(*callers, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
    finally:
        await rig.close()
    mains.leave(tmp_path / "after", dice)
    after = Rig(lambda: SqliteStore(tmp_path / "after", min_free_bytes=0), rig.clock)
    await after.open()
    try:
        await compare(after, told)
    finally:
        await after.close()


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
