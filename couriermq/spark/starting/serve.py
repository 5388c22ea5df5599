"""The starter: imports what a stream's process needs, and forks one for each who asks.

`python -m couriermq.spark.starting.serve N` listens on the socket that it has inherited as N. It ends when its standard
input does: when the driver that started it is gone.
"""

import gc
import importlib
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from threading import Thread

from couriermq.spark.starting import RUNNER
from couriermq.spark.starting.ask import is_own

MODULES = (RUNNER, "couriermq.spark.source")
MOST_BYTES = 1024 * 1024
"""Of an environment."""
ENDED = 143
"""As a process that was told to end."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the driver to hear: this one ends with it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended
    listener = socket.socket(fileno=int(sys.argv[1]))
    _load()
    connection = _wait(listener)
    if connection is not None:
        _become(connection)


def _load() -> None:
    for name in MODULES:
        importlib.import_module(name)
    del sys.modules[RUNNER]  # it is run as Spark would run it, not imported
    gc.freeze()  # what all forks share they need not look at


def _wait(listener: socket.socket) -> socket.socket | None:
    """In each fork, the connection of who asked for it; in the starter, nothing, when the driver is gone."""
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return None
        connection, _ = listener.accept()
        if is_own(connection) and os.fork() == 0:
            listener.close()
            return connection
        connection.close()


def _become(connection: socket.socket) -> None:
    """The process that was asked for: with the folder, the variables and the standard streams of who asked."""
    message, streams, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    if not message:
        return  # who asked is gone already
    folder, *variables = message.split(b"\0")
    os.chdir(folder)
    os.environb.clear()
    os.environb.update((name, value) for name, _, value in (variable.partition(b"=") for variable in variables))
    for stream, number in zip(streams, range(3), strict=True):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    given = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:1] = [str(Path.cwd()), *(place for place in given if place not in sys.path)]
    sys.argv = [RUNNER]
    connection.send(b"!")
    Thread(target=_end_with, args=(connection,), daemon=True).start()
    runpy.run_module(RUNNER, run_name="__main__", alter_sys=True)


def _end_with(connection: socket.socket) -> None:
    """Who asked is the process that Spark knows: when Spark ends that, it means this one."""
    connection.recv(1)
    os._exit(ENDED)


if __name__ == "__main__":
    main()
