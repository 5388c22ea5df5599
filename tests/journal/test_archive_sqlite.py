"""What the archive must bear of the embedded engine: it reads in a thread, and may have commits of older versions."""

import asyncio
from zlib import crc32

import msgspec
import pytest

from couriermq.core.chronicle import Commit, unpack
from tests.journal.shelf import Shelf, fill


async def test_reading_from_sqlite_goes_on_while_it_is_sealed_in_its_midst(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that reads in a thread, where events can be trimmed after it has begun."""
    before = await fill(shelf)
    read = shelf.rig.store._read_journal  # type: ignore[attr-defined]
    loop = asyncio.get_running_loop()

    def late(*arguments: int) -> list[Commit]:
        monkeypatch.undo()
        asyncio.run_coroutine_threadsafe(shelf.seal(), loop).result()
        found: list[Commit] = read(*arguments)
        return found

    monkeypatch.setattr(shelf.rig.store, "_read_journal", late)
    assert await shelf.history.read_events(start=0, limit=100) == before
    await fill(shelf)
    monkeypatch.setattr(shelf.rig.store, "_read_journal", late)
    end = (await shelf.history.span()).next
    assert [row["offset"] for row in await shelf.stream(0, end)] == list(range(end))


async def test_commits_that_an_older_sqlite_store_has_packed_are_read_and_sealed_with_others(shelf: Shelf) -> None:
    before = await fill(shelf)
    db = shelf.rig.store._db  # type: ignore[attr-defined]
    for start, packed in db.execute("SELECT start, events FROM journal").fetchall()[1::2]:
        older = msgspec.msgpack.encode(unpack(packed))
        db.execute("UPDATE journal SET events = ?, crc = ? WHERE start = ?", (older, crc32(older), start))
    db.execute(
        "UPDATE journal SET head = crc(start, count, at, next_seq, next_lease, private, first_seq, last_seq, crc)"
    )
    assert await shelf.everything() == before
    assert await shelf.rig.store.check() == []
    await shelf.seal()
    assert await shelf.everything() == before
