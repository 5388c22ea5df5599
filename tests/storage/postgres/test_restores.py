"""Restores that PostgreSQL makes by itself: a dump, a point in time, a promotion. The store notices each of them."""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from couriermq.clock import FakeClock
from couriermq.core.errors import LeaseLost, MessageNotFound, Unavailable
from couriermq.core.lanes import lane_of
from couriermq.core.model import Lease
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import Rig
from tests.support.eventually import eventually, eventually_sync
from tests.support.postgres import Cluster, program

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A server whose log is archived, in a place that its user may write to."""
    made = Cluster(archive_mode="on", archive_command="cp %p ../archive/%f", wal_level="replica")
    (made.folder / "archive").mkdir()
    shutil.chown(made.folder / "archive", "postgres", "postgres")
    yield made
    made.remove()


async def rig_on(url: str, clock: FakeClock | None = None) -> Rig:
    rig = Rig(lambda: PostgresStore(url), clock)
    await rig.open()
    return rig


async def received(rig: Rig) -> list[Lease]:
    """None while the store connects anew."""
    with contextlib.suppress(Unavailable):
        return await rig.receive("orders", limit=1)
    return []


class Lost:
    """What an earlier incarnation gave out behind the point that is restored."""

    async def give(self, rig: Rig) -> None:
        self.clock = rig.clock
        self.sent = await rig.send("orders", b"lost")
        (self.lease,) = await rig.receive("orders", limit=1)
        self.spans = await rig.store.spans()
        self.stamp = rig.store.stamp

    async def is_refused_by(self, url: str) -> None:
        rig = await rig_on(url, self.clock)
        try:
            assert rig.store.stamp.store == self.stamp.store
            assert rig.store.identity.present.number == 2
            fresh = await rig.send("orders", b"fresh")
            assert fresh.seq > self.sent.seq
            with pytest.raises(LeaseLost):
                await rig.ack("orders", self.lease)
            with pytest.raises(MessageNotFound):
                await rig.broker.read_message(rig.queue("orders"), self.sent.id)
            ends = {lane_of(span.next): span.next for span in self.spans.values()}
            jumps = [jump for jump in rig.store.jumps if jump.end < ends.get(lane_of(jump.end), 0)]
            assert jumps
            assert all(ends[lane_of(jump.end)] < jump.first for jump in jumps)
            assert [m.body for m in await rig.browse("orders")] == [b"kept", b"fresh"]
            assert await rig.store.check() == []
            before = rig.store.identity
            await rig.restart()
            assert rig.store.identity == before
        finally:
            await rig.close()


async def test_a_point_in_time_restore_begins_a_new_incarnation(cluster: Cluster) -> None:
    rig = await rig_on(cluster.url())
    await rig.create("orders")
    await rig.send("orders", b"kept")
    copy = cluster.folder / "base"
    cluster._run([program("pg_basebackup"), "-h", str(cluster.folder), "-U", "courier", "-D", str(copy), "-X", "none"])
    cluster.execute("SELECT pg_create_restore_point('here')")
    lost = Lost()
    await lost.give(rig)
    await rig.close()
    cluster.execute("SELECT pg_switch_wal()")
    cluster.stop()
    restored = Cluster.__new__(Cluster)
    restored.__dict__ |= cluster.__dict__ | {"data": copy}
    settings = {
        "restore_command": f"cp {cluster.folder}/archive/%f %p",
        "recovery_target_name": "here",
        "recovery_target_action": "promote",
        "archive_mode": "off",
    }
    with (copy / "postgresql.auto.conf").open("a") as file:
        file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())
    (copy / "recovery.signal").touch()
    restored.start()
    try:
        eventually_sync(lambda: restored.execute("SELECT pg_is_in_recovery()"), lambda found: found == [(False,)])
        await lost.is_refused_by(restored.url())
    finally:
        restored.stop("immediate")


async def test_a_dump_that_is_restored_begins_a_new_incarnation(cluster: Cluster) -> None:
    cluster.execute("CREATE DATABASE one")
    cluster.execute("CREATE DATABASE two")
    one, two = (cluster.url().replace("/postgres?", f"/{name}?") for name in ("one", "two"))
    rig = await rig_on(one)
    await rig.create("orders")
    await rig.send("orders", b"kept")
    dump = subprocess.run([program("pg_dump"), one], check=True, capture_output=True).stdout
    lost = Lost()
    await lost.give(rig)
    await rig.close()
    subprocess.run([program("psql"), "-q", "-v", "ON_ERROR_STOP=1", two], check=True, input=dump, capture_output=True)
    await lost.is_refused_by(two)


async def test_a_node_goes_on_in_a_new_incarnation_when_its_database_has_changed_over(cluster: Cluster) -> None:
    """As after the promotion of a standby that has everything: the node lives on, receipts from before do not."""
    rig = await rig_on(cluster.url())
    try:
        await rig.create("orders")
        await rig.send("orders", b"kept")
        lease = await rig.receive_one("orders")
        before = rig.store.stamp
        change_over(cluster, rig)
        (again,) = await eventually(lambda: received(rig), bool)
        assert rig.store.stamp != before
        with pytest.raises(LeaseLost):
            await rig.ack("orders", lease)
        await rig.ack("orders", again)
    finally:
        await rig.close()


def change_over(cluster: Cluster, *rigs: Rig) -> None:
    """Let the database seem to come from elsewhere, as after the promotion of a standby."""
    cluster.execute("UPDATE meta SET value = 'another/00000001/1/1' WHERE name = 'origin'")
    for rig in rigs:
        store_of(rig)._guard.origin = "another/00000001/1/1"
    cluster.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'courier %'")


def store_of(rig: Rig) -> PostgresStore:
    assert isinstance(rig.store, PostgresStore)
    return rig.store


async def test_a_node_whose_connection_ends_while_it_hears_of_the_changeover_hears_of_it_again(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = await rig_on(cluster.url())
    try:
        await rig.create("orders")
        await rig.send("orders", b"kept")
        lease = await rig.receive_one("orders")
        guard = store_of(rig)._guard
        heard: list[object] = []
        renewed, failures = guard._on_renewal, iter([psycopg.OperationalError("the connection has ended")])

        async def failing(*values: Any) -> None:
            for failure in failures:
                raise failure
            await renewed(*values)
            heard.append(values[1])

        monkeypatch.setattr(guard, "_on_renewal", failing)
        change_over(cluster, rig)
        (again,) = await eventually(lambda: received(rig), bool)
        with pytest.raises(LeaseLost):
            await rig.ack("orders", lease)
        await rig.ack("orders", again)
        assert heard == [store_of(rig).identity]
    finally:
        await rig.close()


async def test_a_node_that_knows_a_queue_that_was_lost_takes_nothing_for_it(cluster: Cluster) -> None:
    """Also where another node has changed the restored control plane by then, and its version is no lower any more."""
    rig = await rig_on(cluster.url())
    other: Rig | None = None
    try:
        await rig.create("orders")
        version = store_of(rig)._node.catalog_version
        await rig.create("lost")
        await store_of(rig)._watch.stop()
        cluster.execute(f"DELETE FROM record WHERE version > {version}")
        cluster.execute(f"UPDATE meta SET value = convert_to('{version}', 'UTF8') WHERE name = 'catalog_version'")
        change_over(cluster, rig)
        other = await rig_on(cluster.url(), rig.clock)
        await other.create("new")
        await other.create("newer")
        outcome = await eventually(lambda: sent(rig, "lost"), lambda error: "earlier state" in str(error))
        assert isinstance(outcome, Unavailable)
        assert cluster.execute("SELECT count(*) FROM pack") == [(0,)]
    finally:
        await rig.close()
        if other is not None:
            await other.close()


async def sent(rig: Rig, name: str) -> object:
    (outcome,) = await asyncio.gather(rig.send(name), return_exceptions=True)
    return outcome


async def test_rows_that_a_restore_brings_back_are_trimmed_again(cluster: Cluster) -> None:
    rig = await rig_on(cluster.url())
    try:
        await rig.create("orders")
        cluster.execute("CREATE TABLE kept AS SELECT * FROM journal")
        cluster.execute("CREATE TABLE kept_lane AS SELECT * FROM lane")
        for span in (await rig.store.spans()).values():
            await rig.store.trim_events(before=span.next)
        assert cluster.execute("SELECT count(*) FROM journal") == [(0,)]
        cluster.execute("INSERT INTO journal SELECT * FROM kept")
        cluster.execute("UPDATE lane SET oldest = kept_lane.oldest FROM kept_lane WHERE lane.number = kept_lane.number")
        change_over(cluster, rig)
        await eventually(lambda: sent(rig, "orders"), lambda outcome: not isinstance(outcome, Exception))
        await rig.ack("orders", await rig.receive_one("orders"))
        for span in (await rig.store.spans()).values():
            await rig.store.trim_events(before=span.next)
        left = cluster.execute("SELECT count(*) FROM journal WHERE start IN (SELECT start FROM kept)")
        assert left == [(0,)]
    finally:
        await rig.close()


async def test_a_node_takes_receipts_of_an_incarnation_that_another_node_has_begun(cluster: Cluster) -> None:
    one = await rig_on(cluster.url())
    two = await rig_on(cluster.url(), one.clock)
    try:
        await one.create("orders")
        await one.send("orders")
        cluster.execute("UPDATE meta SET value = 'another/00000001/1/1' WHERE name = 'origin'")
        for rig in (one, two):
            assert isinstance(rig.store, PostgresStore)
            await rig.store.refresh()
            rig.store._guard.origin = "another/00000001/1/1"
            await rig.store._pool.close()
            rig.store._pool.open()
        await two.counters("orders")  # over a new connection
        lease = await two.receive_one("orders")
        await one.ack("orders", lease)  # whether or not it has heard of the new incarnation by itself
        assert one.store.stamp == two.store.stamp
    finally:
        await one.close()
        await two.close()


async def test_a_role_without_privileges_can_see_where_its_database_comes_from(cluster: Cluster) -> None:
    cluster.execute("CREATE ROLE plain LOGIN")
    cluster.execute("CREATE SCHEMA plain AUTHORIZATION plain")
    url = f"postgresql://plain@/postgres?host={quote(str(cluster.folder), safe='')}"
    rig = await rig_on(url)
    await rig.close()
    with psycopg.connect(url) as connection:
        ((origin,),) = connection.execute("SELECT convert_from(value, 'UTF8') FROM meta WHERE name = 'origin'")
    assert "?" not in origin
