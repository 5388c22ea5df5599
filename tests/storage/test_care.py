"""A store can be checked and copied while it works."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from couriermq.core.events import EventKind
from couriermq.core.model import Draft, Kind, Message
from tests.support.engines import Rig, back_up, opened_backup


async def busy(rig: Rig) -> None:
    await rig.create("orders")
    await rig.create("line", kind=Kind.FIFO)
    for n in range(10):
        await rig.send("orders", b"x" * n * 1_000)
        await rig.send("line", b"x", group=f"g{n % 3}")
    await rig.receive("orders", limit=3)
    await rig.receive("line", limit=3)


async def test_a_store_in_use_is_sound(rig: Rig) -> None:
    assert await rig.store.check() == []
    await busy(rig)
    assert await rig.store.check() == []


async def test_a_check_beside_writers_finds_nothing(rig: Rig) -> None:
    await busy(rig)
    writes = [rig.send_all("orders", [Draft(body=b"x" * 3_000)] * 50) for _ in range(10)]
    findings, *_ = await asyncio.gather(rig.store.check(), *writes, rig.store.check())
    assert findings == [], findings


def _contents(messages: Sequence[Message]) -> list[tuple[int, str, bytes]]:
    """What is the same in a copy, in which leases have ended."""
    return [(message.seq, message.id, message.body) for message in messages]


async def test_a_backup_holds_what_was_there_and_can_be_opened(rig: Rig, tmp_path: Path) -> None:
    await busy(rig)
    expected = [_contents(await rig.browse(name)) for name in ("orders", "line")]
    told = await rig.events()
    await back_up(rig, tmp_path / "copy")
    await rig.send("orders", b"after the copy")
    copy = await opened_backup(rig, tmp_path / "copy")
    try:
        assert [_contents(await copy.browse(name)) for name in ("orders", "line")] == expected
        assert (await copy.events())[: len(told)] == told
        assert await copy.store.check() == []
    finally:
        await copy.close()


async def test_a_backup_beside_writers_is_of_one_moment(rig: Rig, tmp_path: Path) -> None:
    await rig.create("orders")
    writes = [rig.send_all("orders", [Draft(body=b"x" * 3_000)] * 50) for _ in range(20)]
    await asyncio.gather(*writes[:10], back_up(rig, tmp_path / "copy"), *writes[10:])
    copy = await opened_backup(rig, tmp_path / "copy")
    try:
        count = (await copy.counters("orders")).ready_count
        assert count % 50 == 0
        assert len(await copy.events(EventKind.SENT)) == count
        assert await copy.store.check() == []
    finally:
        await copy.close()
