"""A table for people and a file for programs."""

import datetime
import os
import platform
import sqlite3
import time
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.measure import Row

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("row", "what", "figure", "against", "ratio", "spread", "by CPU", "bar", "")


def show(console: Console, rows: list[Row], machine: dict[str, Any]) -> None:
    """Print every row with its bar."""
    table = Table(title="Courier benchmarks", caption=_caption(machine), box=None, pad_edge=False, title_justify="left")
    for column in COLUMNS:
        table.add_column(
            column,
            justify="right" if column in ("figure", "ratio", "by CPU", "bar") else "left",
            no_wrap=column != "what",
        )
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)


def _cells(row: Row) -> tuple[str, ...]:
    sign = "≥" if row.at_least else "≤"
    per_bare = "" if row.per_bare is None else f" ({row.per_bare:.2f} of bare)"
    return (
        row.name,
        row.what,
        f"{_number(row.value)} {row.unit}",
        row.reference + per_bare,
        f"{row.ratio:.2f}",
        f"{min(row.ratios):.2f}–{max(row.ratios):.2f}",
        "" if row.cpu_ratio is None else f"{row.cpu_ratio:.2f}",
        "" if row.bar is None else f"{sign} {row.bar:g}",
        {True: "[green]holds[/]", False: "[red]missed[/]", None: ""}[row.holds],
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _caption(machine: dict[str, Any]) -> str:
    return (
        f"{machine['cores']} cores, Python {machine['python']}, SQLite {machine['sqlite']}, "
        f"fdatasync {machine['fdatasync_ms']:.2f} ms; medians of {machine['rounds']} rounds"
    )


def write(rows: list[Row], machine: dict[str, Any]) -> Path:
    """Keep the outcome; returns where."""
    now = datetime.datetime.now(datetime.UTC)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%dT%H%M%S}.json"
    document = {
        "at": now.isoformat(timespec="seconds"),
        "machine": machine,
        "rows": [{**msgspec.to_builtins(row), "ratio": row.ratio, "holds": row.holds} for row in rows],
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


def describe_machine(directory: Path, *, rounds: int) -> dict[str, Any]:
    """What one must know to judge the figures."""
    return {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "fdatasync_ms": _fdatasync_ms(directory),
        "rounds": rounds,
    }


def _fdatasync_ms(directory: Path) -> float:
    times = []
    with (directory / "probe").open("wb", buffering=0) as file:
        for _ in range(50):
            file.write(bytes(16_384))
            started = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - started) * 1_000)
    return median(times)
