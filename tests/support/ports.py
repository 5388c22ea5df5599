"""Ports for servers that are started later than their port is told, or started again on it.

A port that is only free may be given to anybody meanwhile: the kernel takes one from its own range for every socket
that asks for none by number. These lie below that range, and every worker of every run of the suite has its own.
"""

import itertools
import os
import socket
from pathlib import Path

FIRST = 10_240
COUNT, WORKERS = 32, 16
"""How many each worker has, and of how many workers of a run no two have the same."""


def _own() -> range:
    """Runs differ in the process that starts the tests: it is the parent of its workers."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    number, run = (int(worker), os.getppid()) if worker else (0, os.getpid())
    kernels = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    runs = max(1, (kernels - FIRST) // (COUNT * WORKERS))
    first = FIRST + (run % runs * WORKERS + number % WORKERS) * COUNT
    return range(first, first + COUNT)


_next = itertools.cycle(_own())


def free_port() -> int:
    """A port that nobody has; no other test gets it soon."""
    for port in itertools.islice(_next, COUNT):
        if _is_free(port):
            return port
    raise AssertionError(f"all ports of {_own()} are taken")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
