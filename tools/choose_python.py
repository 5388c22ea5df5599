"""Prints the Python to build the environment from: of those at hand that are new enough, the fastest.

They differ by a third. One that was compiled without `--enable-optimizations`, which is what pyenv does unless it is
asked, costs a queue a sixth of its throughput. The first in the path is kept unless another is clearly faster.
"""

from __future__ import annotations  # it is run by whatever Python there is

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST, NEWEST = (3, 11), (3, 13)
PLACES = [None, "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"]  # None: wherever the path leads
CLEARLY = 0.85

PROBE = f"""
import sys
if sys.version_info < {OLDEST}:
    sys.exit(1)
import ensurepip, sqlite3, ssl, venv
from time import perf_counter

def seconds():
    begun, seen, total = perf_counter(), {{}}, 0
    for number in range(100_000):
        seen[number & 255] = (number, total)
        total += len(seen) + [number][0]
    return perf_counter() - begun

print(min(seconds() for _ in range(5)), sys.executable)
"""


def probed() -> Iterator[tuple[float, str]]:
    """Every Python that will do, the path's first: how long it took, and which program it is."""
    names = ["python3"] + [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    programs = dict.fromkeys(shutil.which(name, path=place) for place in PLACES for name in names)
    for program in filter(None, programs):
        done = subprocess.run([program, "-c", PROBE], check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if done.returncode == 0:
            seconds, executable = done.stdout.decode().strip().split(" ", 1)
            yield float(seconds), executable


def choose() -> str | None:
    """The executable, or None where there is none that will do."""
    found = list(probed())
    if not found:
        return None
    fastest = min(found)
    return fastest[1] if fastest[0] < CLEARLY * found[0][0] else found[0][1]


if __name__ == "__main__":
    chosen = choose()
    if chosen is None:
        sys.exit("Courier needs Python {}.{} or newer, with its venv module; none was found".format(*OLDEST))
    print(chosen)
