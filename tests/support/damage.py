"""A store with something of every kind, and what a disk may do to its files."""

import random
from pathlib import Path
from unittest.mock import patch

import msgspec

from couriermq.core.model import Ack, Draft, Kind, Parcel, Release
from couriermq.storage.sqlite.store import SqliteStore
from couriermq.storage.staging import pack
from tests.support.engines import WHO, Rig

FILES = ("courier.db", "courier.db-wal")


def body_of(number: int) -> bytes:
    """Bodies that tell whether a byte of them is wrong."""
    return random.Random(number).randbytes(40 + number % 7 * 900)


async def fill(rig: Rig) -> set[bytes]:
    """Messages in every state, a claim, a stage, a publication that is on its way; returns all bodies."""
    store, numbers = rig.store, iter(range(1_000_000))
    assert isinstance(store, SqliteStore)
    bodies: set[bytes] = set()

    def drafts(count: int, **parts: object) -> list[Draft]:
        made = [Draft(body=body_of(next(numbers)), **parts) for _ in range(count)]  # type: ignore[arg-type]
        bodies.update(draft.body for draft in made)
        return made

    await rig.create("graves")
    await rig.create("orders", max_attempts=1, dead_letter_queue="graves")
    await rig.create("line", kind=Kind.FIFO)
    for name in ("jobs", "outbox", "staged", "slow", "private"):
        await rig.create(name, archive_bodies=name != "private")
    for _ in range(6):
        await rig.send_all("orders", drafts(20))
        await rig.send_all("orders", drafts(3, attributes={"colour": "red"}, id="mine"))
        await rig.send_all("private", drafts(3))
    await rig.send_all("orders", drafts(3, delay_ms=60_000))
    leases = await rig.receive("orders", limit=30)
    settlements = [Ack(lease.receipt) if n % 2 else Release(lease.receipt) for n, lease in enumerate(leases[:20])]
    await rig.settle("orders", *settlements)
    for group in ("a", "b", "c"):
        await rig.send_all("line", [*drafts(3, group=group), *drafts(1, group=group, id=f"unique-{group}")])
    await rig.receive("line", limit=2)
    for draft in drafts(3, id="copied"):
        copy = Parcel(rig.queue("outbox"), msgspec.structs.replace(draft), copy_of=0)
        await store.send([Parcel(rig.queue("jobs"), draft), copy], now=rig.now, principal=WHO)
    await rig.send_all("jobs", drafts(12))
    job = await rig.claims.open(rig.queue("jobs"), "spark")
    await rig.claims.claim(rig.queue("jobs"), "spark", 1, epoch=job.epoch, limit=5, principal=WHO)
    await store.trim_events(before=(await store.spans())[0].next // 3)
    for queue, stages in (("staged", []), ("slow", ["s-1"])):
        target = rig.queue(queue)
        chunk = pack([Parcel(target, draft) for draft in drafts(5)], count=5)
        await store.stage(target.id, stage="s-1", part=0, chunks=[chunk], now=rig.now)
        with patch.object(store, "_land_all", _nothing):  # it would be over at once
            await store.publish(target.id, series="s", number=1, stages=stages, parts={}, now=rig.now, principal=WHO)
    return bodies


async def _nothing() -> None:
    """In place of what sends published messages."""


def damage(directory: Path, dice: random.Random) -> str:
    """Flip a bit of a file, or several, or cut it off; says what was done."""
    path = directory / dice.choice([name for name in FILES if (directory / name).exists()])
    stored = bytearray(path.read_bytes())
    match dice.choice(("flip", "flip", "flips", "cut", "zeros")):
        case "flip":
            at = dice.randrange(len(stored))
            stored[at] ^= 1 << dice.randrange(8)
            done = f"flipped a bit of byte {at}"
        case "flips":
            places = sorted(dice.sample(range(len(stored)), 10))
            for at in places:
                stored[at] ^= 1 << dice.randrange(8)
            done = f"flipped bits of bytes {places}"
        case "cut":
            del stored[dice.randrange(len(stored)) :]
            done = f"cut off after {len(stored)} bytes"
        case _:
            at = dice.randrange(len(stored) // 512) * 512
            stored[at : at + 512] = bytes(512)
            done = f"zeroed the sector at {at}"
    path.write_bytes(stored)
    return f"{path.name}: {done}"
