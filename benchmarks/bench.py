"""What a scenario gets: how long to measure, a place for files, and servers when it asks for them."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.client import BODY, Client
from benchmarks.load import Chain, Load, Request, chain, drain, repeat
from benchmarks.pgmq import Pgmq
from benchmarks.processes import Bare, Courier, Server


class Bench:
    """The yardstick runs all the time; every scenario gets a Courier of its own on an empty data directory."""

    def __init__(self, directory: Path, *, rounds: int, seconds: int, backlog: int, soak_seconds: int) -> None:
        self.directory = directory
        self.rounds = rounds
        self.seconds = seconds
        self.backlog = backlog
        self.soak_seconds = soak_seconds
        self._names = itertools.count()
        self._stack = contextlib.ExitStack()
        self._bare: Bare | None = None
        self.pgmq = self._stack.enter_context(contextlib.closing(Pgmq(directory)))

    @property
    def bare(self) -> Bare:
        if self._bare is None:
            self._bare = self._stack.enter_context(Bare(self.directory))
        return self._bare

    @contextlib.contextmanager
    def courier(self, settings: dict[str, str] | None = None) -> Iterator[tuple[Courier, Client]]:
        with Courier(self.new_data(), settings) as server:
            yield server, Client(server.port)

    def new_data(self) -> Path:
        return self.directory / f"data-{next(self._names)}"

    def file(self, document: object) -> Path:
        """A file that holds the document as JSON, for wrk to send."""
        path = self.directory / f"body-{next(self._names)}.json"
        path.write_bytes(msgspec.json.encode(document))
        return path

    def bare_meter(self, connections: int) -> "Meter":
        """Requests of the bare server: one message each, as the native dialect would send it."""
        return self.send_meter(self.bare, Request("POST", "/", self.file({"body": BODY})), connections=connections)

    def send_meter(self, server: Server, request: Request, *, connections: int) -> "Meter":
        """Messages that the server takes."""
        return Meter(
            server,
            lambda: repeat(server, request, connections=connections, seconds=self.seconds),
            messages=request.messages,
        )

    def chain_meter(self, server: Server, work: Chain, *, clients: int) -> "Meter":
        """Messages that go through the chain."""
        return Meter(server, lambda: chain(server, work, clients=clients, seconds=self.seconds))

    def drain_meter(self, server: Server, path: str, *, limit: int, connections: int) -> "Meter":
        """Messages that are received and acked."""
        return Meter(server, lambda: drain(server, path, limit=limit, connections=connections, seconds=self.seconds))

    def close(self) -> None:
        self._stack.close()


class Meter:
    """Measures a server's work each time it is called, and remembers the sum of it."""

    def __init__(self, server: Server, load: Callable[[], Load], *, messages: int = 1) -> None:
        self._server = server
        self._load = load
        self._messages_each = messages
        self._loads: list[Load] = []
        self._cpu_s = 0.0

    def __call__(self) -> float:
        """Messages a second, in one turn."""
        before = self._server.cpu_s()
        load = self._load()
        self._cpu_s += self._server.cpu_s() - before
        self._loads.append(load)
        return load.rate * self._messages_each

    @property
    def messages(self) -> int:
        return sum(load.count for load in self._loads) * self._messages_each

    @property
    def cpu_us(self) -> float:
        """Processor time for each message, all threads; steadier than a rate when others use the machine too."""
        return self._cpu_s * 1e6 / max(1, self.messages)

    def latency(self) -> dict[str, float]:
        middle = sorted(self._loads, key=lambda load: load.p50_ms)[len(self._loads) // 2]
        return {"p50_ms": middle.p50_ms, "p99_ms": middle.p99_ms}


def check_stored(client: Client, meters: Sequence[Meter]) -> None:
    """An answer that was counted must be a message that is there; the last answers may be uncounted."""
    accepted, found = sum(meter.messages for meter in meters), client.waiting("orders")
    if found < accepted:
        raise SystemExit(f"{accepted} messages were accepted and only {found} are in the queue")
