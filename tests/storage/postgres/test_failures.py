"""What the engine for many nodes does when the database is not as it should be, or changes under it."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from couriermq.core.errors import Invalid, Unavailable
from couriermq.core.incarnations import Identity
from couriermq.core.model import Draft
from couriermq.storage.base import CannotOpen, StoredRecord
from couriermq.storage.postgres import connection as connections
from couriermq.storage.postgres.connection import Connection, Pool, connect, version_of
from couriermq.storage.postgres.duties import Duties
from couriermq.storage.postgres.identity import Guard
from couriermq.storage.postgres.notifications import Watch
from couriermq.storage.postgres.store import PostgresStore
from tests.support.cluster import Standby
from tests.support.engines import TENANT, Rig, forget
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.postgres import Cluster, shared_cluster


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    yield shared_cluster().store_url(tmp_path)
    forget(tmp_path)


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """A server that a test may change."""
    cluster = Cluster()
    yield cluster
    cluster.remove()


# -- opening ------------------------------------------------------------------------------------------------------


async def test_a_server_that_is_too_old_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OLDEST_VERSION", 990_000)
    with pytest.raises(CannotOpen, match=r"^PostgreSQL \d+ is too old; 15 is the oldest$"):
        await Rig(lambda: PostgresStore(shared_cluster().url())).open()


@pytest.mark.slow
async def test_no_node_works_on_a_standby(own_cluster: Cluster, tmp_path: Path) -> None:
    rig = Rig(lambda: PostgresStore(own_cluster.store_url(tmp_path)))
    await rig.open()
    standby = Standby(own_cluster)
    try:
        with pytest.raises(CannotOpen, match="read-only"):
            await Rig(lambda: PostgresStore(standby.url())).open()
        both = own_cluster.url().replace("host=", f"host={standby.url().rpartition('host=')[2]},")
        connection = await connect(both)  # whichever comes first, the one that takes writes is chosen
        ((in_recovery,),) = await (await connection.execute("SELECT pg_is_in_recovery()")).fetchall()
        await connection.close()
        assert in_recovery is False
    finally:
        standby.remove()
        await rig.close()


async def test_a_store_that_cannot_be_opened_leaves_no_connection_and_no_task(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(duties: Duties) -> None:
        raise psycopg.OperationalError("the server went away")

    monkeypatch.setattr(Duties, "start", fail)
    store = PostgresStore(url)
    with pytest.raises(CannotOpen, match="the database cannot be opened: the database cannot be reached"):
        await Rig(lambda: store).open()
    assert store._pool._idle == []
    assert store._watch._connection is None
    assert store._watch._task is not None
    assert store._watch._task.done()
    monkeypatch.undo()
    rig = Rig(lambda: store)
    await rig.open()  # the next attempt succeeds
    await rig.close()


async def test_a_store_that_is_closed_refuses_orders_and_connects_no_more(url: str) -> None:
    store = PostgresStore(url)
    rig = Rig(lambda: store)
    await rig.open()
    await rig.create("orders")
    await rig.close()
    with pytest.raises(Unavailable, match="the store is closing"):
        await rig.send("orders")
    assert [committer._connection for committer in store._committers] == [None] * len(store._committers)


# -- connections that are given back ------------------------------------------------------------------------------


def guard() -> Guard:
    """One that has not seen the database yet, and so refuses none."""

    async def renewed(_: Connection, identity: Identity) -> None:
        raise AssertionError("the database is no other")

    return Guard(shard=0, now=lambda: 0, on_renewal=renewed)


async def test_a_connection_that_is_given_back_to_a_closed_pool_is_closed(url: str) -> None:
    pool = Pool(url, guard=guard())
    async with pool.taken() as connection:
        await pool.close()
    assert connection.closed


async def test_a_connection_whose_rollback_is_cancelled_is_closed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(url, guard=guard())
    taken: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    async def fail_in_a_transaction() -> None:
        async with pool.taken() as connection:
            await connection.execute("BEGIN")
            monkeypatch.setattr(connection, "execute", never)
            taken.set_result(connection)

    task = asyncio.create_task(fail_in_a_transaction())
    connection = await taken
    await asyncio.sleep(0)  # the rollback has begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert connection.closed
    assert pool._idle == []


# -- a database that says no --------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_database_that_takes_no_writes_is_unavailable_until_it_does(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    rig = Rig(lambda: PostgresStore(own_cluster.store_url(tmp_path)))
    await rig.open()
    await rig.create("orders")
    await rig.send("orders")
    try:
        own_cluster.configure(default_transaction_read_only="on")
        await eventually(lambda: refused(rig))
        own_cluster.configure(default_transaction_read_only="off")
        await eventually(lambda: refused(rig), lambda still: not still)
    finally:
        own_cluster.configure(default_transaction_read_only="off")
        await rig.close()


async def refused(rig: Rig) -> bool:
    (outcome,) = await asyncio.gather(rig.send("orders"), return_exceptions=True)
    return isinstance(outcome, Unavailable) and bool(outcome.retry_after_ms)


@pytest.mark.slow
async def test_a_send_whose_wait_for_a_standby_is_cancelled_is_not_taken_for_sure(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    """The server says that it has committed, with a warning: the standby may not have the message."""
    rig = Rig(lambda: PostgresStore(own_cluster.store_url(tmp_path)))
    await rig.open()
    await rig.create("orders")
    try:
        own_cluster.configure(synchronous_standby_names="nobody")
        seen = await eventually(
            lambda: send_without_waiting(rig, own_cluster), lambda outcome: isinstance(outcome, Exception)
        )  # the server reads its settings again at leisure
        assert isinstance(seen, Unavailable), seen
        assert "may or may not have been done" in str(seen)
    finally:
        own_cluster.configure(synchronous_standby_names="")
        await rig.close()


async def send_without_waiting(rig: Rig, cluster: Cluster) -> object:
    """What a send comes to when somebody cancels every wait for a standby."""
    send = asyncio.gather(rig.send("orders"), return_exceptions=True)
    while not send.done():
        cluster.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
        await asyncio.sleep(0)
    (outcome,) = send.result()
    return outcome


async def test_a_name_that_the_database_cannot_hold_is_the_callers_mistake(url: str) -> None:
    rig = Rig(lambda: PostgresStore(url))
    await rig.open()
    try:
        record = StoredRecord(kind="note", tenant=TENANT, id="a\0b", document=b"")
        with pytest.raises(Invalid, match="NUL"):
            await rig.store.change_records(put=[record])
        await rig.create("orders")
        await rig.send("orders", b"a\0b", id="c\0d", group="e\0f", attributes={"g\0": "\0"})
        message = (await rig.receive_one("orders")).message
        assert (message.body, message.id, message.group) == (b"a\0b", "c\0d", "e\0f")
    finally:
        await rig.close()


async def test_durability_is_never_traded_for_speed(url: str) -> None:
    """The sessions of a node leave it to the operator how durable a commit is."""
    async with await psycopg.AsyncConnection.connect(url) as plain:
        ((usual,),) = await (await plain.execute("SHOW synchronous_commit")).fetchall()
    ours = await connect(url)
    ((set_by_us,),) = await (await ours.execute("SHOW synchronous_commit")).fetchall()
    await ours.close()
    assert set_by_us == usual
    assert "synchronous_commit" not in connections.SETTINGS


# -- a schema that moves on ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_one_node_migrates_and_those_of_the_version_before_work_on(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Rig(lambda: PostgresStore(url))
    await old.open()
    await old.create("orders")
    stop = asyncio.Event()
    served = 0

    async def serve() -> None:
        nonlocal served
        while not stop.is_set():
            await old.send_all("orders", [Draft(body=b"x")] * 3)
            for lease in await old.receive("orders", limit=3):
                await old.ack("orders", lease)
            served += 1

    work = asyncio.create_task(serve())
    newest = connections.migrations()[-1][0]
    _add_migration(tmp_path / "migrations", newest + 1, monkeypatch)
    new = [Rig(lambda: PostgresStore(url), old.clock) for _ in range(3)]
    await asyncio.gather(*(rig.open() for rig in new))
    before = served
    await eventually(lambda: served >= before + 3)
    stop.set()
    await work
    try:
        connection = await connect(url)
        assert await version_of(connection) == newest + 1
        times = await (await connection.execute("SELECT count(*) FROM migrated")).fetchall()
        await connection.execute(
            f"DROP TABLE migrated; ALTER TABLE message DROP COLUMN note; UPDATE schema_version SET version = {newest}",
            prepare=False,
        )
        await connection.close()
        assert times == [(1,)]
        await new[1].send("orders", b"by a new one")
        assert (await old.receive_one("orders")).message.body == b"by a new one"
    finally:
        await asyncio.gather(*(rig.close() for rig in (old, *new)))


def _add_migration(folder: Path, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more step than this Courier has, as the next would bring it."""
    shutil.copytree(Path(connections.__file__).parent / "migrations", folder)
    sql = "ALTER TABLE message ADD COLUMN note TEXT; CREATE TABLE migrated AS SELECT 1 AS once; SELECT pg_sleep(0.3);"
    (folder / f"{version:04}_next.sql").write_text(sql)
    monkeypatch.setattr(connections, "FOLDER", folder)


@pytest.mark.parametrize("method", [(Duties, "_tick"), (Watch, "_listen")])
async def test_a_connection_that_is_lost_while_a_node_stops_does_not_keep_it(
    url: str, monkeypatch: pytest.MonkeyPatch, method: tuple[type, str]
) -> None:
    """psycopg raises the loss in place of the cancellation."""
    rig, begun = Rig(lambda: PostgresStore(url)), asyncio.Event()
    await rig.open()

    async def lost(*values: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise psycopg.OperationalError("the connection is lost") from None

    monkeypatch.setattr(*method, lost)
    await begun.wait()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await rig.close()


async def test_a_node_that_failed_to_hear_of_a_change_goes_on_listening(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Rig(lambda: PostgresStore(url)), Rig(lambda: PostgresStore(url))
    await asyncio.gather(one.open(), other.open())
    assert isinstance(other.store, PostgresStore)
    node = other.store._node
    refresh = node.refresh

    async def fails_once() -> None:
        monkeypatch.setattr(node, "refresh", refresh)
        raise KeyError("a defect")

    try:
        monkeypatch.setattr(node, "refresh", fails_once)
        await one.create("first")
        await eventually(lambda: node.refresh is refresh)
        await one.create("second")
        await eventually(lambda: [queue.name for queue in other.catalog.queues(TENANT)] == ["first", "second"])
        assert "could not follow" in caplog.text
    finally:
        await asyncio.gather(one.close(), other.close())
