"""How much a message costs the disk: the log, and the copy of it into the database."""

from benchmarks.bench import Bench
from benchmarks.client import Client
from benchmarks.measure import Row
from benchmarks.processes import Courier

BATCH = 100
BEFORE = 2_027
"""Bytes for each message before bodies were stored once; measured with this row."""


def bytes_written(bench: Bench) -> list[Row]:
    """Bytes for each message that is sent, received and acked, a hundred at a time; without the archive."""
    with Courier(bench.new_data(), {"archive_enabled": "false"}) as server:
        client = Client(server.port)
        client.create_queue("orders")
        _cycles(client, count=50)
        figures = [_measure(server, client) for _ in range(bench.rounds)]
    return [
        Row(
            name="written",
            what=f"bytes written a message, sent, received and acked by {BATCH}",
            value=sorted(figures)[len(figures) // 2],
            unit="bytes",
            reference=f"{BEFORE:,} bytes before packs",
            ratios=[figure / BEFORE for figure in figures],
            bar=0.5,
            at_least=False,
        )
    ]


def _measure(server: Courier, client: Client, count: int = 300) -> float:
    before = server.written_bytes()
    _cycles(client, count=count)
    return (server.written_bytes() - before) / (count * BATCH)


def _cycles(client: Client, *, count: int) -> None:
    for _ in range(count):
        client.fill("orders", BATCH)
        client.time_receive_and_ack("orders", limit=BATCH)
