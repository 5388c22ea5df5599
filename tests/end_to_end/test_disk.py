"""A disk that is full, fails, cannot be written to or has lost a bit: refused in plain words, and nothing lost."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from couriermq.storage.sqlite import care
from tests.support.eventually import eventually_sync
from tests.support.server import COMMAND, ServerProcess, environ, start_server

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
QUEUES = "/courier/v1/tenants/default/queues"
BODY = "x" * 20_000


def mount(*arguments: object) -> None:
    done = subprocess.run(["mount", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"these tests mount small disks and must run as root: {done.stderr}"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A data directory with a disk of 48 MiB to itself."""
    path = tmp_path / "data"
    path.mkdir()
    mount("-t", "tmpfs", "-o", "size=48m", "courier-test", path)
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture
def server(disk: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    with start_server(tmp_path, data=disk, min_free_bytes=16 * MIB) as server:
        yield server


class Client:
    """Sends, receives and acks over HTTP, and keeps count of what was accepted."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.session = server.session
        self.accepted: list[str] = []

    def post(self, path: str, body: dict[str, Any]) -> requests.Response:
        return self.session.post(f"{self.server.url}{QUEUES}{path}", json=body, timeout=20)

    def get(self, path: str) -> requests.Response:
        return self.session.get(f"{self.server.url}{path}", timeout=20)

    def send(self) -> requests.Response:
        id_ = f"m{len(self.accepted)}"
        response = self.post("/orders/messages", {"id": id_, "body": BODY})
        if response.status_code == 201:
            self.accepted.append(id_)
        return response

    def send_until_refused(self) -> requests.Response:
        while (response := self.send()).status_code == 201:
            assert len(self.accepted) < 10_000
        return response

    def drain(self) -> list[str]:
        """Receive and ack everything, one by one."""
        received = []
        while leases := self.post("/orders/receive", {"limit": 10}).json()["leases"]:
            for lease in leases:
                received.append(lease["message"]["id"])
                answer = self.post("/orders/ack", {"receipt": lease["receipt"]})
                assert answer.status_code == 200, answer.text
        return received

    def waiting(self) -> int:
        answer = self.get(f"{QUEUES}/orders/counters")
        assert answer.status_code == 200, answer.text
        return int(answer.json()["total_count"])


@pytest.fixture
def client(server: ServerProcess) -> Client:
    client = Client(server)
    assert client.post("", {"name": "orders"}).status_code == 201
    return client


@contextlib.contextmanager
def ballast(disk: Path, *, leave: int) -> Iterator[None]:
    """Somebody else's file takes all room on the disk but `leave` bytes."""
    path = disk / "ballast"
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, shutil.disk_usage(disk).free - leave))
    try:
        yield
    finally:
        path.unlink()


def assert_refused(response: requests.Response, words: str) -> None:
    assert response.status_code == 503, response.text
    assert int(response.headers["Retry-After"]) >= 1
    assert words in response.json()["detail"]


# -- full -----------------------------------------------------------------------------------------------------


def test_a_full_disk_refuses_messages_and_still_gives_out_and_acks_what_it_holds(client: Client) -> None:
    assert_refused(client.send_until_refused(), "almost full")
    assert len(client.accepted) > 100
    assert client.get("/readyz").status_code == 503
    assert client.waiting() == len(client.accepted)
    assert client.get("/healthz").status_code == 200
    assert client.drain() == client.accepted
    assert client.waiting() == 0
    # The room that acked messages left is room for new ones, once their bodies are trimmed.
    eventually_sync(lambda: client.send().status_code == 201)


def test_a_disk_with_room_again_takes_messages_again(client: Client, disk: Path) -> None:
    client.send()
    with ballast(disk, leave=4 * MIB):
        assert_refused(client.send(), "almost full")
        assert client.get(f"{QUEUES}/orders/messages").json()["messages"][0]["id"] == "m0"
    assert client.send().status_code == 201
    assert client.get("/readyz").status_code == 200
    assert client.drain() == client.accepted == ["m0", "m1"]


def test_a_disk_without_a_single_free_byte_harms_nothing(client: Client, disk: Path) -> None:
    for _ in range(20):
        client.send()
    (lease,) = client.post("/orders/receive", {"limit": 1}).json()["leases"]
    with ballast(disk, leave=0):
        for _ in range(20):
            assert client.send().status_code == 503
            answer = client.post("/orders/ack", {"receipt": lease["receipt"]})
            assert answer.status_code in {200, 409, 503}, answer.text
            assert client.waiting() in {19, 20}
        assert client.get("/courier/v1/journal/events?limit=5").status_code == 200
    assert client.send().status_code == 201
    client.post("/orders/ack", {"receipt": lease["receipt"]})  # in case it was refused above
    assert client.waiting() == 20
    assert client.drain() == client.accepted[1:]


def test_a_server_killed_on_a_full_disk_starts_again_with_all_it_held(client: Client, disk: Path) -> None:
    for _ in range(50):
        client.send()
    with ballast(disk, leave=0):
        client.send()
        client.server.kill()
    client.server.start()
    assert client.drain() == client.accepted
    client.server.stop()
    assert care.check(disk) == []


def test_a_full_disk_does_not_keep_courier_from_starting_to_give_out_what_it_holds(client: Client, disk: Path) -> None:
    for _ in range(10):
        client.send()
    client.server.stop()
    with ballast(disk, leave=2 * MIB):
        client.server.start()
        assert_refused(client.send(), "almost full")
        assert client.drain() == client.accepted


# -- failing --------------------------------------------------------------------------------------------------


FAILING_SERVER = """
import os, sys
from pathlib import Path
from couriermq.storage.sqlite.store import SqliteStore

def sync(descriptor, told=Path(os.environ.pop("DISK_IS_BROKEN"))):
    if told.exists():
        raise OSError(5, "Input/output error")
    os.fdatasync(descriptor)

SqliteStore.__init__.__kwdefaults__["sync"] = sync
from couriermq.cli.app import main
sys.exit(main(["serve"]))
"""


@contextlib.contextmanager
def failing_server(tmp_path: Path) -> Iterator[tuple[ServerProcess, Path]]:
    """A server whose syncs fail once a file is there."""
    broken = tmp_path / "broken"
    data = tmp_path / "data"
    data.mkdir()
    server = ServerProcess(data, {})
    server.prefix = ["env", f"DISK_IS_BROKEN={broken}", sys.executable, "-c", FAILING_SERVER]
    server.start()
    try:
        yield server, broken
    finally:
        if server.running:
            server.kill()


def test_a_server_whose_sync_fails_answers_with_an_error_and_ends(tmp_path: Path) -> None:
    with failing_server(tmp_path) as (server, broken):
        client = Client(server)
        client.post("", {"name": "orders"})
        for _ in range(3):
            assert client.send().status_code == 201
        broken.touch()
        refused = client.send()
        assert_refused(refused, "did not take the last write")
        assert server.wait() == 74
        assert "Courier stops" in server.output
        assert "because the disk did not take the last write: [Errno 5] Input/output error" in server.output
        assert "Traceback" not in server.output
        broken.unlink()
        server.start()
        assert client.drain()[:3] == client.accepted
        assert server.stop() == 0
    assert care.check(tmp_path / "data") == []


SENDS = {
    "cloudflare": ("POST", "/client/v4/accounts/default/queues/{id}/messages", {"body": {}}),
    "anypoint": (
        "PUT",
        "/api/v1/organizations/default/environments/default/destinations/orders/messages/m-1",
        {"headers": {}, "body": "x"},
    ),
    "discue": ("POST", "/v1/queues/{id}/messages", {"data": "x"}),
}


@pytest.mark.parametrize("dialect", SENDS)
def test_every_dialect_answers_503_when_the_sync_fails(tmp_path: Path, dialect: str) -> None:
    method, path, body = SENDS[dialect]
    with failing_server(tmp_path) as (server, broken):
        queue = server.session.post(f"{server.url}{QUEUES}", json={"name": "orders"}, timeout=20).json()
        broken.touch()
        url = f"{server.url}{path.format(id=queue['id'])}"
        headers = {"X-API-KEY": server.token} if dialect == "discue" else server.session.headers
        answer = requests.request(method, url, json=body, headers=headers, timeout=20)
        assert answer.status_code == 503, answer.text
        assert server.wait() == 74


# -- unusable from the start ----------------------------------------------------------------------------------


def refusal(tmp_path: Path, data: Path) -> str:
    """What a server says that will not start on a data directory."""
    done = subprocess.run(
        COMMAND, env=environ(data=data, port=0), cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_read_only_disk_is_refused_at_the_start(disk: Path, tmp_path: Path) -> None:
    mount("-o", "remount,ro", disk)
    assert "Read-only file system" in refusal(tmp_path, disk)


def test_data_that_became_read_only_is_refused_at_the_start(client: Client, disk: Path, tmp_path: Path) -> None:
    client.send()
    client.server.stop()
    mount("-o", "remount,ro", disk)
    assert "Read-only file system" in refusal(tmp_path, disk)
    mount("-o", "remount,rw", disk)
    client.server.start()
    assert client.drain() == client.accepted


def test_a_file_in_place_of_the_data_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("I was here first")
    assert "cannot be used" in refusal(tmp_path, tmp_path / "file")


def test_a_second_server_on_the_same_data_is_refused(client: Client, disk: Path, tmp_path: Path) -> None:
    assert "in use by another Courier" in refusal(tmp_path, disk)
    assert client.send().status_code == 201


# -- damaged --------------------------------------------------------------------------------------------------


def test_a_flipped_bit_in_the_structure_of_the_data_is_found(client: Client, disk: Path) -> None:
    for _ in range(100):
        client.send()
    client.drain()
    client.send()
    client.server.stop()
    assert care.check(disk) == []
    database = disk / "courier.db"
    with contextlib.closing(sqlite3.connect(database)) as db:
        db.execute("VACUUM")  # what is in pages that are free is nobody's
    sound = database.read_bytes()
    page_size = int.from_bytes(sound[16:18], "big")
    in_use = [at for at in range(page_size, len(sound), page_size) if sound[at] in {2, 5, 10, 13}]
    missed = [at for at in in_use if not _found(database, sound, at)]
    assert in_use
    assert missed == []


def _found(database: Path, sound: bytes, at: int) -> bool:
    """Whether a check finds the highest bit flipped in the byte that says of which kind a page is."""
    damaged = bytearray(sound)
    damaged[at] ^= 0x80
    database.write_bytes(damaged)
    return care.check(database.parent) != []
