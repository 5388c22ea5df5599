"""How much a message costs the disk: the log, and the copy of it into the database."""

from benchmarks.bench import Bench
from benchmarks.client import Client
from benchmarks.measure import Row
from benchmarks.processes import Courier

BATCH = 100
BEFORE = 2_027
"""Bytes for each message before bodies were stored once; measured with this row."""
CYCLES = 300
"""In a round."""


def bytes_written(bench: Bench) -> list[Row]:
    """Bytes for each message that is sent, received and acked, a hundred at a time; without the archive."""
    with Courier(bench.new_data(), {"archive_enabled": "false"}) as server:
        client = Client(server.port)
        client.create_queue("orders")
        _cycles(client, count=50)
        figure = _measure(server, client, count=CYCLES * bench.rounds)
    return [
        Row(
            name="written",
            what=f"bytes written a message, sent, received and acked by {BATCH}",
            value=figure,
            unit="bytes",
            reference=f"{BEFORE:,} bytes before packs",
            ratios=[figure / BEFORE],
            bar=0.5,
            at_least=False,
        )
    ]


def _measure(server: Courier, client: Client, *, count: int) -> float:
    """Over all rounds at once: the log is copied into the database in some rounds and not in others."""
    before = server.written_bytes()
    _cycles(client, count=count)
    return (server.written_bytes() - before) / (count * BATCH)


def _cycles(client: Client, *, count: int) -> None:
    for _ in range(count):
        client.fill("orders", BATCH)
        client.time_receive_and_ack("orders", limit=BATCH)
