"""`courier` in processes of its own that are forked, not started, from one that has imported the command already.

Starting Python and importing the command takes ten times as long as most commands do. A forked process has the
arguments, the environment, the folder and the streams that a started one would have, and ends as one would. Tests
about starts, signals and terminals start real ones.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from couriermq.cli import app
from tests.support.eventually import eventually_sync

ROOT = Path(__file__).parents[2]
IMPORTED = ("browsing", "credentials", "exchanges", "listeners", "queues", "receiving", "sending", "tenants", "tracing")
"""What most commands need. Whatever starts threads is imported after the fork."""
READ_AT_START = ("PYTHONIOENCODING", "PYTHONUTF8", "PYTHONWARNINGS", "LC_ALL", "LC_CTYPE", "LANG", "TZ")
"""Variables that a fork cannot change any more."""
PART_BYTES = 65_536

Started = tuple[tuple[str, str], ...]
"""The variables of READ_AT_START that are set."""


def run(
    arguments: Sequence[str], *, stdin: bytes, environ: Mapping[str, str], cwd: Path | None, timeout: float
) -> "subprocess.CompletedProcess[bytes]":
    """The same as `subprocess.run` of the command with these arguments, with what it prints captured."""
    started = tuple((name, environ[name]) for name in READ_AT_START if name in environ)
    order = {"arguments": list(arguments), "environ": dict(environ), "cwd": str(cwd or Path.cwd())}
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
        socket.socket(socket.AF_UNIX) as line,
    ):
        given.write(stdin)
        given.seek(0)
        line.settimeout(timeout)
        line.connect(str(_source(started)))
        socket.send_fds(line, [b"."], [file.fileno() for file in (given, out, err)])
        line.sendall(json.dumps(order).encode())
        line.shutdown(socket.SHUT_WR)
        code = _outcome(line, arguments, timeout)
        return subprocess.CompletedProcess(list(arguments), code, *map(_written, (out, err)))


def _outcome(line: socket.socket, arguments: Sequence[str], timeout: float) -> int:
    """First comes the number of the process, then its exit code."""
    with line.makefile() as said:
        process = int(said.readline())
        try:
            return int(said.readline())
        except TimeoutError:
            os.kill(process, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(arguments), timeout) from None


def _written(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@functools.cache
def _source(started: Started) -> Path:
    """Where the process listens that forks commands; it ends with this one."""
    path = Path(tempfile.mkdtemp(prefix="courier-forked-")) / "socket"
    kept = {name: value for name, value in os.environ.items() if name not in READ_AT_START}
    command = [sys.executable, "-m", "tests.support.forked", str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, env=kept | dict(started), cwd=ROOT)
    atexit.register(process.communicate)  # the end of its input ends it
    eventually_sync(path.exists, tell=lambda: f"it ended with {process.poll()}")
    return path


def _listen(path: Path) -> list[str]:
    """Fork a command for each call; returns the arguments in the processes that are to run one."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path.with_suffix(".new")))
        listening.listen()
        path.with_suffix(".new").rename(path)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            line, _ = listening.accept()
            if os.fork() == 0:
                break
            line.close()
        else:
            path.unlink()
            path.parent.rmdir()
            sys.exit()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return _become(line)


def _become(line: socket.socket) -> list[str]:
    """Watch over a process that runs the command, and be that process."""
    _, streams, _, _ = socket.recv_fds(line, 1, 3)
    order = json.loads(b"".join(iter(lambda: line.recv(PART_BYTES), b"")))
    if process := os.fork():
        line.sendall(b"%d\n" % process)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        line.sendall(b"%d\n" % code)
        os._exit(0)
    line.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order["environ"])
    os.chdir(order["cwd"])
    return list(order["arguments"])


if __name__ == "__main__":
    for name in IMPORTED:
        importlib.import_module(f"couriermq.cli.{name}")
    gc.freeze()
    sys.argv = ["courier", *_listen(Path(sys.argv[1]))]
    sys.exit(app.main())
