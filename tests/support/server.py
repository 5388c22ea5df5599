"""A real Courier in its own process, to be called, stopped and killed."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import requests

from tests.support.engines import forget
from tests.support.eventually import eventually_sync
from tests.support.stores import store_settings

ROOT_TOKEN = "root-token"
START_SECONDS = 60
STOP_SECONDS = 40
TLS = Path(__file__).with_name("tls")
"""A certificate that is its own authority, and its key."""

COMMAND = [sys.executable, "-m", "couriermq.cli", "serve"]


def environ(**settings: Any) -> dict[str, str]:
    """An environment with these settings and none of the developer's own; None leaves one out."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COURIER_")}
    given = {f"COURIER_{key.upper()}": str(value) for key, value in settings.items() if value is not None}
    return kept | given


class ServerProcess:
    """One server on one data directory; `restart` gives it a new port unless one was chosen."""

    def __init__(self, data: Path, settings: dict[str, Any], command: Sequence[str] = COMMAND) -> None:
        self.data = data
        self.command = command
        self.token = settings.get("root_token", ROOT_TOKEN)
        self._settings = {"port": 0, "root_token": ROOT_TOKEN} | settings
        self._log = data.parent / f"{data.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.address = "127.0.0.1"
        self.prefix: list[str] = []
        """What stands before the command, to start it somewhere else."""

    def start(self) -> None:
        (self.data / "port").unlink(missing_ok=True)  # a server that was killed leaves it behind
        with self._log.open("ab") as output:
            command = [*self.prefix, *self.command]
            self._process = subprocess.Popen(command, env=self._environ(), cwd=self.data, stdout=output, stderr=output)
        self.url = f"{'https' if 'tls_cert' in self._settings else 'http'}://{self.address}:{self._await_port()}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything that it has printed, over all its starts."""
        return self._log.read_text() if self._log.exists() else ""

    @property
    def session(self) -> requests.Session:
        """A client with the root token."""
        session = requests.Session()
        session.headers["Authorization"] = f"Bearer {self.token}"
        return session

    def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        self.wait()

    def stop(self) -> int:
        """Ask it to end; returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def restart(self) -> None:
        if self.running:
            self.stop()
        self.start()

    def come_back(self) -> None:
        """Start again where it was, as clients that wait for it expect."""
        assert self._settings["port"], "nobody keeps its port for it: start it with `port=free_port()`"
        self.start()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(STOP_SECONDS)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _environ(self) -> dict[str, str]:
        return environ(data=self.data, **self._settings)

    def _await_port(self) -> int:
        def port() -> int:
            with contextlib.suppress(OSError, ValueError):
                return int((self.data / "port").read_text())
            assert self.running, f"the server did not start:\n{self.output}"
            return 0

        return eventually_sync(port, seconds=START_SECONDS, tell=lambda: self.output)


@contextlib.contextmanager
def start_server(
    tmp_path: Path, *, engine: str | None = None, command: Sequence[str] = COMMAND, **settings: Any
) -> Iterator[ServerProcess]:
    """A server with its data in `tmp_path`, already listening; keys of `settings` as in courier.toml.

    Its store is on the engine, and gone at the end, or else on that of the test that runs.
    """
    data = Path(settings.pop("data", tmp_path / "data"))
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    server = ServerProcess(data, store_settings(data, engine) | settings, command)
    server.start()
    try:
        yield server
    finally:
        if server.running:
            server.kill()
        if engine is not None:
            forget(data)
