"""The servers under test, each in a process of its own."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Self

import msgspec

from benchmarks.receiver import Stats

TOKEN = "benchmark-root-token-of-sixty-four-characters-0123456789-abcdefgh"
PATIENCE_S = 60.0


class Server:
    """A child process that listens on loopback; `start_s` is how long it took to answer."""

    def __init__(self, command: list[str], *, probe: str, log: Path, environ: dict[str, str] | None = None) -> None:
        started = time.perf_counter()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, **(environ or {})}
            )
        self._log = log
        self.port = self._find_port()
        self._wait_until(lambda: _answers(self.port, probe))
        self.start_s = time.perf_counter() - started

    def _find_port(self) -> int:
        raise NotImplementedError

    def _wait_until(self, happened: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise SystemExit(f"the server did not start\n{self.last_words()}")
            time.sleep(0.01)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def last_words(self) -> str:
        """The end of what it has printed, to say why something failed."""
        return self._log.read_text()[-2_000:]

    def memory_bytes(self) -> int:
        """Private memory that is resident: the heap and SQLite's cache, not files that the kernel keeps mapped."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise SystemExit("the memory row needs Linux's /proc")

    def cpu_s(self) -> float:
        """Processor time used so far, by all threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def written_bytes(self) -> int:
        """What it has sent to the disk so far."""
        lines = Path(f"/proc/{self.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes"))

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it as a power cut would: nothing is tidied up."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Bare(Server):
    """The echo on uvicorn: one process, uvloop, httptools, no access log."""

    def __init__(self, directory: Path) -> None:
        self._port = _free_port()
        command = [sys.executable, "-m", "uvicorn", "benchmarks.bare:app", "--port", str(self._port)]
        command += ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"]
        command += ["--lifespan", "off", "--ws", "none", "--backlog", "2048"]
        super().__init__(command, probe="/", log=directory / "bare.log")

    def _find_port(self) -> int:
        return self._port


class Courier(Server):
    """`courier serve` as anybody starts it, on the given data directory."""

    def __init__(self, data: Path, settings: dict[str, str] | None = None) -> None:
        data.mkdir(parents=True, exist_ok=True)
        self._port_file = data / "port"
        self._port_file.unlink(missing_ok=True)
        executable = Path(sys.executable).parent / "courier"
        command = [str(executable), "serve", "--port", "0", "--data", str(data)]
        log = data.with_suffix(".log")
        super().__init__(command, probe="/readyz", log=log, environ=_variables(settings or {}))

    def _find_port(self) -> int:
        self._wait_until(lambda: self._port_file.exists() and self._port_file.read_text().strip())
        return int(self._port_file.read_text())


class Receiver(Server):
    """Where deliveries go."""

    def __init__(self, directory: Path) -> None:
        self._port = _free_port()
        command = [sys.executable, "-m", "benchmarks.receiver", str(self._port)]
        super().__init__(command, probe="/count", log=directory / "receiver.log")
        self._connection = HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)

    def _find_port(self) -> int:
        return self._port

    def count(self) -> int:
        """How many deliveries have come since the stats were last asked for."""
        return msgspec.json.decode(self._get("/count"), type=int)

    def stats(self) -> Stats:
        return msgspec.json.decode(self._get("/stats"), type=Stats)

    def _get(self, path: str) -> bytes:
        self._connection.request("GET", path)
        return self._connection.getresponse().read()


def _variables(settings: dict[str, str]) -> dict[str, str]:
    return {"COURIER_ROOT_TOKEN": TOKEN} | {f"COURIER_{key.upper()}": value for key, value in settings.items()}


def _answers(port: int, path: str) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
