"""A node that starts before its database waits for it; nobody but the log hears where the database is."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from couriermq.core.errors import Unavailable
from couriermq.core.model import Draft
from couriermq.storage.base import CannotOpen
from couriermq.storage.postgres.failures import detail, may_pass, refusal, sentence
from couriermq.storage.postgres.store import PostgresStore
from tests.support.engines import Rig
from tests.support.eventually import eventually
from tests.support.postgres import Cluster, program

PASSWORD = "hunter2"
YET = "the database cannot be opened yet"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server that a test may stop and change."""
    cluster = Cluster()
    yield cluster
    cluster.remove()


def patient(url: str, seconds: float = 60) -> Rig:
    store = PostgresStore(url)
    store.patience_seconds = seconds
    return Rig(lambda: store)


async def works(rig: Rig) -> bool:
    await rig.create("orders")
    await rig.send("orders")
    return bool(await rig.receive("orders"))


# -- a database that comes later ----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_node_waits_for_a_database_that_is_started_later(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = patient(cluster.store_url(tmp_path))
    cluster.stop()
    opening = asyncio.create_task(rig.open())
    await eventually(lambda: YET in caplog.text)
    assert not opening.done()
    await asyncio.to_thread(cluster.start)
    await opening
    assert await works(rig)
    await rig.close()


@pytest.mark.slow
async def test_a_node_waits_while_the_database_shuts_down_and_starts_again(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = patient(cluster.store_url(tmp_path))
    with psycopg.connect(cluster.url()):  # a smart shutdown waits for this session and refuses new ones
        stopping = asyncio.create_task(asyncio.to_thread(cluster.stop, "smart"))
        await eventually(lambda: "shutting down" in refused(cluster))
        opening = asyncio.create_task(rig.open())
        await eventually(lambda: "shutting down" in caplog.text)
    await stopping
    await asyncio.to_thread(cluster.start)
    await opening
    assert await works(rig)
    await rig.close()


@pytest.mark.slow
async def test_a_node_waits_until_the_database_accepts_connections(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = patient(cluster.store_url(tmp_path))
    cluster.configure(hot_standby="off")
    cluster.stop()
    (cluster.data / "standby.signal").touch(mode=0o666)
    start = [program("pg_ctl"), "-D", str(cluster.data), "-l", str(cluster.folder / "log"), "-W", "start"]
    cluster._run(start)
    opening = asyncio.create_task(rig.open())
    await eventually(lambda: "FATAL: the database system is" in caplog.text)
    cluster._run([program("pg_ctl"), "-D", str(cluster.data), "-w", "promote"])
    await opening
    assert await works(rig)
    await rig.close()


def refused(cluster: Cluster) -> str:
    try:
        psycopg.connect(cluster.url()).close()
    except psycopg.OperationalError as error:
        return str(error)
    return ""


# -- one that does not come ---------------------------------------------------------------------------------------


async def test_a_node_gives_up_after_its_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"postgresql://courier:{PASSWORD}@/postgres?host={tmp_path}"
    with pytest.raises(CannotOpen) as raised:
        await patient(url, seconds=0.1).open()
    assert str(raised.value) == "the database cannot be opened: the database cannot be reached"
    waits, end = [record.getMessage() for record in caplog.records]
    assert waits.startswith(YET)
    assert waits.endswith("trying for another 1 seconds")
    assert str(tmp_path) in end  # for the operator
    assert PASSWORD not in caplog.text


@pytest.mark.slow
async def test_a_node_does_not_wait_for_what_will_not_change(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    hba = cluster.data / "pg_hba.conf"
    cluster.execute("CREATE ROLE locked LOGIN PASSWORD 'another'")
    hba.write_text("local all locked scram-sha-256\n" + hba.read_text())
    cluster.execute("SELECT pg_reload_conf()")
    places = {
        cluster.url().replace("courier@", f"locked:{PASSWORD}@"): "refuses the login",
        cluster.url().replace("/postgres", "/nowhere"): "refuses the login",
        cluster.url().replace("courier@", "nobody@"): "refuses the login",
        f"postgresql://courier:{PASSWORD}%zz@/postgres": "check `store`",
    }
    for url, reason in places.items():
        with pytest.raises(CannotOpen, match=reason) as raised:
            await patient(url).open()
        assert PASSWORD not in str(raised.value)
    assert YET not in caplog.text
    assert PASSWORD not in caplog.text
    assert any('password authentication failed for user "locked"' in message for message in caplog.messages)


# -- what callers hear --------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_callers_are_not_told_where_the_database_is(cluster: Cluster, tmp_path: Path) -> None:
    store = PostgresStore(cluster.store_url(tmp_path))
    rig = Rig(lambda: store)
    await rig.open()
    await rig.create("orders")
    cluster.stop()
    told: set[str] = set()
    for _ in range(3):
        attempts = (
            rig.send_all("orders", [Draft(body=b"x")]), rig.receive("orders"), rig.browse("orders"), rig.create("more"),
        )  # fmt: skip
        for outcome in await asyncio.gather(*attempts, return_exceptions=True):
            assert isinstance(outcome, Unavailable)
            told.add(str(outcome))
        told.add(str(store.unavailable_reason))
    for text in told:
        assert text.startswith("the database cannot be reached")
        assert str(cluster.folder) not in text
        assert "5432" not in text
    await rig.close()


async def test_what_the_database_refuses_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    error = psycopg.errors.InsufficientPrivilege('permission denied for table "journal"')
    assert str(refusal(error)) == "the database refused (SQLSTATE 42501); the server's log says more"
    assert any('permission denied for table "journal"' in message for message in caplog.messages)
    assert not may_pass(error)


async def test_a_database_that_takes_no_writes_or_has_no_room_is_named_as_that() -> None:
    assert "changing over" in sentence(psycopg.errors.ReadOnlySqlTransaction())
    assert "disk is full" in sentence(psycopg.errors.DiskFull())
    assert "max_connections" in sentence(psycopg.errors.TooManyConnections())
    assert "read-only" in sentence(psycopg.OperationalError("session is read-only"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://courier:p@ss/word@db.example/courier",
        "postgresql://courier:p%40ss%2Fword@db.example/courier",
        "host=db.example user=courier password=p@ss/word",
    ],
)
def test_a_password_does_not_get_into_the_log(url: str) -> None:
    error = psycopg.OperationalError('could not translate host name "ss/word@db.example"\nof p@ss/word')
    text = detail(error, url)
    assert "p@ss/word" not in text
    assert "\n" not in text


def test_the_logs_line_has_an_end() -> None:
    assert len(detail(psycopg.OperationalError("x" * 10_000))) == 500
