"""What archiving costs: sending to a server that seals all the time, against one that does not archive."""

import contextlib
import time
from pathlib import Path
from statistics import median

from benchmarks.bench import Bench, Meter
from benchmarks.client import BODY, QUEUES, Client
from benchmarks.load import Request, repeat
from benchmarks.measure import Row, alternate
from benchmarks.processes import Courier

ROUNDS = 3
SECONDS = 5
"""The factor by which a turn is longer than elsewhere: most of what is sent must be sealed in the same turn."""
SEALING = {"archive_segment_ms": "1000"}
PATIENCE_S = 120.0


def send_cost(bench: Bench, *, messages: int, connections: int, bar: float | None) -> list[Row]:
    """Send; whatever is a second old is sealed meanwhile."""
    drafts = {"messages": [{"body": BODY}] * messages} if messages > 1 else {"body": BODY}
    request = Request("POST", f"{QUEUES}/orders/messages", bench.file(drafts), messages=messages)
    with contextlib.ExitStack() as stack:
        archiving, plain = bench.new_data(), bench.new_data()
        with_archive = _Turn(bench, stack.enter_context(Courier(archiving, SEALING)), request, connections, archiving)
        without = _Turn(bench, stack.enter_context(Courier(plain, {"archive_enabled": "false"})), request, connections)
        turns = alternate(without, [with_archive], rounds=min(ROUNDS, bench.rounds))
        sealed = _sealed(archiving)
    if sealed < with_archive.meter.messages:
        raise SystemExit(f"{with_archive.meter.messages} messages were sent and only {sealed} events were sealed")
    return [
        Row(
            name="archive" if messages == 1 else f"archive-{messages}",
            what=f"send {messages} at a time, sealing every second",
            value=turns.figure(),
            unit="messages/s",
            reference="no archive",
            ratios=turns.ratios(),
            bar=bar,
            cpu_ratio=without.meter.cpu_us / with_archive.meter.cpu_us,
            cpu_us=with_archive.meter.cpu_us,
            reference_cpu_us=without.meter.cpu_us,
            notes={"without_per_s": median(turns.reference), "sealed_events": sealed},
        )
    ]


class _Turn:
    """One server's turn. The other must not begin before everything is sealed: it would pay for it."""

    def __init__(
        self, bench: Bench, server: Courier, request: Request, connections: int, archive: Path | None = None
    ) -> None:
        self._client = Client(server.port)
        self._client.create_queue("orders")
        self._data = archive
        seconds = bench.seconds * SECONDS
        self.meter = Meter(
            server,
            lambda: repeat(server, request, connections=connections, seconds=seconds),
            messages=request.messages,
        )

    def __call__(self) -> float:
        rate = self.meter()
        if self._data is not None:
            self._await_sealing(self._data)
        return rate

    def _await_sealing(self, data: Path) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while _sealed(data) < int(self._client.call("GET", "/courier/v1/journal")["next"]):
            if time.monotonic() > deadline:
                raise SystemExit(f"the archive has only {_sealed(data)} events")
            time.sleep(0.2)


def _sealed(data: Path) -> int:
    """Events in segments; the last name ends with the offset that follows."""
    return max((int(path.stem.partition("-")[2]) for path in (data / "archive").glob("*.parquet")), default=0)
