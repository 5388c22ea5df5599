"""The history of all runs: one JSON-lines file for each kind of machine, committed with the code.

A run is one line, so that files of two branches merge by keeping the lines of both (`merge=union` in .gitattributes).
"""

import datetime
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from benchmarks.machine import Machine
from benchmarks.measure import Row

FOLDER = Path(__file__).parent / "history"
TOLERANCE = 0.1
"""A row is reported when it does this much less per second of processor time than at its best."""
DIGITS = 4


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run measured of one row."""

    row: str
    value: float
    unit: str
    ratio: float
    low: float
    high: float
    bar: float | None = None
    holds: bool | None = None
    cpu_us: float | None = None
    reference_cpu_us: float | None = None
    cpu_ratio: float | None = None
    notes: dict[str, float] = {}


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the benchmarks; `dirty` says that the working tree differed from the commit."""

    at: str
    commit: str
    dirty: bool
    machine: Machine
    rounds: int
    figures: list[Figure]


class Best(msgspec.Struct, frozen=True):
    """The lowest processor time for a message that a row ever had on this kind of machine."""

    cpu_us: float
    reference_cpu_us: float | None
    commit: str


def figure_of(row: Row) -> Figure:
    """The row as it is kept: rounded, because more digits than these are noise."""
    return Figure(
        row=row.name,
        value=_round(row.value),
        unit=row.unit,
        ratio=_round(row.ratio),
        low=_round(min(row.ratios)),
        high=_round(max(row.ratios)),
        bar=row.bar,
        holds=row.holds,
        cpu_us=None if row.cpu_us is None else _round(row.cpu_us),
        reference_cpu_us=None if row.reference_cpu_us is None else _round(row.reference_cpu_us),
        cpu_ratio=None if row.cpu_ratio is None else _round(row.cpu_ratio),
        notes={name: _round(value) for name, value in row.notes.items()},
    )


def _round(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def new_run(rows: Sequence[Row], machine: Machine, *, rounds: int) -> Run:
    """The run that has just ended, on the commit that is checked out."""
    now = datetime.datetime.now(datetime.UTC)
    return Run(
        at=now.isoformat(timespec="seconds"),
        commit=_git("rev-parse", "--short=12", "HEAD"),
        dirty=bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/history")),
        machine=machine,
        rounds=rounds,
        figures=[figure_of(row) for row in rows],
    )


def _git(*arguments: str) -> str:
    """What git answers about this checkout; nothing where there is none."""
    root = Path(__file__).parent.parent
    try:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def append(run: Run, folder: Path = FOLDER) -> Path:
    """Add the run to the file of its kind of machine; returns the file."""
    folder.mkdir(exist_ok=True)
    path = _file(folder, run.machine.kind)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(run) + b"\n")
    return path


def read(kind: str, folder: Path = FOLDER) -> list[Run]:
    """All runs on this kind of machine; a line that cannot be read ends the benchmarks with its number."""
    path = _file(folder, kind)
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            found.append(msgspec.json.decode(line, type=Run))
        except msgspec.DecodeError as error:
            raise SystemExit(f"line {number} of {path.name} is not a run: {error}; correct or remove it") from error
    return found


def _file(folder: Path, kind: str) -> Path:
    return folder / f"{kind}.jsonl"


def bests(runs: Iterable[Run]) -> dict[str, Best]:
    """For each row the run in which a message took the least processor time."""
    found: dict[str, Best] = {}
    for run in runs:
        for figure in run.figures:
            best = found.get(figure.row)
            if figure.cpu_us is not None and (best is None or figure.cpu_us < best.cpu_us):
                commit = run.commit + ("+" if run.dirty else "")
                found[figure.row] = Best(figure.cpu_us, figure.reference_cpu_us, commit)
    return found
