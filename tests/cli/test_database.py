"""Looking after a store in PostgreSQL from the command line: doctor, backup, restore."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Courier
from tests.support.engines import forget
from tests.support.postgres import shared_cluster
from tests.support.server import start_server

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    yield shared_cluster().store_url(tmp_path / "one")
    forget(tmp_path / "one")


def test_a_database_is_checked_copied_and_brought_back(store: str, tmp_path: Path) -> None:
    with start_server(tmp_path, data=tmp_path / "data", store=store) as server:
        server.data.chmod(0o700)
        courier = Courier(
            COURIER_URL=server.url, COURIER_TOKEN=server.token, COURIER_DATA=str(server.data), COURIER_STORE=store
        )
        courier.ok("queues", "create", "orders")
        courier.ok("send", "orders", "x", "--repeat", 10)
        run = courier.ok("doctor")
        assert {line.split()[0] for line in run.lines} == {"ok"}, run.out
        assert "the counters in the database agree with its messages" in run.out
        schema = shared_cluster()._schemas[tmp_path / "one"]
        shared_cluster().execute(f"INSERT INTO {schema}.quarantine VALUES (1, 1, 3, NULL, 0)")
        assert courier.ok("backup", tmp_path / "copy", "--json").json["byte_count"] > 0
    again = shared_cluster().store_url(tmp_path / "again")
    told = courier.ok("restore", tmp_path / "copy", COURIER_STORE=again)
    assert "3 messages of queue 1 were damaged and are set aside" in told.err
    with start_server(tmp_path, data=tmp_path / "data2", store=again) as server:
        restored = Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token)
        assert len(restored.ok("receive", "orders", "--limit", 20, "--json").lines) > 0
    forget(tmp_path / "again")


def test_a_database_whose_figures_are_wrong_is_found(store: str, tmp_path: Path) -> None:
    with start_server(tmp_path, data=tmp_path / "data", store=store) as server:
        courier = Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token, COURIER_STORE=store)
        courier.ok("queues", "create", "orders")
        courier.ok("send", "orders", "x")
    schema = shared_cluster()._schemas[tmp_path / "one"]
    shared_cluster().execute(f"UPDATE {schema}.tally SET ready = ready + 1")
    run = courier("doctor", "--data", tmp_path / "data", COURIER_URL="")
    assert (run.code, "but holds" in run.out) == (1, True)


def test_a_database_that_is_empty_or_away_is_told_in_a_sentence(tmp_path: Path) -> None:
    empty = shared_cluster().url("nothing_here")
    shared_cluster().execute("CREATE SCHEMA IF NOT EXISTS nothing_here")
    run = Courier()("doctor", COURIER_STORE=empty, cwd=tmp_path)
    assert (run.code, "holds no data of Courier" in run.out) == (1, True)
    away = Courier()("backup", tmp_path / "copy", COURIER_STORE=f"postgresql://courier@/postgres?host={tmp_path}")
    assert (away.code, "the database cannot be opened" in away.err) == (1, True)
    assert not (tmp_path / "copy").exists()


def test_a_database_of_an_earlier_version_is_not_called_sound(store: str, tmp_path: Path) -> None:
    with start_server(tmp_path, data=tmp_path / "data", store=store):
        pass
    shared_cluster().change(tmp_path / "one", "UPDATE schema_version SET version = version - 1")
    run = Courier(COURIER_STORE=store)("doctor", cwd=tmp_path)
    shared_cluster().change(tmp_path / "one", "UPDATE schema_version SET version = version + 1")
    assert run.code == 0, run.out
    assert "written by an earlier version of Courier: not checked" in run.out
    assert "agree with its messages" not in run.out
