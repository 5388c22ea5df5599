"""Finding one message in journal and archive."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from couriermq.journal import lookup
from couriermq.journal.lookup import Found, Sought, look_up
from couriermq.journal.place import LocalPlace
from couriermq.storage.sqlite import SqliteStore
from tests.journal.shelf import Shelf
from tests.support.engines import Rig


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    rig = Rig(lambda: SqliteStore(tmp_path / "data"))
    await rig.open()
    await rig.catalog.create_queue("default", "orders", principal="test")
    yield Shelf(rig, LocalPlace(tmp_path / "archive"))
    await rig.close()


async def find(shelf: Shelf, message_id: str, before: int | None = None, seq: int | None = None) -> Found:
    return await look_up(shelf.history.pasts[0], Sought(message_id=message_id, seq=seq), lane=0, before=before)


def kinds(found: Found) -> list[str]:
    return [entry.event.kind for entry in found.entries]


async def send_and_receive(shelf: Shelf, message_id: str) -> int:
    sent = await shelf.rig.send("orders", b"body", id=message_id)
    await shelf.rig.receive("orders")
    return sent.seq


async def test_a_message_is_found_in_the_journal(shelf: Shelf) -> None:
    await send_and_receive(shelf, "one")
    await send_and_receive(shelf, "two")
    found = await find(shelf, "two")
    assert kinds(found) == ["sent", "received"]
    assert found.is_whole
    assert kinds(await find(shelf, "three")) == []


async def test_a_message_is_found_in_segments_and_in_what_is_newer(shelf: Shelf) -> None:
    seq = await send_and_receive(shelf, "one")
    await shelf.seal()
    await shelf.rig.send("orders", b"x", id="between")
    await shelf.seal()
    await shelf.rig.pass_time(ms=60_000)
    await shelf.rig.receive("orders")
    for known in (None, seq):
        found = await find(shelf, "one", seq=known)
        assert kinds(found) == ["sent", "received", "lease_expired", "received"]
        assert [entry.event.detail for entry in found.entries if "body" in (entry.event.detail or {})] == []
    offsets = [entry.offset for entry in found.entries]
    assert offsets == sorted(offsets)


async def test_the_past_is_looked_through_in_parts_the_newest_first(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, "JOURNAL_COUNT", 3)
    monkeypatch.setattr(lookup, "SEALED_COUNT", 1)
    await send_and_receive(shelf, "one")
    await shelf.seal()
    for number in range(3):
        await shelf.rig.send("orders", b"x", id=f"filler-{number}")
    await shelf.seal()
    for number in range(4):
        await shelf.rig.send("orders", b"x", id=f"newer-{number}")
    parts = [await find(shelf, "one")]
    while not parts[-1].is_whole:
        parts.append(await find(shelf, "one", before=parts[-1].start))
        assert parts[-1].stop == parts[-2].start
    assert len(parts) == 3
    assert [kinds(part) for part in parts] == [[], [], ["sent", "received"]]


async def test_row_groups_that_end_before_the_message_was_sent_are_not_decoded(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_and_receive(shelf, "one")
    await shelf.seal()
    monkeypatch.setattr(lookup, "COPY_REACH", 0)
    assert kinds(await find(shelf, "one", seq=1)) == ["sent", "received"]
    assert kinds(await find(shelf, "one", seq=1_000)) == []
