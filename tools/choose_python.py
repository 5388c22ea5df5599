"""Prints the Python to build the environment from: of those at hand that are new enough, the fastest.

They differ by a third. One that was compiled without `--enable-optimizations`, which is what pyenv does unless it is
asked, costs a queue a sixth of its throughput. The first in the path is kept unless another is clearly faster.
"""

from __future__ import annotations  # it is run by whatever Python there is

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 13)
PLACES = [None, "/usr/local/bin", "/usr/bin", "/opt/homebrew/bin"]  # None: wherever the path leads
CLEARLY = 0.9
ROUNDS = 10
PATIENCE_S = 20

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

print(min(seconds() for _ in range(3)), getattr(sys, "_base_executable", sys.executable))
"""


def choose() -> str | None:
    """The executable, or None where there is none that will do."""
    best = {program: found for program in candidates() if (found := probe(program)) is not None}
    for program in list(best) * ROUNDS:  # by turns: a machine that is busy for a moment is not to decide
        best[program] = min(best[program], probe(program) or best[program])
    if not best:
        return None
    first, fastest = next(iter(best.values())), min(best.values())
    return fastest[1] if fastest[0] < CLEARLY * first[0] else first[1]


def candidates() -> list[str]:
    """Whatever is called Python and may be new enough, the path's first; a program with several names only once."""
    names = ["python3"] + [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    found = (shutil.which(name, path=place) for place in PLACES for name in names)
    programs: dict[Path, str] = {}
    for program in filter(None, found):
        programs.setdefault(Path(program).resolve(), program)
    return list(programs.values())


def probe(program: str) -> tuple[float, str] | None:
    """How long it takes, and which executable it is; None where it will not do."""
    command = [program, "-c", PROBE]
    try:
        done = subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True)
        seconds, executable = done.stdout.decode().splitlines()[-1].split(" ", 1)
        return float(seconds), executable
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


if __name__ == "__main__":
    chosen = choose()
    if chosen is None:
        sys.exit("Courier needs Python {}.{} or newer, with its venv module; none was found".format(*OLDEST))
    print(shlex.quote(chosen))
