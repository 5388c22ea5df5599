"""What one must know of a machine to judge figures; nothing that tells whose machine it is."""

import os
import platform
import re
import sqlite3
import time
from pathlib import Path
from statistics import median

import msgspec

GIB = 1024**3


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of two runs are comparable when their machines are of the same `kind`."""

    kind: str
    cores: int
    processor: str
    memory_gib: int
    system: str
    python: str
    sqlite: str
    fdatasync_ms: float


def describe(directory: Path) -> Machine:
    """This machine, with the disk that holds the directory."""
    cores, processor = os.cpu_count() or 1, processor_name(Path("/proc/cpuinfo").read_text())
    return Machine(
        kind=kind_of(platform.machine(), cores, processor),
        cores=cores,
        processor=processor,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB),
        system=f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        fdatasync_ms=round(_fdatasync_ms(directory), 2),
    )


def processor_name(cpuinfo: str) -> str:
    """The first model that Linux names; ARM machines often name none."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else "unknown processor"


def kind_of(architecture: str, cores: int, processor: str) -> str:
    """Architecture, number of cores and model of the processor, as a file name."""
    plain = re.sub(r"\((R|TM)\)", "", processor, flags=re.IGNORECASE)
    words = re.findall(r"[a-z0-9._]+", f"{architecture} {cores} cores {plain}".lower())
    return "-".join(words)


def _fdatasync_ms(directory: Path) -> float:
    times = []
    with (directory / "probe").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(bytes(16_384))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - started) * 1_000)
    return median(times)
