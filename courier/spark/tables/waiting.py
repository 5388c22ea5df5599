"""`_waiting`: how many messages of each bucket are in which queue, and the oldest of them: all that `queue_minutes`
must know of the messages that a batch does not speak of."""

from collections.abc import Iterable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from courier.spark.tables.columns import INSTANT, NUMBER, TEXT, struct
from courier.spark.tables.messages import WAITING

SHELF = 1_000
"""So many buckets share a file."""

SCHEMA = struct(tenant=TEXT, queue=TEXT, bucket=NUMBER, count=NUMBER, oldest_at=INSTANT, batch=NUMBER, shelf=NUMBER)


def fold(known: DataFrame, messages: DataFrame, buckets: Iterable[int], *, batch: int) -> DataFrame:
    """What waits after a batch; `messages` has all rows of the buckets that it touched."""
    others = known.where(~f.col("bucket").isin(*buckets)).select("tenant", "queue", "bucket", "count", "oldest_at")
    fresh = (
        messages.where(f.col("outcome").isin(*WAITING))
        .groupBy("tenant", f.col("last_queue").alias("queue"), "bucket")
        .agg(f.count("*").alias("count"), f.min("entered_at").alias("oldest_at"))
    )
    rows = others.unionByName(fresh)
    shelf = f.expr(f"bucket div {SHELF}")
    return rows.withColumns({"batch": f.lit(batch).cast("bigint"), "shelf": shelf}).select(*SCHEMA.names)


def by_queue(rows: DataFrame) -> DataFrame:
    return rows.groupBy("tenant", "queue").agg(
        f.sum("count").alias("waiting"), f.min("oldest_at").alias("waiting_since")
    )
