"""How much memory a server holds once it has sealed segments."""

import time
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, start_server

pytestmark = pytest.mark.slow

MIB = 1024 * 1024
SEGMENT_BYTES = 16 * MIB
SQLITE_CACHE = 64 * MIB
ARCHIVING = 76 * MIB
"""Arrow's libraries and what its allocator may hold on to; it was twice as much with an allocator of its own."""
BATCHES = 200
PATIENCE_S = 60.0


def private_bytes(server: ServerProcess) -> int:
    """Resident memory that is backed by no file."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("RssAnon:"))


def await_segments(server: ServerProcess, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(found := list((server.data / "archive").glob("*.parquet"))) < count:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)  # another process seals: there is no clock of ours to move


def test_a_server_gives_back_the_memory_that_sealing_took(tmp_path: Path) -> None:
    with start_server(tmp_path, engine="sqlite", archive_segment_bytes=SEGMENT_BYTES) as server:
        session, queues = server.session, f"{server.url}/courier/v1/tenants/default/queues"
        session.post(queues, json={"name": "orders"}, timeout=20).raise_for_status()
        batch = {"messages": [{"body": "x" * 130}] * 1_000}
        session.post(f"{queues}/orders/messages", json=batch, timeout=20).raise_for_status()
        before = private_bytes(server)
        for _ in range(BATCHES):
            session.post(f"{queues}/orders/messages", json=batch, timeout=20).raise_for_status()
        await_segments(server, 2)
        grown = private_bytes(server) - before
    assert grown < SQLITE_CACHE + ARCHIVING, f"{grown / MIB:.0f} MiB"
