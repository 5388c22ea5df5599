"""`queue_minutes`: what each queue did in each minute in which anything happened to it."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from courier.spark.tables import latency
from courier.spark.tables.columns import (
    INSTANT,
    MINUTE_MS,
    NUMBER,
    TEXT,
    as_schema,
    minute_of,
    struct,
    with_hours,
)
from courier.spark.tables.events import is_hidden

COUNTS = {
    "sent": ("sent",),
    "received": ("received",),
    "acked": ("acked",),
    "released": ("released",),
    "expired": ("lease_expired",),
    "dead_lettered": ("dead_lettered",),
    "discarded": ("discarded",),
    "removed": ("purged", "cancelled"),
    "moved_out": ("moved", "redriven"),
}
"""Each column and the kinds of events that it counts."""
ARRIVED = "arrived"
ADDED = (*COUNTS, ARRIVED, "bytes")
"""What is added up from batch to batch; `arrived` are dead letters and moved messages that came into the queue."""
ENTERED = ("sent", ARRIVED)
LEFT = ("acked", "dead_lettered", "discarded", "removed", "moved_out")
LEFT_SINCE = "left_oldest_at"
"""When the one of the messages that left in the minute had come that was there for longest."""

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    minute=INSTANT,
    **dict.fromkeys(ADDED, NUMBER),
    backlog=NUMBER,
    oldest_age_ms=NUMBER,
    **latency.COLUMNS,
    left_oldest_at=INSTANT,
    batch=NUMBER,
    day=TEXT,
    hour=TEXT,
)
KEY = ("tenant", "queue", "minute")


def count(tally: DataFrame) -> DataFrame:
    """What happened in each queue and minute; a message that passes on counts in both queues."""
    kind, times = f.col("kind"), f.col("count")
    seen = tally.where(f.col("bucket").isNotNull() & ~is_hidden())
    counted = [f.sum(f.when(kind.isin(*kinds), times).otherwise(0)).alias(name) for name, kinds in COUNTS.items()]
    size = f.sum(f.when(kind == "sent", f.col("bytes")).otherwise(0)).alias("bytes")
    there = seen.where(f.col("target").isNotNull()).groupBy("tenant", f.col("target").alias("queue"), "minute")
    arrived = there.agg(f.sum(times).alias(ARRIVED))
    return seen.groupBy(*KEY).agg(*counted, size).unionByName(arrived, allowMissingColumns=True)


def leave(stays: DataFrame) -> DataFrame:
    """Of the messages that left in each minute, the oldest, and how long those that were acked had taken."""
    return (
        stays.withColumn("minute", minute_of("left_at"))
        .groupBy(*KEY)
        .agg(f.min("entered_at").alias(LEFT_SINCE), latency.sketch("taken_ms"))
    )


def add(known: DataFrame, counted: DataFrame, left: DataFrame) -> DataFrame:
    """All that is known of each minute, with what is new added to it."""
    parts = known.select(*KEY, *ADDED, LEFT_SINCE, latency.SKETCH)
    for more in (counted, left):
        parts = parts.unionByName(more, allowMissingColumns=True)
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in ADDED]
    return parts.groupBy(*KEY).agg(*sums, f.min(LEFT_SINCE).alias(LEFT_SINCE), latency.merged())


def complete(minutes: DataFrame, waiting: DataFrame, *, batch: int) -> DataFrame:
    """Rows of the table. `minutes` must go up to the newest, for levels are reckoned back from what waits now:
    at a minute's end there was what is there now, less what came later, and more by what has left since.

    In the same way the oldest message at a minute's end is the one that came first of those that are there now and
    those that left later, if it had come by then.
    """
    change = sum((f.col(name) for name in ENTERED), f.lit(0)) - sum((f.col(name) for name in LEFT), f.lit(0))
    later = Window.partitionBy("tenant", "queue").orderBy(f.col("minute").desc()).rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    end_ms = f.unix_millis("minute") + MINUTE_MS
    since_ms = f.unix_millis(f.least(f.min(LEFT_SINCE).over(later), f.col("waiting_since")))
    rows = minutes.join(waiting, ["tenant", "queue"], "left").withColumns(
        {
            "backlog": f.coalesce("waiting", f.lit(0)) - f.coalesce(f.sum(change).over(later), f.lit(0)),
            "oldest_age_ms": f.when(since_ms < end_ms, end_ms - since_ms),
            **latency.quantiles(),
            "batch": f.lit(batch).cast("bigint"),
        }
    )
    return as_schema(with_hours(rows, "minute"), SCHEMA)
