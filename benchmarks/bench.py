"""What a scenario gets: how long to measure, a place for files, and servers when it asks for them."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from benchmarks.client import BODY, Client
from benchmarks.load import Load, Request, repeat
from benchmarks.measure import Probe
from benchmarks.processes import Bare, Courier


class Bench:
    """The yardstick runs all the time; every scenario gets a Courier of its own on an empty data directory."""

    def __init__(self, directory: Path, *, rounds: int, seconds: int, backlog: int) -> None:
        self.directory = directory
        self.rounds = rounds
        self.seconds = seconds
        self.backlog = backlog
        self._names = itertools.count()
        self._stack = contextlib.ExitStack()
        self._bare: Bare | None = None

    @property
    def bare(self) -> Bare:
        if self._bare is None:
            self._bare = self._stack.enter_context(Bare(self.directory))
        return self._bare

    @contextlib.contextmanager
    def courier(self) -> Iterator[tuple[Courier, Client]]:
        with Courier(self.new_data()) as server:
            yield server, Client(server.port)

    def new_data(self) -> Path:
        return self.directory / f"data-{next(self._names)}"

    def file(self, document: object) -> Path:
        """A file that holds the document as JSON, for wrk to send."""
        path = self.directory / f"body-{next(self._names)}.json"
        path.write_bytes(msgspec.json.encode(document))
        return path

    def bare_probe(self, connections: int) -> Probe:
        """Requests a second of the bare server: one message each, as the native dialect would send it."""
        request = Request("POST", "/", self.file({"body": BODY}))
        return lambda: repeat(self.bare, request, connections=connections, seconds=self.seconds).rate

    def send_probe(self, server: Courier, request: Request, *, connections: int, tally: "Tally") -> Probe:
        """Messages a second that the server takes, counted in `tally`."""

        def probe() -> float:
            load = repeat(server, request, connections=connections, seconds=self.seconds)
            tally.add(load, load.count * request.messages)
            return load.rate * request.messages

        return probe

    def close(self) -> None:
        self._stack.close()


class Tally:
    """How many messages a server has said it took, to be compared with what is in the queue."""

    def __init__(self) -> None:
        self.messages = 0
        self.loads: list[Load] = []

    def add(self, load: Load, messages: int) -> None:
        self.loads.append(load)
        self.messages += messages

    def check(self, waiting: Callable[[], int]) -> None:
        """An answer that was counted must be a message that is there; the last answers may be uncounted."""
        if (found := waiting()) < self.messages:
            raise SystemExit(f"{self.messages} messages were accepted and only {found} are in the queue")

    def latency(self) -> dict[str, float]:
        middle = sorted(self.loads, key=lambda load: load.p50_ms)[len(self.loads) // 2]
        return {"p50_ms": middle.p50_ms, "p99_ms": middle.p99_ms}
