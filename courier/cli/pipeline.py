"""`courier pipeline`."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from courier.cli.connection import SERVER, Server
from courier.cli.data import LakePlace, lake_directory
from courier.cli.exits import Exit, Failure, usage
from courier.cli.options import Duration, Flag
from courier.cli.quantities import show_count
from courier.cli.screen import Screen
from courier.cli.spark import SPARK, Spark

if TYPE_CHECKING:
    from courier.spark.pipeline import Progress
    from courier.spark.session import Session

app = App(name="pipeline", help="Turn the journal into tables for data people, with Spark.", help_epilogue="")

SPARK_LOG = Path("_logs") / "spark.log"
"""What Spark itself has to say, below the lake."""


@app.command
def run(
    *,
    once: Flag = False,
    every: Duration | None = None,
    lake: LakePlace = None,
    rows_per_batch: Annotated[int, Parameter(metavar="N")] = 500_000,
    spark: Spark = SPARK,
    server: Server = SERVER,
) -> None:
    """Bring the lake's tables (events, messages, queue_minutes) up to date from the journal.

    Parameters
    ----------
    once
        Return when all that there is has been taken in. [default]
    every
        Go on and look for more every so often, until interrupted.
    rows_per_batch
        Take in so many events at a time.
    """
    if once and every is not None:
        raise usage("--once and --every contradict each other")
    spark.where()
    server.client.get("/courier/v1/whoami")  # a wrong address or token is told before Spark is started
    place = lake_directory(lake)
    with spark.session("courier pipeline", log=place / SPARK_LOG, screen=server.screen) as session:
        counted = _run(session, server, lake=place, every_ms=every, rows_per_batch=rows_per_batch)
    server.screen.tell({"events": counted, "lake": str(place)}, f"took in {show_count(counted, 'event')} into {place}")


def _run(session: "Session", server: Server, *, lake: Path, every_ms: int | None, rows_per_batch: int) -> int:
    """Returns how many events were taken in."""
    from courier.spark import pipeline  # noqa: PLC0415 - loads Spark
    from courier.spark.journal import Journal, JournalError  # noqa: PLC0415

    counted = [0]

    def report(progress: "Progress") -> None:
        counted[0] += progress.events
        _show(server.screen, progress)

    job = pipeline.Job(Journal(server.client.url, server.token), lake, rows_per_batch=rows_per_batch)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        pipeline.run(session, job, every_ms=every_ms, report=report)
    except (pipeline.PipelineFailed, JournalError) as error:
        raise Failure(str(error), Exit.FAILED) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
    return counted[0]


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _show(screen: Screen, progress: "Progress") -> None:
    if screen.json:
        screen.record(progress._asdict())
        return
    rate = round(progress.events / progress.seconds) if progress.seconds else 0
    screen.note(
        f"batch {progress.batch}: {show_count(progress.events, 'event')} up to offset {progress.offset}"
        f" in {progress.seconds:.1f}s ({rate:,}/s), {progress.backlog:,} to go"
    )
