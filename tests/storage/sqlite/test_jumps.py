"""A new incarnation of a damaged store: damage beside the jump is told as such, and no row is made to look sound."""

import sqlite3
from contextlib import closing
from pathlib import Path

from couriermq.core.events import EventKind
from couriermq.core.model import Kind
from couriermq.storage.sqlite import care
from couriermq.storage.sqlite.checksums import damaged_rows
from couriermq.storage.sqlite.connection import DATABASE, connect
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig


def opened(directory: Path) -> Rig:
    return Rig(lambda: SqliteStore(directory, min_free_bytes=0))


async def used(directory: Path) -> int:
    """A store with a message that is leased for an hour, closed; its next offset."""
    rig = opened(directory)
    await rig.open()
    await rig.create("line", kind=Kind.FIFO)
    await rig.send("line", group="g")
    await rig.receive_one("line", lease_ms=3_600_000)
    (span,) = (await rig.store.spans()).values()
    await rig.close()
    return span.next


def change(directory: Path, sql: str) -> None:
    with closing(sqlite3.connect(directory / DATABASE)) as db:
        assert db.execute(sql).rowcount == 1
        db.commit()


async def test_a_read_across_the_jump_tells_of_damage_beside_it_only(tmp_path: Path) -> None:
    end = await used(tmp_path)
    care.begin_incarnation(tmp_path, reason="a test")
    rig = opened(tmp_path)
    await rig.open()
    await rig.send("line", group="g")
    await rig.close()
    change(tmp_path, f"UPDATE journal SET crc = crc + 1 WHERE start + count = {end}")
    await rig.open()
    (span,), (jump,) = (await rig.store.spans()).values(), rig.store.jumps
    entries = await rig.store.read_events(start=span.oldest, limit=span.next - span.oldest)
    await rig.close()
    assert jump.end == end
    damaged = [entry.offset for entry in entries if entry.event.kind == EventKind.DAMAGED]
    assert damaged
    assert set(damaged) <= set(range(end))
    assert [entry.offset for entry in entries] == [*range(end), *range(jump.first, span.next)]


async def test_a_damaged_message_does_not_look_sound_when_its_lease_ends(tmp_path: Path) -> None:
    await used(tmp_path)
    change(tmp_path, "UPDATE message SET attempts = attempts + 7")
    care.begin_incarnation(tmp_path, reason="a test")
    with closing(connect(tmp_path / DATABASE)) as db:
        assert damaged_rows(db) == [("message", 1)]
    rig = opened(tmp_path)
    await rig.open()
    await rig.close()
    with closing(connect(tmp_path / DATABASE)) as db:
        assert damaged_rows(db) == [("message", 1)]
