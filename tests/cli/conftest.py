"""The real command in a process of its own, against a real server."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import forked
from tests.support.server import ServerProcess, start_server

BYTECODE = tempfile.TemporaryDirectory(prefix="courier-bytecode-")
"""A command is started hundreds of times here, and compiled once, whatever the surrounding environment says."""
COMMAND = [sys.executable, "-m", "couriermq.cli"]
PATIENCE_S = 60


class Run:
    """How one command line ended."""

    def __init__(self, done: "subprocess.CompletedProcess[bytes]") -> None:
        self.code = done.returncode
        self.raw = done.stdout
        self.out = done.stdout.decode(errors="surrogateescape")
        self.err = done.stderr.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Courier:
    """`courier`, with the environment of one who works with one server."""

    def __init__(self, **environ: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("COURIER_")}
        kept.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environ = kept | {"COLUMNS": "100", "PYTHONPYCACHEPREFIX": BYTECODE.name} | environ

    def __call__(self, *arguments: object, stdin: bytes = b"", cwd: Path | None = None, **environ: str) -> Run:
        """Run it to its end; keywords are further environment variables."""
        words = [str(argument) for argument in arguments]
        return Run(forked.run(words, stdin=stdin, environ=self.environ | environ, cwd=cwd, timeout=PATIENCE_S))

    def ok(self, *arguments: object, **options: Any) -> Run:
        """Run what must succeed."""
        run = self(*arguments, **options)
        assert run.code == 0, run.err
        return run

    @contextmanager
    def running(self, *arguments: object, **options: Any) -> Iterator["subprocess.Popen[str]"]:
        """A command that goes on until it is interrupted; ended with the block."""
        environ = self.environ | {"PYTHONUNBUFFERED": "1"}
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen([*COMMAND, *map(str, arguments)], env=environ, **(pipes | options)) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all tests of the command line; each test uses names of its own."""
    with start_server(tmp_path_factory.mktemp("cli")) as process:
        yield process


@pytest.fixture
def courier(server: ServerProcess) -> Courier:
    return Courier(COURIER_URL=server.url, COURIER_TOKEN=server.token)


@pytest.fixture
def tenant(courier: Courier, request: pytest.FixtureRequest) -> str:
    """A tenant of the test's own; the command finds it in its environment."""
    name = request.node.name.replace("[", "-").replace("]", "")
    courier.ok("tenants", "create", name)
    courier.environ["COURIER_TENANT"] = name
    return str(name)
