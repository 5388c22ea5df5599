"""The pipeline: from the journal to the lake's tables, batch by batch, each batch exactly once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from courier.spark.cursors import CursorKeeper
from courier.spark.journal import Journal
from courier.spark.lake import Lake
from courier.spark.offsets import backlog, read_offsets
from courier.spark.session import reason_of
from courier.spark.tables import events as event_table
from courier.spark.tables import messages, queue_minutes

EVENTS, MESSAGES, QUEUE_MINUTES = "events", "messages", "queue_minutes"
CURSOR = "pipeline"
ROWS_PER_BATCH = 500_000
DAY = "yyyy-MM-dd"
NO_DAY = ""


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


def run(
    spark: SparkSession,
    job: Job,
    *,
    every_ms: int | None = None,
    report: Callable[[Progress], None] = lambda _: None,
) -> None:
    """Bring the tables up to date and return, or go on every so often until stopped."""
    lake = Lake(spark, job.lake)
    keeper = _Keeper(job, report)
    spark.streams.addListener(keeper)
    try:
        query = _start(spark, job, lake, every_ms)
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
            raise
        keeper.catch_up(query)
    except StreamingQueryException as error:
        raise PipelineFailed(reason_of(error)) from error
    finally:
        spark.streams.removeListener(keeper)


def _start(spark: SparkSession, job: Job, lake: Lake, every_ms: int | None) -> StreamingQuery:
    options: dict[str, Any] = {
        "url": job.journal.url,
        "cursor": job.cursor,
        "maxRecordsPerBatch": job.rows_per_batch,
    }
    if job.journal.token:
        options["token"] = job.journal.token
    happened = spark.readStream.format("courier").options(**options).load()
    writer = happened.writeStream.foreachBatch(lambda frame, batch: refresh(lake, frame, batch))
    writer = writer.option("checkpointLocation", str(lake.checkpoint))
    if every_ms is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every_ms} milliseconds").start()


class _Keeper(CursorKeeper):
    """Moves the cursor once Spark has committed a batch, and tells how it goes."""

    def __init__(self, job: Job, report: Callable[[Progress], None]) -> None:
        super().__init__(job.journal, job.cursor)
        self._report = report
        self._told = -1

    def keep(self, progress: Any) -> None:
        super().keep(progress)
        if progress.numInputRows and progress.batchId > self._told:
            self._told = progress.batchId
            self._report(_read_progress(progress))

    def catch_up(self, query: StreamingQuery) -> None:
        """Hear at the end of a query what Spark has not yet passed on: it lets its listeners wait."""
        for progress in query.recentProgress:
            self.keep(progress)


def _read_progress(progress: Any) -> Progress:
    source = progress.sources[0]
    end, newest = read_offsets(source.endOffset), read_offsets(source.latestOffset)
    return Progress(
        batch=progress.batchId,
        events=progress.numInputRows,
        offset=max(end.values(), default=0),
        backlog=backlog(end, newest),
        seconds=progress.durationMs.get("triggerExecution", 0) / 1_000,
    )


def refresh(lake: Lake, happened: DataFrame, batch: int) -> None:
    """Bring one batch of events into every table. Doing it again, after a crash anywhere in it, changes nothing."""
    landed = lake.append(EVENTS, event_table.to_table(happened), batch)
    events = event_table.of_messages(happened.sparkSession.read.parquet(str(landed)))
    extent = _extent(events)
    if extent is not None:
        refresh_messages(lake, events)
        refresh_queue_minutes(lake, events, extent)


class Extent(NamedTuple):
    """A batch ends at offset `end`; the first of its minutes begins at `since_ms`, on `day` (in UTC)."""

    end: int
    since_ms: int
    day: str


def _extent(events: DataFrame) -> Extent | None:
    """Numbers and texts, not datetimes: those would be in the time zone of the driver."""
    first = f.min(f.date_trunc("minute", "at"))
    row = events.agg(f.max("offset"), f.unix_millis(first), f.date_format(first, DAY)).first()
    return None if row is None or row[0] is None else Extent(row[0] + 1, row[1], row[2])


def refresh_messages(lake: Lake, events: DataFrame) -> None:
    touched = events.select(messages.bucket_of("seq").alias("bucket")).distinct().collect()
    known = lake.read(MESSAGES, messages.SCHEMA, "bucket", [row.bucket for row in touched])
    lake.replace(MESSAGES, messages.fold(known, events), "bucket", "seq")


def refresh_queue_minutes(lake: Lake, events: DataFrame, batch: Extent) -> None:
    """Add a batch's events to the minutes they happened in; a day that has the batch already stays as it is."""
    days = lake.parts(QUEUE_MINUTES, "day")
    known = _minutes_of(lake, [day for day in days if day >= batch.day])
    earlier = _minutes_of(lake, [day for day in days if day < batch.day])
    as_of = known.groupBy("day").agg(f.max("as_of").alias("as_of"))
    done = [NO_DAY, *(row.day for row in as_of.where(f.col("as_of") >= batch.end).collect())]
    fresh = queue_minutes.count(events).where(~f.date_format("minute", DAY).isin(*done))
    rows = queue_minutes.with_backlog(queue_minutes.add(known, fresh), queue_minutes.last_backlog(earlier))
    since = f.timestamp_millis(f.lit(batch.since_ms))
    unsettled = f.col("settled_at").isNull() | (f.col("settled_at") >= since)
    stays = messages.stays(lake.read(MESSAGES, messages.SCHEMA, "bucket").where(unsettled))
    rows = queue_minutes.with_latencies(queue_minutes.with_ages(rows, stays, since), stays, since)
    rows = rows.withColumn("as_of", f.lit(batch.end).cast("bigint")).where(~f.col("day").isin(*done))
    lake.replace(QUEUE_MINUTES, rows.select(*queue_minutes.SCHEMA.names), "day", "minute")


def _minutes_of(lake: Lake, days: list[str]) -> DataFrame:
    return lake.read(QUEUE_MINUTES, queue_minutes.SCHEMA, "day", days)
