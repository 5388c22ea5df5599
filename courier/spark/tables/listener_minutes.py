"""`listener_minutes`: how deliveries to each listener went in each minute in which one ended."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from courier.spark.tables import latency
from courier.spark.tables.columns import INSTANT, NUMBER, TEXT, as_schema, count_of, struct, with_hours
from courier.spark.tables.events import is_hidden

VERDICTS = ("delivered", "retry", "dead", "gone", "unknown")
ADDED = ("attempts", *VERDICTS, "failed")
ENDS = ("acked", "released", "lease_expired")

SCHEMA = struct(
    tenant=TEXT,
    listener=TEXT,
    minute=INSTANT,
    **dict.fromkeys(ADDED, NUMBER),
    **latency.COLUMNS,
    batch=NUMBER,
    day=TEXT,
    hour=TEXT,
)
KEY = ("tenant", "listener", "minute")


def attempts(tally: DataFrame) -> DataFrame:
    """Each attempt that ended; the queue of a listener is named for it, and an ended lease for an unknown outcome."""
    each = f.explode(f.array_repeat("latency_ms", f.col("count").cast("int"))).alias("latency_ms")
    listener = f.regexp_extract("queue", "^~([^/]*)", 1).alias("listener")
    return tally.where(is_hidden()).select("tenant", listener, "minute", "verdict", each)


def count(tally: DataFrame) -> DataFrame:
    verdict = f.col("verdict")
    counted = [count_of(verdict == name).alias(name) for name in VERDICTS]
    return (
        attempts(tally)
        .groupBy(*KEY)
        .agg(
            f.count("*").alias("attempts"),
            *counted,
            count_of(verdict != "delivered").alias("failed"),
            latency.sketch("latency_ms"),
        )
    )


def add(known: DataFrame, counted: DataFrame, *, batch: int) -> DataFrame:
    """Rows of the table, with what is new added to what is known."""
    parts = known.select(*KEY, *ADDED, latency.SKETCH).unionByName(counted)
    sums = [f.sum(name).alias(name) for name in ADDED]
    rows = parts.groupBy(*KEY).agg(*sums, latency.merged())
    rows = rows.withColumns({**latency.quantiles(), "batch": f.lit(batch).cast("bigint")})
    return as_schema(with_hours(rows, "minute"), SCHEMA)
