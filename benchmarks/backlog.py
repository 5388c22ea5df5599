"""What a million waiting messages cost: time to receive, memory, and time to start."""

import re
import time
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench
from benchmarks.client import Client
from benchmarks.measure import Row, alternate
from benchmarks.processes import Courier
from couriermq.journal.archive import LOOK_MS
from couriermq.storage.sqlite.connection import PRAGMAS

FEW = 1_000
BATCH = 100
TURNS_A_ROUND = 20
IDLE_SECONDS = LOOK_MS / 1_000 + 1
"""As long as a server does nothing while its archive looks once whether there is something to seal."""
IDLE_CPU_S = 0.05
"""Processor time within that time below which a server counts as idle, for each second."""
IDLE_WITHIN_SECONDS = 120
CACHE_BYTES = max(int(kib) for kib in re.findall(r"cache_size = -(\d+)", "; ".join(PRAGMAS))) * 1024
"""What SQLite may keep of the file in memory, whatever the backlog."""


def receive_cost(bench: Bench) -> list[Row]:
    """Receive and ack a hundred with many waiting, by the same with few; sends in between keep the number level."""
    with bench.courier() as few_server, bench.courier() as many_server:
        few, many = _Cycles(*few_server, waiting=FEW), _Cycles(*many_server, waiting=bench.backlog)
        turns = alternate(few, [many], rounds=bench.rounds * 2)
    return [
        Row(
            name="backlog",
            what=f"receive 100 + ack 100, {bench.backlog:,} waiting",
            value=turns.figure() * 1_000,
            unit="ms",
            reference=f"{FEW:,} waiting",
            ratios=turns.ratios(),
            bar=1.2,
            at_least=False,
            cpu_ratio=many.cpu_us / few.cpu_us,
            cpu_us=many.cpu_us,
            reference_cpu_us=few.cpu_us,
        )
    ]


class _Cycles:
    """Sends, receives and acks batches at a steady backlog; a call returns the median time of receive and ack."""

    def __init__(self, server: Courier, client: Client, *, waiting: int) -> None:
        client.create_queue("orders")
        client.fill("orders", waiting)
        _wait_until_idle(server)
        self._server = server
        self._client = client
        self._messages = 0
        self._cpu_s = 0.0

    def __call__(self) -> float:
        before, times = self._server.cpu_s(), []
        for _ in range(TURNS_A_ROUND):
            self._client.fill("orders", BATCH)
            times.append(self._client.time_receive_and_ack("orders", limit=BATCH))
        self._cpu_s += self._server.cpu_s() - before
        self._messages += TURNS_A_ROUND * BATCH
        return median(times)

    @property
    def cpu_us(self) -> float:
        """Processor time of the server for a message that is sent, received and acked."""
        return self._cpu_s * 1e6 / self._messages


def _wait_until_idle(server: Courier) -> None:
    """The server archives what it was filled with in the background; that is no part of a cycle's cost."""
    deadline = time.monotonic() + IDLE_WITHIN_SECONDS
    while time.monotonic() < deadline:
        before = server.cpu_s()
        time.sleep(IDLE_SECONDS)
        if server.cpu_s() - before < IDLE_CPU_S * IDLE_SECONDS:
            return
    raise SystemExit(f"the server was still busy {IDLE_WITHIN_SECONDS} s after it was filled")


def memory_and_start(bench: Bench) -> list[Row]:
    """Memory for each waiting message, and how soon a server with all of them answers."""
    data = bench.new_data()
    with Courier(data) as server:
        client = Client(server.port)
        client.create_queue("orders")
        _work(client)
        before = server.memory_bytes()
        client.fill("orders", bench.backlog - client.waiting("orders"))
        _work(client)
        grown = server.memory_bytes() - before
    with Courier(data) as server:
        _work(Client(server.port))
        restarted = server.memory_bytes() - before
    return [_memory_row(bench, grown, restarted), _start_row(bench, data)]


def _work(client: Client) -> None:
    """Bring every code path and cache of the server to its normal size."""
    client.fill("orders", FEW)
    for _ in range(TURNS_A_ROUND):
        client.fill("orders", BATCH)
        client.time_receive_and_ack("orders", limit=BATCH)


def _memory_row(bench: Bench, grown: int, restarted: int) -> Row:
    figures = [max(0, extra - CACHE_BYTES) / bench.backlog for extra in (grown, restarted)]
    return Row(
        name="memory",
        what=f"memory a message, {bench.backlog:,} waiting",
        value=max(figures),
        unit="bytes",
        reference="beyond SQLite's cache",
        ratios=[max(figures)],
        bar=64,
        at_least=False,
        notes={"grown_bytes": grown, "restarted_bytes": restarted, "cache_bytes": CACHE_BYTES},
    )


def _start_row(bench: Bench, data: Path) -> Row:
    """Half of the starts follow a kill, so that the write-ahead log has to be recovered."""
    times = [_start(data, kill=n % 2 == 0) for n in range(bench.rounds + 1)][1:]
    return Row(
        name="start",
        what=f"start with {bench.backlog:,} waiting",
        value=median(times),
        unit="s",
        reference="seconds",
        ratios=times,
        bar=1.0,
        at_least=False,
    )


def _start(data: Path, *, kill: bool) -> float:
    with Courier(data) as server:
        if kill:
            Client(server.port).fill("orders", FEW)
            server.kill()
        return server.start_s
