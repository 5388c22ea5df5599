"""`python -m benchmarks [--only ROW]… [--quick] [--check] [--no-record]`."""

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
    machine,
    nodes,
    pages,
    pipeline,
    postgres,
    report,
    runs,
    sending,
    soak,
    spark,
    verdicts,
    writing,
    written,
)
from benchmarks.bench import Bench
from benchmarks.load import require_wrk
from benchmarks.measure import Row

SCENARIOS: dict[str, Callable[[Bench], list[Row]]] = {
    "send-128": partial(sending.send_one, connections=128, bar=0.6),
    "send-32": partial(sending.send_one, connections=32, bar=0.42),
    "batch-100": sending.send_batch,
    "cycle-100": sending.cycle,
    "drain-100": sending.drain,
    "backlog": backlog.receive_cost,
    "memory+start": backlog.memory_and_start,
    "written": written.bytes_written,
    "archive": partial(archive.send_cost, messages=1, connections=128, bar=0.9),
    "archive-100": partial(archive.send_cost, messages=100, connections=32, bar=None),
    "console": pages.open_page,
    "console-200": pages.many_pages,
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
    "pg-send-128": partial(postgres.send_one, connections=128, bar=1.5),
    "pg-send-32": partial(postgres.send_one, connections=32, bar=1.0),
    "pg-batch-100": postgres.send_batch,
    "pg-drain-128": partial(postgres.drain, connections=128, bar=4.0),
    "pg-drain-32": partial(postgres.drain, connections=32, bar=1.5),
    "pg-drain-16": partial(postgres.drain, connections=16, bar=1.2),
    "pg-pollers": postgres.pollers,
    "pg-soak": soak.soak,
    "pg-nodes+pg-nodes-apart+pg-nodes-locks": nodes.nodes,
}

HOT = ("send-128", "send-32", "batch-100", "cycle-100", "drain-100", "memory+start")
"""The rows of `--quick`: what most changes could make slower, on the embedded store."""
ROUNDS, QUICK_ROUNDS = 7, 5
SECONDS = 2
"""How long one turn takes."""
BACKLOG = 1_000_000
"""Messages that wait where a row is about a large backlog."""

WIDTH = 140
"""Of the table where there is no terminal to ask."""

app = cyclopts.App(name="benchmarks", help="Measure Courier against a bare server in the same run.")


@app.default
def measure(
    *,
    only: Annotated[list[str] | None, cyclopts.Parameter(negative=())] = None,
    quick: Annotated[bool, cyclopts.Parameter(negative=())] = False,
    check: Annotated[bool, cyclopts.Parameter(negative=())] = False,
    record: bool = True,
    data: Path | None = None,
    soak_seconds: int = 60,
) -> None:
    """Run the rows, print their figures and a verdict on each, and append the run to benchmarks/history/.

    Parameters
    ----------
    only
        A row to run; repeat it for more. All of them when left out.
    quick
        The hot rows on the embedded store alone, in a few rounds less: a verdict within five minutes.
    check
        Exit with 1 when a bar is missed.
    record
        Append the run to the history; not on a machine that is busy with something else.
    data
        Where to put the data directories; on a real disk, or fsync costs nothing.
    soak_seconds
        How long the soak takes; ten minutes are 600.
    """
    require_wrk()
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    names = _choose(only or (list(HOT) if quick else None))
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with _directory(data) as directory:
        here = machine.describe(directory)
        past = runs.bests(runs.read(here.kind))
        bench = Bench(directory, rounds=rounds, seconds=SECONDS, backlog=BACKLOG, soak_seconds=soak_seconds)
        with contextlib.closing(bench):
            rows = list(_run(console, bench, names))
    judged = verdicts.judge(rows, past)
    report.show_rows(console, rows, here, rounds=rounds)
    report.show_verdicts(console, judged)
    if record:
        path = runs.append(runs.new_run(rows, here, rounds=rounds))
        console.print(f"appended to benchmarks/history/{path.name}", soft_wrap=True)
    if check and verdicts.failed(judged):
        raise SystemExit(1)


def _choose(only: list[str] | None) -> list[str]:
    """The scenarios of these rows, or all; one scenario may measure two rows."""
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
