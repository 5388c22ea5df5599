"""Bodies are stored once, in the journal; what happens to them when the journal goes, and when they are damaged."""

import sqlite3
from pathlib import Path

import msgspec
import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.events import EventKind
from couriermq.core.model import Ack, Draft, Parcel, Release
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import Rig


@pytest.fixture
async def rig(tmp_path: Path) -> object:
    rig = Rig(lambda: SqliteStore(tmp_path, min_free_bytes=0, sync=lambda _: None))
    await rig.open()
    yield rig
    await rig.close()


def rows(rig: Rig, query: str) -> list[tuple[object, ...]]:
    assert isinstance(rig.store, SqliteStore)
    return rig.store._db.execute(query).fetchall()


async def seal(rig: Rig) -> int:
    """Trim what an archive would have taken."""
    return await rig.store.trim_events(before=(await rig.store.spans())[0].next)


async def test_messages_that_wait_are_no_rows_of_their_own(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 100)
    assert rows(rig, "SELECT count(*) FROM message") == [(0,)]
    assert rows(rig, "SELECT count, remaining FROM pack") == [(100, 100)]
    leases = await rig.receive("orders", limit=100)
    await rig.settle("orders", *(Ack(lease.receipt) for lease in leases))
    assert rows(rig, "SELECT count(*) FROM pack") == [(0,)]


async def test_a_message_outlives_the_journal_row_that_holds_it(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=f"{n}".encode()) for n in range(3)])
    await rig.send("orders", b"mine", id="mine")
    await rig.send("orders", b"newest")
    assert await seal(rig) > 0
    assert (await rig.store.spans())[0].oldest > 0
    assert await rig.store.check() == []
    await rig.restart()
    assert {message.body for message in await rig.browse("orders")} == {b"0", b"1", b"2", b"mine", b"newest"}
    bodies = [lease.message.body for lease in await rig.receive("orders", limit=10)]
    assert bodies == [b"0", b"1", b"2", b"mine", b"newest"]


async def test_a_row_that_nothing_waits_in_goes_with_the_next_trim(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=b"x")] * 3)
    await rig.create("bills")
    await seal(rig)
    assert rows(rig, "SELECT first_seq, last_seq FROM retained") == [(1, 3)]
    leases = await rig.receive("orders", limit=3)
    await rig.settle("orders", *(Ack(lease.receipt) for lease in leases))
    await seal(rig)
    assert rows(rig, "SELECT * FROM retained") == []
    assert rows(rig, "SELECT * FROM journal WHERE first_seq = 1") == []
    assert await rig.store.check() == []


async def test_the_last_single_messages_of_a_row_are_copied_out(rig: Rig) -> None:
    await rig.create("orders")
    await rig.send_all("orders", [Draft(body=f"{n}".encode()) for n in range(3)])
    first, second, third = await rig.receive("orders", limit=3)
    await rig.settle("orders", Ack(first.receipt), Release(second.receipt), Ack(third.receipt))
    await rig.send("orders", b"newest")
    await seal(rig)
    assert rows(rig, "SELECT seq, body FROM payload") == [(2, b"1")]
    assert rows(rig, "SELECT count(*) FROM journal WHERE first_seq = 1") == [(0,)]
    assert await rig.store.check() == []
    leases = await rig.receive("orders", limit=3)
    assert {lease.message.body for lease in leases} == {b"1", b"newest"}
    await rig.settle("orders", *(Ack(lease.receipt) for lease in leases))
    assert rows(rig, "SELECT count(*) FROM payload") == [(0,)]


async def send_with_copies(rig: Rig, body: bytes, *outboxes: str) -> None:
    draft = Draft(body=body, id="m-1")
    copies = [Parcel(rig.queue(name), msgspec.structs.replace(draft), copy_of=0) for name in outboxes]
    await rig.store.send([Parcel(rig.queue("orders"), draft), *copies], now=rig.clock.now(), principal="test")


@pytest.mark.parametrize("size", [10, 400_000])
async def test_a_message_and_its_copies_share_one_body(rig: Rig, size: int) -> None:
    await rig.create("orders")
    outboxes = [f"outbox-{number}" for number in range(5)]
    for name in outboxes:
        await rig.create(name, archive_bodies=False)
    body = b"x" * size
    await send_with_copies(rig, body, *outboxes)
    await rig.create("last")
    assert rows(rig, "SELECT sum(length(events)) < 5000 + " + str(size) + " FROM journal") == [(1,)]
    await rig.settle("orders", Ack((await rig.receive_one("orders")).receipt))
    await rig.settle("outbox-0", Release((await rig.receive_one("outbox-0")).receipt))
    for _ in range(2):
        await seal(rig)
        assert await rig.store.check() == []
        await rig.restart()
        assert [(await rig.browse(name))[0].body == body for name in outboxes] == [True] * 5
    for name in outboxes:
        lease = await rig.receive_one(name)
        assert lease.message.body == body
        await rig.settle(name, Ack(lease.receipt))
    await seal(rig)
    assert rows(rig, "SELECT count(*) FROM retained") == rows(rig, "SELECT count(*) FROM payload") == [(0,)]


async def test_a_body_that_is_not_archived_is_shown_to_receivers_alone(rig: Rig) -> None:
    await rig.create("secret", archive_bodies=False)
    await rig.send("secret", b"hidden", attributes={"colour": "red"})
    (sent,) = await rig.events(EventKind.SENT)
    assert sent.detail == {"content_type": "application/octet-stream"}
    for commit in await rig.store.read_commits(start=0, limit=100):
        assert b"hidden" not in commit.events
        assert b"colour" not in commit.events
    lease = await rig.receive_one("secret")
    assert (lease.message.body, lease.message.attributes) == (b"hidden", {"colour": "red"})


async def test_a_damaged_body_is_never_served(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", b"the truth")
    await rig.close()
    with sqlite3.connect(tmp_path / "courier.db") as db:
        db.execute("UPDATE journal SET events = CAST(replace(events, 'truth', 'trust') AS BLOB)")
    db.close()
    await rig.open()
    await rig.send("orders", b"the rest")
    with pytest.raises(Unavailable, match="damaged"):
        await rig.events()
    assert [lease.message.body for lease in await rig.receive("orders", limit=10)] == [b"the rest"]
    assert [message.body for message in await rig.browse("orders")] == [b"the rest"]
    assert (await rig.counters("orders")).total_count == 1
    assert rig.store.metrics.quarantined == 1  # type: ignore[attr-defined]
    findings = await rig.store.check()
    assert "1 messages of queue 1 were damaged and are set aside" in findings
    assert any("the journal is damaged at offset" in finding for finding in findings)


async def test_a_damaged_body_that_was_copied_out_is_set_aside_alone(tmp_path: Path, rig: Rig) -> None:
    await rig.create("orders")
    await rig.send("orders", b"one", id="one")
    await rig.send("orders", b"two", id="two")
    await rig.create("bills")
    await seal(rig)
    await rig.close()
    with sqlite3.connect(tmp_path / "courier.db") as db:
        assert db.execute("UPDATE payload SET body = x'00' WHERE body = x'6f6e65'").rowcount == 1
    db.close()
    await rig.open()
    assert [message.id for message in await rig.browse("orders")] == ["two"]
    assert (await rig.counters("orders")).total_count == 1
