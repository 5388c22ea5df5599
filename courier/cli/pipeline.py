"""`courier pipeline`."""

import importlib.util
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

if TYPE_CHECKING:
    from courier.spark.pipeline import Progress

app = App(name="pipeline", help="Turn the journal into tables for data people, with Spark.", help_epilogue="")

SPARK_LOG = Path("_logs") / "spark.log"
"""What Spark itself has to say, below the lake."""


@app.command
def run(
    *,
    once: Flag = False,
    every: Duration | None = None,
    lake: LakePlace = None,
    master: Annotated[str, Parameter(metavar="URL")] = "local[*]",
    rows_per_batch: Annotated[int, Parameter(metavar="N")] = 500_000,
    server: Server = SERVER,
) -> None:
    """Bring the lake's tables (events, messages, queue_minutes) up to date from the journal.

    Parameters
    ----------
    once
        Return when all that there is has been taken in. [default]
    every
        Go on and look for more every so often, until interrupted.
    master
        The Spark to run on, such as local[4] or spark://host:7077.
    rows_per_batch
        Take in so many events at a time.
    """
    if once and every is not None:
        raise usage("--once and --every contradict each other")
    _require_spark()
    server.client.get("/courier/v1/whoami")  # a wrong address or token is told before Spark is started
    _run(server, lake=lake_directory(lake), master=master, every_ms=every, rows_per_batch=rows_per_batch)


def _require_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise Failure("the pipeline needs Spark: install courier[spark] and Java 17 or newer")


def _run(server: Server, *, lake: Path, master: str, every_ms: int | None, rows_per_batch: int) -> None:
    from courier.spark import pipeline  # noqa: PLC0415 - loads Spark
    from courier.spark.journal import Journal, JournalError  # noqa: PLC0415
    from courier.spark.session import NoSpark, open_session, telling  # noqa: PLC0415

    screen, counted = server.screen, [0]

    def report(progress: "Progress") -> None:
        counted[0] += progress.events
        _show(screen, progress)

    job = pipeline.Job(Journal(server.client.url, server.token), lake, rows_per_batch=rows_per_batch)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        screen.note("starting Spark")
        with telling(lake / SPARK_LOG):
            spark = open_session(master, name="courier pipeline")
        try:
            pipeline.run(spark, job, every_ms=every_ms, report=report)
        finally:
            spark.stop()
    except (pipeline.PipelineFailed, NoSpark, JournalError) as error:
        raise Failure(str(error), Exit.FAILED) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
    screen.tell({"events": counted[0], "lake": str(lake)}, f"took in {show_count(counted[0], 'event')} into {lake}")


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
