"""`queue_minutes`: what each queue did in each minute in which anything happened to it."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from courier.spark.tables.columns import BYTES, INSTANT, NUMBER, SHARE, TEXT, struct
from courier.spark.tables.messages import PASSES

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

QUANTILES = {"latency_p50_ms": 0.5, "latency_p95_ms": 0.95, "latency_p99_ms": 0.99}

SCHEMA = struct(
    tenant=TEXT,
    queue=TEXT,
    minute=INSTANT,
    **dict.fromkeys(ADDED, NUMBER),
    backlog=NUMBER,
    oldest_age_ms=NUMBER,
    **dict.fromkeys(QUANTILES, SHARE),
    latency_sketch=BYTES,
    as_of=NUMBER,
    day=TEXT,
)
KEY = ("tenant", "queue", "minute")
MINUTE_MS = 60_000


def count(events: DataFrame) -> DataFrame:
    """What happened in each queue and minute; a message that passes on counts in both queues."""
    here = events.select("tenant", "queue", "kind", "at", "size", f.lit(0).alias(ARRIVED))
    there = events.where(f.col("kind").isin(*PASSES) & f.col("target").isNotNull()).select(
        "tenant", f.col("target").alias("queue"), f.lit("").alias("kind"), "at", "size", f.lit(1).alias(ARRIVED)
    )
    counted = [_sum_of(f.col("kind").isin(*kinds)).alias(name) for name, kinds in COUNTS.items()]
    size = f.sum(f.when(f.col("kind") == "sent", f.col("size")).otherwise(0)).alias("bytes")
    minute = f.date_trunc("minute", "at").alias("minute")
    return (
        here.unionByName(there)
        .groupBy("tenant", "queue", minute)
        .agg(*counted, f.sum(ARRIVED).cast("bigint").alias(ARRIVED), size)
    )


def _sum_of(condition: Column) -> Column:
    return f.sum(condition.cast("bigint"))


def add(known: DataFrame, counted: DataFrame) -> DataFrame:
    """The counts of both; what is known of a minute beside its counts stays."""
    rest = [name for name in SCHEMA.names if name not in {*KEY, *ADDED}]
    fresh = counted.select(*KEY, *ADDED, *(f.lit(None).cast(SCHEMA[name].dataType).alias(name) for name in rest))
    sums = [f.sum(name).alias(name) for name in ADDED]
    kept = [f.first(name, ignorenulls=True).alias(name) for name in rest]
    rows = known.unionByName(fresh).groupBy(*KEY).agg(*sums, *kept)
    return rows.withColumn("day", f.date_format("minute", "yyyy-MM-dd"))


def with_backlog(rows: DataFrame, before: DataFrame) -> DataFrame:
    """How many messages a queue held at each minute's end; `before` has `tenant`, `queue` and the earlier `backlog`."""
    change = sum((f.col(name) for name in ENTERED), f.lit(0)) - sum((f.col(name) for name in LEFT), f.lit(0))
    so_far = f.sum(change).over(Window.partitionBy("tenant", "queue").orderBy("minute"))
    earlier = before.select("tenant", "queue", f.col("backlog").alias("earlier"))
    joined = rows.drop("backlog").join(earlier, ["tenant", "queue"], "left")
    return joined.withColumn("backlog", f.coalesce("earlier", f.lit(0)) + so_far).drop("earlier")


def last_backlog(rows: DataFrame) -> DataFrame:
    return rows.groupBy("tenant", "queue").agg(f.max_by("backlog", "minute").alias("backlog"))


def with_ages(rows: DataFrame, stays: DataFrame, since: Column) -> DataFrame:
    """The age of the oldest message at each minute's end, for minutes from `since` on; the others keep theirs."""
    found = oldest(stays, rows.select("tenant", "queue", "minute").where(f.col("minute") >= since))
    end_ms = f.unix_millis("minute") + MINUTE_MS
    age = f.when(f.col("minute") >= since, end_ms - f.col("entered_ms")).otherwise(f.col("oldest_age_ms"))
    joined = rows.join(found, list(KEY), "left")
    return joined.withColumn("oldest_age_ms", age).drop("entered_ms")


def oldest(stays: DataFrame, minutes: DataFrame) -> DataFrame:
    """When the oldest message that was there at each minute's end had come.

    In the order of their coming, only a stay that outlasts all before it is ever the oldest: at the minutes' ends
    between the longest end before it and its own. Those stretches do not overlap, so each minute has one answer.
    """
    by_coming = Window.partitionBy("tenant", "queue").orderBy("entered_ms", "seq")
    before = by_coming.rowsBetween(Window.unboundedPreceding, -1)
    edges = minutes.groupBy("tenant", "queue").agg(
        f.min(f.unix_millis("minute")).alias("first_ms"), f.max(f.unix_millis("minute")).alias("last_ms")
    )
    lasting = (
        stays.join(edges, ["tenant", "queue"])
        .withColumn("entered_ms", f.unix_millis("entered_at"))
        .withColumn("left_ms", f.coalesce(f.unix_millis("left_at"), f.col("last_ms") + MINUTE_MS))
        .withColumn("longest_ms", f.coalesce(f.max("left_ms").over(before), f.lit(0)))
        .where(f.col("left_ms") > f.col("longest_ms"))
    )
    # The minutes whose end lies after `longest`, after the coming, and not after the leaving.
    first = f.greatest(_minute_of(f.greatest("longest_ms", "entered_ms")), f.col("first_ms"))
    last = f.least(_minute_of(f.col("left_ms")) - MINUTE_MS, f.col("last_ms"))
    covered = lasting.withColumn("from_ms", first).withColumn("to_ms", last).where(f.col("from_ms") <= f.col("to_ms"))
    each = covered.select(
        "tenant", "queue", "entered_ms", f.explode(f.sequence("from_ms", "to_ms", f.lit(MINUTE_MS))).alias("ms")
    )
    return each.select("tenant", "queue", f.timestamp_millis("ms").alias("minute"), "entered_ms").join(
        minutes, list(KEY), "left_semi"
    )


def _minute_of(ms: Column) -> Column:
    return (f.floor(ms / MINUTE_MS) * MINUTE_MS).cast("bigint")


def with_latencies(rows: DataFrame, stays: DataFrame, since: Column) -> DataFrame:
    """How long the messages that were acked in a minute had taken since they were sent; from `since` on."""
    taken = f.unix_millis("left_at") - f.unix_millis("sent_at")
    acked = stays.where((f.col("ended") == "acked") & (f.col("left_at") >= since) & f.col("sent_at").isNotNull())
    named = [f.percentile("taken", f.lit(share)).alias(f"new_{name}") for name, share in QUANTILES.items()]
    found = (
        acked.select("tenant", "queue", f.date_trunc("minute", "left_at").alias("minute"), taken.alias("taken"))
        .groupBy(*KEY)
        .agg(*named, f.kll_sketch_agg_bigint("taken").alias("new_latency_sketch"))
    )
    joined = rows.join(found, list(KEY), "left")
    for name in (*QUANTILES, "latency_sketch"):
        value = f.when(f.col("minute") >= since, f.col(f"new_{name}")).otherwise(f.col(name))
        joined = joined.withColumn(name, value).drop(f"new_{name}")
    return joined
