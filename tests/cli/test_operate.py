"""Running and looking after a server on this machine: serve, doctor, backup, restore, version."""

import gzip
import json
import os
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from couriermq import __version__
from couriermq.storage.sqlite.checksums import COLUMNS, register
from tests.cli.conftest import Courier
from tests.support.eventually import eventually_sync
from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow
SCHEMA_3 = Path(__file__).parents[1] / "storage" / "sqlite" / "data" / "schema_3.db.gz"


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that the test may stop."""
    with start_server(tmp_path) as process:
        yield process


def at(server: ServerProcess) -> Courier:
    return Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token, COURIER_DATA=str(server.data))


def await_file(path: Path, process: subprocess.Popen[str]) -> str:
    def content() -> str:
        assert process.poll() is None, process.communicate()[1]
        return path.read_text().strip() if path.exists() else ""

    return eventually_sync(content)


def test_serve_runs_until_it_is_told_to_stop(tmp_path: Path) -> None:
    shell = Courier(COURIER_ROOT_TOKEN="root-token", COURIER_URL="http://ignored", COURIER_TENANT="ignored")
    with shell.running("serve", "--port", 0, "--data", tmp_path / "data", "--set", "shutdown_ms=5000") as serve:
        url = f"http://127.0.0.1:{await_file(tmp_path / 'data' / 'port', serve)}"
        client = Courier(COURIER_URL=url, COURIER_TOKEN="root-token")
        client.ok("queues", "create", "orders")
        serve.send_signal(signal.SIGTERM)
        assert serve.wait(30) == 0


def test_the_first_start_shows_a_token_that_works(tmp_path: Path) -> None:
    with Courier().running("serve", "--port", 0, "--data", tmp_path / "data") as serve:
        port = await_file(tmp_path / "data" / "port", serve)
        assert serve.stderr is not None
        line = next(line for line in serve.stderr if "export COURIER_TOKEN=" in line)
        token = line.strip().removeprefix("export COURIER_TOKEN=")
        Courier(COURIER_URL=f"127.0.0.1:{port}", COURIER_TOKEN=token).ok("queues", "create", "orders")
        serve.send_signal(signal.SIGTERM)
        assert serve.wait(30) == 0


def test_a_data_directory_that_is_in_use_is_refused_with_code_1(own_server: ServerProcess) -> None:
    run = Courier()("serve", "--port", 0, "--data", own_server.data)
    assert run.code == 1
    assert "in use by another Courier" in run.err


def test_a_setting_from_the_file_is_heard_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "courier.toml").write_text("colour = 'red'\n")
    run = Courier()("serve", cwd=tmp_path)
    assert run.code == 2
    assert "sets 'colour', which is not a setting" in run.err


def test_a_healthy_server_and_its_data_have_nothing_wrong(own_server: ServerProcess) -> None:
    courier = at(own_server)
    courier.ok("queues", "create", "orders")
    courier.ok("send", "orders", "x", "--repeat", 10)
    own_server.data.chmod(0o700)
    run = courier.ok("doctor")
    assert {line.split()[0] for line in run.lines} == {"ok"}, run.out
    for words in ("is intact", "are free on the disk", "is alive", "is ready", "which may do everything"):
        assert words in run.out
    assert {finding["level"] for finding in courier.ok("doctor", "--json").json} == {"good"}


def test_counters_that_disagree_with_the_messages_are_found(own_server: ServerProcess) -> None:
    courier = at(own_server)
    courier.ok("queues", "create", "orders")
    courier.ok("send", "orders", "x")
    own_server.stop()
    with sqlite3.connect(own_server.data / "courier.db") as database:
        register(database)
        database.execute("UPDATE tally SET ready = ready + 1")
        database.execute(f"UPDATE tally SET crc = crc({COLUMNS['tally']})")
    run = courier("doctor", "--json", COURIER_URL="")
    wrong = [finding["sentence"] for finding in run.json if finding["level"] == "wrong"]
    assert run.code == 1
    assert len(wrong) == 1
    assert "but holds" in wrong[0]
    assert "courier restore" in run.out


def test_a_damaged_database_is_found(own_server: ServerProcess) -> None:
    courier = at(own_server)
    courier.ok("queues", "create", "orders")
    own_server.stop()
    file = own_server.data / "courier.db"
    file.write_bytes(file.read_bytes()[:4096] + os.urandom(8192))
    run = courier("doctor", COURIER_URL="")
    assert run.code == 1
    assert "wrong" in run.out
    assert "Traceback" not in run.err


def test_a_server_that_is_down_and_a_directory_that_is_missing_are_wrong(tmp_path: Path) -> None:
    down = Courier()("doctor", "--url", "http://127.0.0.1:1", cwd=tmp_path)
    assert (down.code, "nobody listens there" in down.out) == (1, True)
    missing = Courier()("doctor", "--data", tmp_path / "nowhere")
    assert (missing.code, "there is no data directory" in missing.out) == (1, True)


def test_a_token_that_the_server_does_not_know_is_wrong(own_server: ServerProcess) -> None:
    run = at(own_server)("doctor", COURIER_TOKEN="wrong")
    assert run.code == 1
    assert "the server refuses the token" in run.out


def test_a_directory_that_others_can_read_is_worth_advice_only(own_server: ServerProcess) -> None:
    own_server.data.chmod(0o755)
    run = at(own_server).ok("doctor")
    assert f"chmod 700 {own_server.data}" in run.out


def test_a_backup_of_a_running_server_brings_everything_back(own_server: ServerProcess, tmp_path: Path) -> None:
    courier = at(own_server)
    courier.ok("queues", "create", "orders")
    courier.ok("send", "orders", "--lines", stdin=b"".join(b"%d\n" % n for n in range(500)))
    made = courier.ok("backup", tmp_path / "copy", "--json")
    assert made.json["byte_count"] > 0
    assert json.loads(made.err.splitlines()[-1])["ended"] == "done"
    courier.ok("queues", "purge", "orders", "--yes")  # after the copy: it must come back
    restored = courier.ok("restore", tmp_path / "copy", "--data", tmp_path / "again").out
    assert "found" not in restored
    assert f"courier serve --data {tmp_path}/again" in restored
    with start_server(tmp_path, data=tmp_path / "again") as second:
        bodies = at(second).ok("receive", "orders", "-n", 1000, "--raw").lines
    assert bodies == [str(n) for n in range(500)]


def test_a_backup_overwrites_nothing(own_server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary").write_text("dear")
    run = at(own_server)("backup", tmp_path / "mine")
    assert (run.code, "not empty" in run.err) == (1, True)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["diary"]


def test_half_a_backup_is_not_left_behind(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "courier.db").write_bytes(os.urandom(8192))
    run = Courier()("backup", tmp_path / "copy", "--data", tmp_path / "data")
    assert run.code == 1
    assert "Traceback" not in run.err
    assert not (tmp_path / "copy").exists()


def test_a_restore_refuses_data_that_is_there_in_use_or_somebody_else_s(
    own_server: ServerProcess, tmp_path: Path
) -> None:
    courier = at(own_server)
    courier.ok("backup", tmp_path / "copy")
    in_use = courier("restore", tmp_path / "copy")
    assert (in_use.code, "is in use by another Courier" in in_use.err) == (1, True)
    own_server.stop()
    there = courier("restore", tmp_path / "copy")
    assert (there.code, "already holds data" in there.err) == (1, True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary").write_text("dear")
    other = courier("restore", tmp_path / "copy", "--data", tmp_path / "mine")
    assert (other.code, "it holds diary" in other.err) == (1, True)


def test_messages_that_were_set_aside_are_named_and_stop_no_copy(own_server: ServerProcess, tmp_path: Path) -> None:
    courier = at(own_server)
    own_server.stop()
    with closing(sqlite3.connect(own_server.data / "courier.db")) as database, database:
        database.execute("INSERT INTO quarantine VALUES (1, 1, 3, NULL, 0)")
    sentence = "3 messages of queue 1 were damaged and are set aside"
    made = courier.ok("backup", tmp_path / "copy")
    assert (sentence in made.err, "sound" in made.out) == (True, False)
    assert sentence in courier.ok("restore", tmp_path / "copy", "--data", tmp_path / "again").err
    told = courier.ok("restore", tmp_path / "copy", "--data", tmp_path / "once more", "--json")
    assert told.json["warnings"] == [sentence]
    found = courier("doctor", COURIER_URL="")
    assert (found.code, sentence in found.out, "everything else goes on" in found.out) == (1, True, True)


def test_data_of_an_earlier_version_is_not_called_sound(tmp_path: Path) -> None:
    data, words = tmp_path / "data", "written by an earlier version of Courier: not checked"
    data.mkdir(mode=0o700)
    (data / "courier.db").write_bytes(gzip.decompress(SCHEMA_3.read_bytes()))
    found = Courier().ok("doctor", "--data", data)
    assert (words in found.out, "is intact" in found.out) == (True, False)
    made = Courier().ok("backup", tmp_path / "copy", "--data", data)
    assert (words in made.err, "sound" in made.out) == (True, False)
    assert words in Courier().ok("restore", tmp_path / "copy", "--data", tmp_path / "again").err


def test_the_incarnations_of_a_store_are_shown(own_server: ServerProcess, tmp_path: Path) -> None:
    courier = at(own_server)
    (shard,) = courier.ok("store", "show", "--json").json["shards"]
    store = shard["identity"]["store"]
    assert courier.ok("store", "show").lines == [f"store {store}", "  incarnation 1"]
    courier.ok("backup", tmp_path / "copy")
    courier.ok("restore", tmp_path / "copy", "--data", tmp_path / "again")
    with start_server(tmp_path, data=tmp_path / "again") as second:
        first, _, present = at(second).ok("store", "show").lines
    assert first == f"store {store}"
    assert present.startswith("  incarnation 2")
    assert present.endswith("UTC: the data was restored from a backup")


def test_an_operator_can_have_the_next_start_begin_an_incarnation(own_server: ServerProcess, tmp_path: Path) -> None:
    courier = at(own_server)
    in_use = courier("store", "begin-incarnation")
    assert (in_use.code, "is in use by another Courier" in in_use.err) == (1, True)
    own_server.stop()
    told = courier.ok("store", "begin-incarnation", "--reason", "a snapshot of last night")
    assert "the next start begins a new incarnation" in told.out
    assert len(courier.ok("store", "show").lines) == 2  # not before
    own_server.start()
    assert courier.ok("store", "show").lines[-1].endswith("UTC: a snapshot of last night")
    at(own_server).ok("doctor")
    missing = courier("store", "begin-incarnation", "--data", tmp_path / "nowhere")
    assert (missing.code, "holds no courier.db" in missing.err) == (1, True)


def test_something_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    run = Courier()("restore", tmp_path, "--data", tmp_path / "new")
    assert (run.code, "is not sound" in run.err) == (1, True)


def test_version_names_what_it_stands_on() -> None:
    assert Courier().ok("--version").out == f"{__version__}\n"
    assert Courier().ok("version").out.startswith(f"courier {__version__} (Python 3.")
    assert set(json.loads(Courier().ok("version", "--json").out)) == {"courier", "python", "sqlite", "system"}
