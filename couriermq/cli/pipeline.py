"""`courier pipeline`."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from couriermq.cli.connection import SERVER, Server
from couriermq.cli.data import LakePlace, lake_directory
from couriermq.cli.exits import Exit, Failure, usage
from couriermq.cli.lakes import SPARK_LOG, only_writer
from couriermq.cli.options import Duration, Flag
from couriermq.cli.progress import Progress
from couriermq.cli.quantities import show_count
from couriermq.cli.spark import SPARK, Spark

if TYPE_CHECKING:
    from couriermq.spark import pipeline
    from couriermq.spark.session import Session

app = App(name="pipeline", help="Turn the journal into tables for data people, with Spark.", help_epilogue="")

Rows = Annotated[int, Parameter(metavar="N", help="Take in so many events at a time.")]
Format = Annotated[
    Literal["parquet", "delta"] | None,
    Parameter(help="What the lake is kept as. [default: as it is; a new one as parquet] delta needs couriermq[delta]."),
]
ROWS = 2_500_000


@app.command
def run(
    *,
    once: Flag = False,
    every: Duration | None = None,
    lake: LakePlace = None,
    format: Format = None,  # noqa: A002 - the flag's name
    rows_per_batch: Rows = ROWS,
    spark: Spark = SPARK,
    server: Server = SERVER,
) -> None:
    """Bring all tables of the lake up to date from the journal.

    Parameters
    ----------
    once
        Return when all that there is has been taken in. [default]
    every
        Go on and look for more every so often, until interrupted.
    """
    if once and every is not None:
        raise usage("--once and --every contradict each other")
    with _work(server, lake, spark, "taking in") as work:
        work.do("run", format=format, rows_per_batch=rows_per_batch, every_ms=every)


@app.command
def rebuild(
    *,
    lake: LakePlace = None,
    format: Format = None,  # noqa: A002
    rows_per_batch: Rows = ROWS,
    spark: Spark = SPARK,
    server: Server = SERVER,
) -> None:
    """Make every table again from all that is kept of the journal; the old ones stay until the new ones are whole."""
    with _work(server, lake, spark, "rebuilding") as work:
        work.do("rebuild", format=format, rows_per_batch=rows_per_batch)


@contextlib.contextmanager
def _work(server: Server, lake: Path | None, spark: Spark, name: str) -> "Iterator[_Work]":
    spark.where()
    server.client.get("/courier/v1/whoami")  # a wrong address or token is told before Spark is started
    place = lake_directory(lake)
    with only_writer(place), spark.session("courier pipeline", log=place / SPARK_LOG, screen=server.screen) as session:
        work = _Work(session, server, place, name)
        yield work
    sentence = f"took in {show_count(work.counted, 'event')} into {place}"
    server.screen.tell({"events": work.counted, "lake": str(place)}, sentence)


class _Work:
    """A job under way: shows how far it is, and ends well when it is told to stop."""

    def __init__(self, session: "Session", server: Server, lake: Path, name: str) -> None:
        self._session = session
        self._server = server
        self._lake = lake
        self._name = name
        self.counted = 0

    def do(self, what: str, *, format: str | None, rows_per_batch: int, **how: Any) -> None:  # noqa: A002
        from couriermq.spark import pipeline, rebuilding  # noqa: PLC0415 - loads Spark
        from couriermq.spark.journal import Journal, JournalError  # noqa: PLC0415
        from couriermq.spark.lake import format_of  # noqa: PLC0415

        rebuilding.finish(self._lake)
        client = self._server.client
        journal = Journal(client.url, client.token, self._server.ca_file)
        kept_as = format or format_of(self._lake)
        job = pipeline.Job(journal, self._lake, rows_per_batch=rows_per_batch, format=kept_as)
        action = rebuilding.rebuild if what == "rebuild" else pipeline.run
        with Progress(self._name, unit="event", json=self._server.json) as progress, _signals() as told:

            def report(news: "pipeline.Progress") -> None:
                self.counted += news.events
                progress.reach(self.counted, total=self.counted + news.backlog, batch=news.batch, offset=news.offset)

            try:
                action(self._session, job, report=report, stopping=lambda: bool(told), **how)
            except (pipeline.PipelineFailed, JournalError) as error:
                raise Failure(str(error), Exit.FAILED) from None
        if signal.SIGINT in told:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _signals() -> Iterator[list[int]]:
    """The signals that have told the job to stop; it looks at them when it can, for Spark takes no interruption."""
    told: list[int] = []
    numbers = (signal.SIGTERM, signal.SIGINT)
    previous = [signal.signal(number, lambda given, _: told.append(given)) for number in numbers]
    try:
        yield told
    finally:
        for number, handler in zip(numbers, previous, strict=True):
            signal.signal(number, handler)
