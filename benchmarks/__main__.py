"""`python -m benchmarks [--only ROW]… [--quick] [--check]`."""

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

import cyclopts
from rich.console import Console

from benchmarks import (
    archive,
    backlog,
    delivery,
    dialects,
    journal,
    pipeline,
    postgres,
    report,
    sending,
    soak,
    spark,
    writing,
)
from benchmarks.bench import Bench
from benchmarks.load import require_wrk
from benchmarks.measure import Row

SCENARIOS: dict[str, Callable[[Bench], list[Row]]] = {
    "send-128": partial(sending.send_one, connections=128, bar=0.5),
    "send-32": partial(sending.send_one, connections=32, bar=0.35),
    "batch-100": sending.send_batch,
    "cycle-100": sending.cycle,
    "drain-100": sending.drain,
    "backlog": backlog.receive_cost,
    "memory+start": backlog.memory_and_start,
    "journal": journal.journal_cost,
    "archive": partial(archive.send_cost, messages=1, connections=128, bar=0.9),
    "archive-100": partial(archive.send_cost, messages=100, connections=32, bar=None),
    "spark-read": spark.read_stream,
    "pipeline": pipeline.whole,
    "pipeline-refresh": pipeline.refresh,
    "deliver-200": partial(delivery.at_rate, rate=200),
    "deliver-1000": partial(delivery.at_rate, rate=1_000, bar=100.0),
    "deliver-max": delivery.flat_out,
    "deliver-dead": delivery.one_dead,
    "cf-push": dialects.cloudflare_push,
    "cf-bulk": dialects.cloudflare_bulk_push,
    "cf-pull": dialects.cloudflare_pull,
    "mq-publish": dialects.anypoint_publish,
    "mq-batch": dialects.anypoint_publish_batch,
    "mq-consume": dialects.anypoint_consume,
    "spark-write": writing.stream_write,
    "pg-send-128": partial(postgres.send_one, connections=128),
    "pg-send-32": partial(postgres.send_one, connections=32),
    "pg-batch-100": postgres.send_batch,
    "pg-drain-128": partial(postgres.drain, connections=128),
    "pg-drain-32": partial(postgres.drain, connections=32),
    "pg-drain-16": partial(postgres.drain, connections=16),
    "pg-pollers": postgres.pollers,
    "pg-soak": soak.soak,
}

WIDTH = 140
"""Of the table where there is no terminal to ask."""

app = cyclopts.App(name="benchmarks", help="Measure Courier against a bare server in the same run.")


@app.default
def measure(
    *,
    only: Annotated[list[str] | None, cyclopts.Parameter(negative=())] = None,
    quick: Annotated[bool, cyclopts.Parameter(negative=())] = False,
    check: Annotated[bool, cyclopts.Parameter(negative=())] = False,
    data: Path | None = None,
    soak_seconds: int = 60,
) -> None:
    """Run the rows, print the table, write benchmarks/results/<date>.json.

    Parameters
    ----------
    only
        A row to run; repeat it for more. All of them when left out.
    quick
        Fewer and shorter rounds, and a tenth of the backlog: for a first look, not for a verdict.
    check
        Exit with 1 when a bar is missed.
    data
        Where to put the data directories; on a real disk, or fsync costs nothing.
    soak_seconds
        How long the soak takes; ten minutes are 600.
    """
    require_wrk()
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    with _directory(data) as directory:
        bench = Bench(
            directory,
            rounds=3 if quick else 7,
            seconds=1 if quick else 2,
            backlog=100_000 if quick else 1_000_000,
            soak_seconds=soak_seconds,
        )
        machine = report.describe_machine(directory, rounds=bench.rounds)
        with contextlib.closing(bench):
            rows = list(_run(console, bench, _choose(only)))
    report.show(console, rows, machine)
    console.print(f"written to {report.write(rows, machine)}", soft_wrap=True)
    if check and any(row.holds is False for row in rows):
        raise SystemExit(1)


def _choose(only: list[str] | None) -> list[str]:
    chosen = [name for name in SCENARIOS if not only or set(only) & {name, *name.split("+")}]
    known = {part for name in SCENARIOS for part in (name, *name.split("+"))}
    if unknown := set(only or ()) - known:
        raise SystemExit(f"no row is called {', '.join(sorted(unknown))}; choose from {', '.join(SCENARIOS)}")
    return chosen


def _run(console: Console, bench: Bench, names: list[str]) -> Iterator[Row]:
    for name in names:
        with console.status(f"measuring {name}"):
            yield from SCENARIOS[name](bench)


@contextlib.contextmanager
def _directory(parent: Path | None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="courier-bench-", dir=parent) as name:
        Path(name).chmod(0o755)  # PostgreSQL runs as another user
        yield Path(name)


app()
