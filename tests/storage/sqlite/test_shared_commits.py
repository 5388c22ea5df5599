"""Orders that share a commit see each other's changes, also those that use the database themselves."""

import sqlite3
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from couriermq.core.lifecycle.browse import browse
from couriermq.core.lifecycle.claim import take_part
from couriermq.core.lifecycle.hasten import hasten
from couriermq.core.lifecycle.purge import remove_chosen
from couriermq.core.model import SECOND, Draft, Release
from couriermq.storage.base import Filter
from couriermq.storage.contents import Damaged
from couriermq.storage.group_commit import Turn
from couriermq.storage.sqlite import trim
from couriermq.storage.sqlite.queries import Q
from couriermq.storage.sqlite.store import SqliteStore
from tests.support.engines import WHO, Rig

COUNT = 20


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(lambda: SqliteStore(tmp_path, min_free_bytes=0))
    await rig.open()
    await rig.create("orders", max_leased=COUNT)
    await rig.create("other")
    await rig.store.advance(now=rig.now)
    yield rig
    assert [finding for finding in await rig.store.check() if "are set aside" not in finding] == []
    await rig.close()


def store_of(rig: Rig) -> SqliteStore:
    assert isinstance(rig.store, SqliteStore)
    return rig.store


def commit(rig: Rig, *orders: Any) -> list[object]:
    results, _ = store_of(rig)._engine.commit(orders, Turn())
    return results


def trimming(rig: Rig) -> Any:
    """A step of a trim that forgets all rows but the newest."""
    store = store_of(rig)
    (store._oldest_offset,) = store._db.execute("SELECT max(start) FROM journal").fetchone()
    store._db.execute(Q.put_meta, (trim.OLDEST, store._oldest_offset))
    return partial(store._trim, since=-1)


async def send_singles(rig: Rig) -> None:
    await rig.send_all("orders", [Draft(body=b"%d" % n, id=f"m{n}") for n in range(COUNT)])
    await rig.send("other")


async def bodies(rig: Rig) -> list[bytes]:
    return [lease.message.body for lease in await rig.receive("orders", limit=COUNT)]


async def test_a_trim_behind_a_change_of_messages_keeps_them(rig: Rig) -> None:
    await send_singles(rig)
    leases = await rig.receive("orders", limit=COUNT)
    await rig.settle("orders", *[Release(lease.receipt, delay_ms=600 * SECOND) for lease in leases])
    order = partial(hasten, queue=rig.queue("orders"), after=None, limit=COUNT, now=rig.now)
    commit(rig, order, trimming(rig))
    assert sorted(await bodies(rig)) == sorted(b"%d" % n for n in range(COUNT))


async def test_a_trim_behind_a_removal_leaves_no_body(rig: Rig) -> None:
    await send_singles(rig)
    seqs = [message.seq for message in await rig.browse("orders")]
    order = partial(remove_chosen, queue=rig.queue("orders"), seqs=seqs[1:], kind="purged", now=rig.now, principal=WHO)
    commit(rig, order, trimming(rig))
    assert store_of(rig)._db.execute("SELECT seq FROM payload").fetchall() == [(seqs[0],)]
    assert await bodies(rig) == [b"0"]


async def test_figures_that_are_asked_for_behind_a_removal_are_those_after_it(rig: Rig) -> None:
    await rig.send("orders", id="old")
    rig.clock.advance(ms=60 * SECOND)
    await rig.send("orders", id="young")
    queue = rig.queue("orders")
    (old, _) = await rig.browse("orders")
    order = partial(remove_chosen, queue=queue, seqs=[old.seq], kind="purged", now=rig.now, principal=WHO)
    commit(rig, order, partial(store_of(rig)._counters, queues=[queue]))
    assert (await rig.counters("orders")).oldest_at == rig.now


async def test_a_queue_is_counted_anew_with_the_leases_of_the_same_commit(rig: Rig) -> None:
    await send_singles(rig)
    await rig.send("other", id="bad")
    store, queue = store_of(rig), rig.queue("orders")
    ((seq,),) = store._db.execute("SELECT seq FROM message WHERE id = 'bad'").fetchall()
    store._db.execute("UPDATE message SET attempts = 77 WHERE seq = ?", (seq,))
    job = await rig.claims.open(queue, "spark")
    take = partial(
        take_part, queue=queue, job="spark", number=1, epoch=job.epoch, limit=COUNT, ready_by=rig.now, now=rig.now,
        principal=WHO,
    )  # fmt: skip
    commit(rig, take, partial(store._set_aside, damaged=Damaged(table="message", key=seq)))
    assert (await rig.counters("orders")).leased_count == COUNT
    await rig.send("orders", id="one more")
    assert await bodies(rig) == []


class FullDisk:
    """A connection on which no transaction finds room."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, query: str, *values: Any) -> Any:
        if query == "COMMIT":
            raise sqlite3.OperationalError("database or disk is full")
        return self._db.execute(query, *values)


async def test_a_row_whose_blanking_is_rolled_back_has_its_bodies_again(rig: Rig) -> None:
    await rig.send_all("orders", [Draft(body=b"%d" % n) for n in range(4)])
    await rig.send("other")
    store, queue = store_of(rig), rig.queue("orders")
    await rig.store.trim_events(before=(await rig.store.spans())[0].next)
    seqs = [message.seq for message in await rig.browse("orders")]
    remove = partial(remove_chosen, queue=queue, seqs=seqs[:1], kind="purged", now=rig.now, principal=WHO)

    def blank(unit: Any) -> object:
        store._engine.flush(unit)
        return trim.drop_unused(store._db, store._engine.cache, after=-1)

    look = partial(browse, queue=queue, where=Filter(), sealer=store.sealer, limit=9, after=None)
    db, store._engine._db = store._engine._db, FullDisk(store._engine._db)  # type: ignore[assignment]
    with pytest.raises(sqlite3.OperationalError):
        commit(rig, remove, blank, look)
    store._engine._db = db
    assert await bodies(rig) == [b"0", b"1", b"2", b"3"]


async def test_one_step_of_a_trim_copies_few_bytes(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 100_000
    await rig.send_all("orders", [Draft(body=b"x" * size, id=f"m{n}") for n in range(40)])
    await rig.send("other")
    copied: list[int] = []
    real = trim.trim

    def watched(db: sqlite3.Connection, **where: int) -> int | None:
        before = db.execute("SELECT count(*) FROM payload").fetchone()[0]
        following = real(db, **where)
        copied.append(size * (db.execute("SELECT count(*) FROM payload").fetchone()[0] - before))
        return following

    monkeypatch.setattr(trim, "trim", watched)
    await rig.store.trim_events(before=(await rig.store.spans())[0].next)
    assert sum(copied) == 40 * size, copied
    assert max(copied) <= trim.WRITTEN_BYTES + 256 * 1024, copied


async def test_the_agenda_does_not_grow_with_the_times_that_a_queue_was_emptied(rig: Rig) -> None:
    for _ in range(1_500):
        await rig.send("orders")
        await rig.ack("orders", await rig.receive_one("orders", lease_ms=SECOND))
        await rig.pass_time(ms=SECOND)
    assert len(store_of(rig)._ledger.agenda) < 1_100
