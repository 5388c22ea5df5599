"""`tenant_usage`: what each tenant used on each day, as it could be charged for."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from courier.core.billing import UNIT_BYTES
from courier.spark.tables.columns import NUMBER, TEXT, as_schema, count_of, struct

REQUESTS = ("sent", "received", "acked", "released", "extended", "published")
"""What somebody asked for. A batch of ten is ten, and an empty poll none: the journal holds no more."""
ADDED = ("requests", "messages", "received", "bytes", "billable_units")

SCHEMA = struct(tenant=TEXT, day=TEXT, **dict.fromkeys(ADDED, NUMBER), batch=NUMBER, month=TEXT)
KEY = ("tenant", "day")


def count(events: DataFrame) -> DataFrame:
    """Events of messages in queues that people see, and of exchanges."""
    kind, size = f.col("kind"), f.coalesce("size", f.lit(0))
    units = f.greatest(f.ceil(size / UNIT_BYTES), f.lit(1))
    copies = f.when(kind == "published", f.get_json_object("detail", "$.queue_count").cast("bigint")).otherwise(0)
    day = f.expr("unix_millis(at) div 86400000").alias("day_number")
    by_day = events.groupBy("tenant", day).agg(
        # The copies that an exchange makes are told as sent one by one, but nobody asked for each of them.
        (count_of(kind.isin(*REQUESTS)) - f.sum(f.coalesce(copies, f.lit(0)))).alias("requests"),
        count_of(kind == "sent").alias("messages"),
        count_of(kind == "received").alias("received"),
        f.sum(f.when(kind.isin("sent", "received"), size).otherwise(0)).alias("bytes"),
        f.sum(f.when(kind == "received", units).otherwise(0)).alias("billable_units"),
    )
    day_text = f.date_format(f.timestamp_millis(f.col("day_number") * 86_400_000), "yyyy-MM-dd")
    return by_day.withColumn("day", day_text).drop("day_number")


def add(known: DataFrame, counted: DataFrame, *, batch: int) -> DataFrame:
    parts = known.select(*KEY, *ADDED).unionByName(counted)
    rows = parts.groupBy(*KEY).agg(*(f.sum(name).alias(name) for name in ADDED))
    rows = rows.withColumns({"batch": f.lit(batch), "month": f.substring("day", 1, 7)})
    return as_schema(rows, SCHEMA)
