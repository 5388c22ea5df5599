"""What the server and the commands write is for their user alone, however open the folder and the shell's umask are."""

import contextlib
import os
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Courier
from tests.support.server import COMMAND, ServerProcess, environ, start_server

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """The umask of most shells and containers."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """A data directory that a container runtime has made."""
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(0o755)
    return folder


def modes(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a draft that has just been renamed
            found[str(path.relative_to(folder))] = f"{stat.S_IMODE(path.stat().st_mode):o}"
    return found


def exposed(folder: Path) -> dict[str, str]:
    """What users other than the owner have any right to below a folder."""
    return {name: mode for name, mode in modes(folder).items() if int(mode, 8) & 0o077}


def at(server: ServerProcess) -> Courier:
    return Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token, COURIER_DATA=str(server.data))


def await_segment(folder: Path, server: ServerProcess) -> Path:
    while not (found := list(folder.glob("*.parquet"))):
        assert server.running, server.output
        time.sleep(0.02)  # another process seals: there is no clock of ours to move
    return found[0]


def fill(server: ServerProcess) -> Courier:
    courier = at(server)
    courier.ok("queues", "create", "orders")
    courier.ok("send", "orders", "secret")
    return courier


def test_everything_that_a_server_writes_into_an_open_volume_is_private(tmp_path: Path, volume: Path) -> None:
    with start_server(tmp_path, data=volume, archive_segment_ms=50) as server:
        fill(server)
        await_segment(volume / "archive", server)
        written = modes(volume)
        assert {"courier.db", "courier.db-wal", "courier.db-shm", "lock", "port", "archive"} <= written.keys()
        assert exposed(volume) == {}
        assert f"chmod 700 {volume}" in server.output
        assert stat.S_IMODE(volume.stat().st_mode) == 0o755  # the operator's own is left alone


def test_a_data_directory_of_its_own_is_private_and_needs_no_warning(tmp_path: Path) -> None:
    with start_server(tmp_path, data=tmp_path / "above" / "data") as server:
        assert exposed(server.data) == {}
        assert "other users" not in server.output


def test_what_an_older_version_left_open_is_closed_at_the_start(tmp_path: Path, volume: Path) -> None:
    with start_server(tmp_path, data=volume) as server:
        server.kill()
        for path in volume.iterdir():
            path.chmod(0o644 if path.is_file() else 0o755)
        server.start()
        assert exposed(volume).keys() <= {"archive"}  # a folder for which the warning names the command
        assert f"chmod 700 {volume}" in server.output


def test_copies_and_exports_are_private(tmp_path: Path, volume: Path) -> None:
    with start_server(tmp_path, data=volume) as server:
        courier = fill(server)
        for name in ("backup", "export"):
            (volume / name).mkdir(mode=0o755)
        courier.ok("backup", volume / "backup")
        courier.ok("export", "--to", volume / "export", "--tenant", "default")
        server.stop()
    (volume / "restored").mkdir(mode=0o755)
    courier.ok("restore", volume / "backup", "--data", volume / "restored")
    found = {name: mode for name, mode in exposed(volume).items() if "/" in name}
    assert found == {}
    assert {"backup/courier.db", "restored/courier.db", "export/queues.parquet"} <= modes(volume).keys()


def test_a_group_reads_the_archive_but_never_the_database_where_the_umask_says_so(tmp_path: Path) -> None:
    archive = tmp_path / "shared" / "archive"
    settings: dict[str, Any] = {"umask": "027", "archive": archive, "archive_segment_ms": 50}
    with start_server(tmp_path, **settings) as server:
        fill(server)
        segment = await_segment(archive, server)
        assert [f"{stat.S_IMODE(path.stat().st_mode):o}" for path in (archive, segment)] == ["750", "640"]
        assert modes(server.data)["courier.db"] == "600"
        assert "other users" not in server.output


def test_doctor_names_the_archive_that_others_can_read(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir(mode=0o755)
    (tmp_path / "data").mkdir(mode=0o700)
    run = Courier(COURIER_ARCHIVE=str(archive))("doctor", "--data", tmp_path / "data")
    assert f"chmod 700 {archive}" in run.out


def test_a_second_server_is_refused_although_the_lock_file_is_gone(tmp_path: Path) -> None:
    with start_server(tmp_path) as server:
        courier = fill(server)
        (server.data / "lock").unlink()
        for _ in range(2):  # the lock file that the first attempt leaves makes no difference
            second = subprocess.run(
                COMMAND, env=environ(data=server.data, port=0), capture_output=True, text=True, timeout=60, check=False
            )
            assert second.returncode == 1
            assert f"the data directory {server.data} is in use by another Courier" in second.stderr
        courier.ok("send", "orders", "still served")
        server.kill()
        server.start()  # the lock ends with its process
        assert at(server).ok("queues", "show", "orders", "--json").json["name"] == "orders"
