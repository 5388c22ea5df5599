"""The pipeline: from the journal to the lake's tables, batch by batch, each batch exactly once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from couriermq.core.jumps import Jump
from couriermq.spark.cursors import CursorKeeper
from couriermq.spark.journal import Journal
from couriermq.spark.lake import CHECKPOINT, Terms, open_lake
from couriermq.spark.offsets import Offsets, backlog, oldest_of, read_offsets
from couriermq.spark.options import RANGES
from couriermq.spark.refreshing import refresh
from couriermq.spark.session import reason_of
from couriermq.spark.stores.base import PARQUET
from couriermq.spark.taking import take_in

CURSOR = "pipeline"
ROWS_PER_BATCH = 2_500_000
ROWS_PER_TASK = 250_000
LOOK_S = 1
PATIENCE_S = 30
"""How long a pipeline that is told to stop goes on with its batch, which the next one would have to do again."""


class PipelineFailed(Exception):
    """A batch could not be taken in; the text is one sentence. What was taken in before is whole."""


class Progress(NamedTuple):
    """What one batch did, and how much is left."""

    batch: int
    events: int
    offset: int
    backlog: int
    seconds: float


class Job(NamedTuple):
    """Where the pipeline reads, where it writes, and under which name it holds its place in the journal."""

    journal: Journal
    lake: Path
    cursor: str = CURSOR
    rows_per_batch: int = ROWS_PER_BATCH
    format: str = PARQUET


def run(
    spark: SparkSession,
    job: Job,
    *,
    every_ms: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> None:
    """Bring the tables up to date and return, or go on every so often until it is `stopping`."""
    keeper = _Keeper(job, report)
    try:
        query = _start(spark, job, every_ms)
        _await_end(query, keeper, stopping)
        keeper.catch_up(query)
    except StreamingQueryException as error:
        raise PipelineFailed(reason_of(error)) from error


def _await_end(query: StreamingQuery, keeper: "_Keeper", stopping: Callable[[], bool]) -> None:
    """Until all is done, or it is told to stop: then the batch in hand is finished, if that does not take too long."""
    patience = PATIENCE_S / LOOK_S
    while not query.awaitTermination(LOOK_S):
        keeper.catch_up(query)
        if stopping():
            patience -= 1
            if patience < 0 or not query.status["isTriggerActive"]:
                query.stop()
                return


class _Refresh:
    """What Spark does with a batch, wherever its driver is."""

    def __init__(self, journal: Journal, root: Path, terms: Terms) -> None:
        self._journal = journal
        self._root = str(root)
        self._terms = terms

    def __call__(self, ranges: DataFrame, batch: int) -> None:
        lake = open_lake(ranges.sparkSession, Path(self._root), self._terms)
        refresh(lake, take_in(lake, ranges, self._journal, batch), batch)


def _start(spark: SparkSession, job: Job, every_ms: int | None) -> StreamingQuery:
    options: dict[str, Any] = {
        "url": job.journal.url,
        "token": job.journal.token,
        "caFile": job.journal.ca_file,
        "mode": RANGES,
        "cursor": job.cursor,
        "maxRecordsPerBatch": job.rows_per_batch,
        "rowsPerPartition": ROWS_PER_TASK,
    }
    root = job.lake.absolute()
    given = {name: value for name, value in options.items() if value is not None}
    ranges = spark.readStream.format("courier").options(**given).load()
    writer = ranges.writeStream.foreachBatch(_Refresh(job.journal, root, Terms(job.format)))
    writer = writer.option("checkpointLocation", str(root / CHECKPOINT))
    if every_ms is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_ms} milliseconds").start()


class _Keeper(CursorKeeper):
    """Moves the cursor once Spark has committed a batch, and tells how it goes.

    It looks for itself, not as a listener: a client of Spark Connect that takes a listener away while an event is on
    its way waits for ever.
    """

    def __init__(self, job: Job, report: Callable[[Progress], None]) -> None:
        super().__init__(job.journal, job.cursor)
        self._report = report
        self._told = -1
        self._oldest = oldest_of(job.journal.spans())
        self._jumps = job.journal.jumps()

    def keep(self, progress: Any) -> None:
        """A batch that was heard of before is not news, nor is a look that found none."""
        if progress.numInputRows and progress.batchId > self._told:
            super().keep(progress)
            self._told = progress.batchId
            self._report(_read_progress(progress, self._oldest, self._jumps))

    def catch_up(self, query: StreamingQuery) -> None:
        """Hear of the batches that have ended since."""
        for progress in query.recentProgress:
            self.keep(progress)


def _read_progress(progress: Any, oldest: Offsets, jumps: Sequence[Jump]) -> Progress:
    """Of a query's first batch Spark does not tell where it began: that was the `oldest` that there is."""
    source = progress.sources[0]
    end, newest = read_offsets(source.endOffset), read_offsets(source.latestOffset)
    start = read_offsets(source.startOffset) or oldest
    return Progress(
        batch=progress.batchId,
        events=backlog(start, end, jumps),
        offset=max(end.values(), default=0),
        backlog=backlog(end, newest, jumps),
        seconds=progress.durationMs.get("triggerExecution", 0) / 1_000,
    )
